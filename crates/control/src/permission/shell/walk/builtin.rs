//! What builtins leave behind in this shell: variables they set, and ways of reading that they change.
//! What they touch outside of it is the table's to say.

use super::super::facts::Word;
use super::Walker;
use super::variable::Value;

const SUBSCRIPT: &str = "a builtin takes a variable's name that is only known later and may run commands";

impl Walker<'_> {
    /// Follows a command that may be a builtin.
    pub(super) fn builtin(&mut self, words: &[Word]) {
        let Some((first, rest)) = words.split_first() else { return };
        let Some(program) = first.known() else {
            self.scope.forget("a command before it is only known later");
            return;
        };
        match program {
            "read" => self.sets_operands(rest, "dinNptu", "REPLY"),
            "mapfile" | "readarray" => {
                // A callback of theirs runs as a command.
                if rest.iter().any(|word| word.known().is_none_or(|text| text.starts_with("-C"))) {
                    self.trouble(SUBSCRIPT);
                }
                self.sets_operands(rest, "dnOsuCc", "MAPFILE");
            }
            "getopts" => {
                self.sets_operands(rest.get(1..2).unwrap_or_default(), "", "OPTARG");
            }
            "printf" => self.sets_option(rest, "-v"),
            "wait" => self.sets_option(rest, "-p"),
            "declare" | "typeset" | "local" | "export" | "readonly" => self.declares(program, rest),
            "unset" => self.unsets(rest),
            "let" => {
                for word in rest {
                    match word.known() {
                        Some(text) => self.compute(text),
                        None => self.trouble(SUBSCRIPT),
                    }
                }
            }
            "test" | "[" => self.tests(rest),
            "set" => self.sets_options(rest),
            "source" | "." => self.scope.forget("a file was read into the shell before it"),
            "eval" if rest.iter().any(|word| word.known().is_none()) => {
                self.scope.forget("a text was run before it that is only known later");
            }
            "shopt" | "alias" | "unalias" | "enable" | "hash" | "trap" | "bind" | "complete" | "compopt"
                if !rest.is_empty() =>
            {
                self.scope.doubt(format!("'{program}' before it changes what commands mean"));
            }
            _ => {}
        }
    }

    /// Variables named by operands; options with a value are given.
    fn sets_operands(&mut self, words: &[Word], with_value: &str, unnamed: &str) {
        self.scope.assign(unnamed, Value::Unknown);
        let mut is_value = false;
        for word in words {
            let Some(text) = word.known() else {
                if !is_value {
                    self.trouble(SUBSCRIPT);
                }
                is_value = false;
                continue;
            };
            if text.starts_with('-') && !is_value {
                // The first letter that takes a value takes the rest of the word, or else the next.
                let taker = text.char_indices().skip(1).find(|(_, letter)| with_value.contains(*letter));
                is_value = taker.is_some_and(|(at, _)| at + 1 == text.len());
            } else if is_value {
                is_value = false;
            } else if is_name(text) {
                self.scope.assign(text, Value::Unknown);
            } else {
                self.trouble(SUBSCRIPT);
            }
        }
    }

    /// A variable named behind an option.
    fn sets_option(&mut self, words: &[Word], option: &str) {
        // Only words before the first operand can be options.
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let named = match word.known() {
                None => return self.trouble_if_first(word),
                Some("--") => return,
                Some(text) if text == option => words.next().and_then(Word::known).unwrap_or_default(),
                Some(text) if text.starts_with(option) => text.get(option.len()..).unwrap_or_default(),
                Some(text) if text.starts_with('-') => continue,
                Some(_) => return,
            };
            if is_name(named) {
                self.scope.assign(named, Value::Unknown);
            } else {
                self.trouble(SUBSCRIPT);
            }
        }
    }

    /// A word that may become an option.
    fn trouble_if_first(&mut self, word: &Word) {
        let start = match word {
            Word::Known(text) | Word::Glob(text) | Word::Unknown { start: text, .. } => text,
        };
        if start.is_empty() || start.starts_with('-') {
            self.trouble(SUBSCRIPT);
        }
    }

    fn declares(&mut self, program: &str, words: &[Word]) {
        let mut attributes = String::new();
        for word in words {
            let text = match word {
                Word::Known(text) | Word::Glob(text) | Word::Unknown { start: text, .. } => text.as_str(),
            };
            if let (Some(_), true) = (word.known(), text.starts_with(['-', '+'])) {
                attributes.push_str(text);
                continue;
            }
            let (name, value) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let name = name.strip_suffix('+').unwrap_or(name);
            if !is_name(name) || (word.known().is_none() && value.is_none()) {
                self.trouble(SUBSCRIPT);
                continue;
            }
            let is_array = attributes.contains(['a', 'A']) || self.scope.is_odd(name);
            // A text in parentheses may be read again as a list of words.
            if value.is_some_and(|value| value.starts_with('(')) || (is_array && word.known().is_none()) {
                self.trouble("a declared array may run commands in its text");
            }
            if attributes.contains(['i', 'n']) {
                self.trouble("a declared variable computes with or points to what it is given");
            }
            if attributes.contains(['a', 'A', 'i', 'n', 'l', 'u', 'c', 'r']) || program == "readonly" {
                self.scope.make_odd(name);
            }
            let value = value.filter(|_| word.known().is_some() && !text.contains("+="));
            let value = value.map_or(Value::Unknown, |value| Value::Known(value.to_owned()));
            self.scope.assign(name, value);
        }
        if attributes.contains('f') && program == "export" {
            self.scope.doubt("a function is exported before it".to_owned());
        }
    }

    fn unsets(&mut self, words: &[Word]) {
        self.scope.doubt_functions();
        for word in words {
            match word.known() {
                Some(text) if text.starts_with('-') => {}
                Some(text) if is_name(text) => self.scope.assign(text, Value::Unknown),
                Some(_) | None => self.trouble(SUBSCRIPT),
            }
        }
    }

    /// `-v` asks about a variable, whose subscript is computed with.
    fn tests(&mut self, words: &[Word]) {
        let may_ask = |word: &Word| match word {
            Word::Known(text) => text == "-v" || text == "-R",
            Word::Glob(_) => false,
            Word::Unknown { start, splits } => *splits && (start.is_empty() || start == "-"),
        };
        let asked = words.iter().zip(words.iter().skip(1)).filter(|(option, _)| may_ask(option));
        let asked: Vec<Word> = asked.map(|(_, word)| word.clone()).collect();
        for word in asked {
            self.asks_about(&word);
        }
        let operands = words.iter().filter(|word| word.known() != Some("]")).collect::<Vec<_>>();
        if let [Word::Unknown { start, .. }, asked] = operands.as_slice()
            && (start.is_empty() || start == "-")
        {
            self.asks_about(asked);
        }
    }

    fn sets_options(&mut self, words: &[Word]) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let harmless = match word.known() {
                Some("--" | "-") => return,
                Some("-o" | "+o") => words
                    .next()
                    .and_then(Word::known)
                    .is_some_and(|name| ["pipefail", "errexit", "nounset", "xtrace"].contains(&name)),
                Some(text) if text.starts_with(['-', '+']) => {
                    let letters = text.get(1..).unwrap_or_default();
                    if let Some(letters) = letters.strip_suffix('o') {
                        let name = words.next().and_then(Word::known).unwrap_or_default();
                        letters.chars().all(is_harmless_option)
                            && ["pipefail", "errexit", "nounset", "xtrace"].contains(&name)
                    } else {
                        letters.chars().all(is_harmless_option)
                    }
                }
                // Operands become the positional parameters.
                Some(_) => return,
                None => false,
            };
            if !harmless {
                self.scope.doubt("'set' before it changes what commands mean".to_owned());
            }
        }
    }
}

/// Whether a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Letters of `set` that change when the shell stops or what it prints, not what commands mean.
fn is_harmless_option(letter: char) -> bool {
    "euxv".contains(letter)
}

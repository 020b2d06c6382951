//! Expansions, as far as they can be known before the shell does them. A word becomes known only if
//! every character of it is certain; commands inside are walked on the way.

use super::super::facts::Word;
use super::super::syntax::{self, Parameter, Part};
use super::variable::Value;
use super::{Walker, Within, brace};

/// What happens to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Braces, tilde, splitting and patterns: an argument.
    Fields,
    /// The tilde only: the word of `case`, an operand of `[[ ]]`.
    Single,
    /// A tilde also behind a colon or an equals sign: the value of an assignment.
    Value,
}

/// A word while it is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    /// A character; a live one can be part of a pattern.
    Char { c: char, live: bool },
    /// Some characters of a file's name, as `*` stands for them.
    Sign(char),
    /// Something unknown, that may split.
    Hole { splits: bool },
    /// The end of one word and the beginning of the next.
    Break,
    /// Quotes were here, so there is a word even if it is empty.
    Exists,
}

/// What an expansion gives.
enum Found {
    Known(String),
    Pattern(String),
    Number,
    Unknown { many: bool },
}

impl Walker<'_> {
    /// The words that an argument becomes.
    pub(super) fn fields(&mut self, word: &syntax::Word) -> Vec<Word> {
        let Some(alternatives) = brace::expand(&word.parts) else {
            self.units(&word.parts, Mode::Fields, false, &mut Vec::new());
            return vec![Word::Unknown { start: String::new(), splits: true }];
        };
        let mut words = Vec::new();
        for parts in alternatives {
            let units = self.unquoted_units(&parts, Mode::Fields);
            words.extend(units.split(|unit| *unit == Unit::Break).filter_map(word_of));
        }
        words
    }

    /// The one word that a word becomes where the shell neither splits nor matches files.
    pub(super) fn single(&mut self, word: &syntax::Word) -> Word {
        self.expand_one(&word.parts, Mode::Single)
    }

    pub(super) fn expand_one(&mut self, parts: &[Part], mode: Mode) -> Word {
        let mut units = self.unquoted_units(parts, mode);
        for unit in &mut units {
            match unit {
                Unit::Char { live, .. } => *live = false,
                Unit::Hole { splits } => *splits = false,
                Unit::Sign(_) | Unit::Break | Unit::Exists => {}
            }
        }
        word_of(&units).unwrap_or_else(|| Word::Known(String::new()))
    }

    /// Walks what is inside parts, whatever it becomes.
    pub(super) fn look_into(&mut self, parts: &[Part]) {
        self.units(parts, Mode::Single, true, &mut Vec::new());
    }

    fn unquoted_units(&mut self, parts: &[Part], mode: Mode) -> Vec<Unit> {
        let mut units = Vec::new();
        let rest = self.tilde(parts, mode, &mut units);
        self.units(&rest, mode, false, &mut units);
        units
    }

    /// Takes a tilde off the front, and puts holes where one stands further on.
    fn tilde(&mut self, parts: &[Part], mode: Mode, units: &mut Vec<Unit>) -> Vec<Part> {
        let mut rest = parts.to_vec();
        let is_alone = rest.len() == 1;
        if let Some(Part::Literal(text)) = rest.first_mut()
            && let Some(behind) = text.strip_prefix('~')
        {
            let whole = if behind.is_empty() { is_alone } else { behind.starts_with('/') };
            match self.scope.value("HOME", &self.ground.home) {
                Value::Known(home) if whole => {
                    units.extend(home.chars().map(|c| Unit::Char { c, live: false }));
                }
                Value::Known(_) | Value::Pattern(_) | Value::Number | Value::Unknown => {
                    units.push(Unit::Hole { splits: false });
                }
            }
            *text = behind.to_owned();
        }
        let has_tilde = |part: &Part| match part {
            Part::Literal(text) => text.contains(":~") || text.contains("=~"),
            Part::Quoted(_)
            | Part::Double { .. }
            | Part::Parameter(_)
            | Part::Command(_)
            | Part::Process { .. }
            | Part::Arithmetic(_) => false,
        };
        // Behind an equals sign or a colon a tilde means something in some words only. A literal
        // may also begin with the tilde that follows such a sign in the literal before it.
        let ends_open = |part: &Part| matches!(part, Part::Literal(text) if text.ends_with(['=', ':']));
        let begins = |part: &Part| matches!(part, Part::Literal(text) if text.starts_with('~'));
        let joined = rest.windows(2).any(|pair| ends_open(&pair[0]) && begins(&pair[1]));
        if mode != Mode::Single && (joined || rest.iter().any(has_tilde)) {
            units.push(Unit::Hole { splits: false });
        }
        rest
    }

    fn units(&mut self, parts: &[Part], mode: Mode, quoted: bool, units: &mut Vec<Unit>) {
        let splitting = mode == Mode::Fields && !quoted;
        for part in parts {
            match part {
                Part::Literal(text) => {
                    units.extend(text.chars().map(|c| Unit::Char { c, live: !quoted }));
                }
                Part::Quoted(text) => {
                    units.push(Unit::Exists);
                    units.extend(text.chars().map(|c| Unit::Char { c, live: false }));
                }
                Part::Double { parts, translated } => {
                    units.push(Unit::Exists);
                    if *translated {
                        units.push(Unit::Hole { splits: false });
                    }
                    self.units(parts, mode, true, units);
                }
                Part::Parameter(parameter) => {
                    let found = self.parameter(parameter, quoted);
                    self.found_units(found, splitting, units);
                }
                Part::Command(script) => {
                    self.apart(Within::Substitution, |walker| {
                        walker.script(script);
                    });
                    units.push(Unit::Hole { splits: splitting });
                }
                Part::Process { script, reads: _ } => {
                    self.apart(Within::Process, |walker| {
                        walker.script(script);
                    });
                    // The number may be another, the kind of file is not.
                    units.extend("/dev/fd/63".chars().map(|c| Unit::Char { c, live: false }));
                }
                Part::Arithmetic(arithmetic) => {
                    self.arithmetic(&arithmetic.parts);
                    self.found_units(Found::Number, splitting, units);
                }
            }
        }
    }

    fn found_units(&self, found: Found, splitting: bool, units: &mut Vec<Unit>) {
        let oddly = splitting && self.scope.splits_oddly;
        match found {
            Found::Known(text) if !splitting => {
                units.extend(text.chars().map(|c| Unit::Char { c, live: false }));
            }
            // A pattern in a value is matched against files.
            Found::Known(text) if oddly || text.contains(['*', '?', '[', '\\']) => {
                units.push(Unit::Hole { splits: true });
            }
            Found::Known(text) => {
                units.extend(text.chars().map(|c| match c {
                    ' ' | '\t' | '\n' => Unit::Break,
                    c => Unit::Char { c, live: false },
                }));
            }
            Found::Pattern(pattern) if !splitting => {
                units.extend(pattern.chars().map(|c| match c {
                    '*' | '?' | '[' => Unit::Sign(c),
                    c => Unit::Char { c, live: false },
                }));
            }
            // A file's name may hold blanks.
            Found::Pattern(_) => units.push(Unit::Hole { splits: true }),
            Found::Number => units.push(Unit::Hole { splits: oddly }),
            Found::Unknown { many } => units.push(Unit::Hole { splits: splitting || many }),
        }
    }

    fn parameter(&mut self, parameter: &Parameter, quoted: bool) -> Found {
        let Parameter { name, braced: _, indirect, length, subscript, operator } = parameter;
        let mut many = name == "@" || (name == "*" && !quoted);
        if let Some(subscript) = subscript {
            many = matches!(subscript.as_slice(), [Part::Literal(text)] if text == "@" || text == "*");
            self.subscript(subscript);
        }
        let lists_names = *indirect && (many || matches!(operator, Some(operator) if operator.symbol == "*"));
        if *indirect && !lists_names {
            self.trouble("'${!…}' names a variable that is only known later");
        }
        let value = if subscript.is_some() || *indirect { Value::Unknown } else { self.lookup(name) };
        let Some(operator) = operator else {
            return match value {
                _ if *length => Found::Number,
                Value::Known(text) => Found::Known(text),
                Value::Pattern(pattern) => Found::Pattern(pattern),
                Value::Number => Found::Number,
                Value::Unknown => Found::Unknown { many: many || lists_names },
            };
        };
        let operand = operator.operand.as_slice();
        match operator.symbol.as_str() {
            "@" => {
                let harmless = |text: &str| text.len() == 1 && "QEUuLAaKk".contains(text);
                let is_plain = matches!(operand, [Part::Literal(text)] if harmless(text));
                if !is_plain && !lists_names {
                    self.trouble("'${…@P}' runs what the value says");
                }
            }
            ":" => self.arithmetic(operand),
            ":=" | "=" => {
                self.look_into(operand);
                self.scope.assign(name, Value::Unknown);
            }
            ":-" | "-" => {
                self.look_into(operand);
                if let Value::Known(text) = value
                    && !text.is_empty()
                {
                    return Found::Known(text);
                }
            }
            _ => self.look_into(operand),
        }
        Found::Unknown { many: many || lists_names }
    }

    fn lookup(&self, name: &str) -> Value {
        match name {
            "#" | "?" | "$" => Value::Number,
            _ => self.scope.value(name, &self.ground.home),
        }
    }
}

/// The word that units make, if they make one.
fn word_of(units: &[Unit]) -> Option<Word> {
    if units.is_empty() {
        return None;
    }
    let mut text = String::new();
    let mut start: Option<String> = None;
    let mut splits = false;
    let mut is_pattern = false;
    let mut has_dead_sign = false;
    let last_close = units.iter().rposition(|unit| *unit == Unit::Char { c: ']', live: true });
    for (index, unit) in units.iter().enumerate() {
        match unit {
            Unit::Char { c, live } => {
                let is_sign = matches!(c, '*' | '?') || (*c == '[' && last_close > Some(index));
                if *live && is_sign {
                    is_pattern = true;
                    start.get_or_insert_with(|| text.clone());
                } else if matches!(c, '*' | '?' | '[' | '\\') {
                    has_dead_sign = true;
                }
                text.push(*c);
            }
            Unit::Sign(c) => {
                is_pattern = true;
                start.get_or_insert_with(|| text.clone());
                text.push(*c);
            }
            Unit::Hole { splits: may } => {
                splits |= may;
                start.get_or_insert_with(|| text.clone());
                has_dead_sign = true;
            }
            Unit::Break | Unit::Exists => {}
        }
    }
    let has_hole = units.iter().any(|unit| matches!(unit, Unit::Hole { .. }));
    Some(match start {
        Some(_) if is_pattern && !has_dead_sign => Word::Glob(text),
        Some(start) if is_pattern || has_hole => Word::Unknown { start, splits: splits || is_pattern },
        Some(_) | None => Word::Known(text),
    })
}

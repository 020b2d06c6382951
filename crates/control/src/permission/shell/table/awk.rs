//! Whether a program of awk only reads its input and prints. Proves, never guesses: where a slash
//! could be a division or a pattern, or a sign a comparison or a redirection, it says so.

/// Names that run commands, read other files or look around.
const REACHING: [&str; 7] = ["system", "getline", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "@"];

/// Words behind which a slash begins a pattern.
const KEYWORDS: [&str; 12] =
    ["print", "printf", "return", "in", "else", "do", "case", "exit", "if", "while", "for", "delete"];

/// What stands before the place looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A slash would begin a pattern.
    Start,
    /// A slash would divide.
    Value,
    /// It cannot be said.
    Unsure,
}

struct Scan {
    before: Before,
    /// For each open parenthesis whether it holds a condition of `if`, `while` or `for`.
    parens: Vec<bool>,
    /// Whether the next parenthesis holds a condition.
    condition: bool,
    /// How many parentheses were open when the print began that goes on here.
    print: Option<usize>,
}

/// Says why the program may do more than print, if it may.
pub(super) fn check(program: &str) -> Result<(), String> {
    // Searched for in strings too: it costs a question now and then, and nothing can hide.
    if let Some(name) = REACHING.iter().find(|name| program.contains(**name)) {
        return Err(format!("its program uses {name}"));
    }
    let mut scan = Scan { before: Before::Start, parens: Vec::new(), condition: false, print: None };
    let characters: Vec<char> = program.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        at = scan.step(&characters, at)?;
    }
    Ok(())
}

impl Scan {
    /// Reads one token and returns where the next begins.
    fn step(&mut self, text: &[char], at: usize) -> Result<usize, String> {
        let next = text.get(at + 1).copied();
        match text[at] {
            '"' => {
                self.before = Before::Value;
                end_of(text, at, '"').ok_or_else(|| "a string in its program does not end".to_owned())
            }
            '/' => self.slash(text, at),
            '#' => Ok(text[at..].iter().position(|c| *c == '\n').map_or(text.len(), |length| at + length)),
            '\\' => Err("a backslash in its program is not understood".to_owned()),
            '|' if next == Some('|') => Ok(self.sign(at + 2)),
            '|' => Err("its program may run a command (|)".to_owned()),
            '>' if next == Some('=') => Ok(self.sign(at + 2)),
            '>' if self.print.is_some_and(|depth| depth >= self.parens.len()) => {
                Err("its program writes to a file (>)".to_owned())
            }
            '+' | '-' if next == Some(text[at]) => {
                self.before = Before::Unsure;
                Ok(at + 2)
            }
            '(' => {
                self.parens.push(self.condition);
                self.condition = false;
                Ok(self.sign(at + 1))
            }
            ')' => {
                let condition =
                    self.parens.pop().ok_or_else(|| "its program is not understood".to_owned())?;
                self.before = if condition { Before::Start } else { Before::Value };
                Ok(at + 1)
            }
            ';' | '}' => {
                self.print = None;
                Ok(self.sign(at + 1))
            }
            ']' => {
                self.before = Before::Value;
                Ok(at + 1)
            }
            c if c.is_alphanumeric() || c == '_' || c == '.' => Ok(self.name(text, at)),
            c if c.is_whitespace() => Ok(at + 1),
            _ => Ok(self.sign(at + 1)),
        }
    }

    fn sign(&mut self, next: usize) -> usize {
        self.before = Before::Start;
        next
    }

    fn slash(&mut self, text: &[char], at: usize) -> Result<usize, String> {
        match self.before {
            Before::Value => Ok(self.sign(at + 1)),
            Before::Unsure => Err("a slash in its program may be read in two ways".to_owned()),
            Before::Start => {
                self.before = Before::Value;
                end_of_pattern(text, at)
                    .ok_or_else(|| "a pattern in its program is not understood".to_owned())
            }
        }
    }

    fn name(&mut self, text: &[char], at: usize) -> usize {
        let length = text[at..].iter().position(|c| !(c.is_alphanumeric() || *c == '_' || *c == '.'));
        let end = length.map_or(text.len(), |length| at + length);
        let name: String = text[at..end].iter().collect();
        self.condition = ["if", "while", "for"].contains(&name.as_str());
        if name == "print" || name == "printf" {
            self.print = Some(self.parens.len());
        }
        self.before = match name.as_str() {
            // Without parentheses it is a value to some and not to others.
            "length" => Before::Unsure,
            name if KEYWORDS.contains(&name) => Before::Start,
            _ => Before::Value,
        };
        end
    }
}

/// Where a quoted part that begins here has ended; a line end inside it is an error.
fn end_of(text: &[char], at: usize, quote: char) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match *text.get(at)? {
            '\\' => at += 2,
            '\n' => return None,
            c if c == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Where a regular expression that begins here has ended. Versions differ in whether a slash in
/// brackets ends it, so that it must not stand there.
fn end_of_pattern(text: &[char], at: usize) -> Option<usize> {
    let mut at = at + 1;
    let mut bracket: Option<usize> = None;
    loop {
        match (*text.get(at)?, bracket) {
            ('\\', _) => at += 1,
            ('\n', _) | ('/', Some(_)) => return None,
            ('/', None) => return Some(at + 1),
            ('[', None) => bracket = Some(if text.get(at + 1) == Some(&'^') { at + 1 } else { at }),
            ('[', Some(_)) if matches!(text.get(at + 1), Some(':' | '.' | '=')) => {
                at += 2 + text[at + 2..].iter().position(|c| *c == ']')?;
            }
            (']', Some(opened)) if at > opened + 1 => bracket = None,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_programs_are_proved() {
        for program in [
            "{print $1}",
            "{ print $1, $NF }",
            "NR==1",
            "NR>=10 && NR<=20",
            "/re|x/ {print FILENAME\": \"$0}",
            "$3 > 100",
            "{s+=$1} END {print s/NR}",
            "!seen[$0]++",
            "BEGIN{FS=\",\"} {print $2}",
            "{printf \"%s\\n\", $1}",
            "length($0) > 80",
            "{print ($1 > 2)}",
            "/a/,/b/",
            "$1 ~ /^x/ || $2 == \"|\" {n++} END{print n}",
            "{print ($1+$2)/2}",
            "{a[$1]=a[$1] \" > \" $2} END{for (k in a) print k, a[k]}",
            "# > note\n{print}",
            "if (x) /re/",
            "{gsub(/[|>]/, \"\"); print}",
            "{if ($1 > 5) print $2; else print $3}",
            "/[]a]|[^]]/",
            "/[[:digit:]|>]+/",
        ] {
            assert_eq!(check(program), Ok(()), "{program}");
        }
    }

    #[test]
    fn what_reaches_out_asks() {
        for program in [
            "BEGIN{system(\"id\")}",
            "{print > \"out\"}",
            "{print $1 > $2}",
            "{print >> \"out\"}",
            "{print | \"sh\"}",
            "{\"id\" | getline x}",
            "{getline < \"/etc/passwd\"}",
            "@load \"x\"",
            "{printf(\"%s\", $1) > \"f\"}",
            "BEGIN{ARGV[1]=\"/etc/passwd\"; ARGC=2}",
            "BEGIN{print ENVIRON[\"X\"]}",
            "{print $1\n $2 > \"f\"}",
            "if (x) /\"/; print a > b; /\"/",
            "{x++ /\"/; print > \"f\"; /\"/}",
            "{print \"a\" \"b\" > \"c\"}",
            "{print length /\"/ > \"f\" /\"/}",
            "{print (1)(2) > \"x\"}",
            "{print a,\n b > \"f\"}",
            "{print -1 > \"x\"}",
            "{print \"unfinished}",
            "{ print $1 |& \"x\" }",
            "/[/]/ > \"x\" {print}",
            "/[/\"]/; {print > f}; /[/\"]/",
            "/[[:alpha:]/\"]/; {print > f}; /[\"]/",
            "sys\\\ntem(x)",
        ] {
            assert!(check(program).is_err(), "{program}");
        }
    }
}

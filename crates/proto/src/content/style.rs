//! The one kind of sequence that may reach a terminal: colours and weights (SGR). Never lets text be concealed
//! or painted in the colour of its ground.

use std::fmt::Write as _;

/// A longer sequence is no style anybody writes.
const LONGEST: usize = 64;

/// What is in force at a place of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    is_on: bool,
    ink: Option<Color>,
    ground: Option<Color>,
}

/// What became of one parameter.
enum Taken<'a> {
    /// It is kept, with those that belong to it.
    With(Vec<&'a str>),
    /// It is left out.
    Without,
    /// The sequence makes no sense.
    Nonsense,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    Index(u8),
    Rgb(u8, u8, u8),
}

impl Style {
    /// Whether anything must be reset.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes up the parameters of a sequence and gives the sequence to write; nothing if it may not be written.
    pub(super) fn apply(&mut self, parameters: &str) -> Option<String> {
        let is_plain = parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';' || byte == b':');
        if !is_plain || parameters.len() > LONGEST {
            return None;
        }
        let mut next = *self;
        let mut kept: Vec<&str> = Vec::new();
        let mut rest: Vec<&str> = parameters.split(';').collect();
        rest.reverse();
        while let Some(parameter) = rest.pop() {
            match next.take(parameter, &mut rest) {
                Taken::With(more) => {
                    kept.push(parameter);
                    kept.extend(more);
                }
                Taken::Without => {}
                Taken::Nonsense => return None,
            }
        }
        if kept.is_empty() || next.ink.is_some() && next.ink == next.ground {
            return None;
        }
        *self = next;
        let mut sequence = String::with_capacity(parameters.len() + 3);
        // Writing to a string cannot fail.
        let _ = write!(sequence, "\u{1b}[{}m", kept.join(";"));
        Some(sequence)
    }

    fn take<'a>(&mut self, parameter: &'a str, rest: &mut Vec<&'a str>) -> Taken<'a> {
        let mut parts = parameter.split(':');
        let code: u8 = match parts.next().unwrap_or_default() {
            "" => 0,
            code => match code.parse() {
                Ok(code) => code,
                Err(_) => return Taken::Nonsense,
            },
        };
        let mut more = Vec::new();
        match code {
            0 => *self = Self::default(),
            // Concealed text.
            8 => return Taken::Without,
            30..=37 => self.ink = Some(Color::Index(code - 30)),
            90..=97 => self.ink = Some(Color::Index(code - 82)),
            40..=47 => self.ground = Some(Color::Index(code - 40)),
            100..=107 => self.ground = Some(Color::Index(code - 92)),
            39 => self.ink = None,
            49 => self.ground = None,
            38 | 48 | 58 => {
                let color = if parameter.contains(':') {
                    color(&parts.filter(|part| !part.is_empty()).collect::<Vec<_>>())
                } else {
                    let count = if rest.last() == Some(&"5") { 2 } else { 4 };
                    more = (0..count).map_while(|_| rest.pop()).collect();
                    color(&more)
                };
                match (code, color) {
                    (_, None) => return Taken::Nonsense,
                    (38, color) => self.ink = color,
                    (48, color) => self.ground = color,
                    // The colour of an underline hides nothing.
                    (_, Some(_)) => {}
                }
            }
            1..=7 | 9..=29 | 50..=57 | 59..=75 => {}
            _ => return Taken::Nonsense,
        }
        self.is_on = code != 0;
        Taken::With(more)
    }
}

/// `5;n` or `2;r;g;b`; colon forms may carry a colour space before the three.
fn color(parts: &[&str]) -> Option<Color> {
    let number = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u8>().ok() };
    match parts {
        ["5", index] => Some(Color::Index(number(index)?)),
        ["2", red, green, blue] | ["2", _, red, green, blue] => {
            Some(Color::Rgb(number(red)?, number(green)?, number(blue)?))
        }
        _ => None,
    }
}

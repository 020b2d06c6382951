//! Notices when an agent goes in circles: the same calls with the same results while nothing changes. It
//! judges by what calls came to, never by words of the model, and decides nothing itself.

use ostler_proto::{Block, ToolCall, ToolResult};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How often the same may come in a row before somebody is asked.
const OFTEN: usize = 3;
/// The same for rounds that waited for something: who polls repeats themselves.
const OFTEN_WAITING: usize = 12;
/// Calls that took so long waited for something.
const WAITED_MS: u64 = 2_000;
/// The longest circle that is looked for, in rounds.
const LONGEST_CIRCLE: usize = 4;

/// What one turn's calls came to, round by round, since something last changed.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    rounds: Vec<Round>,
    open: Vec<u64>,
    changed: bool,
    waited: bool,
    last: Option<ToolCall>,
}

#[derive(Debug, Clone, Copy)]
struct Round {
    print: u64,
    waited: bool,
}

/// What a call did beside its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Whether anything is other than before.
    pub(crate) changed: bool,
    pub(crate) ran_ms: u64,
}

/// What the rounds so far look like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    /// Progress, as far as one can tell.
    Fine,
    /// The same twice: the model should know.
    Repeated,
    /// The same too often.
    Circle {
        /// How often.
        times: usize,
        /// How many rounds belong together.
        length: usize,
        /// The last call.
        call: ToolCall,
    },
}

impl Watch {
    /// A call of this round got its result.
    pub(crate) fn saw(&mut self, call: &ToolCall, result: &ToolResult, trace: Trace) {
        self.open.push(fingerprint(call, result));
        self.changed |= trace.changed;
        self.waited |= trace.ran_ms >= WAITED_MS;
        self.last = Some(call.clone());
    }

    /// The round does not count: its answer was dropped.
    pub(crate) fn forget_round(&mut self) {
        self.open.clear();
        (self.changed, self.waited) = (false, false);
    }

    /// All calls of an answer have their results. `world_moves` says that something else is at work, such as
    /// a command in the background.
    pub(crate) fn end_round(&mut self, world_moves: bool) -> Finding {
        if self.open.is_empty() {
            return Finding::Fine;
        }
        let mut hasher = DefaultHasher::new();
        self.open.hash(&mut hasher);
        let round = Round { print: hasher.finish(), waited: self.waited || world_moves };
        let changed = self.changed;
        self.forget_round();
        if changed {
            self.rounds.clear();
            return Finding::Fine;
        }
        self.rounds.push(round);
        self.rounds.drain(..self.rounds.len().saturating_sub(LONGEST_CIRCLE * OFTEN_WAITING));
        self.judge()
    }

    /// Starts anew, because somebody wants it to go on.
    pub(crate) fn reset(&mut self) {
        self.rounds.clear();
    }

    fn judge(&self) -> Finding {
        let circles = (1..=LONGEST_CIRCLE).map(|length| (length, self.repeats(length)));
        for (length, times) in circles {
            let recent = self.rounds.iter().rev().take(length);
            let often = if recent.clone().any(|round| round.waited) { OFTEN_WAITING } else { OFTEN };
            if let (true, Some(call)) = (times >= often, &self.last) {
                return Finding::Circle { times, length, call: call.clone() };
            }
        }
        if self.repeats(1) == 2 { Finding::Repeated } else { Finding::Fine }
    }

    /// How often the last `length` rounds come in a row at the end.
    fn repeats(&self, length: usize) -> usize {
        let prints: Vec<u64> = self.rounds.iter().map(|round| round.print).collect();
        let mut parts = prints.rchunks_exact(length);
        let Some(last) = parts.next() else { return 0 };
        1 + parts.take_while(|part| *part == last).count()
    }
}

/// The call and what came of it, less what is never the same twice.
fn fingerprint(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    call.input.to_string().hash(&mut hasher);
    result.is_error.hash(&mut hasher);
    for block in &result.content {
        match block {
            Block::Text(text) => hash_steady_words(text, &mut hasher),
            Block::Thinking { .. }
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolUse(_)
            | Block::ToolResult(_)
            | Block::Opaque(_) => {
                serde_json::to_string(block).unwrap_or_default().hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Hashes the words of a text; times, durations, addresses and names of temporary files count as one.
fn hash_steady_words(text: &str, hasher: &mut DefaultHasher) {
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let bare = bare(word);
        let is_measured =
            bare.parse::<f64>().is_ok() && words.peek().is_some_and(|next| UNITS.contains(&self::bare(next)));
        if is_measured || is_volatile(bare) {
            "~".hash(hasher);
        } else {
            word.hash(hasher);
        }
    }
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/')
}

const UNITS: [&str; 10] = ["ns", "us", "µs", "ms", "s", "sec", "secs", "second", "seconds", "min"];

/// Whether a word is the kind that differs from run to run.
fn is_volatile(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    if digits == 0 {
        return word.starts_with("/tmp/") || word.starts_with("/var/folders/");
    }
    let is_time = digits >= 4
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | '-' | '+' | 'T' | 'Z' | '/'))
        && (word.matches(':').count() >= 1 || word.matches('-').count() == 2);
    let number = word.trim_end_matches(|c: char| c.is_alphabetic());
    let is_duration = UNITS.contains(&&word[number.len()..]) && number.parse::<f64>().is_ok();
    let is_address = word.strip_prefix("0x").is_some_and(|hex| hex.len() >= 6 && is_hex(hex));
    let is_uuid = word.len() == 36 && word.matches('-').count() == 4 && is_hex(&word.replace('-', ""));
    is_time || is_duration || is_address || is_uuid || word.starts_with("/tmp/")
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;

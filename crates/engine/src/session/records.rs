//! What the lines of a session say, in their order. One thread: with the system's allocator, several that
//! build what another takes apart are slower than one.
use super::{
    labels::Found,
    line::{self, Keep, Said},
    lines::{self, Content, Line, UNWRITTEN},
};
use std::{
    borrow::Cow,
    io::{self, Read},
    ops::ControlFlow,
};

/// One line.
pub(super) struct Record {
    /// Counts from one.
    pub(super) number: usize,
    /// What it says.
    pub(super) what: What,
}

/// What a line says.
pub(super) enum What {
    /// This, in so many bytes.
    Said(Said, usize),
    /// What the session is called.
    Called(Found),
    /// It cannot be read, for this reason; these records in it can.
    Damaged(String, Vec<(Said, usize)>),
}

/// Shows what each line says; empty ones say nothing.
pub(super) fn each(file: impl Read, mut see: impl FnMut(Record)) -> io::Result<()> {
    lines::each(file, |line| {
        if let Some(record) = record(&line) {
            see(record);
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn record(line: &Line<'_>) -> Option<Record> {
    let number = line.number;
    let (bytes, keep) = match line.content {
        Content::Whole(bytes) => (bytes, Keep::Conversation),
        // Whether the last line is whole is worth looking at.
        Content::Torn(bytes) => (bytes, Keep::Everything),
        Content::TooLong(bytes) => {
            let problem = format!("it is too long for any request: {bytes} bytes");
            return Some(Record { number, what: What::Damaged(problem, Vec::new()) });
        }
    };
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    let is_damaged_text = matches!(text, Cow::Owned(_));
    let text = text.trim_matches(['\0', '\n', '\r', ' ']);
    if text.is_empty() {
        let problem = bytes.contains(&0).then(|| UNWRITTEN.to_owned())?;
        return Some(Record { number, what: What::Damaged(problem, Vec::new()) });
    }
    let what = match line::understand(text, keep) {
        Ok(said) if said.is_nothing() => What::Called(Found::of(text.as_bytes())),
        Ok(said) => What::Said(said, text.len()),
        Err(problem) => {
            let problem = if is_damaged_text { "it is not text".to_owned() } else { problem };
            let whole = line::salvage(text).into_iter();
            let understood = |text: &str| Some((line::understand(text, Keep::Everything).ok()?, text.len()));
            What::Damaged(problem, whole.filter_map(understood).collect())
        }
    };
    Some(Record { number, what })
}

//! A copy of a session under another id, as the beginning of a session of its own. Every whole line goes
//! along, also those nobody here understands; the original is only read.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the home of transcript files")]

use super::{
    labels,
    line::{self, Keep},
    lines::{self, Content},
    load::Until,
};
use ostler_proto::SessionId;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Read, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What a session begins as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The file of the original.
    pub from: PathBuf,
    /// The original's id.
    pub original: SessionId,
    /// The copy's id.
    pub id: SessionId,
    /// How much of it is copied.
    pub until: Until,
    /// How long it was when it was read; somebody may be writing to it still.
    pub length: u64,
    /// The title the original has.
    pub title: Option<String>,
}

impl Fork {
    /// Writes the copy. It appears whole or not at all, and never in the place of another session.
    pub(super) fn write(&self, to: &Path) -> io::Result<()> {
        let part = to.with_extension(format!("{}.part", std::process::id()));
        let written = self.write_part(&part).and_then(|()| put(&part, to));
        // Half a copy is of no use, and a whole one has its name by now; why there is none matters more.
        let _ = fs::remove_file(&part);
        written
    }

    fn write_part(&self, part: &Path) -> io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(part)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let old = format!("\"sessionId\":\"{}\"", self.original);
        let new = format!("\"sessionId\":\"{}\"", self.id);
        lines::each(File::open(&self.from)?.take(self.length), |line| {
            let (Content::Whole(bytes) | Content::Torn(bytes)) = line.content else {
                return Ok(ControlFlow::Continue(()));
            };
            let Ok(text) = std::str::from_utf8(bytes) else { return Ok(ControlFlow::Continue(())) };
            let text = text.trim_matches(['\0', '\r', ' ']);
            let Some(is_last) = self.is_last(text) else { return Ok(ControlFlow::Continue(())) };
            // Within a text the quotes would be escaped, so this is the key.
            out.write_all(text.replacen(&old, &new, 1).as_bytes())?;
            out.write_all(b"\n")?;
            Ok(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if let Some(title) = &self.title {
            writeln!(out, "{}", labels::title_line(&format!("{title} (fork)"), &self.id))?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()
    }

    /// Whether a line is the last to be copied; nothing for one that is damaged.
    fn is_last(&self, text: &str) -> Option<bool> {
        match &self.until {
            Until::End => serde_json::from_str::<&serde_json::value::RawValue>(text).ok().map(|_| false),
            Until::Line(wanted) => {
                let said = line::understand(text, Keep::Everything).ok()?;
                Some(said.id() == Some(wanted))
            }
        }
    }
}

/// Gives a file its name, if nothing has that.
fn put(part: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(part, to) {
        // Not every file system gives a file two names.
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !to.exists() => fs::rename(part, to),
        linked => linked,
    }
}

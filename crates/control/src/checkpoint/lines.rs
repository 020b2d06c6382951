//! How many lines a rewind adds and takes away. Only counts; binary files count for nothing.

use super::{CheckpointError, Rewound, standing::Standing, store::Store};
use similar::{Algorithm, ChangeTag, TextDiff};

/// Lines added and taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lines {
    /// Added.
    pub insertions: usize,
    /// Taken away.
    pub deletions: usize,
}

/// Files longer than this are counted as replaced whole.
const LONG: usize = 1 << 20;

/// Counts the lines of all files that a rewind changes.
pub(super) fn count(store: &Store, rewound: &Rewound) -> Result<Lines, CheckpointError> {
    let mut lines = Lines::default();
    for change in rewound.files() {
        let (Some(old), Some(new)) = (text(store, &change.before)?, text(store, &change.after)?) else {
            continue;
        };
        if old == new {
            continue;
        }
        if old.len().max(new.len()) > LONG {
            lines.insertions += new.lines().count();
            lines.deletions += old.lines().count();
            continue;
        }
        let diff =
            TextDiff::configure().algorithm(Algorithm::Histogram).diff_lines(old.as_str(), new.as_str());
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => lines.insertions += 1,
                ChangeTag::Delete => lines.deletions += 1,
                ChangeTag::Equal => {}
            }
        }
    }
    Ok(lines)
}

/// The text of a file, empty where there is none; `None` for what is not text.
pub(super) fn text(store: &Store, standing: &Standing) -> Result<Option<String>, CheckpointError> {
    match standing {
        Standing::Absent | Standing::Folder { .. } | Standing::Link { .. } => Ok(Some(String::new())),
        Standing::Uncovered { .. } => Ok(None),
        Standing::File { content, .. } => {
            let bytes = store.content(content)?.filter(|bytes| !bytes.contains(&0));
            Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
        }
    }
}

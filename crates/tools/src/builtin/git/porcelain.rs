//! Reads `git status --porcelain=v2 -z --branch`. Lines it does not know are passed over.

use crate::text;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// How a working tree stands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) branch: String,
    pub(super) upstream: Option<String>,
    pub(super) ahead: u64,
    pub(super) behind: u64,
    pub(super) changes: Vec<Change>,
}

/// One file that is not as committed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Two letters, index and working tree, as `git status --short` has them.
    pub(super) state: String,
    /// From the top of the repository.
    pub(super) path: PathBuf,
    /// What it was called before.
    pub(super) from: Option<PathBuf>,
}

impl Status {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut status = Self::default();
        let mut entries = bytes.split(|byte| *byte == 0);
        while let Some(entry) = entries.next() {
            match entry.split_first() {
                Some((b'#', header)) => status.take_header(&String::from_utf8_lossy(header)),
                Some((b'1', rest)) => status.add(rest, 7, None),
                Some((b'2', rest)) => status.add(rest, 8, entries.next().map(path)),
                Some((b'u', rest)) => status.add(rest, 9, None),
                Some((b'?', rest)) => status.changes.push(Change {
                    state: "??".to_owned(),
                    path: path(rest.strip_prefix(b" ").unwrap_or(rest)),
                    from: None,
                }),
                Some(_) | None => {}
            }
        }
        status
    }

    fn take_header(&mut self, header: &str) {
        match header.trim_start().split_once(' ') {
            Some(("branch.head", name)) => self.branch = text::clean(name),
            Some(("branch.upstream", name)) => self.upstream = Some(text::clean(name)),
            Some(("branch.ab", counts)) => {
                let mut counts = counts
                    .split(' ')
                    .map(|count| count.trim_start_matches(['+', '-']).parse().unwrap_or_default());
                self.ahead = counts.next().unwrap_or_default();
                self.behind = counts.next().unwrap_or_default();
            }
            Some(_) | None => {}
        }
    }

    /// Adds an entry whose path follows `fields` others; the first of them is its state.
    fn add(&mut self, rest: &[u8], fields: usize, from: Option<PathBuf>) {
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let mut parts = rest.splitn(fields + 1, |byte| *byte == b' ');
        let Some(state) = parts.next() else { return };
        let Some(name) = parts.nth(fields - 1) else { return };
        // Unchanged is a dot here and a space in what people know.
        let state = String::from_utf8_lossy(state).replace('.', " ");
        self.changes.push(Change { state, path: path(name), from });
    }

    pub(super) fn branch_line(&self) -> String {
        let name = match self.branch.as_str() {
            "" => "unknown",
            name => name,
        };
        match &self.upstream {
            None => format!("Branch: {name}"),
            Some(upstream) => {
                format!("Branch: {name} (upstream {upstream}, ahead {}, behind {})", self.ahead, self.behind)
            }
        }
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_kinds_of_entries_are_read() {
        let text = "# branch.oid 12\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
            1 .M N... 100644 100644 100644 a b with space.txt\0\
            2 R. N... 100644 100644 100644 a b R100 new\0old\0\
            u UU N... 1 2 3 4 a b c both\0? un tracked\0! ignored\0";
        let status = Status::parse(text.as_bytes());
        assert_eq!(status.branch_line(), "Branch: main (upstream origin/main, ahead 2, behind 1)");
        let change = |state: &str, path: &str, from: Option<&str>| Change {
            state: state.to_owned(),
            path: path.into(),
            from: from.map(PathBuf::from),
        };
        let expected = [
            change(" M", "with space.txt", None),
            change("R ", "new", Some("old")),
            change("UU", "both", None),
            change("??", "un tracked", None),
        ];
        assert_eq!(status.changes, expected);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Status::parse(&bytes);
        }

        #[test]
        fn no_lines_break_it(text in "(#|1|2|u|\\?| |\\+|-|branch.ab|branch.head|é|\u{0}){0,30}") {
            let _ = Status::parse(text.as_bytes());
        }
    }
}

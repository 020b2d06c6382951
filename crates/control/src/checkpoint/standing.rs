//! What stands at a path, as far as an undo must know it. Pure data and its form in the store.

use ostler_tools::host::Hash;
use rustix::fs::{FileType, RawMode, Stat};
use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Absent,
    /// A regular file whose content is in the store.
    File {
        /// Permission bits.
        mode: u32,
        /// Names the content.
        content: Hash,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: OsString,
    },
    /// A directory.
    Folder {
        /// Permission bits.
        mode: u32,
    },
    /// Something whose content is not kept.
    Uncovered {
        /// Why.
        reason: Omission,
        /// Its length, so that a change is noticed.
        size: u64,
        /// When it was last modified, likewise.
        modified: i64,
    },
}

/// Why something is not covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Omission {
    /// A file over the size limit.
    TooLarge,
    /// A tree with more entries than the limit.
    TooMany,
    /// The contents taken in one go reached their limit.
    Budget,
    /// A pipe, socket or device.
    Special,
    /// No permission to read it.
    Unreadable,
    /// Another file system is mounted there.
    OtherDevice,
    /// A linked worktree: its history lies in a repository elsewhere.
    GitElsewhere,
}

impl Omission {
    const ALL: [Self; 7] = [
        Self::TooLarge,
        Self::TooMany,
        Self::Budget,
        Self::Special,
        Self::Unreadable,
        Self::OtherDevice,
        Self::GitElsewhere,
    ];
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "file over the size limit",
            Self::TooMany => "more files than the limit",
            Self::Budget => "beyond what is kept of one tree",
            Self::Special => "not a regular file",
            Self::Unreadable => "not readable",
            Self::OtherDevice => "on another file system",
            Self::GitElsewhere => "its repository lies outside the project",
        })
    }
}

/// A standing as the columns of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) kind: i64,
    pub(super) bits: i64,
    pub(super) content: Option<Vec<u8>>,
}

impl Standing {
    /// Whether it is a directory.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }

    /// The content it needs from the store.
    pub(super) fn content(&self) -> Option<Hash> {
        match self {
            Self::File { content, .. } => Some(*content),
            Self::Absent | Self::Link { .. } | Self::Folder { .. } | Self::Uncovered { .. } => None,
        }
    }

    pub(super) fn columns(&self) -> Columns {
        let (kind, bits, content) = match self {
            Self::Absent => (0, 0, None),
            Self::File { mode, content } => (1, i64::from(*mode), Some(content.as_bytes().to_vec())),
            Self::Link { target } => (2, 0, Some(target.as_bytes().to_vec())),
            Self::Folder { mode } => (3, i64::from(*mode), None),
            Self::Uncovered { reason, size, modified } => {
                let code = Omission::ALL.iter().position(|known| known == reason).unwrap_or_default();
                let mut print = size.to_le_bytes().to_vec();
                print.extend(modified.to_le_bytes());
                (4, i64::try_from(code).unwrap_or_default(), Some(print))
            }
        };
        Columns { kind, bits, content }
    }

    /// Reads a row; `None` for one that no version of ours has written.
    pub(super) fn from_columns(columns: Columns) -> Option<Self> {
        let Columns { kind, bits, content } = columns;
        let mode = u32::try_from(bits).ok()?;
        Some(match (kind, content) {
            (0, _) => Self::Absent,
            (1, Some(bytes)) => Self::File { mode, content: Hash::from_bytes(bytes.try_into().ok()?) },
            (2, Some(bytes)) => Self::Link { target: OsString::from_vec(bytes) },
            (3, _) => Self::Folder { mode },
            (4, Some(bytes)) => {
                let (size, modified) = bytes.split_at_checked(8)?;
                Self::Uncovered {
                    reason: *Omission::ALL.get(usize::try_from(bits).ok()?)?,
                    size: u64::from_le_bytes(size.try_into().ok()?),
                    modified: i64::from_le_bytes(modified.try_into().ok()?),
                }
            }
            _ => return None,
        })
    }
}

/// What a look at a file's metadata tells: as long as it is the same, so is the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Type and permission bits.
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) inode: u64,
}

impl Stamp {
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between systems"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        let mode = stat.st_mode as u32;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // What changes in a directory shows in its entries; of itself only the mode counts.
            return Self { mode, size: 0, modified: 0, changed: 0, inode: 0 };
        }
        Self {
            mode,
            size: stat.st_size as u64,
            modified: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
        }
    }

    /// Whether a later change could have left the same stamp, seen at `now`: the clock of files
    /// moves in ticks, and some file systems count whole seconds only.
    pub(super) fn is_racy(&self, now: i64) -> bool {
        const TICK: i64 = 30_000_000;
        const COARSE: i64 = 2_000_000_000;
        let latest = self.changed.max(self.modified);
        let whole_seconds = self.changed % 1_000_000_000 == 0 && self.modified % 1_000_000_000 == 0;
        latest > now.saturating_sub(if whole_seconds { COARSE } else { TICK })
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode as RawMode)
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// One entry of a directory as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: Box<OsStr>,
    pub(super) stamp: Stamp,
    pub(super) standing: Standing,
    /// It was seen so soon after its last change that the stamp proves nothing.
    pub(super) is_racy: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::Absent),
            (0u32..0o10000, any::<[u8; 32]>())
                .prop_map(|(mode, bytes)| Standing::File { mode, content: Hash::from_bytes(bytes) }),
            any::<Vec<u8>>().prop_map(|bytes| Standing::Link { target: OsString::from_vec(bytes) }),
            (0u32..0o10000).prop_map(|mode| Standing::Folder { mode }),
            (0usize..7, any::<u64>(), any::<i64>()).prop_map(|(reason, size, modified)| {
                Standing::Uncovered { reason: Omission::ALL[reason], size, modified }
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_row_gives_back_what_was_written(standing in any_standing()) {
            prop_assert_eq!(Standing::from_columns(standing.columns()), Some(standing));
        }

        #[test]
        fn odd_rows_are_refused_and_never_panic(kind: i64, bits: i64, content: Option<Vec<u8>>) {
            let columns = Columns { kind, bits, content };
            if let Some(standing) = Standing::from_columns(columns.clone()) {
                prop_assert_eq!(standing.columns().kind, columns.kind);
            }
        }
    }

    #[test]
    fn a_fresh_stamp_is_racy_until_the_clock_has_moved_on() {
        let at = |changed| Stamp { mode: 0, size: 0, modified: 0, changed, inode: 0 };
        let now = 5_000_000_000;
        assert!(at(4_999_999_999).is_racy(now) && at(now + 1).is_racy(now));
        assert!(!at(4_900_000_001).is_racy(now));
        assert!(at(4_000_000_000).is_racy(now), "whole seconds may be all that this file system counts");
        assert!(!at(2_000_000_000).is_racy(now));
    }
}

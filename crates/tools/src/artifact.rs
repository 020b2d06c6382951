//! Results too long to show, kept whole for the session: files named by what they hold, in a folder
//! that is nobody else's to read. Nothing here decides what is too long.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "writes the session's own files")]

use crate::host::{HostError, blocking};
use rustix::process::geteuid;
use std::{
    fs::{DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

/// How much of a text is kept at most; more loses its middle.
const MAX_KEPT: usize = 64 * 1024 * 1024;

/// Where a session keeps long results. Clones are of one place: where one moves to, all do.
#[derive(Debug, Clone)]
pub struct Artifacts {
    folder: Arc<RwLock<PathBuf>>,
    trouble: Arc<Mutex<Trouble>>,
}

/// Whether texts can be kept.
#[derive(Debug, Default)]
enum Trouble {
    /// As far as is known.
    #[default]
    None,
    /// Not, for this reason, of which the user was not told.
    Untold(String),
    /// Not, and the user knows.
    Told,
}

/// A text that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// Bytes lost from its middle because it was too long even to keep.
    pub lost: usize,
}

impl Artifacts {
    /// A store in a folder, which is made when it is first needed.
    pub fn new(folder: &Path) -> Self {
        Self { folder: Arc::new(RwLock::new(real(folder))), trouble: Arc::default() }
    }

    /// A store beside a session's transcript.
    pub fn beside(transcript: &Path) -> Self {
        Self::new(&folder_beside(transcript))
    }

    /// Keeps what comes from now on beside another transcript; gives the folder.
    pub fn move_beside(&self, transcript: &Path) -> PathBuf {
        let folder = real(&folder_beside(transcript));
        self.folder.write().unwrap_or_else(PoisonError::into_inner).clone_from(&folder);
        folder
    }

    /// The folder.
    pub fn folder(&self) -> PathBuf {
        self.folder.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a text. The same text is kept once.
    pub async fn keep(&self, text: String) -> Result<Kept, HostError> {
        self.keep_up_to(text, MAX_KEPT).await.inspect_err(|error| self.failed(&error.to_string()))
    }

    /// Something that belongs here could not be kept.
    pub(crate) fn failed(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*trouble, Trouble::None) {
            let folder = self.folder();
            let folder = folder.display();
            *trouble = Trouble::Untold(format!(
                "long results can no longer be kept whole in {folder}, the model gets only their ends: {why}"
            ));
        }
    }

    /// What the user ought to know about it and was not told yet.
    pub fn news(&self) -> Option<String> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let Trouble::Untold(text) = &*trouble else { return None };
        let text = text.clone();
        *trouble = Trouble::Told;
        Some(text)
    }

    async fn keep_up_to(&self, text: String, most: usize) -> Result<Kept, HostError> {
        let folder = self.folder();
        blocking(move || {
            let failed = |error| HostError::Io { action: "write to", path: folder.clone(), error };
            make_private(&folder).map_err(failed)?;
            let (head, tail) = ends(&text, most);
            let path = write(&folder, head, tail).map_err(failed)?;
            Ok(Kept { path, lost: text.len() - head.len() - tail.len() })
        })
        .await
    }
}

fn folder_beside(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("tool-results")
}

/// Links in the way are followed now, so that later paths are judged by where they lead.
fn real(folder: &Path) -> PathBuf {
    let real = folder.ancestors().find_map(|existing| {
        let below = folder.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(below))
    });
    real.unwrap_or_else(|| folder.to_owned())
}

/// The two ends of a text that is too long, or all of it and nothing.
fn ends(text: &str, most: usize) -> (&str, &str) {
    if text.len() <= most {
        return (text, "");
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    (&text[..head], &text[tail..])
}

/// Makes the folder, or makes sure that it is ours alone.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it is not a folder of this user"));
    }
    if metadata.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn write(folder: &Path, head: &str, tail: &str) -> io::Result<PathBuf> {
    let hash = blake3::Hasher::new().update(head.as_bytes()).update(tail.as_bytes()).finalize();
    // Half of the hash is far more than one session can make collide, and shorter to say.
    let path = folder.join(format!("{}.txt", &hash.to_hex()[..32]));
    let temporary = folder.join(format!(".{:016x}", fastrand::u64(..)));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
            file.write_all(head.as_bytes())?;
            if !tail.is_empty() {
                file.write_all(b"\n\n[the middle was too long to keep]\n\n")?;
            }
            file.write_all(tail.as_bytes())
        });
    written.and_then(|()| std::fs::rename(&temporary, &path)).inspect_err(|_| {
        // What could not be written whole is of no use; that it stays would be no worse.
        let _ = std::fs::remove_file(&temporary);
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_is_kept_once_and_for_us_alone() {
        let temp = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(&temp.path().join("a/b"));
        let kept = artifacts.keep("long".to_owned()).await.unwrap();
        assert_eq!(kept.lost, 0);
        assert_eq!(std::fs::read_to_string(&kept.path).unwrap(), "long");
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&artifacts.folder()), mode(&kept.path)), (0o700, 0o600));
        std::fs::set_permissions(artifacts.folder(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(artifacts.keep("long".to_owned()).await.unwrap(), kept);
        assert_eq!(mode(&artifacts.folder()), 0o700, "made private again");
        assert_eq!(artifacts.folder().read_dir().unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_is_too_long_to_keep_loses_its_middle() {
        let temp = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(temp.path());
        let kept = artifacts.keep_up_to(format!("start {} end", "ü".repeat(50)), 31).await.unwrap();
        let text = std::fs::read_to_string(&kept.path).unwrap();
        assert!(text.starts_with("start üüüü\n") && text.ends_with("üüüüü end"), "{text}");
        assert!(text.contains("too long to keep") && kept.lost > 70, "{kept:?}");
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_had_is_said() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("file"), "").unwrap();
        let error = Artifacts::new(&temp.path().join("file/x")).keep(String::new()).await.unwrap_err();
        assert!(error.to_string().contains("cannot write to"), "{error}");
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, temp.path().join("link")).unwrap();
        assert_eq!(Artifacts::new(&temp.path().join("link/new/er")).folder(), real.join("new/er"));
    }
}

//! Follows a path, link by link, to where it really leads. It only looks, and remembers every
//! spelling met on the way so that rules can be tried on each.

use super::HostError;
use ostler_proto::PathFact;
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path, PathBuf},
};
use unicode_normalization::UnicodeNormalization;

/// The kernel's own limit on symbolic links in one path.
const MAX_HOPS: usize = 40;
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// Resolves `path`, as somebody wrote it, against `base`. `~` stands for `home`. It blocks.
pub fn resolve(path: &str, base: &Path, home: &Path) -> Result<PathFact, HostError> {
    let absolute = absolute(path, base, home)?;
    check_lengths(&absolute)?;
    let requested = lexical(&absolute);
    let mut hops = Vec::new();
    let mut current = PathBuf::from("/");
    let mut ahead = steps(&absolute);
    let mut exists = true;
    while let Some(step) = ahead.pop_front() {
        let Step::Into(name) = step else {
            // Links before this point are already resolved, so this is the physical parent.
            current.pop();
            exists = std::fs::symlink_metadata(&current).is_ok();
            continue;
        };
        current.push(&name);
        let mut found = std::fs::symlink_metadata(&current);
        if found.as_ref().is_err_and(is_missing)
            && exists
            && let Some(spelling) = other_spelling(&current, &name)
        {
            current.set_file_name(spelling);
            found = std::fs::symlink_metadata(&current);
        }
        match found {
            Ok(metadata) if metadata.is_symlink() => {
                let link = std::fs::read_link(&current).map_err(|error| looking_at(&current, error))?;
                if hops.len() == MAX_HOPS {
                    return Err(HostError::BadPath(format!(
                        "{} leads through more than {MAX_HOPS} symbolic links, or in a loop",
                        requested.display()
                    )));
                }
                let mut rest = steps(&link);
                rest.extend(ahead);
                ahead = rest;
                if link.is_absolute() {
                    current = PathBuf::from("/");
                } else {
                    current.pop();
                }
                let whole = walked(&current, &ahead);
                check_lengths(&whole)?;
                hops.push(lexical(&whole));
            }
            Ok(_) => exists = true,
            Err(error) if is_missing(&error) => exists = false,
            Err(error) => return Err(looking_at(&current, error)),
        }
    }
    Ok(PathFact { requested, hops, target: current, exists })
}

/// The name that stands in the directory and reads the same: accents may be written as one
/// character or two, and macOS puts a narrow space into the names of screenshots.
fn other_spelling(path: &Path, name: &OsStr) -> Option<OsString> {
    let name = name.to_str().filter(|name| !name.is_ascii() || name.contains(' '))?;
    let wanted = canonical(name);
    let mut same = std::fs::read_dir(path.parent()?)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|found| found.to_str().is_some_and(|found| canonical(found) == wanted));
    // Two names that read the same cannot be told apart by one that reads like both.
    same.next().filter(|_| same.next().is_none())
}

fn canonical(name: &str) -> String {
    name.nfc().map(|c| if matches!(c, '\u{202F}' | '\u{A0}') { ' ' } else { c }).collect()
}

/// One move through the tree.
enum Step {
    Into(OsString),
    Up,
}

fn absolute(path: &str, base: &Path, home: &Path) -> Result<PathBuf, HostError> {
    if path.is_empty() {
        return Err(HostError::BadPath("the path is empty".to_owned()));
    }
    if path.contains('\0') {
        return Err(HostError::BadPath("the path contains a NUL character".to_owned()));
    }
    Ok(match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        Some(_) | None => base.join(path),
    })
}

fn check_lengths(path: &Path) -> Result<(), HostError> {
    let too_long = path.as_os_str().len() > MAX_PATH || path.iter().any(|name| name.len() > MAX_NAME);
    if too_long {
        return Err(HostError::BadPath(format!(
            "the path is too long: at most {MAX_PATH} bytes, {MAX_NAME} in one name"
        )));
    }
    Ok(())
}

fn steps(path: &Path) -> VecDeque<Step> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(Step::Into(name.to_owned())),
            Component::ParentDir => Some(Step::Up),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Where the steps ahead would lead if none of them were a link.
fn walked(from: &Path, ahead: &VecDeque<Step>) -> PathBuf {
    let mut whole = from.to_owned();
    for step in ahead {
        match step {
            Step::Into(name) => whole.push(name),
            Step::Up => whole.push(".."),
        }
    }
    whole
}

/// `.` and `..` taken out without looking at the disk.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for step in steps(path) {
        match step {
            Step::Into(name) => clean.push(name),
            Step::Up => {
                clean.pop();
            }
        }
    }
    clean
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn looking_at(path: &Path, error: io::Error) -> HostError {
    HostError::Io { action: "look at", path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[track_caller]
    fn check(dir: &Path, path: &str, target: &str, hops: &[&str], exists: bool) {
        let fact = resolve(path, dir, Path::new("/home/me")).unwrap();
        let hops: Vec<PathBuf> = hops.iter().map(|hop| dir.join(hop)).collect();
        assert_eq!((fact.target, fact.hops, fact.exists), (dir.join(target), hops, exists), "{path}");
    }

    #[test]
    fn links_are_followed_and_remembered() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("real/deep")).unwrap();
        symlink("real/deep", dir.join("one")).unwrap();
        symlink(dir.join("one"), dir.join("two")).unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        check(&dir, "real/./deep/", "real/deep", &[], true);
        check(&dir, "two/new.rs", "real/deep/new.rs", &["one/new.rs", "real/deep/new.rs"], false);
        check(&dir, "two/..", "real", &["", "real"], true);
        check(&dir, "dangling", "nowhere", &["nowhere"], false);
        check(&dir, "absent/../real", "real", &[], true);
        check(&dir, "absent/x/y", "absent/x/y", &[], false);
        check(&dir, "absent/x/..", "absent", &[], false);
        let fact = resolve("one/../x", &dir, &dir).unwrap();
        assert_eq!((fact.requested, fact.target), (dir.join("x"), dir.join("real/x")), "`..` is physical");
    }

    #[test]
    fn names_are_found_under_every_spelling() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let (composed, parted) = ("caf\u{e9}", "cafe\u{301}");
        let shot = "Shot at 5.00\u{202F}PM.png";
        for name in [parted, shot, "both\u{e9}", "bothe\u{301}", "two\u{202F}x", "two\u{a0}x"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        symlink(parted, dir.join("link-\u{e9}")).unwrap();
        check(&dir, &format!("{composed}/new"), &format!("{parted}/new"), &[], false);
        check(&dir, parted, parted, &[], true);
        check(&dir, "Shot at 5.00 PM.png", shot, &[], true);
        check(&dir, "both\u{e9}", "both\u{e9}", &[], true);
        check(&dir, "bothe\u{301}", "bothe\u{301}", &[], true);
        check(&dir, "link-e\u{301}/x", &format!("{parted}/x"), &[&format!("{parted}/x")], false);
        check(&dir, "two x", "two x", &[], false);
        check(&dir, "n\u{e9}w", "n\u{e9}w", &[], false);
        let fact = resolve(composed, &dir, &dir).unwrap();
        assert_eq!(fact.requested, dir.join(composed), "rules see what was written, too");
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("0")).unwrap();
        for link in 1..=41 {
            symlink((link - 1).to_string(), dir.join(link.to_string())).unwrap();
        }
        assert_eq!(resolve("40", &dir, &dir).unwrap().target, dir.join("0"));
        assert!(resolve("41", &dir, &dir).unwrap_err().to_string().contains("more than 40"));
    }

    #[test]
    fn home_stands_for_a_tilde() {
        let home = Path::new("/no/such/home");
        let requested = |path: &str| resolve(path, Path::new("/base"), home).unwrap().requested;
        assert_eq!(requested("~"), Path::new("/no/such/home"));
        assert_eq!(requested("~/a/../b"), Path::new("/no/such/home/b"));
        assert_eq!(requested("~user/x"), Path::new("/base/~user/x"));
        assert_eq!(requested("/../../x"), Path::new("/x"));
    }

    #[test]
    fn loops_and_bad_text_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        symlink("b", temp.path().join("a")).unwrap();
        symlink("a", temp.path().join("b")).unwrap();
        let error = |path: &str| resolve(path, temp.path(), temp.path()).unwrap_err().to_string();
        assert!(error("a").contains("loop"));
        assert!(error("x\0y").contains("NUL"));
        assert!(error("").contains("empty"));
        assert!(error(&"n".repeat(256)).contains("too long"));
        assert!(error(&"n/".repeat(2100)).contains("too long"));
    }
}

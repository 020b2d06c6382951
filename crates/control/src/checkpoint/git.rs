//! What is special about a repository's own files. Pure: looks at paths only.
//!
//! Everything in `.git` is covered like other files, with two differences. Objects are named by
//! their content and never change, and a commit of the user's may share one that a command made:
//! they are brought back but never taken away. And what says which commit is which belongs
//! together: if others changed part of it since, all of it is kept.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

/// Which part of a repository a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Realm {
    /// None.
    Plain,
    /// The repository's own folder.
    Repository,
    /// Where names of branches stand, which may be called anything.
    Names,
    /// Where objects lie.
    Objects,
}

impl Realm {
    /// That of a folder in this one.
    pub(super) fn enter(self, name: &OsStr) -> Self {
        match self {
            Self::Plain if name == ".git" => Self::Repository,
            Self::Repository if name == "objects" => Self::Objects,
            Self::Repository if name == "refs" || name == "logs" => Self::Names,
            Self::Plain | Self::Repository | Self::Names | Self::Objects => self,
        }
    }

    /// That of a folder by its path.
    pub(super) fn of(folder: &Path) -> Self {
        folder.components().fold(Self::Plain, |realm, component| match component {
            Component::Normal(name) => realm.enter(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => realm,
        })
    }
}

/// Whether it is an object, or a folder of objects.
pub(super) fn is_object(path: &Path) -> bool {
    path.parent().is_some_and(|folder| Realm::of(folder) == Realm::Objects)
}

/// The repository whose state this path is part of; absent for objects and for all other files.
pub(super) fn state_of(path: &Path) -> Option<PathBuf> {
    match Realm::of(path) {
        Realm::Plain | Realm::Objects => None,
        Realm::Repository | Realm::Names => {
            path.ancestors().filter(|folder| folder.ends_with(".git")).last().map(Path::to_owned)
        }
    }
}

/// Whether a change by others means nothing: looking at a repository rewrites its index.
pub(super) fn is_index(path: &Path) -> bool {
    path.ends_with("index") && path.parent().is_some_and(|folder| Realm::of(folder) == Realm::Repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_state_are_told_apart() {
        let state = |path: &str| state_of(Path::new(path));
        let p = |path: &str| Some(PathBuf::from(path));
        assert!(
            is_object(Path::new("/p/.git/objects/ab/cdef")) && is_object(Path::new("/p/.git/objects/ab"))
        );
        assert!(is_object(Path::new("/p/.git/modules/x/objects/pack/a.pack")));
        assert!(!is_object(Path::new("/p/.git/refs/heads/objects/x")), "a branch may have any name");
        assert!(!is_object(Path::new("/p/objects/x")) && !is_object(Path::new("/p/.git/objects")));
        assert_eq!(state("/p/.git/refs/heads/objects/x"), p("/p/.git"));
        assert_eq!(state("/p/.git/modules/x/HEAD"), p("/p/.git"));
        assert_eq!((state("/p/.git/objects/ab/cd"), state("/p/src/a.rs")), (None, None));
        assert!(is_index(Path::new("/p/.git/index")) && !is_index(Path::new("/p/index")));
    }
}

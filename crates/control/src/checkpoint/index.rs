//! How the trees were last seen, in memory and in the store. Pure bookkeeping: it looks at no file.
//! Several processes share the stored form; each takes in what the others saw before it compares.

use super::{
    scan::Listing,
    standing::{Columns, Omission, Seen, Stamp, Standing},
    store::raise,
};
use ostler_tools::host::Hash;
use rusqlite::{Connection, params};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// What stood at a path, and what stands there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: PathBuf,
    /// What stood there.
    pub before: Standing,
    /// What stands there now.
    pub after: Standing,
}

/// Every entry of every folder as it was last seen.
#[derive(Default)]
pub(super) struct Index {
    folders: HashMap<PathBuf, Vec<Seen>>,
    /// Where walks begin. Their own entries; of the folders that hold them nothing is known.
    roots: BTreeMap<PathBuf, Option<Seen>>,
    generation: i64,
    /// Contents that the store has.
    known: HashSet<Hash>,
}

/// How many rows of others are taken in one by one.
const MANY: i64 = 2_000;

/// What a comparison found: changes to tell of, and rows to store.
#[derive(Default)]
pub(super) struct Difference {
    pub(super) changes: Vec<Change>,
    rows: Vec<(PathBuf, Option<Seen>)>,
}

impl Index {
    /// The entries of a folder as last seen; `None` for one never walked.
    pub(super) fn folder(&self, path: &Path) -> Option<&[Seen]> {
        self.folders.get(path).map(Vec::as_slice)
    }

    /// Whether the store has a content.
    pub(super) fn knows(&self, hash: &Hash) -> bool {
        self.known.contains(hash)
    }

    /// Notes a content that went into the store.
    pub(super) fn learn(&mut self, hash: Hash) {
        self.known.insert(hash);
    }

    /// Whether a path lies in a tree that was walked before.
    pub(super) fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|ancestor| self.roots.contains_key(ancestor))
    }

    /// What was last seen at a path.
    pub(super) fn seen(&self, path: &Path) -> Option<&Seen> {
        let (folder, name) = (path.parent()?, path.file_name()?);
        match self.folders.get(folder) {
            Some(entries) => entries.iter().find(|entry| &*entry.name == name),
            None => self.roots.get(path)?.as_ref(),
        }
    }

    /// Everything that is not covered, and why.
    pub(super) fn uncovered(&self) -> Vec<(PathBuf, Omission)> {
        let reason = |seen: &Seen| match &seen.standing {
            Standing::Uncovered { reason, .. } => Some(*reason),
            Standing::File { .. } if &*seen.name == ".git" => Some(Omission::GitElsewhere),
            Standing::Absent | Standing::File { .. } | Standing::Link { .. } | Standing::Folder { .. } => {
                None
            }
        };
        let inside = self.folders.iter().flat_map(|(folder, entries)| {
            entries.iter().filter_map(|seen| Some((folder.join(&*seen.name), reason(seen)?)))
        });
        let roots = self.roots.iter();
        let roots = roots.filter_map(|(path, seen)| Some((path.clone(), reason(seen.as_ref()?)?)));
        let mut found: Vec<_> = inside.chain(roots).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Makes a path the beginning of walks.
    pub(super) fn add_root(&mut self, path: &Path, difference: &mut Difference) {
        if !self.covers(path) {
            self.roots.insert(path.to_owned(), None);
            difference.rows.push((path.to_owned(), None));
        }
    }

    /// Takes in a folder as it was just listed.
    pub(super) fn absorb(&mut self, listing: Listing, difference: &mut Difference) {
        let Listing { path, entries } = listing;
        let old = self.folders.remove(&path).unwrap_or_default();
        let mut missing: HashMap<Box<OsStr>, Seen> =
            old.into_iter().map(|seen| (seen.name.clone(), seen)).collect();
        for seen in &entries {
            let before = missing.remove(&seen.name);
            if before.as_ref() != Some(seen) {
                self.compare(path.join(&*seen.name), before.as_ref(), Some(seen), difference);
            }
        }
        for (name, seen) in missing {
            self.compare(path.join(&*name), Some(&seen), None, difference);
        }
        self.folders.insert(path, entries);
    }

    /// Takes in what was just seen at a single path, if its folder is one that is walked.
    pub(super) fn put(&mut self, path: &Path, seen: Option<Seen>, difference: &mut Difference) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
        let before = if let Some(entries) = self.folders.get_mut(folder) {
            let at = entries.iter().position(|entry| &*entry.name == name);
            match (at, seen.clone()) {
                (Some(at), Some(seen)) => Some(std::mem::replace(&mut entries[at], seen)),
                (Some(at), None) => Some(entries.remove(at)),
                (None, seen) => {
                    entries.extend(seen);
                    None
                }
            }
        } else if let Some(root) = self.roots.get_mut(path) {
            std::mem::replace(root, seen.clone())
        } else {
            return;
        };
        if before != seen {
            self.compare(path.to_owned(), before.as_ref(), seen.as_ref(), difference);
        }
        if seen.is_some_and(|seen| seen.standing.is_folder()) {
            // Without this its entries would count as never looked at.
            self.folders.entry(path.to_owned()).or_default();
        }
    }

    fn compare(
        &mut self,
        path: PathBuf,
        before: Option<&Seen>,
        after: Option<&Seen>,
        difference: &mut Difference,
    ) {
        let standing = |seen: Option<&Seen>| seen.map_or(Standing::Absent, |seen| seen.standing.clone());
        let (old, new) = (standing(before), standing(after));
        if old.is_folder() && !new.is_folder() {
            // What is left out from now on has not gone; it is only no longer looked at.
            let is_gone = !matches!(new, Standing::Uncovered { .. });
            self.forget_below(&path, is_gone, difference);
        }
        difference.rows.push((path.clone(), after.cloned()));
        if old != new {
            difference.changes.push(Change { path, before: old, after: new });
        }
    }

    fn forget_below(&mut self, folder: &Path, is_gone: bool, difference: &mut Difference) {
        for seen in self.folders.remove(folder).unwrap_or_default() {
            let path = folder.join(&*seen.name);
            if seen.standing.is_folder() {
                self.forget_below(&path, is_gone, difference);
            }
            difference.rows.push((path.clone(), None));
            if is_gone {
                difference.changes.push(Change { path, before: seen.standing, after: Standing::Absent });
            }
        }
    }

    /// Stores what a comparison found, for other processes and later ones.
    pub(super) fn save(&mut self, connection: &Connection, difference: &Difference) -> rusqlite::Result<()> {
        if difference.rows.is_empty() {
            return Ok(());
        }
        self.generation = raise(connection, "generation")?;
        let mut insert = connection.prepare_cached(
            "INSERT OR REPLACE INTO seen VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for (path, seen) in &difference.rows {
            let gone = Stamp { mode: 0, size: 0, modified: 0, changed: 0, inode: 0 };
            let (stamp, racy) = seen.as_ref().map_or((gone, false), |seen| (seen.stamp, seen.is_racy));
            let standing = seen.as_ref().map_or(Standing::Absent, |seen| seen.standing.clone());
            let Columns { kind, bits, content } = standing.columns();
            insert.execute(params![
                path.as_os_str().as_bytes(),
                self.generation,
                racy,
                stamp.mode,
                stamp.size.cast_signed(),
                stamp.modified,
                stamp.changed,
                stamp.inode.cast_signed(),
                kind,
                bits,
                content
            ])?;
        }
        let mut root = connection.prepare_cached("INSERT OR IGNORE INTO roots(path) VALUES (?1)")?;
        for path in self.roots.keys() {
            root.execute([path.as_os_str().as_bytes()])?;
        }
        Ok(())
    }

    /// Takes in what other processes have stored since.
    pub(super) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if super::store::fact(connection, "generation")? == self.generation {
            return Ok(());
        }
        let mut count = connection.prepare_cached("SELECT count(*) FROM seen WHERE generation > ?1")?;
        if count.query_row([self.generation], |row| row.get::<_, i64>(0))? > MANY {
            // Reading everything anew is quicker than finding the place of each.
            *self = Self::default();
        }
        let mut roots = connection.prepare_cached("SELECT path FROM roots")?;
        for path in roots.query_map([], |row| row.get::<_, Vec<u8>>(0))? {
            self.roots.entry(path_from(path?)).or_insert(None);
        }
        let mut newest = self.generation;
        let mut ignored = Difference::default();
        let mut select = connection.prepare_cached(
            "SELECT path, generation, racy, mode, size, modified, changed, inode, kind, bits, content
             FROM seen WHERE generation > ?1 ORDER BY path",
        )?;
        let mut rows = select.query([self.generation])?;
        let is_empty = self.folders.is_empty();
        while let Some(row) = rows.next()? {
            let path = path_from(row.get(0)?);
            newest = newest.max(row.get(1)?);
            let seen = read_seen(&path, row)?;
            self.known.extend(seen.as_ref().and_then(|seen| seen.standing.content()));
            if is_empty {
                self.load(&path, seen);
            } else {
                self.put(&path, seen, &mut ignored);
            }
            ignored = Difference::default();
        }
        self.generation = newest;
        Ok(())
    }

    /// As [`Index::put`] for rows that come in order, a folder before its entries.
    fn load(&mut self, path: &Path, seen: Option<Seen>) {
        let Some(seen) = seen else { return };
        if seen.standing.is_folder() {
            self.folders.entry(path.to_owned()).or_default();
        }
        if let Some(root) = self.roots.get_mut(path) {
            *root = Some(seen.clone());
        }
        if let Some(entries) = path.parent().and_then(|folder| self.folders.get_mut(folder)) {
            entries.push(seen);
        }
    }

    /// Forgets which contents the store has, save those that are in use here: others may have
    /// been pruned.
    pub(super) fn doubt(&mut self) {
        let seen = self.folders.values().flatten().chain(self.roots.values().flatten());
        self.known = seen.filter_map(|seen| seen.standing.content()).collect();
    }
}

pub(super) fn path_from(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn read_seen(path: &Path, row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Seen>> {
    let columns = Columns { kind: row.get(8)?, bits: row.get(9)?, content: row.get(10)? };
    let standing = Standing::from_columns(columns).unwrap_or(Standing::Absent);
    if standing == Standing::Absent {
        return Ok(None);
    }
    let stamp = Stamp {
        mode: row.get(3)?,
        size: row.get::<_, i64>(4)?.cast_unsigned(),
        modified: row.get(5)?,
        changed: row.get(6)?,
        inode: row.get::<_, i64>(7)?.cast_unsigned(),
    };
    let name = path.file_name().unwrap_or_default().into();
    Ok(Some(Seen { name, stamp, standing, is_racy: row.get(2)? }))
}

//! Says whose a change is that was found in the project: of those operations that were open while it came
//! about. Where that may have been several sessions it is credited to each, and the doubt is logged with it.

use super::{
    index::Change,
    observe::{Scope, now},
    operation::{self, Draft, Kind, OperationId, Progress},
};
use ostler_proto::SessionId;
use rusqlite::Connection;
use std::{collections::BTreeMap, path::Path};

/// An operation that has begun and not ended.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) id: OperationId,
    pub(super) session: SessionId,
    pub(super) scope: Scope,
}

/// Whose a change is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// Nobody's of ours.
    Others,
    /// An operation's that named the path; it logs the change itself when it ends.
    Named,
    /// One operation's of each session that had one open; in doubt if there are several.
    Open(BTreeMap<&'a SessionId, OperationId>),
}

/// All operations that have begun and not ended, of any process.
pub(super) fn begun(connection: &Connection) -> rusqlite::Result<Vec<Begun>> {
    let unfinished = operation::unfinished(connection)?.into_iter();
    let open = unfinished.filter(|(operation, _)| operation.progress == Progress::Open);
    Ok(open
        .filter_map(|(operation, scope)| {
            Some(Begun { id: operation.id, session: operation.session?, scope: Scope::decode(&scope) })
        })
        .collect())
}

/// Of several of one session it is the oldest, so that its log tells of each path in the order of time.
pub(super) fn owner<'a>(begun: &'a [Begun], path: &Path) -> Owner<'a> {
    if begun.iter().any(|begun| begun.scope.names(path)) {
        return Owner::Named;
    }
    let mut owners = BTreeMap::new();
    for Begun { id, session, .. } in begun.iter().filter(|begun| begun.scope.covers(path)) {
        let oldest = owners.entry(session).or_insert(*id);
        *oldest = (*oldest).min(*id);
    }
    if owners.is_empty() { Owner::Others } else { Owner::Open(owners) }
}

/// Logs changes that were just found, each with its owners.
pub(super) fn credit<'a>(
    connection: &Connection,
    begun: &[Begun],
    changes: impl IntoIterator<Item = &'a Change>,
) -> rusqlite::Result<()> {
    let mut observed = None;
    for change in changes {
        match owner(begun, &change.path) {
            Owner::Named => {}
            Owner::Others => {
                let id = match observed {
                    Some(id) => id,
                    None => *observed.insert(append_observed(connection)?),
                };
                operation::add_change(connection, id, change)?;
            }
            Owner::Open(owners) => {
                for (session, id) in &owners {
                    // A later one, of an edit, may have ended by now; what comes after it must not count as before.
                    let id = operation::newest_at(connection, session, &change.path, *id)?;
                    operation::extend_change(connection, id, change)?;
                    for other in owners.keys().filter(|other| *other != session) {
                        operation::add_doubt(connection, id, &change.path, other)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn append_observed(connection: &Connection) -> rusqlite::Result<OperationId> {
    let draft = Draft {
        kind: Kind::Observed,
        progress: Progress::Done,
        session: None,
        prompt: None,
        call: None,
        agent: None,
        title: None,
        scope: Vec::new(),
    };
    operation::append(connection, &draft, now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(id: i64, session: &str, trees: &[&str], singles: &[&str]) -> Begun {
        let paths = |all: &[&str]| all.iter().map(Into::into).collect();
        let scope = Scope { trees: paths(trees), singles: paths(singles) };
        Begun { id: OperationId(id), session: session.into(), scope }
    }

    #[track_caller]
    fn check(begun: &[Begun], path: &str, expect: &str) {
        let found = match owner(begun, Path::new(path)) {
            Owner::Others => "others".to_owned(),
            Owner::Named => "named".to_owned(),
            Owner::Open(owners) => {
                let owners = owners.iter().map(|(session, id)| format!("{session} #{}", id.0));
                owners.collect::<Vec<_>>().join(" or ")
            }
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn a_change_is_of_those_that_were_open() {
        check(&[], "/p/a", "others");
        check(&[begun(3, "a", &["/q"], &["/p/b"])], "/p/a", "others");
        check(&[begun(4, "a", &["/p"], &[]), begun(3, "a", &["/p"], &[])], "/p/a", "a #3");
        check(&[begun(3, "b", &["/p"], &[]), begun(4, "a", &["/p"], &[])], "/p/a", "a #4 or b #3");
        check(&[begun(3, "b", &["/p"], &[]), begun(4, "a", &[], &["/p/a"])], "/p/a", "named");
    }
}

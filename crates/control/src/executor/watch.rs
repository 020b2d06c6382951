//! Watches files for hooks: looks at their metadata now and then and tells the hooks what came, went or changed. Reads no
//! file and waits for nobody but the hooks themselves, one change after the other.

use super::{Executor, Shared};
use crate::hooks::{Occasion, Told};
use ostler_tools::host::Host;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How often files are looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// What a file looked like: its size and when it was changed; nothing if it was not there.
type Look = Option<(u64, SystemTime)>;

/// Files as they were last seen.
#[derive(Debug, Default)]
struct Seen(BTreeMap<PathBuf, Look>);

impl Executor {
    /// Begins to watch files, if a hook wants to know of any.
    pub(super) fn watch_files(&mut self) {
        if self.hooks().is_some_and(|hooks| hooks.begin_watching()) {
            self.watching.spawn(watch(Arc::clone(&self.shared)));
        }
    }
}

async fn watch(shared: Arc<Shared>) {
    let Some(hooks) = &shared.hooks else { return };
    let mut seen = Seen::default();
    loop {
        let paths = hooks.watched(&shared.cwd());
        let now = look(shared.host.as_ref(), paths).await;
        for (path, event) in seen.update(now) {
            let (fired, record) =
                hooks.fire(shared.place(), &Occasion::file_changed(&path, event), None).await;
            hooks.exchange().tell(Told::Fired { record, messages: fired.system_messages });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn look(host: &dyn Host, paths: BTreeSet<PathBuf>) -> BTreeMap<PathBuf, Look> {
    let mut found = BTreeMap::new();
    for path in paths {
        // What cannot be looked at now is left out: it is neither changed nor gone.
        if let Some(look) = look_at(host, &path).await {
            found.insert(path, look);
        }
    }
    found
}

async fn look_at(host: &dyn Host, path: &Path) -> Option<Look> {
    let stat = host.stat(path).await.ok()?;
    Some(stat.map(|stat| (stat.size, stat.modified)))
}

impl Seen {
    /// Takes a new look over; gives what is different, in the order of names. A file that is looked at for the first
    /// time has not changed.
    fn update(&mut self, now: BTreeMap<PathBuf, Look>) -> Vec<(PathBuf, &'static str)> {
        let different = now.iter().filter_map(|(path, now)| {
            let event = match (self.0.get(path)?, now) {
                (None, Some(_)) => "add",
                (Some(_), None) => "unlink",
                (Some(before), Some(now)) if before != now => "change",
                (Some(_), Some(_)) | (None, None) => return None,
            };
            Some((path.clone(), event))
        });
        let different = different.collect();
        self.0 = now;
        different
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(files: &[(&str, Option<u64>)]) -> BTreeMap<PathBuf, Look> {
        let look = |size: Option<u64>| size.map(|size| (size, SystemTime::UNIX_EPOCH));
        files.iter().map(|(path, size)| (PathBuf::from(path), look(*size))).collect()
    }

    #[test]
    fn each_change_is_told_once() {
        let mut seen = Seen::default();
        assert_eq!(seen.update(looks(&[("a", Some(1)), ("b", None), ("c", Some(3))])), []);
        let changed = seen.update(looks(&[("a", Some(2)), ("b", Some(1)), ("c", None), ("d", Some(1))]));
        let told: Vec<(&str, &str)> =
            changed.iter().map(|(path, event)| (path.to_str().unwrap(), *event)).collect();
        assert_eq!(told, [("a", "change"), ("b", "add"), ("c", "unlink")]);
        assert_eq!(seen.update(looks(&[("a", Some(2)), ("d", Some(1))])), []);
        assert_eq!(seen.update(looks(&[("b", Some(9))])), [], "what was not watched meanwhile is new");
    }
}

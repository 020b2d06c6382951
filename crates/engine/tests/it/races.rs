//! One session's file in several hands at once: whoever was told that a line is written finds it in the file
//! that has the session's name, once, and nobody gets what another holds.

use ostler_engine::session::{
    Fork, Holder, Log, LogError, Store, Until, load,
    upkeep::{self, Expiry},
};
use ostler_proto::SessionId;
use serde_json::json;
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const COPY: &str = "22222222-2222-4333-8444-555555555555";
/// Lines that each of those who write gets in.
const LINES: usize = 150;

fn place(folder: &tempfile::TempDir) -> PathBuf {
    let store = Store { homes: vec![folder.path().to_path_buf()] };
    let path = store.path_for(folder.path(), &SessionId::from(ID));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn line(words: &str) -> String {
    json!({"parentUuid": null, "type": "user", "message": {"role": "user", "content": words}, "uuid": words})
        .to_string()
}

/// Gets a line in, however often the session is held by somebody else.
fn append(path: &Path, line: &str) {
    loop {
        match Log::held(path).and_then(|mut log| log.append(line)) {
            Ok(()) => return,
            Err(LogError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nothing_is_lost_while_others_mend() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    fs::write(&path, "").unwrap();
    let (writing, mended) = (AtomicUsize::new(3), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in ["one", "two"] {
            let (path, writing) = (&path, &writing);
            scope.spawn(move || {
                for number in 0..LINES {
                    append(path, &line(&format!("{writer}-{number}")));
                    append(path, "what nobody can read");
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        scope.spawn(|| {
            for number in 0..LINES {
                upkeep::rename(&path, &SessionId::from(ID), &format!("title-{number}")).unwrap();
                std::thread::yield_now();
            }
            writing.fetch_sub(1, Ordering::SeqCst);
        });
        while writing.load(Ordering::SeqCst) > 0 {
            match upkeep::mend(&path) {
                Ok(Some(kept)) => {
                    mended.fetch_add(1, Ordering::SeqCst);
                    fs::remove_file(kept).unwrap();
                }
                Ok(None) | Err(LogError::Locked { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(mended.load(Ordering::SeqCst) > 0, "nothing was ever mended");
    let text = fs::read_to_string(&path).unwrap();
    for number in 0..LINES {
        for writer in ["one", "two"] {
            let words = format!("\"uuid\":\"{writer}-{number}\"");
            assert_eq!(text.matches(&words).count(), 1, "{words}");
        }
        assert!(text.contains(&format!("\"title-{number}\"")), "title {number} is lost");
    }
    assert_eq!(load(&path).unwrap().state.prompts().count(), 2 * LINES);
}

#[test]
fn a_removed_session_is_gone_for_whoever_reached_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    for _ in 0..LINES {
        fs::write(&path, line("old") + "\n").unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                match Log::held(&path).map(|mut log| log.append(&line("new")).map(|()| log)) {
                    Ok(appended) => {
                        let log = appended.unwrap();
                        assert!(path.exists(), "what was written has no name");
                        drop(log);
                    }
                    Err(LogError::Locked { .. }) => {}
                    Err(LogError::Io { error, .. }) => {
                        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                    }
                    Err(error @ LogError::Exists { .. }) => panic!("{error}"),
                }
            });
            start.wait();
            match upkeep::remove(&path) {
                Ok(()) => assert!(!path.exists()),
                Err(LogError::Locked { .. }) => assert!(path.exists()),
                Err(error) => panic!("{error}"),
            }
        });
    }
}

#[test]
fn a_new_session_is_begun_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    let (start, begun) = (Barrier::new(4), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (path, start, begun) = (&path, &start, &begun);
            scope.spawn(move || {
                start.wait();
                match Log::at(path.clone()).append(&line(&format!("from-{number}"))) {
                    Ok(()) => {
                        begun.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(LogError::Exists { .. } | LogError::Locked { .. }) => {}
                    Err(error @ LogError::Io { .. }) => panic!("{error}"),
                }
            });
        }
    });
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    let error = Log::at(path).append("{}").unwrap_err().to_string();
    assert!(error.contains("exists already") && error.contains("--resume"), "{error}");
}

#[test]
fn a_copy_is_what_was_read_and_takes_nobodys_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    fs::write(&path, line("one") + "\n").unwrap();
    let loaded = load(&path).unwrap();
    append(&path, &line("two"));
    let copy = path.with_file_name(format!("{COPY}.jsonl"));
    let fork = || Fork {
        from: path.clone(),
        original: loaded.id.clone(),
        id: SessionId::from(COPY),
        until: Until::End,
        length: loaded.length,
        title: None,
    };
    Log::forked(copy.clone(), fork()).append(&line("three")).unwrap();
    let prompts = |path: &Path| {
        let loaded = load(path).unwrap();
        loaded.state.prompts().map(|(id, _)| id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(prompts(&copy), ["one", "three"], "what the original said since is not part of it");
    let error = Log::forked(copy.clone(), fork()).append(&line("four")).unwrap_err();
    assert!(matches!(error, LogError::Exists { .. }), "{error}");
    assert_eq!(prompts(&copy), ["one", "three"]);
    let names: Vec<_> = path.parent().unwrap().read_dir().unwrap().collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[test]
fn an_old_session_that_was_used_meanwhile_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    fs::write(&path, line("old") + "\n").unwrap();
    let day = Duration::from_hours(24);
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let before = i64::try_from(since_1970.saturating_sub(day).as_nanos()).unwrap();
    assert_eq!(upkeep::expire(&path, before).unwrap(), Expiry::UsedSince);
    assert!(path.exists());
    File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now() - 2 * day).unwrap();
    assert_eq!(upkeep::expire(&path, before).unwrap(), Expiry::Removed);
    assert!(!path.exists());
}

/// A killed process leaves its note; who comes after it may be asked for before its own note is written.
#[test]
fn the_note_of_a_dead_process_names_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(&folder);
    fs::write(&path, line("one") + "\n").unwrap();
    let note = folder.path().join("live").join(ID).with_extension("json");
    let told = || match Log::held(&path) {
        Err(LogError::Locked { holder, .. }) => holder,
        Ok(_) => panic!("nobody held it"),
        Err(error) => panic!("{error}"),
    };
    let log = Log::held(&path).unwrap();
    let ours: Holder = told().unwrap();
    assert_eq!(ours.pid, std::process::id());
    let ours_noted = fs::read_to_string(&note).unwrap();
    // The number of a process that lives, which did not start when the note says: the number is used again.
    let mut stale: serde_json::Value = serde_json::from_str(&ours_noted).unwrap();
    stale["since"] = json!("2001-01-01T00:00:00Z");
    stale["started"] = json!(1);
    fs::write(&note, stale.to_string()).unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(told);
        // By now it has looked, or it looks at the right one.
        let mut file = File::create(note.with_extension("new")).unwrap();
        file.write_all(ours_noted.as_bytes()).unwrap();
        fs::rename(note.with_extension("new"), &note).unwrap();
        assert_eq!(asked.join().unwrap().unwrap(), ours);
    });
    drop(log);
    assert!(!note.exists(), "it goes with its process");
}

//! Random histories: edits and commands of all sorts, rewound to random checkpoints, also by a
//! process that is killed on the way. After each rewind the tree is exactly what it was.

use super::stage::{Stage, Tree, assert_restored, begin, caller, shell};
use fastrand::Rng;
use ostler_control::checkpoint::{Checkpoints, Force, Kind, Limits};
use ostler_proto::{EntryId, SessionId};
use std::{
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// Tells a child process what to do and before which step to die.
pub(crate) const ORDER: &str = "OSTLER_TEST_CHECKPOINT";

/// How a child process of this program is told to follow an order.
pub(crate) type Spawn<'a> = &'a dyn Fn(&str) -> Command;

/// Runs one history. Returns how many rewinds were checked.
pub(crate) fn run(seed: u64, folder: &Path, spawn: Spawn<'_>) -> usize {
    let mut history = History {
        rng: Rng::with_seed(seed),
        stage: Stage::within(folder),
        checkpoints: Checkpoints::off(),
        marks: Vec::new(),
        seed,
        rewinds: 0,
    };
    history.furnish();
    history.checkpoints = history.stage.open();
    for _ in 0..history.rng.usize(2..7) {
        history.turn();
        if history.rng.u8(..) < 90 {
            history.rewind(spawn);
        }
    }
    history.rewind(spawn);
    history.rewinds
}

/// Follows an order: rewinds, and dies before a step.
pub(crate) fn follow(order: &str) {
    let mut words = order.split('\n');
    let (action, store, to, step) =
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let place = super::stage::place(Path::new(store), &Limits::default());
    let mut left: usize = step.parse().unwrap();
    let mut watch = |_: &'static str| {
        if left == 0 {
            // Nothing of this process runs after this, no destructor either.
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        left -= 1;
    };
    let session = SessionId::from("s1");
    match action {
        "recover" => drop(Checkpoints::open_watched(&place, &mut watch).unwrap()),
        "rewind" => {
            let (checkpoints, _) = Checkpoints::open(&place).unwrap();
            let to = checkpoints.checkpoint(&session, &EntryId::from(to)).unwrap();
            checkpoints.restore_watched(&session, to, Force::KeepOthers, &mut watch).unwrap();
        }
        _ => {
            let (checkpoints, _) = Checkpoints::open(&place).unwrap();
            let project = Path::new(store).parent().unwrap().join("project").canonicalize().unwrap();
            let running =
                checkpoints.before_command(&caller("s1", to), std::slice::from_ref(&project)).unwrap();
            shell(&project, to);
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            drop(running);
        }
    }
}

struct History {
    rng: Rng,
    stage: Stage,
    checkpoints: Checkpoints,
    /// Each checkpoint and the tree before it.
    marks: Vec<(String, Tree)>,
    seed: u64,
    rewinds: usize,
}

const NAMES: [&str; 12] =
    ["a", "b", "c.txt", "d", "d/e", "d/f", "d/g/h", "i/j", "k l", "m\u{e9}", "d/g", "zz/y/x"];

impl History {
    fn path(&mut self) -> PathBuf {
        self.stage.at(self.rng.choice(NAMES).unwrap())
    }

    fn content(&mut self) -> Vec<u8> {
        let length = self.rng.choice([0usize, 1, 5, 40, 300, 3000]).unwrap();
        (0..length).map(|_| self.rng.alphanumeric() as u8).collect()
    }

    fn furnish(&mut self) {
        if self.rng.u8(..) < 60 {
            shell(
                &self.stage.project(),
                "git init -q . && git config user.email a@b && git config user.name n && echo ignored > .gitignore \
                 && echo 1 > tracked && git add -A && git commit -q -m first",
            );
        }
        for _ in 0..self.rng.usize(0..8) {
            self.change();
        }
    }

    fn turn(&mut self) {
        let prompt = format!("p{}", self.marks.len());
        begin(&self.checkpoints, "s1", &prompt);
        self.marks.push((prompt, self.stage.tree()));
        for _ in 0..self.rng.usize(0..4) {
            if self.rng.bool() {
                self.edit();
            } else {
                self.command();
            }
        }
    }

    fn edit(&mut self) {
        let path = self.path();
        let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
        let is_free = path
            .ancestors()
            .skip(1)
            .all(|folder| folder.symlink_metadata().map_or(true, |found| found.is_dir()));
        if !is_free || (!is_file && path.symlink_metadata().is_ok()) {
            return;
        }
        let running =
            self.checkpoints.before_files(&caller("s1", "edit"), std::slice::from_ref(&path)).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As the tools do it: other names of the file keep what they have.
        let new = path.with_extension("being-written");
        std::fs::write(&new, self.content()).unwrap();
        std::fs::rename(&new, &path).unwrap();
        self.checkpoints.finish(running).unwrap();
    }

    fn command(&mut self) {
        let running =
            self.checkpoints.before_command(&caller("s1", "command"), &[self.stage.project()]).unwrap();
        for _ in 0..self.rng.usize(1..4) {
            self.change();
            match self.rng.u8(..) {
                // Somebody looks while it runs.
                0..30 => self.checkpoints.warm(&[self.stage.project()]).unwrap(),
                30..60 => self.overlap(),
                60.. => {}
            }
        }
        if self.rng.u8(..) < 25 {
            // As if the process had died: the next start finds out what it did.
            drop(running);
            self.checkpoints = Checkpoints::off();
            // A process that another test is just starting may hold our lock for a moment.
            let (checkpoints, recovered) = std::iter::repeat_with(|| self.stage.recover())
                .find(|(_, recovered)| !recovered.is_empty())
                .unwrap();
            assert_eq!(recovered[0].kind, Kind::Command);
            self.checkpoints = checkpoints;
        } else {
            self.checkpoints.finish(running).unwrap();
        }
    }

    /// Another call begins and ends while one is running.
    fn overlap(&mut self) {
        if self.rng.bool() {
            return self.edit();
        }
        let running =
            self.checkpoints.before_command(&caller("s1", "overlap"), &[self.stage.project()]).unwrap();
        self.change();
        self.checkpoints.finish(running).unwrap();
    }

    /// Does something to the tree; what cannot be done is not.
    fn change(&mut self) {
        let (path, other) = (self.path(), self.path());
        let content = self.content();
        let done = match self.rng.u8(0..13) {
            0 | 1 => {
                std::fs::create_dir_all(path.parent().unwrap()).and_then(|()| std::fs::write(&path, content))
            }
            2 => std::fs::rename(&path, &other),
            3 if path.is_dir() && !path.is_symlink() => std::fs::remove_dir_all(&path),
            3 => std::fs::remove_file(&path),
            4 if path.is_file() => std::fs::write(&path, ""),
            4 => Ok(()),
            5 => {
                let bits = if path.is_dir() { [0o700, 0o755, 0o500] } else { [0o644, 0o755, 0o4711] };
                let mode = self.rng.choice(bits).unwrap();
                if path.is_symlink() {
                    Ok(())
                } else {
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
                }
            }
            6 => {
                let _ = std::fs::remove_file(&path);
                let _ = std::fs::remove_dir_all(&path);
                // Never out of the project: what follows may write through it.
                symlink(self.rng.choice(["a", "d", ".", "nowhere"]).unwrap(), &path)
            }
            7 => std::fs::create_dir_all(path.join("deep/er")),
            8 => std::fs::hard_link(&path, &other),
            9 if self.stage.at(".git").exists() => {
                let commands = [
                    "git clean -fdxq",
                    "git add -A && git commit -q -m more",
                    "git stash -q",
                    "git checkout -q -b side",
                    "git gc -q",
                    "git reset -q --hard",
                    "rm -rf .git",
                ];
                shell(&self.stage.project(), self.rng.choice(commands).unwrap());
                Ok(())
            }
            9 => {
                shell(&self.stage.project(), "git init -q .");
                Ok(())
            }
            10 => {
                shell(&self.stage.project(), "rm -rf ./*");
                Ok(())
            }
            11 => std::fs::write(path.with_extension("new"), content),
            _ => {
                // The same length in the same moment: nothing but the content tells.
                let old = std::fs::read(&path).unwrap_or_default();
                let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
                if path.is_file() && !path.is_symlink() { std::fs::write(&path, new) } else { Ok(()) }
            }
        };
        // A change that is not possible here is no change.
        let _ = done;
    }

    fn rewind(&mut self, spawn: Spawn<'_>) {
        if self.marks.is_empty() {
            return;
        }
        let at = self.rng.usize(0..self.marks.len());
        let (prompt, wanted) = self.marks[at].clone();
        let note = format!("seed {}, rewind to {prompt}", self.seed);
        let before = self.stage.tree();
        let session = SessionId::from("s1");
        if self.rng.u8(..) < 60 {
            self.rewind_with_kills(&prompt, &before, &wanted, spawn, &note);
        } else {
            let to = self.checkpoints.checkpoint(&session, &EntryId::from(prompt.as_str())).unwrap();
            let rewound = self.checkpoints.restore(&session, to, Force::KeepOthers).unwrap();
            assert_eq!(rewound.kept, [], "{note}");
            assert_restored(&self.stage.tree(), &wanted, &note);
            if rewound.operation.is_some() && self.rng.bool() {
                let undo = self.checkpoints.last_rewind(&session).unwrap();
                let undone = self.checkpoints.restore(&session, undo, Force::KeepOthers).unwrap();
                assert_eq!(undone.kept, [], "{note}, undone");
                assert_restored(&self.stage.tree(), &before, &format!("{note}, undone"));
            }
        }
        self.rewinds += 1;
    }

    fn rewind_with_kills(
        &mut self,
        prompt: &str,
        before: &Tree,
        wanted: &Tree,
        spawn: Spawn<'_>,
        note: &str,
    ) {
        self.checkpoints = Checkpoints::off();
        let store = self.stage.place().folder;
        let order = |action: &str, step: usize| {
            let order = format!("{action}\n{}\n{prompt}\n{step}", store.display());
            let status = spawn(&order).status().unwrap();
            assert!(status.success() || status.signal() == Some(9), "{note}: {status}");
            status.success()
        };
        let is_done = order("rewind", self.rng.usize(0..30));
        if !is_done && self.rng.bool() {
            order("recover", self.rng.usize(0..30));
        }
        let (checkpoints, recovered) = self.stage.recover();
        self.checkpoints = checkpoints;
        assert!(recovered.iter().all(|recovered| recovered.kept.is_empty()), "{note}: {recovered:?}");
        let tree = self.stage.tree();
        let is_old = tree == *before;
        if is_done || !is_old {
            assert_restored(&tree, wanted, &format!("{note}, killed: {}", !is_done));
        }
    }
}

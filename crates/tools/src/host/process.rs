//! The one place that starts programs. Every child leads a process group of its own, and the
//! group dies with the value that stands for it: on time-out, on drop, and when the shell ends.
#![expect(clippy::disallowed_methods, reason = "this module is where children are started")]

use super::Confinement;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};
use tokio::signal::unix::{SignalKind, signal};

/// What every child finds in its environment beside what the host was given.
const ALWAYS: [(&str, &str); 6] = [
    ("OSTLER", "1"),
    ("CLAUDECODE", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("TERM", "dumb"),
];

/// Variables that make bash run other code, or read the command in another way, than what was judged.
const NEVER: [&str; 7] =
    ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "CDPATH", "GLOBIGNORE"];

/// What to start.
pub struct Launch<'a> {
    /// The program, by absolute path or to be found on the child's `PATH`.
    pub program: &'a OsStr,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it starts.
    pub cwd: &'a Path,
    /// All of its environment, save what every child gets.
    pub env: &'a [(String, String)],
    /// Its standard input, output and error.
    pub stdio: [Stdio; 3],
    /// What it may touch.
    pub confinement: &'a Confinement,
}

/// A running child with all its descendants that stayed in its process group.
///
/// The child is reaped only here, and the group is killed before: until then the kernel gives its
/// number to nobody else. Dropping the value kills the group at once and leaves no zombie.
pub struct Group {
    child: Option<Child>,
    id: Pid,
}

/// Starts a program in a process group of its own.
pub fn start(launch: Launch<'_>) -> io::Result<Group> {
    let [stdin, stdout, stderr] = launch.stdio;
    let judged = launch
        .env
        .iter()
        .filter(|(name, _)| !NEVER.contains(&name.as_str()) && !name.starts_with("BASH_FUNC_"));
    let child = Command::new(launch.program)
        .args(launch.args)
        .current_dir(launch.cwd)
        .env_clear()
        .envs(judged.map(|(name, value)| (name, value)))
        .envs(ALWAYS)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    let id = Pid::from_child(&child);
    Ok(Group { child: Some(child), id })
}

impl Group {
    /// Sends a signal to every member.
    pub fn signal(&self, signal: Signal) {
        // It fails only when nobody is left to get it.
        let _ = kill_process_group(self.id, signal);
    }

    /// Waits until the child itself has ended, without reaping it. Safe to drop and call again.
    pub async fn ended(&self) -> io::Result<()> {
        // Listening starts before looking, so that no death falls between.
        let mut deaths = signal(SignalKind::child())?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.id), options)?.is_none() {
            deaths.recv().await;
        }
        Ok(())
    }

    /// Kills what is left of the group and reaps the child, which should have ended.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        match self.child.take() {
            Some(mut child) => child.wait(),
            None => Err(io::Error::other("the child was reaped before")),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        self.signal(Signal::KILL);
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Dying takes the kernel a moment, seldom long; nobody waits for it but this thread.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || child.wait())),
            Err(_) => drop(child.wait()),
        }
    }
}

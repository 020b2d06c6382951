//! Which processes are there, read from `/proc`: did a test leave any behind?
//! It looks and never signals.
#![expect(clippy::disallowed_methods, reason = "the kernel tells about processes in files")]

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// One running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its command line, or its name where it has none.
    pub command: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.command)
    }
}

/// The running processes below one, at any depth. Those that ended and only wait to be reaped do not count.
pub fn descendants(pid: u32) -> Vec<Process> {
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for process in running() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<Process> = children.remove(&pid).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children.remove(&process.pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    found
}

/// The running processes whose working directory is in this folder, whoever their parent is.
pub fn running_in(folder: &Path) -> Vec<Process> {
    let inside = |process: &Process| {
        fs::read_link(format!("/proc/{}/cwd", process.pid)).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    running().into_iter().filter(inside).collect()
}

/// Panics if a process still has descendants after a moment to let killed ones go.
#[track_caller]
pub fn assert_no_descendants(pid: u32) {
    let left = wait_until_none(|| descendants(pid));
    assert!(left.is_empty(), "process {pid} left running: {}", list(&left));
}

/// Panics if processes still work in this folder after a moment to let killed ones go.
#[track_caller]
pub fn assert_none_running_in(folder: &Path) {
    let left = wait_until_none(|| running_in(folder));
    assert!(left.is_empty(), "still running in {}: {}", folder.display(), list(&left));
}

fn wait_until_none(look: impl Fn() -> Vec<Process>) -> Vec<Process> {
    let start = Instant::now();
    loop {
        let left = look();
        if left.is_empty() || start.elapsed() > PATIENCE {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn list(processes: &[Process]) -> String {
    processes.iter().map(Process::to_string).collect::<Vec<_>>().join("; ")
}

fn running() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Reads one process; none when it is gone or has ended.
fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold any byte, so what follows is found from the end.
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
    if command.is_empty() {
        before.split_once('(')?.1.clone_into(&mut command);
    }
    Some(Process { pid, parent, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn grandchildren_are_found_and_gone_when_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut shell =
            Command::new("sh").args(["-c", "sleep 60 & wait"]).current_dir(folder.path()).spawn().unwrap();
        let start = Instant::now();
        let sleeper = loop {
            let below = descendants(shell.id());
            if let Some(sleeper) = below.iter().find(|process| process.command == "sleep 60") {
                break sleeper.pid;
            }
            assert!(start.elapsed() < PATIENCE, "no sleeper among {below:?}");
        };
        assert!(descendants(std::process::id()).iter().any(|process| process.pid == sleeper));
        let folder_path = folder.path().canonicalize().unwrap();
        assert_eq!(running_in(&folder_path).len(), 2);
        assert!(Command::new("kill").arg(sleeper.to_string()).status().unwrap().success());
        shell.wait().unwrap();
        assert_no_descendants(shell.id());
        assert_none_running_in(&folder_path);
    }
}

//! Custody over a command: hands signals on to it, tells how it ended, and when the harness says so
//! or is gone, leaves nothing of it alive. Knows nothing of confinement.

use super::outcome;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, wait},
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

/// How long killing may take before what is left is given up: processes of another user, say.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the number of processes is looked at where the kernel does not bound it.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long one death is awaited while everything is killed.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// What ends with the warden by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Realm {
    /// Everything: it is the first process of a PID namespace, and the kernel kills the others.
    Namespace,
    /// Nothing: it must find and kill its descendants, all of which come to it when orphaned.
    Descendants,
}

/// Who bounds the number of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// The kernel, or nobody.
    Elsewhere,
    /// This warden, which kills all when there are more.
    AtMost(usize),
}

/// The deaths of children, as something to wait for. Made before the first child.
pub(super) struct Deaths(UnixStream);

/// A command in custody.
pub(super) struct Custody {
    pub(super) control: UnixStream,
    pub(super) deaths: Deaths,
    pub(super) realm: Realm,
    pub(super) count: Count,
}

/// Outlives the signals that a command may send to its parent or its session.
pub(super) fn ignore_signals() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        // A handler, not `SIG_IGN`: that would be inherited by the command.
        signal_hook::flag::register(signal, Arc::clone(&seen))?;
    }
    Ok(())
}

impl Deaths {
    pub(super) fn watch() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, theirs)?;
        Ok(Self(ours))
    }

    fn forget(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(1..)) {}
    }
}

impl Custody {
    /// Keeps the command that leads the group `main` until the harness has enough.
    pub(super) fn keep(self, main: Pid) -> io::Result<()> {
        self.control.set_nonblocking(true)?;
        let start = process_count();
        let mut is_running = true;
        let ended = loop {
            self.deaths.forget();
            is_running &= !self.reap(main);
            match self.commands()? {
                Commands::End => break Ok(()),
                Commands::Pass(signals) => {
                    for signal in signals {
                        pass_on(signal, main, is_running);
                    }
                }
            }
            if let Count::AtMost(most) = self.count
                && process_count().saturating_sub(start) > most
                && descendants().len() > most
            {
                let why = format!("the command had more than {most} processes and was killed");
                let error = io::Error::other(why);
                // Told before its death is.
                outcome::report_failure(&self.control, &error);
                break Err(error);
            }
            self.sleep()?;
        };
        if self.realm == Realm::Descendants {
            self.kill_all(main);
        }
        ended
    }

    /// Reaps whoever died, and reports the command; answers whether it was among them.
    fn reap(&self, main: Pid) -> bool {
        let mut ended = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == main {
                outcome::report_end(&self.control, status.as_raw());
                ended = true;
            }
        }
        ended
    }

    fn commands(&self) -> io::Result<Commands> {
        let mut bytes = [0; 64];
        match (&self.control).read(&mut bytes) {
            Ok(0) => Ok(Commands::End),
            Ok(length) => {
                let signals =
                    bytes[..length].iter().filter_map(|byte| Signal::from_named_raw((*byte).into()));
                let signals: Vec<Signal> = signals.collect();
                Ok(if signals.contains(&Signal::KILL) { Commands::End } else { Commands::Pass(signals) })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Commands::Pass(Vec::new()))
            }
            // A harness that died with unread words resets the socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Commands::End),
            Err(error) => Err(error),
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let mut waiting =
            [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.deaths.0, PollFlags::IN)];
        let timeout = match self.count {
            Count::Elsewhere => None,
            Count::AtMost(_) => Some(&LOOK),
        };
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stops all descendants before killing any, so that none forks its way out; then again for
    /// those that did, until none is left.
    fn kill_all(&self, main: Pid) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stopped = stop_all(deadline);
            for pid in stopped.iter().copied().filter_map(Pid::from_raw) {
                // Gone already, or not ours to kill: seen by the next look.
                let _ = kill_process(pid, Signal::KILL);
            }
            let mut waiting = [PollFd::new(&self.deaths.0, PollFlags::IN)];
            self.reap(main);
            if stopped.is_empty() || Instant::now() > deadline {
                return;
            }
            // Interrupted by the very signal that is awaited.
            let _ = poll(&mut waiting, Some(&PAUSE));
            self.deaths.forget();
            self.reap(main);
        }
    }
}

/// What the harness wants.
enum Commands {
    /// These signals for the command.
    Pass(Vec<Signal>),
    /// The end of everything.
    End,
}

/// To the command's group while that is surely its own; afterwards to whoever is left.
fn pass_on(signal: Signal, main: Pid, is_running: bool) {
    if is_running {
        // It fails only when nobody is left to get it.
        let _ = kill_process_group(main, signal);
        return;
    }
    for pid in descendants().into_iter().filter_map(Pid::from_raw) {
        // As above.
        let _ = kill_process(pid, signal);
    }
}

fn stop_all(deadline: Instant) -> BTreeSet<i32> {
    let mut stopped = BTreeSet::new();
    loop {
        let fresh: Vec<i32> = descendants().into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if fresh.is_empty() {
            return stopped;
        }
        for pid in fresh {
            stopped.insert(pid);
            if let Some(pid) = Pid::from_raw(pid) {
                // Gone already, or not ours to stop.
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        if Instant::now() > deadline {
            return stopped;
        }
    }
}

/// How many processes and threads the machine runs.
fn process_count() -> usize {
    rustix::system::sysinfo().procs.into()
}

/// Every living process below this one.
fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some((parent, false)) = parent_and_death(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(child);
            parents.push(child);
        }
    }
    found
}

/// A process's parent, and whether it is dead and only not yet reaped.
#[expect(clippy::disallowed_methods, reason = "the process table is read where processes are kept")]
fn parent_and_death(pid: i32) -> Option<(i32, bool)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, also spaces and brackets.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    Some((fields.next()?.parse().ok()?, matches!(state, "Z" | "X")))
}

//! A command line run by bash to its end: output followed while it comes, time kept, and the
//! directory it ends in reported. Starting and killing are left to `process`.

use super::{
    Captured, HostError, Terms,
    capture::whole_characters,
    process::{Group, Launch, start},
};
use crate::{Progress, text};
use rustix::{fs::OFlags, process::Signal};
use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeReader},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::unix::pipe, time::Instant};

/// How long a group has between TERM and KILL.
const GRACE: Duration = Duration::from_millis(500);
/// Longer reports of a directory are no paths.
const MAX_REPORT: usize = 64 * 1024;
/// How long output of left-over background children is awaited once the shell has ended.
const LINGER: Duration = Duration::from_millis(200);

/// Runs the command given as `$1`, with no positional parameters of its own, and reports the
/// directory it ends in between two NULs. The report has a channel of its own: the pipe that is
/// standard error when the shell starts, moved to a descriptor that scripts do not use.
///
/// It is one line, so that bash counts the command's lines from 1.
const WRAPPER: &str = concat!(
    r"exec 219>&2 2>&1; ",
    r#"trap '{ set +x; builtin cd -P . && builtin printf "\0%s\0" "$PWD" >&219; } 2>/dev/null' EXIT; "#,
    r#"eval "shift; $1""#,
);

/// A command for bash.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The command as written.
    pub command: String,
    /// Where it starts.
    pub cwd: PathBuf,
    /// How long it may take.
    pub timeout: Duration,
    /// What it may touch and finds around it.
    pub terms: Terms,
}

/// How a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub exit: Exit,
    /// Standard output and standard error, as they came.
    pub output: Captured,
    /// The directory it ended in, unless it was killed or replaced itself.
    pub cwd: Option<PathBuf>,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned, or was killed by a signal: then 128 and the signal's number, as shells count.
    Code(i32),
    /// It ran out of time and was killed.
    TimedOut,
}

/// Runs a command to its end. Dropping the future kills everything it started.
pub(super) async fn run(
    env: &[(String, String)],
    shell: Shell,
    progress: Progress,
) -> Result<Finished, HostError> {
    let (running, output, report) = start_shell(env, &shell).map_err(|error| HostError::Io {
        action: "start bash in",
        path: shell.cwd.clone(),
        error,
    })?;
    let broken = |error| HostError::Io { action: "follow the command in", path: shell.cwd.clone(), error };
    let output = pipe::Receiver::from_owned_fd(output).map_err(broken)?;
    let (phase, captured) = follow(&running, output, shell.timeout, progress).await.map_err(broken)?;
    let exit = match phase {
        Phase::Terminating | Phase::Killed => {
            drop(running);
            Exit::TimedOut
        }
        Phase::Running | Phase::Lingering => {
            let status = running.finish().map_err(broken)?;
            Exit::Code(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
        }
    };
    Ok(Finished { exit, output: captured, cwd: reported_cwd(report) })
}

/// Starts bash and returns the reading ends of its output and of its report.
fn start_shell(env: &[(String, String)], shell: &Shell) -> io::Result<(Group, OwnedFd, PipeReader)> {
    let (output, output_end) = io::pipe()?;
    let (report, report_end) = io::pipe()?;
    let env = [env, &shell.terms.env].concat();
    let args = ["--noprofile", "--norc", "-c", WRAPPER, "bash", &shell.command];
    let group = start(Launch {
        program: bash(),
        args: args.into_iter().map(OsString::from).collect(),
        cwd: &shell.cwd,
        env: &env,
        confinement: &shell.terms.confinement,
        stdio: [Stdio::null(), output_end.into(), report_end.into()],
    })?;
    Ok((group, output.into(), report))
}

/// A bash that the working directory and `PATH` cannot choose, where there is one.
fn bash() -> &'static OsStr {
    let known = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
    OsStr::new(known.unwrap_or("bash"))
}

/// How far the end of a shell has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It runs and has time left.
    Running,
    /// It ended; children it left behind may still write.
    Lingering,
    /// Its time is over and it was asked to end.
    Terminating,
    /// It was killed.
    Killed,
}

/// Reads output until the shell is done with, and says how that came.
async fn follow(
    group: &Group,
    mut output: pipe::Receiver,
    timeout: Duration,
    progress: Progress,
) -> io::Result<(Phase, Captured)> {
    let mut live = Live { captured: Captured::default(), progress, unfinished: Vec::new() };
    let mut piece = vec![0; 16 * 1024];
    let (mut phase, mut deadline) = (Phase::Running, Instant::now() + timeout);
    let (mut open, mut ended) = (true, false);
    let end = group.ended();
    tokio::pin!(end);
    while open || !ended {
        tokio::select! {
            read = output.read(&mut piece), if open => match read? {
                0 => open = false,
                length => live.push(&piece[..length]),
            },
            result = &mut end, if !ended => {
                result?;
                ended = true;
                if phase == Phase::Running {
                    phase = Phase::Lingering;
                }
                deadline = deadline.min(Instant::now() + LINGER);
            }
            () = tokio::time::sleep_until(deadline) => {
                let Some(next) = next_phase(group, phase, ended) else { break };
                phase = next;
                deadline = Instant::now() + GRACE;
            }
        }
    }
    Ok((phase, live.captured))
}

/// What follows when the time of a phase is over; nothing when the group is given up.
fn next_phase(group: &Group, phase: Phase, ended: bool) -> Option<Phase> {
    match phase {
        Phase::Running => {
            group.signal(Signal::TERM);
            Some(Phase::Terminating)
        }
        Phase::Terminating if !ended => {
            group.signal(Signal::KILL);
            Some(Phase::Killed)
        }
        Phase::Terminating | Phase::Killed | Phase::Lingering => None,
    }
}

/// Output on its way to the record and to whoever watches.
struct Live {
    captured: Captured,
    progress: Progress,
    unfinished: Vec<u8>,
}

impl Live {
    fn push(&mut self, bytes: &[u8]) {
        self.captured.push(bytes);
        self.unfinished.extend_from_slice(bytes);
        let whole = whole_characters(&self.unfinished);
        let shown = text::clean(&String::from_utf8_lossy(&self.unfinished[..whole]));
        self.unfinished.drain(..whole);
        if !shown.is_empty() {
            self.progress.say(shown);
        }
    }
}

/// The directory between the last two NULs that the shell wrote before it ended.
fn reported_cwd(report: PipeReader) -> Option<PathBuf> {
    let report = OwnedFd::from(report);
    // The shell is gone, so what it wrote is in the pipe; a child it left may hold the other end.
    rustix::fs::fcntl_setfl(&report, OFlags::NONBLOCK).ok()?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while bytes.len() < MAX_REPORT {
        let Ok(length @ 1..) = rustix::io::read(&report, &mut piece) else { break };
        bytes.extend_from_slice(&piece[..length]);
    }
    let end = bytes.iter().rposition(|byte| *byte == 0)?;
    let start = bytes[..end].iter().rposition(|byte| *byte == 0)? + 1;
    let path = PathBuf::from(OsStr::from_bytes(&bytes[start..end]));
    path.is_absolute().then_some(path)
}

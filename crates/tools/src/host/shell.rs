//! A command run to its end, by bash or by itself: output followed while it comes, and the directory bash
//! ends in reported. Starting and killing are left to `process`; how long it may take, to the caller.

use super::{
    HostError, Recording, Terms, Warden,
    process::{Group, Launch, start, start_holding},
    recording::Recorder,
    spool::Room,
};
use crate::Progress;
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
    sync::Arc,
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::unix::pipe, time::Instant};
use tokio_util::sync::CancellationToken;

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

/// A command and what surrounds it.
#[derive(Debug, Clone)]
pub struct Shell {
    /// What runs.
    pub line: Line,
    /// Where it starts.
    pub cwd: PathBuf,
    /// What it may touch and finds around it.
    pub terms: Terms,
    /// Where its output goes.
    pub output: Arc<Recording>,
    /// Cancelled when it must end: it is asked to, and killed if it does not.
    pub stop: CancellationToken,
}

/// What runs.
#[derive(Debug, Clone)]
pub enum Line {
    /// A command line for bash, as written; errors are part of its output.
    Bash(String),
    /// A program found on the child's `PATH`, with its arguments; what it says of errors is dropped.
    Program(Vec<OsString>),
}

/// How a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub exit: Exit,
    /// The directory bash ended in, unless it was killed or replaced itself.
    pub cwd: Option<PathBuf>,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned, or was killed by a signal: then 128 and the signal's number, as shells count.
    Code(i32),
    /// It was told to end.
    Stopped,
}

impl Shell {
    /// A command line without bounds, whose output stays in memory.
    pub fn bash(command: &str, cwd: &Path) -> Self {
        Self {
            line: Line::Bash(command.to_owned()),
            cwd: cwd.to_owned(),
            terms: Terms::default(),
            output: Recording::text(None, Room::default()),
            stop: CancellationToken::new(),
        }
    }
}

/// Runs a command to its end. Dropping the future kills everything it started.
pub(super) async fn run(
    env: &[(String, String)],
    warden: Option<&Warden>,
    shell: Shell,
    progress: Progress,
) -> Result<Finished, HostError> {
    let (running, output, report) = start_shell(env, warden, &shell).map_err(|error| HostError::Io {
        action: "start the command in",
        path: shell.cwd.clone(),
        error,
    })?;
    let broken = |error| HostError::Io { action: "follow the command in", path: shell.cwd.clone(), error };
    let output = pipe::Receiver::from_owned_fd(output).map_err(broken)?;
    let mut recorder = Recorder::new(shell.output, progress);
    let phase = follow(&running, output, &shell.stop, &mut recorder).await.map_err(broken)?;
    let exit = match phase {
        Phase::Terminating | Phase::Killed => {
            drop(running);
            Exit::Stopped
        }
        Phase::Running | Phase::Lingering => {
            let status = running.finish().map_err(broken)?;
            Exit::Code(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
        }
    };
    recorder.finish().await;
    Ok(Finished { exit, cwd: report.and_then(reported_cwd) })
}

/// Starts the command and returns the reading ends of its output and of its report.
fn start_shell(
    env: &[(String, String)],
    warden: Option<&Warden>,
    shell: &Shell,
) -> io::Result<(Group, OwnedFd, Option<PipeReader>)> {
    let (output, output_end) = io::pipe()?;
    let env = [env, &shell.terms.env].concat();
    let (program, args, errors, report) = match &shell.line {
        Line::Bash(command) => {
            let (report, report_end) = io::pipe()?;
            let args = ["--noprofile", "--norc", "-c", WRAPPER, "bash", command];
            (bash(), args.into_iter().map(OsString::from).collect(), report_end.into(), Some(report))
        }
        Line::Program(words) => {
            let (program, args) =
                words.split_first().ok_or_else(|| io::Error::other("there is no program to start"))?;
            (program.as_os_str(), args.to_vec(), Stdio::null(), None)
        }
    };
    let launch = Launch {
        program,
        args,
        cwd: &shell.cwd,
        env: &env,
        confinement: &shell.terms.confinement,
        warden,
        stdio: [Stdio::null(), output_end.into(), errors],
    };
    let group = match &shell.terms.hold {
        Some(file) => start_holding(launch, file),
        None => start(launch),
    }?;
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
    /// It runs.
    Running,
    /// It ended; children it left behind may still write.
    Lingering,
    /// It was asked to end.
    Terminating,
    /// It was killed.
    Killed,
}

/// Reads output until the command is done with, and says how that came.
async fn follow(
    group: &Group,
    mut output: pipe::Receiver,
    stop: &CancellationToken,
    recorder: &mut Recorder,
) -> io::Result<Phase> {
    let mut piece = vec![0; 64 * 1024];
    let (mut phase, mut deadline) = (Phase::Running, None::<Instant>);
    let (mut open, mut ended) = (true, false);
    let end = group.ended();
    tokio::pin!(end);
    while open || !ended {
        tokio::select! {
            read = output.read(&mut piece), if open => match read? {
                0 => open = false,
                length => recorder.push(&piece[..length]).await,
            },
            result = &mut end, if !ended => {
                result?;
                ended = true;
                if phase == Phase::Running {
                    phase = Phase::Lingering;
                }
                let linger = Instant::now() + LINGER;
                deadline = Some(deadline.map_or(linger, |deadline| deadline.min(linger)));
            }
            () = stop.cancelled(), if phase == Phase::Running => {
                group.signal(Signal::TERM);
                phase = Phase::Terminating;
                deadline = Some(Instant::now() + GRACE);
            }
            () = sleep_until(deadline) => {
                if phase != Phase::Terminating || ended {
                    break;
                }
                group.signal(Signal::KILL);
                phase = Phase::Killed;
                deadline = Some(Instant::now() + GRACE);
            }
            () = recorder.wanted() => recorder.write_pending().await,
        }
    }
    Ok(phase)
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
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

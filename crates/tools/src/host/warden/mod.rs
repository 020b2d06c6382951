//! The warden: this very program, started again between the harness and a command, to confine the
//! command and to leave nothing of it alive. It runs on one thread, and never as part of the harness; on
//! systems other than Linux there is none.

#[cfg(target_os = "linux")]
mod apart;
#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod custody;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod layout;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod loopback;
#[cfg(target_os = "linux")]
mod mounts;
mod order;
mod outcome;
#[cfg(target_os = "linux")]
mod placeholder;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod stages;
#[cfg(target_os = "linux")]
mod syscalls;

/// What marks a folder that stands for a protected name while a command runs: nobody else makes such folders.
pub const PLACEHOLDER_MODE: u32 = 0o1555;

#[cfg(target_os = "linux")]
pub use apart::enter as enter_apart;
pub(super) use order::{Order, Reach, Stage, Step, StepKind};
pub(super) use outcome::read as read_outcome;

use crate::host::{
    process::{Until, survey as survey_of},
    sandbox::{Backend, Survey},
};
#[cfg(target_os = "linux")]
use std::{io, os::unix::net::UnixStream, path::Path};
use std::{path::PathBuf, process::ExitCode, sync::OnceLock};

/// The name under which the program is a warden, and nothing else.
pub(super) const MARK: &str = "ostler-warden";
/// What a warden returns that could do nothing.
#[cfg(target_os = "linux")]
const FAILED: u8 = 125;

/// A program that can be a warden, and how it confines.
#[derive(Debug)]
pub struct Warden {
    pub(super) program: PathBuf,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    /// The best that this machine has, found out at the first need.
    Best(OnceLock<Survey>),
    Fixed(Backend),
}

impl Warden {
    /// `program` must call [`enter`] before anything else.
    pub fn new(program: PathBuf) -> Self {
        Self { program, choice: Choice::Best(OnceLock::new()) }
    }

    /// As [`Warden::new`], with one way to confine and no other.
    pub fn with_backend(program: PathBuf, backend: Backend) -> Self {
        Self { program, choice: Choice::Fixed(backend) }
    }

    /// What this machine has to confine with, up to the first way that works. The first call tries and
    /// blocks for some tens of milliseconds; the answer is kept.
    pub fn survey(&self) -> Survey {
        match &self.choice {
            Choice::Best(survey) => survey.get_or_init(|| survey_of(&self.program, Until::OneWorks)).clone(),
            Choice::Fixed(backend) => Survey { tried: vec![(*backend, Ok(()))] },
        }
    }

    /// Everything this machine has to confine with; tries each way anew.
    pub fn full_survey(&self) -> Survey {
        survey_of(&self.program, Until::AllTried)
    }
}

/// A folder that is seen, and may be written, where another one stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// The folder itself.
    pub folder: PathBuf,
    /// Where it is seen. Something must be there.
    pub at: PathBuf,
}

/// If this process was started as a warden, does its work and gives the exit code. Must be called
/// before any thread is started.
#[cfg(target_os = "linux")]
pub fn enter() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    // Bubblewrap names a program by its path.
    if Path::new(&words.next()?).file_name()? != MARK {
        return None;
    }
    Some(match Order::from_words(words) {
        Ok(order) => run(order),
        Err(_) => ExitCode::from(FAILED),
    })
}

/// There are no wardens on this system.
#[cfg(not(target_os = "linux"))]
pub fn enter() -> Option<ExitCode> {
    None
}

/// Processes cannot be set apart on this system.
#[cfg(not(target_os = "linux"))]
pub fn enter_apart(_: &[StandIn]) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this is there on linux only"))
}

#[cfg(target_os = "linux")]
fn run(order: Order) -> ExitCode {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    raw::close(open.into_iter().filter(|number| !order.names(*number)));
    let Ok(control) = raw::adopt(order.control) else { return ExitCode::from(FAILED) };
    let control = UnixStream::from(control);
    let Ok(held) = order.held.map(raw::adopt).transpose() else { return ExitCode::from(FAILED) };
    // The kernel closes it when this process has ended, which it does last.
    std::mem::forget(held);
    let order = Order { held: None, ..order };
    let ended = match order.stage {
        Stage::Outer => stages::outer(order, &control),
        Stage::Middle => stages::middle(order, &control),
        Stage::Inner => stages::inner(&order, &control),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            outcome::report_failure(&control, &error);
            ExitCode::from(FAILED)
        }
    }
}

/// An error that says what could not be done to what.
#[cfg(target_os = "linux")]
fn named(action: &str, path: &Path, error: &io::Error) -> io::Error {
    // The kind is kept: by it, callers tell a missing program from other failures.
    io::Error::new(error.kind(), format!("cannot {action} {}: {error}", path.display()))
}

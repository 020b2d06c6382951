//! The one place that starts programs. A child starts under a warden, which confines it and takes
//! everything it started down with it: on time-out, on drop, when the shell ends, and when this process
//! dies in whatever way. Where no warden was given, the child's process group stands in for that.
#![expect(clippy::disallowed_methods, reason = "this module is where children are started")]

use super::{
    Bounds, Confinement, Network, Warden,
    sandbox::{Backend, HostList, Survey, proxy},
    warden::{self, Order, Reach, Stage, Step, StepKind},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, Mode, OFlags, flock},
    io::FdFlags,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid},
};
use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

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

/// How long a warden may take to kill everything; it gives up sooner by itself.
const PATIENCE: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };
/// How long one try of a way to confine may take.
const TRIAL: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

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
    /// Who confines it and keeps custody. Without one, nothing can be confined, and descendants
    /// that leave their group are lost sight of.
    pub warden: Option<&'a Warden>,
}

/// A running child with everything it started.
///
/// The child is reaped only here, and what it started is killed before. Dropping the value kills
/// all at once and leaves no zombie.
pub struct Group {
    child: Option<Child>,
    id: Pid,
    keeper: Keeper,
    /// Lets some hosts be reached, as long as the child lives.
    proxy: Option<JoinHandle<()>>,
}

/// Who knows what belongs to a child.
enum Keeper {
    /// A warden at the other end: it takes signals, tells how the child ended, and kills everything
    /// when told to or when this end is closed.
    Warden(UnixStream),
    /// The kernel, as far as the process group goes.
    Group,
}

/// Starts a program. An error of its warden's shows when the group is finished.
pub fn start(launch: Launch<'_>) -> io::Result<Group> {
    start_with(launch, None)
}

/// As [`start`]; its warden holds a shared lock on a file until it has ended with all that it started. Whoever gets
/// the lock for itself knows that nothing of it will happen any more, also when this process has died.
pub fn start_holding(launch: Launch<'_>, file: &Path) -> io::Result<Group> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(file, flags, Mode::from_raw_mode(0o600))?;
    // Taken here, so that there is no moment at which only this process knows of the child.
    rustix::io::retry_on_intr(|| flock(&held, FlockOperation::LockShared))?;
    start_with(launch, Some(&held))
}

fn start_with(launch: Launch<'_>, held: Option<&OwnedFd>) -> io::Result<Group> {
    let warden = launch.warden.filter(|_| cfg!(target_os = "linux"));
    match (warden, launch.confinement) {
        (None, Confinement::Free) => {
            let mut command = Command::new(launch.program);
            command.args(&launch.args).process_group(0);
            let child = spawn(command, launch)?;
            Ok(Group { id: Pid::from_child(&child), child: Some(child), keeper: Keeper::Group, proxy: None })
        }
        (None, Confinement::Within(_)) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "nobody is there to confine the command"))
        }
        (Some(_), Confinement::Free) => start_kept(launch, None, held),
        (Some(warden), Confinement::Within(bounds)) => {
            let survey = warden.survey();
            let Some(backend) = survey.best() else {
                let why = format!("nothing on this machine can confine the command: {}", survey.reasons());
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            };
            start_kept(launch, Some((backend, bounds)), held)
        }
    }
}

/// Tries ways to confine, for real, on a command that does nothing: every one, or until one works.
pub(super) fn survey(program: &Path, until: Until) -> Survey {
    let mut survey = Survey::default();
    for backend in Backend::ALL {
        survey.tried.push((backend, try_backend(program, backend)));
        if until == Until::OneWorks && survey.best().is_some() {
            break;
        }
    }
    survey
}

/// How long ways to confine are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    OneWorks,
    AllTried,
}

fn try_backend(program: &Path, backend: Backend) -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("it is there on linux only".to_owned());
    }
    let confinement = Confinement::Within(Bounds::default());
    let launch = Launch {
        program: "/bin/sh".as_ref(),
        args: vec!["-c".into(), ":".into()],
        cwd: Path::new("/"),
        env: &[],
        stdio: [Stdio::null(), Stdio::null(), Stdio::null()],
        confinement: &confinement,
        warden: Some(&Warden::with_backend(program.to_owned(), backend)),
    };
    let group = start(launch).map_err(|error| error.to_string())?;
    if let Keeper::Warden(control) = &group.keeper {
        let mut waiting = [PollFd::new(control, PollFlags::IN)];
        poll(&mut waiting, Some(&TRIAL)).map_err(|error| error.to_string())?;
    }
    match group.finish() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("a command that does nothing ended with {status}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Starts a program under a warden.
fn start_kept(
    launch: Launch<'_>,
    confined: Option<(Backend, &Bounds)>,
    held: Option<&OwnedFd>,
) -> io::Result<Group> {
    let Some(warden) = launch.warden else { return Err(io::Error::other("there is no warden")) };
    let (control, their_control) = UnixStream::pair()?;
    let hosts = confined.and_then(|(backend, bounds)| match (&bounds.network, backend) {
        (Network::Hosts(hosts), Backend::Namespaces | Backend::Bubblewrap) => Some(HostList::new(hosts)),
        (Network::Hosts(_), Backend::Landlock) | (Network::Cut | Network::Open, _) => None,
    });
    let gate = hosts.is_some().then(UnixStream::pair).transpose()?;
    let order = Order {
        stage: Stage::Outer,
        control: their_control.as_raw_fd(),
        gate: gate.as_ref().map(|(_, theirs)| theirs.as_raw_fd()),
        held: held.map(AsRawFd::as_raw_fd),
        stdio: None,
        backend: confined.map(|(backend, _)| backend),
        network: confined.map_or(Reach::Open, |(_, bounds)| reach(&bounds.network)),
        steps: confined.map_or_else(Vec::new, |(_, bounds)| steps(bounds)),
        program: launch.program.to_owned(),
        args: launch.args.clone(),
    };
    let mut command = Command::new(&warden.program);
    command.arg0(warden::MARK).args(order.to_words());
    // No other way leads a descriptor past the standard ones to a child without forking. A child that
    // starts at this very moment on another thread gets it too: its own warden closes it, and it is
    // the far end, whose copies keep nobody alive.
    let gate_end = gate.as_ref().map(|(_, theirs)| theirs.as_fd());
    for theirs in [their_control.as_fd()].into_iter().chain(gate_end).chain(held.map(AsFd::as_fd)) {
        rustix::io::fcntl_setfd(theirs, FdFlags::empty())?;
    }
    let child = spawn(command, launch)?;
    let proxy = match (gate, hosts) {
        (Some((gate, _)), Some(hosts)) => Some(open_proxy(gate, hosts)?),
        (_, _) => None,
    };
    control.set_nonblocking(true)?;
    Ok(Group { id: Pid::from_child(&child), child: Some(child), keeper: Keeper::Warden(control), proxy })
}

fn open_proxy(gate: UnixStream, hosts: HostList) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    Ok(runtime.spawn(proxy::serve_gate(gate, hosts)))
}

fn spawn(mut command: Command, launch: Launch<'_>) -> io::Result<Child> {
    let [stdin, stdout, stderr] = launch.stdio;
    let judged = launch
        .env
        .iter()
        .filter(|(name, _)| !NEVER.contains(&name.as_str()) && !name.starts_with("BASH_FUNC_"));
    command
        .current_dir(launch.cwd)
        .env_clear()
        .envs(judged.map(|(name, value)| (name, value)))
        .envs(ALWAYS)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
}

/// What of the network the kernel leaves; single hosts are let through by the proxy.
fn reach(network: &Network) -> Reach {
    match network {
        Network::Cut | Network::Hosts(_) => Reach::Cut,
        Network::Open => Reach::Open,
    }
}

fn steps(bounds: &Bounds) -> Vec<Step> {
    let of = |paths: &[std::path::PathBuf], kind| {
        paths.iter().map(|path| Step { kind, path: path.clone() }).collect::<Vec<_>>()
    };
    let existing: Vec<_> =
        bounds.kept.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect();
    [
        of(&bounds.writable, StepKind::Writable),
        of(&bounds.frozen, StepKind::Frozen),
        of(&existing, StepKind::Frozen),
        of(&bounds.hidden, StepKind::HiddenFile),
    ]
    .concat()
}

impl Group {
    /// Sends a signal to every member of the child's process group; a KILL, to everything it started.
    pub fn signal(&self, signal: Signal) {
        match &self.keeper {
            // It fails only when nobody is left to get it.
            Keeper::Group => drop(kill_process_group(self.id, signal)),
            Keeper::Warden(control) => {
                let number = u8::try_from(signal.as_raw()).unwrap_or_default();
                // Likewise.
                let _ = (&mut &*control).write(&[number]);
            }
        }
    }

    /// Waits until the child itself has ended, without reaping it. Safe to drop and call again.
    pub async fn ended(&self) -> io::Result<()> {
        match &self.keeper {
            Keeper::Warden(control) => {
                // What is told there is left in place for `finish`.
                tokio::net::UnixStream::from_std(control.try_clone()?)?.readable().await
            }
            Keeper::Group => {
                // Listening starts before looking, so that no death falls between.
                let mut deaths = signal(SignalKind::child())?;
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                while waitid(WaitId::Pid(self.id), options)?.is_none() {
                    deaths.recv().await;
                }
                Ok(())
            }
        }
    }

    /// Kills what is left and reaps the child, which should have ended. Fails if the child could not be
    /// started or confined.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let Some(mut child) = self.child.take() else {
            return Err(io::Error::other("the child was reaped before"));
        };
        match &self.keeper {
            Keeper::Group => child.wait(),
            Keeper::Warden(control) => {
                let end = end_warden(&mut child, self.id, control);
                // A child that did not end by itself was killed with all the rest.
                warden::read_outcome(control)?.map_or(end, Ok)
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
        let Some(mut child) = self.child.take() else { return };
        self.signal(Signal::KILL);
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        let (id, keeper) = (self.id, std::mem::replace(&mut self.keeper, Keeper::Group));
        let reap = move || match keeper {
            Keeper::Group => drop(child.wait()),
            Keeper::Warden(control) => {
                drop(end_warden(&mut child, id, &control));
            }
        };
        // Dying takes a moment, seldom long; nobody waits for it but this thread.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(reap)),
            Err(_) => reap(),
        }
    }
}

/// Waits for a warden that was told to end; one that does not is killed, and with it its namespaces.
fn end_warden(child: &mut Child, id: Pid, control: &UnixStream) -> io::Result<ExitStatus> {
    // Nothing but the closing of the other end is awaited.
    let mut waiting = [PollFd::new(control, PollFlags::empty())];
    if !matches!(poll(&mut waiting, Some(&PATIENCE)), Ok(1..)) {
        // It fails only when it has just ended.
        let _ = kill_process(id, Signal::KILL);
    }
    child.wait()
}

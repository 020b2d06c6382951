//! The warden's stages. Outer: stays outside, knows the disk as it is, clears up. Middle: makes the
//! namespaces. Inner: confines itself and starts the command. Each stage does what the next cannot.
#![expect(clippy::disallowed_methods, reason = "here the command is started that the harness asked for")]

use super::{
    MARK, bubblewrap,
    custody::{Count, Custody, Deaths, Realm, ignore_signals},
    landlock,
    layout::lay_out,
    limits, loopback, mounts, named,
    order::{Order, Reach, Stage},
    raw,
    syscalls::{self, Sockets},
};
use crate::host::sandbox::Backend;
use rustix::{
    io::FdFlags,
    process::{
        DumpableBehavior, Pid, Signal, getegid, geteuid, set_child_subreaper, set_dumpable_behavior,
        set_parent_process_death_signal, setsid,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    thread::UnshareFlags,
};
use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command},
};

/// This program, also after its file was replaced.
pub(super) const SELF: &str = "/proc/self/exe";

pub(super) fn outer(order: Order, control: &UnixStream) -> io::Result<()> {
    // No terminal: what is typed there is for the harness, and the harness speaks to us by socket.
    // Fails only for the leader of a group, which has none to leave.
    let _ = setsid();
    ignore_signals()?;
    match order.backend {
        None => keep_descendants(&order, control, Count::Elsewhere),
        Some(Backend::Landlock) => {
            // Root is bound by no number of processes.
            let count =
                if geteuid().is_root() { Count::AtMost(limits::MOST_PROCESSES) } else { Count::Elsewhere };
            keep_descendants(&order, control, count)
        }
        Some(Backend::Namespaces) => {
            let layout = lay_out(&order.steps, order.network)?;
            let order = Order { stage: Stage::Middle, steps: layout.steps.clone(), ..order };
            await_stage(next_stage(&order, control)?)
        }
        Some(Backend::Bubblewrap) => bubblewrap::run(order, control),
    }
}

/// Makes the namespaces; the next process is the first of them.
pub(super) fn middle(order: Order, control: &UnixStream) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut spaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if order.network == Reach::Cut {
        spaces |= UnshareFlags::NEWNET;
    }
    raw::unshare(spaces).map_err(|error| named("make", Path::new("namespaces"), &error))?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(file, text).map_err(|error| named("write", Path::new(file), &error))?;
    }
    limits::keep_rights_inside()?;
    await_stage(next_stage(&Order { stage: Stage::Inner, ..order }, control)?)
}

/// Confines itself, then becomes the command or its keeper.
pub(super) fn inner(order: &Order, control: &UnixStream) -> io::Result<()> {
    match order.backend {
        None => Err(io::Error::other("a free command has no inner stage")),
        Some(Backend::Landlock) => {
            limits::lower()?;
            limits::drop_privileges()?;
            landlock::confine(&order.steps)?;
            let sockets = match order.network {
                Reach::Cut => Sockets::None,
                Reach::Open => Sockets::Internet,
            };
            syscalls::restrict(sockets)?;
            let error = Command::new(&order.program).args(&order.args).exec();
            Err(named("start", Path::new(&order.program), &error))
        }
        Some(Backend::Namespaces) => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let cwd = std::env::current_dir()?;
            raw::unshare(UnshareFlags::NEWNS)
                .map_err(|error| named("make", Path::new("a namespace for mounts"), &error))?;
            mounts::arrange(&order.steps)?;
            if mounts::mount_processes(limits::MOST_PROCESSES) {
                mounts::close_processes()?;
            }
            if order.network == Reach::Cut {
                loopback::bring_up().map_err(|error| named("bring up", Path::new("the loopback"), &error))?;
            }
            std::env::set_current_dir(&cwd).map_err(|error| named("enter", &cwd, &error))?;
            start_inside(order, control)
        }
        Some(Backend::Bubblewrap) => start_inside(order, control),
    }
}

/// As the first process of a PID namespace: gives up all rights, starts the command and keeps it.
fn start_inside(order: &Order, control: &UnixStream) -> io::Result<()> {
    let proxy = order.gate.map(|gate| loopback::open_gate(&raw::adopt(gate)?.into())).transpose()?;
    let is_bounded = !geteuid().is_root() || mounts::is_bounded(limits::MOST_PROCESSES);
    limits::lower()?;
    limits::drop_privileges()?;
    landlock::separate();
    syscalls::restrict(Sockets::Namespaced)?;
    // The command runs as the same user; it has no business in here.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let deaths = Deaths::watch()?;
    let mut command = command(order)?;
    if let Some(port) = proxy {
        set_proxy(&mut command, port);
    }
    let child = spawn(command, &order.program)?;
    let count = if is_bounded { Count::Elsewhere } else { Count::AtMost(limits::MOST_PROCESSES) };
    let custody = Custody { control: control.try_clone()?, deaths, realm: Realm::Namespace, count };
    custody.keep(Pid::from_child(&child))
}

/// Starts the command, or the stage that becomes it, and keeps everything below this process.
fn keep_descendants(order: &Order, control: &UnixStream, count: Count) -> io::Result<()> {
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let deaths = Deaths::watch()?;
    let child = if order.backend.is_none() {
        spawn(command(order)?, &order.program)?
    } else {
        let order = Order { stage: Stage::Inner, ..order.clone() };
        rustix::io::fcntl_setfd(control, FdFlags::empty())?;
        let mut command = Command::new(SELF);
        command.arg0(MARK).args(order.to_words()).process_group(0);
        spawn(command, SELF.as_ref())?
    };
    let custody = Custody { control: control.try_clone()?, deaths, realm: Realm::Descendants, count };
    custody.keep(Pid::from_child(&child))
}

fn command(order: &Order) -> io::Result<Command> {
    let mut command = Command::new(&order.program);
    command.args(&order.args).process_group(0);
    if let Some([stdin, stdout, stderr]) = order.stdio {
        command.stdin(raw::adopt(stdin)?).stdout(raw::adopt(stdout)?).stderr(raw::adopt(stderr)?);
    }
    Ok(command)
}

/// Starts it and lets go of its streams: their readers wait for the last holder to close them.
pub(super) fn spawn(mut command: Command, program: &std::ffi::OsStr) -> io::Result<Child> {
    let child = command.spawn().map_err(|error| named("start", Path::new(program), &error))?;
    drop(command);
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(child)
}

fn next_stage(order: &Order, control: &UnixStream) -> io::Result<Child> {
    let _gate = pass_on(order, control)?;
    let mut command = Command::new(SELF);
    command.arg0(MARK).args(order.to_words());
    spawn(command, SELF.as_ref())
}

/// Opens the sockets to the next process, which knows them by the same numbers. Gives the gate to hold.
pub(super) fn pass_on(order: &Order, control: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let gate = order.gate.map(raw::adopt).transpose()?;
    for descriptor in gate.as_ref().map(AsFd::as_fd).into_iter().chain([control.as_fd()]) {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    Ok(gate)
}

/// The stage speaks to the harness itself; only its end matters here.
fn await_stage(mut child: Child) -> io::Result<()> {
    child.wait().map(drop)
}

/// Programs find the way out by these variables; there is no other.
fn set_proxy(command: &mut Command, port: u16) {
    let address = format!("http://127.0.0.1:{port}");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, &address);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        command.env(name, "localhost,127.0.0.1,::1");
    }
}

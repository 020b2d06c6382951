//! What runs the calls of a recording again: the same tools and the same judge as in a session, with the settings in
//! force now, and nothing beside them. Commands are confined or do not run.

use super::{recorded_trust, session::Session, settings_in_force};
use crate::{args::Args, machine::Machine};
use ostler_control::{
    Executor, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL},
    memory::Memory,
    permission::{Demand, Sandboxing},
};
use ostler_engine::replay::Run;
use ostler_proto::Mode;
use ostler_tools::{
    Artifacts,
    host::{Jobs, Local},
};
use std::{path::Path, sync::Arc};

/// Puts it together for a run. What is too long is kept in one folder, edits are journalled in the other.
pub(crate) fn executor_again(
    args: &Args,
    machine: &Machine,
    run: &Run,
    (artifacts, scratch): (&Path, &Path),
) -> anyhow::Result<Executor> {
    let mut machine = machine.clone();
    let in_force = settings_in_force(args, &machine)?;
    machine.add_vars(&in_force.env);
    let session = Session {
        args,
        machine: &machine,
        in_force: &in_force,
        attendance: Attendance::Attended,
        trust: recorded_trust(args, &machine)?,
    };
    let roots = vec![machine.cwd.clone()];
    let cwd = session.shell_folder(&run.state, &roots);
    let policy = session.policy(Mode::Default, roots)?;
    let sandboxing = Sandboxing {
        demand: Demand::Required,
        excluded: Vec::new(),
        may_leave: false,
        writable: Vec::new(),
        hosts: Vec::new(),
        ..policy.sandboxing
    };
    let env = machine.child_env(&session.passed_env(), &session.secrets());
    let host = Local::new(machine.home.clone(), env)
        .with_journal(scratch.join("journal"))
        .with_warden(machine.program.clone());
    let artifacts = Artifacts::new(artifacts);
    let jobs = Arc::new(Jobs::new(Some(artifacts.clone())));
    let memory: Memory = session.memory();
    Ok(Executor::new(Setup {
        registry: session.registry(&jobs, run.state.todos.clone())?,
        host: Arc::new(host),
        policy: Policy { plan_file: session.plan_file(run.session()), sandboxing, ..policy },
        cwd,
        attendance: Attendance::Attended,
        parallel: DEFAULT_PARALLEL,
        artifacts: Some(artifacts),
        memory,
        reload: None,
        keeping: None,
        jobs,
        hooks: None,
    }))
}

//! A workbench: an executor with one fake tool whose calls wait until the test lets them go.

use futures_util::{FutureExt, future::BoxFuture};
use ostler_control::{
    ExecEvent, Executor, Finished, Policy, Setup,
    executor::{Attendance, DEFAULT_PARALLEL},
    permission::Above,
};
use ostler_proto::{
    Access, Intent, Interrupt, Json, Matter, Mode, PathFact, Preview, Rules, StateChange, ToolCall,
    ToolError, ToolOutput, ToolSpec,
};
use ostler_tools::{
    Effect, Plan, PlanContext, Registry, Tool,
    host::{Jobs, Local},
};
use serde_json::json;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// What the fake tool does is in its input: `{"access": "read /a" | "write /a" | "run" | "consult enter" |
/// "consult leave" | "none",
/// "does": "ok" | "fail" | "panic" | "panic in plan" | "wait" | "fatal" | "cd"}`.
struct Puppet {
    spec: ToolSpec,
    strings: Arc<Strings>,
}

/// The test's hold on running calls.
#[derive(Default)]
pub(crate) struct Strings {
    gates: Mutex<HashMap<String, Arc<Notify>>>,
    pub(crate) running: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
    pub(crate) effects: Mutex<Vec<String>>,
}

impl Strings {
    fn gate(&self, name: &str) -> Arc<Notify> {
        Arc::clone(self.gates.lock().unwrap().entry(name.to_owned()).or_default())
    }

    /// Lets a waiting call end, now or when it comes to wait.
    pub(crate) fn release(&self, name: &str) {
        self.gate(name).notify_one();
    }
}

struct Running(Arc<Strings>);

impl Running {
    fn begin(strings: &Arc<Strings>) -> Self {
        let now = strings.running.fetch_add(1, Ordering::SeqCst) + 1;
        strings.most_at_once.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(strings))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tool for Puppet {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
        let (name, access, does) = (text("name"), text("access"), text("does"));
        assert_ne!(does, "panic in plan", "told to panic");
        let strings = Arc::clone(&self.strings);
        let path = |path: &str| {
            let path = cx.cwd.join(path);
            vec![PathFact { requested: path.clone(), hops: vec![], target: path, exists: true }]
        };
        let access = match access.split_once(' ') {
            Some(("read", at)) => Access::Read { paths: path(at) },
            Some(("write", at)) => Access::Write { paths: path(at) },
            Some(("consult", "enter")) => Access::Consult(Matter::EnterPlan),
            Some(("consult", _)) => Access::Consult(Matter::LeavePlan { plan: name.clone(), file: None }),
            _ if access == "run" => Access::Execute {
                command: "x".into(),
                cwd: cx.cwd.clone(),
                footprint: ostler_proto::Footprint::default(),
            },
            _ => Access::Internal,
        };
        let title = name.clone();
        let cwd = cx.cwd.clone();
        let effect = Effect::new(move |run| async move {
            let _running = Running::begin(&strings);
            strings.effects.lock().unwrap().push(name.clone());
            run.progress.say(format!("{name} runs"));
            let mut output =
                ToolOutput::text(format!("{name} in {}", cwd.display()), json!({ "name": name }));
            match does.as_str() {
                "fail" => return Err(ToolError::failed("told to fail")),
                "fatal" => return Err(ToolError::Fatal("told to be fatal".into())),
                "panic" => panic!("told to panic"),
                "wait" => strings.gate(&name).notified().await,
                "cd" => output.changes.push(StateChange::Cwd("/moved".into())),
                _ => {}
            }
            Ok(output)
        });
        async move { Ok(Plan { intent: Intent { title, access, preview: Preview::None }, effect }) }.boxed()
    }
}

pub(crate) struct Bench {
    pub(crate) executor: Executor,
    pub(crate) strings: Arc<Strings>,
    pub(crate) log: Vec<String>,
    next: usize,
}

impl Bench {
    pub(crate) fn new(mode: Mode, attendance: Attendance) -> Self {
        Self::with(mode, attendance, DEFAULT_PARALLEL)
    }

    pub(crate) fn with(mode: Mode, attendance: Attendance, parallel: usize) -> Self {
        let strings = Arc::new(Strings::default());
        let tool = |name: &str, interrupt| -> Box<dyn Tool> {
            let spec = ToolSpec {
                name: name.into(),
                aliases: vec![],
                description: String::new(),
                schema: json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}),
                interrupt,
                max_result: 1000,
                guidance: String::new(),
            };
            Box::new(Puppet { spec, strings: Arc::clone(&strings) })
        };
        let registry =
            Registry::new(vec![tool("Puppet", Interrupt::Cancel), tool("Stubborn", Interrupt::Finish)])
                .unwrap();
        let above = if mode == Mode::Bubble { Above::Parent } else { Above::Nobody };
        let policy = Policy {
            mode,
            rules: Rules::default(),
            roots: vec!["/w".into()],
            home: "/home/u".into(),
            above,
            ..Policy::default()
        };
        let executor = Executor::new(Setup {
            registry,
            host: Arc::new(Local::new(PathBuf::from("/"), Vec::new())),
            policy,
            cwd: "/w".into(),
            attendance,
            parallel,
            artifacts: None,
            memory: ostler_control::memory::Memory::default(),
            reload: None,
            keeping: None,
            hooks: None,
            jobs: Arc::new(Jobs::new(None)),
        });
        Self { executor, strings, log: Vec::new(), next: 0 }
    }

    /// Proposes a call; its id is its name.
    pub(crate) fn call(&mut self, name: &str, access: &str, does: &str) {
        self.call_tool("Puppet", name, json!({"name": name, "access": access, "does": does}));
    }

    pub(crate) fn call_tool(&mut self, tool: &str, id: &str, input: Json) {
        self.next += 1;
        self.executor.start(ToolCall { id: id.into(), name: tool.into(), input, problem: None });
    }

    /// Takes reports until one satisfies the test; all are logged by a short name.
    pub(crate) async fn until(&mut self, wanted: &str) -> ExecEvent {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(10), self.executor.next())
                .await
                .unwrap_or_else(|_| panic!("'{wanted}' never came; saw {:?}", self.log));
            let name = match &event {
                ExecEvent::Decided { call, .. } => format!("decided {call}"),
                ExecEvent::Started { call, .. } => format!("started {call}"),
                ExecEvent::Progress { call, .. } => format!("progress {call}"),
                ExecEvent::Asked(ask) => format!("asked {}", ask.call),
                ExecEvent::AskWithdrawn(_) => "withdrawn".to_owned(),
                ExecEvent::JobChanged(job) => format!("job {}", job.id),
                ExecEvent::ModeChanged(mode) => format!("mode {}", mode.as_str()),
                ExecEvent::Hooked { .. } => "hooked".to_owned(),
                ExecEvent::Stopped(_) => "stopped".to_owned(),
                ExecEvent::Told(_) => "told".to_owned(),
                ExecEvent::Noticed(_) => "noticed".to_owned(),
                ExecEvent::Finished(finished) => format!("finished {}", finished.call.id),
            };
            self.log.push(name.clone());
            if name == wanted {
                return event;
            }
        }
    }

    pub(crate) async fn finished(&mut self, id: &str) -> Finished {
        match self.until(&format!("finished {id}")).await {
            ExecEvent::Finished(finished) => finished,
            other => panic!("not the end of {id}: {other:?}"),
        }
    }

    pub(crate) fn saw(&self, name: &str) -> bool {
        self.log.iter().any(|seen| seen == name)
    }
}

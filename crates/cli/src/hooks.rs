//! `ostler hooks`: which hooks are in force, what one event would come to, and whether every call of a
//! session was seen by them. Shows and asks only; the rules are control's.

use crate::{
    args::Args,
    machine::{Machine, read_lossy, read_named},
    post, say, wire,
};
use anyhow::{Context, anyhow};
use ostler_control::{
    Hooks,
    hooks::{
        AskModel, Common, Fired, ModelAnswer, ModelQuestion, Occasion, Surroundings,
        audit::{self, Audit, Coverage},
    },
    settings::InForce,
};
use ostler_engine::question;
use ostler_model::Chosen;
use ostler_proto::{
    HookEvent, Intent, Json, Mode, Verdict,
    hook::{HookFiring, HookInfo, HookRun, Spent},
};
use ostler_tools::{
    Artifacts, PlanContext, ReadPolicy, Registry, builtin,
    host::{Confinement, FileState, Local, Warden},
};
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The words after `ostler hooks`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    action: Action,

    /// More settings: a file, or JSON itself
    #[arg(long, value_name = "FILE|JSON", global = true)]
    settings: Option<String>,

    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Show all hooks and where each was set
    List,
    /// Show which hooks an event would run and what they would be given
    Test {
        /// The event, e.g. `PreToolUse`
        event: String,
        /// A file with fields of the input, as JSON; the others are made up
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
        /// Run them and show what they say; exit code 2 if they object
        #[arg(long)]
        run: bool,
    },
    /// Show for every call of a session which hooks saw it; exit code 1 if one was missed
    Audit {
        /// The session's id or file; the newest of this folder if not given
        session: Option<String>,
    },
}

/// Does what the words say and returns the exit code.
pub(crate) async fn run(args: &Args, words: &HooksArgs, machine: &Machine) -> anyhow::Result<u8> {
    let mut args = args.clone();
    args.settings.clone_from(&words.settings);
    let in_force = wire::settings_in_force(&args, machine)?;
    match &words.action {
        Action::List => {
            list(&hooks(&in_force, machine)?, &in_force, words.json);
            Ok(0)
        }
        Action::Test { event, input, run } => {
            let occasion = occasion(event, input.as_deref(), machine).await?;
            let hooks = hooks(&in_force, machine)?;
            if *run {
                try_out(&hooks, &occasion, machine, words.json).await
            } else {
                preview(&hooks, &occasion, machine, words.json)
            }
        }
        Action::Audit { session } => audit(session.as_deref(), machine, words.json),
    }
}

fn hooks(in_force: &InForce, machine: &Machine) -> anyhow::Result<Hooks> {
    let ask_model = ask_model(in_force, machine, None)?;
    let surroundings = surroundings(in_force, machine, None, Some(ask_model));
    Hooks::new(&in_force.hooks, surroundings).map_err(|problem| anyhow!(problem))
}

/// What hooks find around them.
pub(crate) fn surroundings(
    in_force: &InForce,
    machine: &Machine,
    artifacts: Option<Artifacts>,
    ask_model: Option<AskModel>,
) -> Surroundings {
    let mut machine = machine.clone();
    machine.add_vars(&in_force.env);
    let secrets: Vec<String> = in_force.models.values().filter_map(|row| row.api_key_env.clone()).collect();
    let passed: Vec<String> = in_force.env.keys().chain(&in_force.pass_env).cloned().collect();
    // What is no number says nothing; hooks keep the time they have without it.
    let at_end = machine.number("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS").ok().flatten();
    let at_end = at_end.map(Duration::from_millis);
    Surroundings {
        project: machine.cwd.clone(),
        home: machine.home.clone(),
        env: machine.child_env(&passed, &secrets),
        confinement: Confinement::Free,
        warden: Some(Arc::new(Warden::new(machine.program.clone()))),
        artifacts,
        post: Some(post::http_post()),
        ask_model,
        at_end,
        exchange: Arc::default(),
    }
}

/// How a hook's question reaches a model: the one it names, else a small one, else that of the session.
pub(crate) fn ask_model(
    in_force: &InForce,
    machine: &Machine,
    of_session: Option<Chosen>,
) -> anyhow::Result<AskModel> {
    let mut machine = machine.clone();
    machine.add_vars(&in_force.env);
    let models = wire::models(in_force, &machine)?;
    let small = machine.var("ANTHROPIC_SMALL_FAST_MODEL");
    let choose = move |named: Option<&str>| match (named.or(small.as_deref()), &of_session) {
        (Some(name), _) => models.choose(name).map_err(|error| error.to_string()),
        (None, None) => models.choose("haiku").map_err(|error| error.to_string()),
        // A small model that speaks another API may have no key, or be somebody else's to see.
        (None, Some(chosen)) => {
            let haiku = models.choose("haiku").ok().filter(|haiku| haiku.row.api == chosen.row.api);
            Ok(haiku.unwrap_or_else(|| chosen.clone()))
        }
    };
    Ok(Arc::new(move |question: ModelQuestion| {
        let chosen = choose(question.model.as_deref());
        Box::pin(async move {
            let chosen = chosen?;
            let words = question::ask(&chosen, question.system, &question.prompt).await?;
            let spent = Some(Spent { model: chosen.name, usage: words.usage, cost_usd: 0.0 });
            Ok(ModelAnswer { text: words.text, spent })
        })
    }))
}

fn common(machine: &Machine) -> Common {
    Common {
        session_id: uuid::Uuid::nil().to_string().into(),
        transcript_path: None,
        cwd: machine.cwd.clone(),
        permission_mode: Mode::Default,
        prompt_id: None,
        effort: None,
        agent: None,
    }
}

fn list(hooks: &Hooks, in_force: &InForce, json: bool) {
    let found = hooks.list();
    if json {
        show_json(&json!({"hooks": found, "notices": in_force.notices}));
        return;
    }
    let mut text = if found.is_empty() { "no hooks are in force\n".to_owned() } else { table(&found) };
    for notice in &in_force.notices {
        line(&mut text, 0, notice);
    }
    say(&text);
}

fn table(hooks: &[HookInfo]) -> String {
    let mut text = String::new();
    for event in HookEvent::ALL {
        let mut of_event = hooks.iter().filter(|hook| hook.event == *event).peekable();
        if of_event.peek().is_some() {
            line(&mut text, 0, event.as_str());
        }
        of_event.for_each(|hook| line(&mut text, 1, &description(hook)));
    }
    text
}

fn description(hook: &HookInfo) -> String {
    let matcher = if hook.matcher.is_empty() { "*" } else { &hook.matcher };
    let condition = hook.condition.as_ref().map(|rule| format!(", if {rule}")).unwrap_or_default();
    let background = if hook.background { ", in the background" } else { "" };
    let seconds = Duration::from_millis(hook.timeout_ms).as_secs_f64();
    format!("{matcher}  {}  {}  ({}, {seconds} s{condition}{background})", hook.kind, hook.hook, hook.source)
}

/// The event to try: made up, with the fields the user gave in their places.
async fn occasion(event: &str, input: Option<&Path>, machine: &Machine) -> anyhow::Result<Occasion> {
    let names: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
    let event: HookEvent =
        event.parse().map_err(|problem| anyhow!("{problem} (there are {})", names.join(", ")))?;
    let mut occasion = Occasion::sample(event);
    if let Some(path) = input {
        let text = read_named("--input", path)?;
        let fields: serde_json::Map<String, Json> = serde_json::from_str(&text)
            .with_context(|| format!("--input: {} is not a JSON object", path.display()))?;
        occasion.details.extend(fields);
    }
    if event.is_about_a_call() {
        occasion.intent = intent(&occasion, machine).await;
    }
    Ok(occasion)
}

/// What the call would do, as far as it can be planned; conditions are tried on that.
async fn intent(occasion: &Occasion, machine: &Machine) -> Option<Intent> {
    let tool = Registry::new(builtin::all()).ok()?.find(&occasion.about()?)?;
    let input = occasion.details.get("tool_input")?.clone();
    tool.validate(&input).ok()?;
    let cx = PlanContext {
        cwd: machine.cwd.clone(),
        roots: vec![machine.cwd.clone()],
        host: Arc::new(Local::new(machine.home.clone(), Vec::new())),
        files: Arc::new(FileState::default()),
        read_policy: ReadPolicy::open(),
        plan_file: None,
    };
    Some(tool.plan(input, &cx).await.ok()?.intent)
}

fn preview(hooks: &Hooks, occasion: &Occasion, machine: &Machine, json: bool) -> anyhow::Result<u8> {
    let (matching, input) = (hooks.matching(occasion), occasion.input(&common(machine)));
    if json {
        show_json(&json!({"event": occasion.event, "hooks": matching, "input": input}));
        return Ok(0);
    }
    let mut text = String::new();
    if matching.is_empty() {
        line(&mut text, 0, &format!("no hook would run at {}", occasion.event));
    } else {
        line(&mut text, 0, &format!("at {} these would run:", occasion.event));
        for hook in &matching {
            line(&mut text, 1, &description(hook));
        }
    }
    line(&mut text, 0, "with this input:");
    text.push_str(&serde_json::to_string_pretty(&input)?);
    text.push('\n');
    say(&text);
    Ok(0)
}

async fn try_out(hooks: &Hooks, occasion: &Occasion, machine: &Machine, json: bool) -> anyhow::Result<u8> {
    let firing = hooks.fire(&common(machine), occasion).await;
    let mut fired = firing.fired;
    for late in firing.background {
        fired.runs.push(late.await.run);
    }
    let objects = matches!(fired.verdict, Some(Verdict::Deny { .. })) || fired.block.is_some();
    if json {
        show_json(&outcome(&fired));
    } else {
        let mut text = String::new();
        fired.runs.iter().for_each(|run| line(&mut text, 0, &told(run)));
        let outcome = outcome(&fired);
        let said = outcome.as_object().into_iter().flatten().filter(|(key, _)| *key != "runs");
        said.for_each(|(key, value)| line(&mut text, 0, &format!("{key}: {value}")));
        say(&text);
    }
    Ok(if objects { 2 } else { 0 })
}

/// What was said, without what was not.
fn outcome(fired: &Fired) -> Json {
    let mut outcome = json!({
        "runs": fired.runs, "verdict": fired.verdict, "updated_input": fired.updated_input,
        "updated_permissions": fired.updated_permissions, "interrupt": fired.interrupt, "block": fired.block,
        "additional_context": fired.additional_context, "system_messages": fired.system_messages, "stop": fired.stop,
        "suppress_output": fired.suppress_output, "replaced_result": fired.replaced_result,
    });
    if let Json::Object(fields) = &mut outcome {
        fields.retain(|key, value| {
            key == "runs" || !(value.is_null() || *value == json!([]) || *value == json!(false))
        });
    }
    outcome
}

fn told(run: &HookRun) -> String {
    let problem = run.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    let HookRun { hook, source, end, duration_ms, word, .. } = run;
    format!("{hook}  ({source})  {end}, {duration_ms} ms, said {word}{problem}")
}

fn audit(session: Option<&str>, machine: &Machine, json: bool) -> anyhow::Result<u8> {
    let store = wire::store(machine);
    let path = match session {
        None => store.newest(&machine.cwd)?,
        Some(file) if Path::new(file).extension().is_some() => machine.cwd.join(file),
        Some(id) => store.find(id).with_context(|| format!("no conversation found with session id {id}"))?,
    };
    // A damaged line costs only itself.
    let lines: Vec<Json> =
        read_lossy(&path)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let audit = audit::audit(&lines);
    if json {
        show_json(&json!({"clean": audit.is_clean(), "session": path, "audit": audit}));
    } else {
        say(&report(&audit, &path));
    }
    Ok(u8::from(!audit.is_clean()))
}

fn report(audit: &Audit, path: &Path) -> String {
    let mut text = String::new();
    line(&mut text, 0, &path.display().to_string());
    for firing in &audit.others {
        tell_firing(&mut text, 0, firing);
    }
    for call in &audit.calls {
        line(&mut text, 0, &format!("{}  {}  {}", call.call, call.tool, meaning(call.coverage)));
        call.firings.iter().for_each(|firing| tell_firing(&mut text, 1, firing));
    }
    let count = |coverage| audit.calls.iter().filter(|call| call.coverage == coverage).count();
    let counts = [
        Coverage::Covered,
        Coverage::Unguarded,
        Coverage::NotJudged,
        Coverage::Missing,
        Coverage::Overridden,
    ]
    .map(|coverage| format!("{} {}", count(coverage), meaning(coverage)));
    line(&mut text, 0, &format!("calls: {}; {}", audit.calls.len(), counts.join("; ")));
    text
}

fn tell_firing(text: &mut String, depth: usize, firing: &HookFiring) {
    let verdict = match &firing.verdict {
        Some(Verdict::Allow { .. }) => "allow",
        Some(Verdict::Ask { .. }) => "ask",
        Some(Verdict::Deny { .. }) => "deny",
        None if firing.block.is_some() => "block",
        None => "no word",
    };
    let stop = firing.stop.as_ref().map(|reason| format!(", stopped the run: {reason}")).unwrap_or_default();
    line(text, depth, &format!("{}: {verdict}, {} evaluated{stop}", firing.event, firing.runs.len()));
    firing.runs.iter().for_each(|run| line(text, depth + 1, &told(run)));
}

fn meaning(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Covered => "seen by hooks",
        Coverage::Unguarded => "without hooks in force",
        Coverage::NotJudged => "never judged, so not run",
        Coverage::Missing => "NOT SEEN by hooks in force",
        Coverage::Overridden => "RAN ALTHOUGH a hook said no",
    }
}

/// Adds a line. What a project wrote must not drive the terminal.
fn line(text: &mut String, depth: usize, words: &str) {
    text.push_str(&"  ".repeat(depth));
    for character in words.chars() {
        let is_hidden = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(character, '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e01ef}');
        if is_hidden {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}", character.escape_unicode());
        } else {
            text.push(character);
        }
    }
    text.push('\n');
}

fn show_json(value: &Json) {
    say(&format!("{value}\n"));
}

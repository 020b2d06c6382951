//! The control protocol: a host's requests and our answers, our questions and a host's answers.
//! Pure mappings; what is sent and when is `print`'s business.

use crate::ask::{TOO_LONG, facts, one_escaped_line};
use crate::frame::{CAPABILITIES, COMPATIBLE_VERSION};
use crate::hook;
use crate::print::About;
use ostler_proto::{
    Access, AgentId, Answer, Ask, Change, Command, EntryId, JobId, Json, Keep, Mode, Query, Queued, Rule,
    RuleSide, RuleSource, Trial, Update,
};
use serde_json::json;
use std::path::PathBuf;

/// What a request of the host leads to.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    /// The control response to write; none when the engine's answer makes it.
    pub(crate) response: Option<Json>,
    /// What the engine is told.
    pub(crate) command: Option<Command>,
    /// What the log is told.
    pub(crate) note: Option<String>,
    /// Whether the host is done, as if its pipe had ended.
    pub(crate) ends: bool,
}

/// What a host's answer to a question leads to.
#[derive(Debug, PartialEq)]
pub(crate) struct Answered {
    /// The answer itself.
    pub(crate) answer: Answer,
    /// Parts of the answer that could not be followed.
    pub(crate) notes: Vec<String>,
}

/// Serves one request. Nothing waits for the engine: a host may ask while a turn runs.
pub(crate) fn serve(id: &str, request: &Json, about: &About) -> Served {
    let done = |response: Json| Served {
        response: Some(success(id, &response)),
        command: None,
        note: None,
        ends: false,
    };
    let refused =
        |error: &str| Served { response: Some(failure(id, error)), command: None, note: None, ends: false };
    let passed_on = |query: Query| Served {
        response: None,
        command: Some(Command::Query { id: id.to_owned(), query }),
        note: None,
        ends: false,
    };
    match request["subtype"].as_str().unwrap_or_default() {
        "initialize" => match hook::read(&request["hooks"]) {
            Ok(lent) => Served {
                note: ignored_fields(request, &lent.unknown),
                command: Some(Command::SetHooks(lent.hooks)),
                ..done(initialized(request, about))
            },
            Err(error) => refused(&error),
        },
        // Only the engine knows which prompts it has taken up.
        "interrupt" => {
            let queued = if request["cancel_queued"] == true { Queued::Cancel } else { Queued::Keep };
            passed_on(Query::Interrupt { queued })
        }
        "set_permission_mode" => match allowed_mode(&request["mode"], about) {
            Ok(mode) => Served { command: Some(Command::SetMode(mode)), ..done(json!({"mode": mode})) },
            Err(error) => refused(&error),
        },
        "set_model" => match &request["model"] {
            Json::String(model) if !model.is_empty() && model != "default" => {
                Served { command: Some(Command::SetModel(model.clone())), ..done(json!({"model": model})) }
            }
            Json::String(_) | Json::Null => {
                let command = Command::SetModel(about.model.clone());
                Served { command: Some(command), ..done(json!({"model": about.model})) }
            }
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                refused("model must be a text or null")
            }
        },
        // Hosts stop what may have ended by itself; that is no error.
        "stop_task" => {
            let command = request["task_id"].as_str().map(|id| Command::StopJob(JobId(id.to_owned())));
            Served { command, ..done(json!({})) }
        }
        "get_context_usage" => passed_on(Query::Context),
        "rewind_files" if !about.rewinds_files => {
            done(json!({"canRewind": false, "error": "File rewinding is not enabled."}))
        }
        "rewind_files" => match request["user_message_id"].as_str() {
            Some(to) => {
                let trial = if request["dry_run"] == true { Trial::Only } else { Trial::No };
                passed_on(Query::RewindFiles { to: EntryId::from(to), trial })
            }
            None => refused("user_message_id is missing or no text"),
        },
        "end_session" => Served { ends: true, ..done(json!({})) },
        other => refused(&format!("Unsupported control request subtype: {other}")),
    }
}

/// What a host that introduces itself has to say about plan mode.
pub(crate) fn plan_instructions(request: &Json) -> Option<Command> {
    let text = request["planModeInstructions"].as_str().filter(|_| request["subtype"] == "initialize")?;
    (!text.trim().is_empty()).then(|| Command::SetPlanInstructions(text.to_owned()))
}

/// The engine's answer to a request that was passed on to it.
pub(crate) fn answered(id: &str, answer: &Result<Json, String>) -> Json {
    match answer {
        Ok(response) => success(id, response),
        Err(error) => failure(id, error),
    }
}

/// Prompts that an answer of the engine says were called off.
pub(crate) fn called_off(answer: &Result<Json, String>) -> Vec<EntryId> {
    let ids = answer.as_ref().ok().and_then(|answer| answer["cancelled"].as_array());
    ids.into_iter().flatten().filter_map(Json::as_str).map(EntryId::from).collect()
}

/// The question to a host whether a call may run.
pub(crate) fn can_use_tool(ask: &Ask, agent: Option<&AgentId>) -> Json {
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": ask.tool, "input": ask.input, "tool_use_id": ask.call,
        "permission_suggestions": ask.offers(), "display_name": ask.tool,
        "title": one_escaped_line(&ask.intent.title), "description": description(ask),
        "decision_reason": one_escaped_line(&ask.because.to_string()),
    });
    if let Some(path) = ask.intent.access.paths().first() {
        request["blocked_path"] = json!(path.target);
    }
    if let Some(agent) = agent {
        request["agent_id"] = json!(agent);
    }
    json!({"type": "control_request", "request_id": ask.id.to_string(), "request": request})
}

/// What the call would do, where, and where its paths really lead.
fn description(ask: &Ask) -> String {
    let facts = facts(ask).into_iter().map(|(name, value)| format!("{name}: {}", one_escaped_line(&value)));
    let mut lines = vec![one_escaped_line(&ask.intent.title)];
    lines.extend(facts);
    if !ask.intent.can_be_shown_whole() && !matches!(ask.intent.access, Access::Consult(_)) {
        lines.push(TOO_LONG.to_owned());
    }
    lines.join("\n")
}

/// Tells a host that its answer is no longer needed.
pub(crate) fn cancel(request_id: &str) -> Json {
    json!({"type": "control_cancel_request", "request_id": request_id})
}

/// Reads a host's answer. Whatever is not a clear yes is a no.
pub(crate) fn answer(response: &Result<Json, String>, ask: &Ask, about: &About) -> Answered {
    let deny = |message: &str, interrupt| Answered {
        answer: Answer::Deny { message: message.to_owned(), interrupt },
        notes: Vec::new(),
    };
    let response = match response {
        Ok(response) => response,
        Err(error) => return deny(&format!("the host could not answer: {error}"), false),
    };
    match response["behavior"].as_str() {
        Some("allow") => allowed(response, ask, about),
        Some("deny") => {
            let message = response["message"].as_str().unwrap_or("the host said no");
            deny(message, response["interrupt"] == true)
        }
        _ => deny("the host's answer was neither allow nor deny", false),
    }
}

fn allowed(response: &Json, ask: &Ask, about: &About) -> Answered {
    let (mut updates, mut notes) = (Vec::new(), Vec::new());
    for update in response["updatedPermissions"].as_array().into_iter().flatten() {
        match read_update(update, about, &mut notes) {
            Ok(update) => updates.push(update),
            Err(problem) => notes.push(problem),
        }
    }
    // Hosts repeat the input even when they leave it alone; only a real change is judged again.
    let changed = response.get("updatedInput").filter(|input| input.is_object() && **input != ask.input);
    let input = changed.cloned();
    let answer =
        if updates.is_empty() { Answer::Allow { input } } else { Answer::AllowWith { input, updates } };
    Answered { answer, notes }
}

fn read_update(update: &Json, about: &About, notes: &mut Vec<String>) -> Result<Update, String> {
    let kind = update["type"].as_str().unwrap_or("?");
    let keep = destination(&update["destination"]);
    let change = match kind {
        "addRules" | "addDirectories" => Change::Add,
        "replaceRules" => Change::Replace,
        "removeRules" | "removeDirectories" => Change::Remove,
        "setMode" => return Ok(Update::Mode { mode: allowed_mode(&update["mode"], about)?, keep }),
        _ => return Err(format!("permission update '{kind}' is not supported")),
    };
    if kind.ends_with("Directories") {
        let named = update["directories"].as_array().into_iter().flatten().filter_map(Json::as_str);
        return Ok(Update::Directories { change, directories: named.map(PathBuf::from).collect(), keep });
    }
    let side = match update["behavior"].as_str() {
        Some("allow") => RuleSide::Allow,
        Some("ask") => RuleSide::Ask,
        Some("deny") => RuleSide::Deny,
        other => return Err(format!("{kind}: unknown behavior '{}'", other.unwrap_or("?"))),
    };
    let mut rules = Vec::new();
    for rule in update["rules"].as_array().into_iter().flatten() {
        match rule_text(rule) {
            Ok(rule) => rules.push(rule),
            Err(problem) => notes.push(problem),
        }
    }
    if rules.is_empty() && change != Change::Replace {
        return Err(format!("{kind}: no rule in it can be read"));
    }
    Ok(Update::Rules { change, side, rules, keep })
}

/// Where a host wants rules kept; what is not known lasts least.
fn destination(word: &Json) -> Keep {
    match word.as_str() {
        Some("userSettings") => Keep::User,
        Some("projectSettings") => Keep::Project,
        Some("localSettings") => Keep::Local,
        Some(_) | None => Keep::Session,
    }
}

fn rule_text(rule: &Json) -> Result<String, String> {
    let tool = rule["toolName"].as_str().ok_or("a rule without toolName")?;
    let text = match rule["ruleContent"].as_str() {
        None => tool.to_owned(),
        Some(content) => format!("{tool}({})", content.replace('(', "\\(").replace(')', "\\)")),
    };
    Rule::parse(&text, RuleSource::Session).map(|_| text).map_err(|error| error.to_string())
}

fn allowed_mode(mode: &Json, about: &About) -> Result<Mode, String> {
    let name = mode.as_str().ok_or("mode must be a text")?;
    let mode: Mode = name.parse().map_err(|error: ostler_proto::decision::Unreadable| error.to_string())?;
    if mode == Mode::BypassPermissions && !about.bypass_allowed {
        return Err("bypassPermissions is refused: the session was not started with --dangerously-skip-permissions or --allow-dangerously-skip-permissions".to_owned());
    }
    Ok(mode)
}

fn initialized(request: &Json, about: &About) -> Json {
    let models: Vec<Json> = about
        .models
        .iter()
        .map(|model| {
            json!({"value": model.value, "displayName": model.display_name, "description": model.description})
        })
        .collect();
    let commands: Vec<Json> = about
        .commands
        .iter()
        .map(|command| {
            json!({"name": command.name, "description": command.description, "argumentHint": command.argument_hint})
        })
        .collect();
    let mut response = json!({
        "commands": commands, "agents": [], "models": models, "account": {},
        "output_style": "default", "available_output_styles": ["default"],
        "capabilities": CAPABILITIES, "pid": std::process::id(),
        "claude_code_version": COMPATIBLE_VERSION, "ostler_version": about.version,
        "hook_on_failure_supported": true,
    });
    if is_given(&request["hooks"]) {
        response["hooks_applied"] = json!(about.hears_callbacks);
    }
    response
}

/// A host must be able to find out that part of what it asked for will not happen.
fn ignored_fields(request: &Json, unknown_events: &[String]) -> Option<String> {
    let is_known = |key: &str| ["subtype", "hooks", "planModeInstructions"].contains(&key);
    let fields = request.as_object()?.iter().filter(|(key, value)| !is_known(key) && is_given(value));
    let mut names: Vec<String> = fields.map(|(key, _)| key.clone()).collect();
    names.extend(unknown_events.iter().map(|event| format!("hooks.{event}")));
    (!names.is_empty()).then(|| format!("initialize: not supported and ignored: {}", names.join(", ")))
}

fn is_given(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Array(items) => !items.is_empty(),
        Json::Object(fields) => !fields.is_empty(),
        Json::Bool(true) | Json::Number(_) | Json::String(_) => true,
    }
}

fn success(id: &str, response: &Json) -> Json {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

fn failure(id: &str, error: &str) -> Json {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": error}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{Access, AskId, Intent, Preview, Reason};

    fn ask() -> Ask {
        Ask {
            id: AskId(7),
            call: "c".into(),
            tool: "Bash".into(),
            input: json!({"command": "make"}),
            intent: Intent { title: "make".into(), access: Access::Internal, preview: Preview::None },
            because: Reason::Unattended,
            suggestions: vec![],
        }
    }

    #[track_caller]
    fn check(response: Json, expect: &Answer) -> Vec<String> {
        let answered = answer(&Ok(response), &ask(), &About::default());
        assert_eq!(&answered.answer, expect);
        answered.notes
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let no = |message: &str| Answer::Deny { message: message.into(), interrupt: false };
        check(json!({}), &no("the host's answer was neither allow nor deny"));
        check(json!({"behavior": "deny"}), &no("the host said no"));
        check(
            json!({"behavior": "allow", "updatedInput": {"command": "make"}}),
            &Answer::Allow { input: None },
        );
        let changed = json!({"command": "ls"});
        let yes = Answer::Allow { input: Some(changed.clone()) };
        check(json!({"behavior": "allow", "updatedInput": changed}), &yes);
        let answered = answer(&Err("boom".into()), &ask(), &About::default());
        assert_eq!(answered.answer, no("the host could not answer: boom"));
    }

    #[test]
    fn rules_survive_their_parentheses() {
        let rules = json!([{"toolName": "Bash", "ruleContent": "echo (a)"}, {"toolName": "Read"}, {"toolName": "a b"}]);
        let updates =
            json!([{"type": "addRules", "behavior": "allow", "rules": rules}, {"type": "addDirectories"}]);
        let update = Update::Rules {
            change: Change::Add,
            side: RuleSide::Allow,
            rules: vec!["Bash(echo \\(a\\))".into(), "Read".into()],
            keep: Keep::Session,
        };
        let directories =
            Update::Directories { change: Change::Add, directories: vec![], keep: Keep::Session };
        let expect = Answer::AllowWith { input: None, updates: vec![update, directories] };
        let notes = check(json!({"behavior": "allow", "updatedPermissions": updates}), &expect);
        assert_eq!(notes.len(), 1, "{notes:?}");
    }

    #[test]
    fn every_kind_of_update_is_read() {
        let rules = json!([{"toolName": "Read"}]);
        for (kind, behavior, destination, expect) in [
            ("addRules", "deny", "userSettings", Ok((Change::Add, RuleSide::Deny, Keep::User))),
            ("addRules", "ask", "localSettings", Ok((Change::Add, RuleSide::Ask, Keep::Local))),
            (
                "replaceRules",
                "allow",
                "projectSettings",
                Ok((Change::Replace, RuleSide::Allow, Keep::Project)),
            ),
            ("removeRules", "allow", "session", Ok((Change::Remove, RuleSide::Allow, Keep::Session))),
            ("removeRules", "maybe", "session", Err("unknown behavior 'maybe'")),
            ("inventRules", "allow", "session", Err("'inventRules' is not supported")),
        ] {
            let update =
                json!({"type": kind, "behavior": behavior, "destination": destination, "rules": rules});
            match (read_update(&update, &About::default(), &mut Vec::new()), expect) {
                (Ok(found), Ok((change, side, keep))) => {
                    assert_eq!(found, Update::Rules { change, side, rules: vec!["Read".into()], keep });
                }
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, expect) => panic!("{kind}: {found:?} instead of {expect:?}"),
            }
        }
    }

    #[test]
    fn a_question_describes_what_it_is_about() {
        let mut ask = ask();
        let cwd = "/w\u{202e}".into();
        let footprint = ostler_proto::Footprint {
            writes: vec![ostler_proto::PathFact {
                requested: "/w/l".into(),
                hops: vec![],
                target: "/etc/x".into(),
                exists: true,
            }],
            ..ostler_proto::Footprint::default()
        };
        ask.intent.access = Access::Execute { command: "x\n".repeat(500), cwd, footprint };
        let request = can_use_tool(&ask, None);
        let expect = format!(
            "make\nin: /w\\u{{202e}}\nlink: /w/l -> /etc/x\nasked because of: nobody could answer\n{TOO_LONG}"
        );
        assert_eq!(request["request"]["description"], expect);
    }

    #[test]
    fn files_are_put_back_for_hosts_that_said_so_before() {
        let request = json!({"subtype": "rewind_files", "user_message_id": "u"});
        let refused = serve("1", &request, &About::default());
        assert!(refused.command.is_none());
        let response = refused.response.unwrap();
        assert_eq!(response["response"]["response"]["error"], "File rewinding is not enabled.");
        let about = About { rewinds_files: true, ..About::default() };
        let query = Query::RewindFiles { to: EntryId::from("u"), trial: Trial::No };
        let passed_on = Some(Command::Query { id: "1".to_owned(), query });
        assert_eq!(serve("1", &request, &about).command, passed_on);
    }

    #[test]
    fn bypass_needs_its_flag_wherever_it_comes_from() {
        let updates = json!([{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]);
        let response = Ok(json!({"behavior": "allow", "updatedPermissions": updates}));
        let refused = answer(&response, &ask(), &About::default());
        assert_eq!((refused.answer, refused.notes.len()), (Answer::Allow { input: None }, 1));
        let about = About { bypass_allowed: true, ..About::default() };
        let updates = vec![Update::Mode { mode: Mode::BypassPermissions, keep: Keep::Session }];
        assert_eq!(answer(&response, &ask(), &about).answer, Answer::AllowWith { input: None, updates });
    }
}

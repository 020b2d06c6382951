//! The control protocol: a host's requests and our answers, our questions and a host's answers.
//! Pure mappings; what is sent and when is `print`'s business.

use crate::frame::COMPATIBLE_VERSION;
use crate::print::About;
use ostler_proto::{AgentId, Answer, Ask, Command, EntryId, JobId, Json, Keep, Mode, Rule, RuleSource};
use serde_json::json;

/// What a request of the host leads to.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    /// The control response to write.
    pub(crate) response: Json,
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
    /// A permission mode the host sets along with it.
    pub(crate) mode: Option<Mode>,
    /// Parts of the answer that could not be followed.
    pub(crate) notes: Vec<String>,
}

/// Serves one request. Nothing waits for the engine: a host may ask while a turn runs.
pub(crate) fn serve(id: &str, request: &Json, about: &About, waiting: &[EntryId]) -> Served {
    let done =
        |response: Json| Served { response: success(id, &response), command: None, note: None, ends: false };
    let refused =
        |error: &str| Served { response: failure(id, error), command: None, note: None, ends: false };
    match request["subtype"].as_str().unwrap_or_default() {
        "initialize" => Served { note: ignored_fields(request), ..done(initialized(request, about)) },
        "interrupt" => Served { command: Some(Command::Interrupt), ..done(json!({"still_queued": waiting})) },
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
        "end_session" => Served { ends: true, ..done(json!({})) },
        other => refused(&format!("Unsupported control request subtype: {other}")),
    }
}

/// The question to a host whether a call may run.
pub(crate) fn can_use_tool(ask: &Ask, agent: Option<&AgentId>) -> Json {
    let suggestions: Vec<Json> = ask
        .suggestions
        .iter()
        .filter_map(|suggestion| Rule::parse(&suggestion.rule, RuleSource::Session).ok())
        .map(|rule| {
            let rule = json!({"toolName": rule.tool, "ruleContent": rule.pattern});
            json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"})
        })
        .collect();
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": ask.tool, "input": ask.input, "tool_use_id": ask.call,
        "permission_suggestions": suggestions, "display_name": ask.tool, "title": ask.intent.title,
        "description": ask.intent.title, "decision_reason": ask.because.to_string(),
    });
    if let Some(path) = ask.intent.access.paths().first() {
        request["blocked_path"] = json!(path.target);
    }
    if let Some(agent) = agent {
        request["agent_id"] = json!(agent);
    }
    json!({"type": "control_request", "request_id": ask.id.to_string(), "request": request})
}

/// Tells a host that its answer is no longer needed.
pub(crate) fn cancel(request_id: &str) -> Json {
    json!({"type": "control_cancel_request", "request_id": request_id})
}

/// Reads a host's answer. Whatever is not a clear yes is a no.
pub(crate) fn answer(response: &Result<Json, String>, ask: &Ask, about: &About) -> Answered {
    let deny = |message: &str, interrupt| Answered {
        answer: Answer::Deny { message: message.to_owned(), interrupt },
        mode: None,
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
    let (mut rules, mut mode, mut notes, mut keep) = (Vec::new(), None, Vec::new(), Keep::Session);
    for update in response["updatedPermissions"].as_array().into_iter().flatten() {
        match (update["type"].as_str(), update["behavior"].as_str()) {
            (Some("addRules"), Some("allow")) => {
                keep = destination(&update["destination"]);
                for rule in update["rules"].as_array().into_iter().flatten() {
                    match rule_text(rule) {
                        Ok(rule) => rules.push(rule),
                        Err(error) => notes.push(error),
                    }
                }
            }
            (Some("setMode"), _) => match allowed_mode(&update["mode"], about) {
                Ok(wanted) => mode = Some(wanted),
                Err(error) => notes.push(error),
            },
            (kind, _) => notes.push(format!("permission update '{}' is not supported", kind.unwrap_or("?"))),
        }
    }
    // Hosts repeat the input even when they leave it alone; only a real change is judged again.
    let changed = response.get("updatedInput").filter(|input| input.is_object() && **input != ask.input);
    if changed.is_some() && !rules.is_empty() {
        notes.push("rules were not added because the input was changed too".to_owned());
    }
    let answer = match changed {
        Some(input) => Answer::Allow { input: Some(input.clone()) },
        None if rules.is_empty() => Answer::Allow { input: None },
        None => Answer::AllowAlways { rules, keep },
    };
    Answered { answer, mode, notes }
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
    let mut response = json!({
        "commands": [], "agents": [], "models": models, "account": {},
        "output_style": "default", "available_output_styles": ["default"],
        "capabilities": ["interrupt_receipt_v1"], "pid": std::process::id(),
        "claude_code_version": COMPATIBLE_VERSION, "ostler_version": about.version,
    });
    if is_given(&request["hooks"]) {
        response["hooks_applied"] = json!(false);
    }
    response
}

/// A host must be able to find out that part of what it asked for will not happen.
fn ignored_fields(request: &Json) -> Option<String> {
    let fields = request.as_object()?.iter().filter(|(key, value)| *key != "subtype" && is_given(value));
    let names: Vec<&str> = fields.map(|(key, _)| key.as_str()).collect();
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
        let expect = Answer::AllowAlways {
            rules: vec!["Bash(echo \\(a\\))".into(), "Read".into()],
            keep: Keep::Session,
        };
        let notes = check(json!({"behavior": "allow", "updatedPermissions": updates}), &expect);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn bypass_needs_its_flag_wherever_it_comes_from() {
        let updates = json!([{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]);
        let response = Ok(json!({"behavior": "allow", "updatedPermissions": updates}));
        assert_eq!(answer(&response, &ask(), &About::default()).mode, None);
        let about = About { bypass_allowed: true, ..About::default() };
        assert_eq!(answer(&response, &ask(), &about).mode, Some(Mode::BypassPermissions));
    }
}

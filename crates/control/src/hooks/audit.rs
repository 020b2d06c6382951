//! Reads a session's log and says for every call which hooks looked at it and what they said.
//! Pure: lines go in, findings come out. A line it cannot read counts as not written.

use ostler_proto::{
    CallId, HookEvent, HookRecord, Json, Verdict,
    hook::{HookFiring, HookInfo},
    session::CallState,
};
use serde::{Deserialize, Serialize};

/// What the log proves.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Audit {
    /// Every call, in order.
    pub calls: Vec<AuditedCall>,
    /// Firings that were about no call, in order.
    pub others: Vec<HookFiring>,
    /// The hooks that were in force last.
    pub configured: Vec<HookInfo>,
}

/// One call and the hooks that looked at it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditedCall {
    /// The call.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// How it ended, if it did.
    pub state: Option<CallState>,
    /// What was fired about it, in order.
    pub firings: Vec<HookFiring>,
    /// What that proves.
    pub coverage: Coverage,
    /// Whether hooks were set that had to be asked before it.
    #[serde(skip)]
    is_guarded: bool,
    #[serde(skip)]
    is_judged: bool,
}

/// What the log proves about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Hooks were asked before it was judged.
    Covered,
    /// No hook was set that had to be asked.
    Unguarded,
    /// It never came to be judged, so it did not run.
    NotJudged,
    /// Hooks were set, and nothing shows that they were asked.
    Missing,
    /// A hook said no, and it ran all the same.
    Overridden,
}

impl Audit {
    /// Whether every call that hooks had to see was seen by them, and their word was kept.
    pub fn is_clean(&self) -> bool {
        !self.calls.iter().any(|call| matches!(call.coverage, Coverage::Missing | Coverage::Overridden))
    }
}

/// Audits the lines of a session's log.
pub fn audit<'a>(lines: impl IntoIterator<Item = &'a Json>) -> Audit {
    let mut audit = Audit::default();
    for line in lines {
        match line["type"].as_str() {
            Some("assistant") => proposed(line, &mut audit),
            Some("user") => returned(line, &mut audit),
            Some("ostler") => own_line(&line["data"], &mut audit),
            Some(_) | None => {}
        }
    }
    for call in &mut audit.calls {
        call.coverage = coverage(call);
    }
    audit
}

fn blocks<'a>(line: &'a Json, kind: &'a str) -> impl Iterator<Item = &'a Json> {
    let content = line["message"]["content"].as_array().into_iter().flatten();
    content.filter(move |block| block["type"] == kind)
}

fn proposed(line: &Json, audit: &mut Audit) {
    let is_guarded = guards(&audit.configured);
    for block in blocks(line, "tool_use") {
        let Some(id) = block["id"].as_str() else { continue };
        audit.calls.push(AuditedCall {
            call: CallId::from(id),
            tool: block["name"].as_str().unwrap_or_default().to_owned(),
            state: None,
            firings: Vec::new(),
            coverage: Coverage::Unguarded,
            is_guarded,
            is_judged: false,
        });
    }
}

fn returned(line: &Json, audit: &mut Audit) {
    for block in blocks(line, "tool_result") {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let state = CallState::deserialize(&line["ostler"]["state"]).ok();
        let from_result = if block["is_error"] == true { CallState::Failed } else { CallState::Complete };
        if let Some(call) = find(audit, id) {
            call.state = Some(state.unwrap_or(from_result));
        }
    }
}

fn own_line(data: &Json, audit: &mut Audit) {
    match data["event"].as_str() {
        Some("decided") => {
            let is_guarded = guards(&audit.configured);
            if let Some(call) = find(audit, data["call"].as_str().unwrap_or_default()) {
                call.is_judged = true;
                // Hooks that came or went while it was open need not have seen it.
                call.is_guarded &= is_guarded;
            }
        }
        Some("hooked") => match HookRecord::deserialize(&data["record"]) {
            Ok(HookRecord::Configured { hooks }) => audit.configured = hooks,
            Ok(HookRecord::Fired(firing)) => {
                let call = firing.call.clone();
                match call.and_then(|id| find(audit, id.as_str())) {
                    Some(call) => call.firings.push(firing),
                    None => audit.others.push(firing),
                }
            }
            Err(_) => {}
        },
        Some(_) | None => {}
    }
}

/// Whether there are hooks that must be asked before a call.
fn guards(configured: &[HookInfo]) -> bool {
    configured.iter().any(|hook| hook.event == HookEvent::PreToolUse)
}

/// The newest call with this id.
fn find<'a>(audit: &'a mut Audit, id: &str) -> Option<&'a mut AuditedCall> {
    audit.calls.iter_mut().rev().find(|call| call.call.as_str() == id)
}

fn coverage(call: &AuditedCall) -> Coverage {
    // What hooks in the background said when they were done decided nothing.
    let of = |event| call.firings.iter().filter(move |firing| firing.event == event && !firing.late);
    let was_asked = of(HookEvent::PreToolUse).next().is_some();
    // A changed input is a new proposal; what was said about the last one counts.
    let is_no = |firing: &HookFiring| matches!(firing.verdict, Some(Verdict::Deny { .. }));
    let is_denied = of(HookEvent::PreToolUse).next_back().is_some_and(is_no);
    // A no to the question ends the call, whatever was asked before.
    let is_refused = of(HookEvent::PermissionRequest).any(is_no);
    let ran = match call.state {
        Some(CallState::Complete | CallState::Failed | CallState::Unknown) => call.is_judged,
        Some(CallState::Denied | CallState::Cancelled) | None => false,
    };
    match (was_asked, is_denied || is_refused) {
        (_, true) if ran => Coverage::Overridden,
        (true, _) => Coverage::Covered,
        (false, _) if !call.is_guarded => Coverage::Unguarded,
        (false, _) if call.is_judged => Coverage::Missing,
        (false, _) => Coverage::NotJudged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{HookSource, hook::HookEnd, hook::HookRun, hook::HookWord};
    use serde_json::json;

    fn hooked(record: &HookRecord) -> Json {
        json!({"type": "ostler", "v": 1, "data": {"event": "hooked", "record": record}})
    }

    fn configured() -> Json {
        let hook = HookInfo {
            event: HookEvent::PreToolUse,
            matcher: String::new(),
            condition: None,
            kind: "command".into(),
            hook: "guard".into(),
            source: HookSource::Host,
            timeout_ms: 1,
            background: false,
        };
        hooked(&HookRecord::Configured { hooks: vec![hook] })
    }

    fn fired(call: &str, word: HookWord) -> Json {
        let run = HookRun {
            hook: "guard".into(),
            source: HookSource::Host,
            end: HookEnd::Answered,
            duration_ms: 1,
            word,
            problem: None,
            spent: None,
        };
        let deny = Verdict::Deny { hook: "guard".into(), reason: "no".into() };
        hooked(&HookRecord::Fired(HookFiring {
            event: HookEvent::PreToolUse,
            call: Some(call.into()),
            about: Some("Bash".into()),
            runs: vec![run],
            verdict: (word == HookWord::Deny).then_some(deny),
            block: None,
            changed_input: false,
            stop: None,
            late: false,
        }))
    }

    fn call(id: &str) -> Json {
        json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]}})
    }

    fn decided(id: &str) -> Json {
        json!({"type": "ostler", "data": {"event": "decided", "call": id}})
    }

    fn result(id: &str, state: &str) -> Json {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id}]}, "ostler": {"state": state}})
    }

    #[track_caller]
    fn check(lines: &[Json], expect: &[Coverage], is_clean: bool) {
        let audit = audit(lines);
        let found: Vec<Coverage> = audit.calls.iter().map(|call| call.coverage).collect();
        assert_eq!((found.as_slice(), audit.is_clean()), (expect, is_clean));
    }

    #[test]
    fn the_log_shows_whether_hooks_saw_a_call() {
        let ran = |id: &str| [decided(id), result(id, "complete")];
        let with = |lines: &[Json], id: &str| [&[configured(), call(id)], lines].concat();
        check(&[&[call("a")][..], &ran("a")].concat(), &[Coverage::Unguarded], true);
        check(&with(&ran("a"), "a"), &[Coverage::Missing], false);
        let seen = [&[fired("a", HookWord::Allow)][..], &ran("a")].concat();
        check(&with(&seen, "a"), &[Coverage::Covered], true);
        check(&with(&[result("a", "failed")], "a"), &[Coverage::NotJudged], true);
        let denied = [fired("a", HookWord::Deny), decided("a"), result("a", "denied")];
        check(&with(&denied, "a"), &[Coverage::Covered], true);
        let broken = [&[fired("a", HookWord::Deny)][..], &ran("a")].concat();
        check(&with(&broken, "a"), &[Coverage::Overridden], false);
        let rewritten =
            [&[fired("a", HookWord::Deny), fired("a", HookWord::Nothing)][..], &ran("a")].concat();
        check(&with(&rewritten, "a"), &[Coverage::Covered], true);
        check(&with(&[fired("b", HookWord::Allow), decided("a")], "a"), &[Coverage::Missing], false);
    }

    proptest::proptest! {
        #[test]
        fn any_lines_can_be_audited(texts in proptest::collection::vec("[{}\\[\\]\":,a-z]{0,40}", 0..20)) {
            let lines: Vec<Json> = texts.iter().map(|text| serde_json::from_str(text).unwrap_or_default()).collect();
            audit(&lines);
        }
    }
}

//! Exit codes and JSON, event by event.

use super::*;
use proptest::prelude::*;

const GUARD: HookEvent = HookEvent::PreToolUse;

#[track_caller]
fn check(event: HookEvent, code: i32, stdout: &str, stderr: &str, expect: &Word) -> Answer {
    let answer = of_process(event, Exit::Code(code), stdout.as_bytes(), stderr).unwrap();
    assert_eq!(&answer.word, expect, "{event} {code} {stdout}");
    answer
}

fn deny(reason: &str) -> Word {
    Word::Deny(reason.into())
}

fn specific(event: HookEvent, fields: &str) -> String {
    format!(r#"{{"hookSpecificOutput": {{"hookEventName": "{event}", {fields}}}}}"#)
}

#[test]
fn exit_code_zero_says_what_stands_in_the_json() {
    check(GUARD, 0, "", "", &Word::Nothing);
    check(GUARD, 0, "looks fine", "warning", &Word::Nothing);
    check(GUARD, 0, "{}", "", &Word::Nothing);
    check(GUARD, 0, r#" {"decision": "block", "reason": "no"}"#, "", &deny("no"));
    check(GUARD, 0, r#"{"decision": "approve"}"#, "", &Word::Allow(String::new()));
    check(
        HookEvent::Stop,
        0,
        r#"{"decision": "block", "reason": "go on"}"#,
        "",
        &Word::Block("go on".into()),
    );
    check(HookEvent::Notification, 0, r#"{"decision": "block", "reason": "x"}"#, "", &Word::Nothing);
    let decision = |word: &str| {
        specific(GUARD, &format!(r#""permissionDecision": "{word}", "permissionDecisionReason": "r""#))
    };
    check(GUARD, 0, &decision("deny"), "", &deny("r"));
    check(GUARD, 0, &decision("ask"), "", &Word::Ask("r".into()));
    check(GUARD, 0, &decision("defer"), "", &Word::Ask("r".into()));
    check(GUARD, 0, &decision("allow"), "", &Word::Allow("r".into()));
    let changed =
        check(GUARD, 0, &specific(GUARD, r#""updatedInput": {"command": "ls"}"#), "", &Word::Nothing);
    assert_eq!(changed.updated_input, Some(json!({"command": "ls"})));
    let stopped = check(
        GUARD,
        0,
        r#"{"continue": false, "stopReason": "enough", "systemMessage": "m", "suppressOutput": true}"#,
        "",
        &Word::Nothing,
    );
    assert_eq!(
        (stopped.stop.as_deref(), stopped.system_message.as_deref(), stopped.suppress_output),
        (Some("enough"), Some("m"), true)
    );
}

#[test]
fn exit_code_two_objects_whatever_else_is_said() {
    check(GUARD, 2, "", "not here\n", &deny("not here"));
    check(GUARD, 2, "", "", &deny("it gave no reason"));
    check(GUARD, 2, r#"{"reason": "from json"}"#, "from stderr", &deny("from json"));
    check(GUARD, 2, &specific(GUARD, r#""permissionDecision": "allow""#), "no", &deny("no"));
    check(GUARD, 2, r#"{"half": "#, "no", &deny("no"));
    check(HookEvent::Stop, 2, "", "more", &Word::Block("more".into()));
    check(HookEvent::PostToolUse, 2, "", "lint", &Word::Block("lint".into()));
    check(HookEvent::UserPromptSubmit, 2, "", "no", &deny("no"));
    check(HookEvent::PermissionRequest, 2, "", "no", &Word::Nothing);
    let watching = check(HookEvent::SessionStart, 2, "", "hm", &Word::Nothing);
    assert!(watching.note.unwrap().contains("hm"));
}

#[test]
fn other_exit_codes_are_errors_unless_json_says_more() {
    let error = of_process(GUARD, Exit::Code(1), b"text", "oops").unwrap_err();
    assert_eq!(error, Trouble::Error("it exited with 1: oops".into()));
    check(GUARD, 1, r#"{"decision": "block", "reason": "no"}"#, "", &deny("no"));
    for (exit, part) in [(126, "executed"), (127, "not found"), (139, "signal 11"), (255, "255")] {
        let Err(Trouble::Broken(problem)) = of_process(GUARD, Exit::Code(exit), b"{}", "") else {
            panic!("{exit}")
        };
        assert!(problem.contains(part), "{problem}");
    }
    assert!(matches!(of_process(GUARD, Exit::Signal(9), b"", ""), Err(Trouble::Broken(_))));
    assert!(matches!(
        of_process(HookEvent::WorktreeCreate, Exit::Code(1), b"/w", ""),
        Err(Trouble::Broken(_))
    ));
}

#[test]
fn what_is_not_an_answer_is_trouble() {
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    let wrong = [
        "{",
        r#"{"decision": "block""#,
        r#"{"decision": "maybe"}"#,
        r#"{"continue": "no"}"#,
        r#"{"n": 1e400}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny"}}"#,
        r#"{"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}"#,
        r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "perhaps"}}"#,
        r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": "ls"}}"#,
        r#"{} {"decision": "block"}"#,
        deep.as_str(),
    ];
    for text in wrong {
        let shown: String = text.chars().take(60).collect();
        let read = of_process(GUARD, Exit::Code(0), text.as_bytes(), "");
        assert!(matches!(read, Err(Trouble::Broken(_))), "{shown} {read:?}");
    }
    assert!(matches!(of_process(GUARD, Exit::Code(0), b"{\"a\": \"\xff\"}", ""), Err(Trouble::Broken(_))));
}

#[test]
fn plain_words_are_context_only_where_something_begins() {
    let said = |event| check(event, 0, "On branch main\n", "", &Word::Nothing).context;
    for event in [HookEvent::SessionStart, HookEvent::UserPromptSubmit, HookEvent::UserPromptExpansion] {
        assert_eq!(said(event).as_deref(), Some("On branch main"));
    }
    assert_eq!(said(HookEvent::PostToolUse), None);
    let worktree = check(HookEvent::WorktreeCreate, 0, "made it\n/tmp/tree\n", "", &Word::Nothing);
    assert_eq!(worktree.specific.unwrap()["worktreePath"], "/tmp/tree");
}

#[test]
fn requests_and_results_have_answers_of_their_own() {
    let event = HookEvent::PermissionRequest;
    let allow = specific(
        event,
        r#""decision": {"behavior": "allow", "updatedInput": {"a": 1}, "updatedPermissions": [{"type": "setMode"}]}"#,
    );
    let answer = check(event, 0, &allow, "", &Word::Allow(String::new()));
    assert_eq!((answer.updated_input, answer.updated_permissions.len()), (Some(json!({"a": 1})), 1));
    let no = specific(event, r#""decision": {"behavior": "deny", "message": "never", "interrupt": true}"#);
    assert!(check(event, 0, &no, "", &deny("never")).interrupt);
    let unclear = specific(event, r#""decision": {"behavior": "ask"}"#);
    assert!(matches!(of_process(event, Exit::Code(0), unclear.as_bytes(), ""), Err(Trouble::Broken(_))));
    let event = HookEvent::PostToolUse;
    let replaced = specific(event, r#""updatedMCPToolOutput": [1], "additionalContext": "c""#);
    let answer = check(event, 0, &replaced, "", &Word::Nothing);
    assert_eq!((answer.replaced_result, answer.context.as_deref()), (Some(json!([1])), Some("c")));
}

proptest! {
    #[test]
    fn any_output_is_read_or_refused(
        event in proptest::sample::select(HookEvent::ALL),
        code in 0i32..256,
        stdout in proptest::collection::vec(any::<u8>(), 0..60),
        stderr in "\\PC{0,20}",
    ) {
        // A gate is never opened by noise.
        if let Ok(answer) = of_process(event, Exit::Code(code), &stdout, &stderr) {
            prop_assert!(!matches!(answer.word, Word::Allow(_)));
        }
    }

    #[test]
    fn a_cut_answer_never_allows(end in 0usize..1000) {
        let whole = specific(GUARD, r#""permissionDecision": "allow", "permissionDecisionReason": "fine""#);
        let cut = &whole.as_bytes()[..end.min(whole.len() - 1)];
        let allows = matches!(of_process(GUARD, Exit::Code(0), cut, ""), Ok(Answer { word: Word::Allow(_), .. }));
        prop_assert!(!allows);
    }
}

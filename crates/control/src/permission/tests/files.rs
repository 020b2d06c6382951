//! The file check step by step: one row a step, each held against what the judge decides.

use super::*;
use crate::permission::file::steps;
use ostler_proto::{Matter, UserQuestion};

/// A call of a file tool as the model wrote it and as it resolves.
fn call(tool: &str, written: &str, fact: PathFact) -> (String, Json, Intent) {
    let access = match tool {
        "Read" => Access::Read { paths: vec![fact] },
        _ => Access::Write { paths: vec![fact] },
    };
    let intent = Intent { title: format!("{tool} {written}"), access, preview: Preview::None };
    (tool.to_owned(), json!({ "file_path": written }), intent)
}

fn own_policy(mode: Mode, rules: &[(&str, &str)]) -> Policy {
    Policy {
        editable: vec!["/home/u/.ostler/notes".into()],
        plan_file: Some("/home/u/.ostler/plans/s.md".into()),
        sandboxing: Sandboxing { temp: Some("/tmp/ostler-x".into()), ..Sandboxing::default() },
        ..policy(mode, rules)
    }
}

/// The step that decides, and what is decided.
#[track_caller]
fn step(policy: &Policy, tool: &str, written: &str) -> (&'static str, &'static str) {
    let path = if written.starts_with(['/', '~']) { written.to_owned() } else { format!("/w/{written}") };
    let (tool, input, intent) = call(tool, written, fact(&path.replacen("//", "/", 1)));
    let question =
        Question { tool: &tool, input: &input, intent: &intent, line: None, author: Author::Model };
    let steps = steps(&question, policy);
    let last = steps.last().unwrap();
    let said = last.says.unwrap();
    let decided = match decide(&question, policy, None) {
        Decision::Allow { .. } => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    };
    let expected = if policy.mode == Mode::DontAsk && said == "ask" { "deny" } else { said };
    assert_eq!(decided, expected, "{tool} {written} under {:?}: {steps:?}", policy.mode);
    (last.name, said)
}

const EVERY_MODE: [Mode; 6] =
    [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::DontAsk, Mode::BypassPermissions, Mode::Bubble];

#[test]
fn each_step_of_a_read() {
    let deny = [("deny", "Read(.env)"), ("allow", "Read")];
    let ask = [("ask", "Read(*.key)"), ("allow", "Read")];
    for (rules, path, name, says) in [
        (&deny[..], ".env", "deny rules", "deny"),
        (&[("allow", "Read")], "//server/share/x", "a network path", "ask"),
        (&[("allow", "Read")], "\\\\server\\share\\x", "a network path", "ask"),
        (&[("allow", "Read")], "a.txt::$DATA", "a form Windows reads otherwise", "ask"),
        (&[("allow", "Read")], "PROGRA~1", "a form Windows reads otherwise", "ask"),
        (&[("allow", "Read")], "a.txt.", "a form Windows reads otherwise", "ask"),
        (&[("allow", "Read")], "NUL", "a form Windows reads otherwise", "ask"),
        (&ask, "a.key", "ask rules", "ask"),
        (&[("allow", "Edit(//etc/x)")], "/etc/x", "may be written, so may be read", "allow"),
        (&[], "/home/u/.ostler/plans/s.md", "may be written, so may be read", "allow"),
        (&[], "/tmp/ostler-x/a", "may be written, so may be read", "allow"),
        (&[], "a.rs", "inside the working directories", "allow"),
        (&[], "/home/u/.ostler/kept/x", "kept by the session itself", "allow"),
        (&[("allow", "Read(//etc/x)")], "/etc/x", "allow rules", "allow"),
        (&[], "/etc/x", "nobody said yes", "ask"),
    ] {
        assert_eq!(step(&own_policy(Mode::Default, rules), "Read", path), (name, says), "{path}");
    }
}

#[test]
fn each_step_of_a_write() {
    let own = "the session's own: plan, notes, temporary files";
    let deny = [("deny", "Edit(~/.ostler/**)")];
    let granted = [("allow", "Edit(.claude/skills/**)")];
    for (rules, path, name, says) in [
        (&deny[..], "/home/u/.ostler/plans/s.md", "deny rules", "deny"),
        (&[("ask", "Edit")], "/home/u/.ostler/plans/s.md", own, "allow"),
        (&[], "/home/u/.ostler/notes/a.md", own, "allow"),
        (&[], "/tmp/ostler-x/a", own, "allow"),
        (&[("ask", "Edit")], "a.rs", "ask rules", "ask"),
        (&[("allow", "Edit")], "//server/share/x", "a network path", "ask"),
        (&[("allow", "Edit")], "aux", "a form Windows reads otherwise", "ask"),
        (&granted, ".claude/skills/a.md", "the agent's own folder, granted for this session", "allow"),
        (&granted, ".claude/settings.json", "protected files and folders", "ask"),
        (&[("allow", "Edit")], ".claude/skills/a.md", "protected files and folders", "ask"),
        (
            &[("allow", "Edit(.claude/**)")],
            ".claude/settings.local.json",
            "protected files and folders",
            "ask",
        ),
        (&[("allow", "Edit(.claude/**)")], ".claude/hooks/x.sh", "protected files and folders", "ask"),
        (&[("allow", "Edit")], ".git/hooks/x", "protected files and folders", "ask"),
        (&[], "/home/u/.ostler/plans/other.md", "protected files and folders", "ask"),
        (&[("allow", "Edit(*.rs)")], "a.rs", "allow rules", "allow"),
        (&[], "a.rs", "nobody said yes", "ask"),
        (&[("allow", "Edit(//etc/x)")], "/etc/x", "allow rules", "allow"),
    ] {
        assert_eq!(step(&own_policy(Mode::Default, rules), "Write", path), (name, says), "{path}");
    }
    let accepting = own_policy(Mode::AcceptEdits, &[]);
    let inside = ("edits accepted in the working directories", "allow");
    assert_eq!(step(&accepting, "Write", "a.rs"), inside);
    assert_eq!(
        step(&own_policy(Mode::Plan, &[("allow", "Edit")]), "Write", "a.rs"),
        ("permission mode", "ask")
    );
    let file_settings =
        Rule::parse("Edit(.claude/**)", RuleSource::User("/home/u/.ostler/settings.json".into()));
    let mut kept = own_policy(Mode::Default, &[]);
    kept.rules.allow.push(file_settings.unwrap());
    assert_eq!(step(&kept, "Write", ".claude/skills/a.md"), ("protected files and folders", "ask"));
}

#[test]
fn steps_and_judge_agree_in_every_mode() {
    let rules = [
        ("deny", "Read(.env)"),
        ("ask", "Edit(*.lock)"),
        ("allow", "Edit(src/**)"),
        ("allow", "Read(//etc/hosts)"),
        ("allow", "Edit(.claude/skills/**)"),
    ];
    for mode in EVERY_MODE {
        let mut policy = own_policy(mode, &rules);
        policy.above = Above::Parent;
        for path in [
            "a.rs",
            "src/a.rs",
            ".env",
            "Cargo.lock",
            ".git/config",
            ".claude/skills/x",
            "/etc/hosts",
            "/etc/x",
            "//server/x",
            "COM1",
            "/home/u/.ostler/plans/s.md",
            "/home/u/.ostler/kept/x",
            "/tmp/ostler-x/y",
        ] {
            step(&policy, "Read", path);
            step(&policy, "Write", path);
        }
    }
}

#[test]
fn a_link_into_the_sessions_own_files_is_not_one_of_them() {
    let linked = PathFact {
        requested: "/w/l".into(),
        hops: vec!["/home/u/.ostler/plans/s.md".into()],
        target: "/home/u/.ostler/plans/s.md".into(),
        exists: true,
    };
    let (tool, input, intent) = call("Write", "/w/l", linked);
    let question =
        Question { tool: &tool, input: &input, intent: &intent, line: None, author: Author::Model };
    assert!(matches!(decide(&question, &own_policy(Mode::Default, &[]), None), Decision::Ask { .. }));
}

#[test]
fn what_always_asks_offers_nothing_to_remember() {
    for (mode, tool, path, offered) in [
        (Mode::Default, "Write", ".git/config", 0),
        (Mode::Default, "Write", ".claude/settings.json", 0),
        (Mode::Default, "Write", ".claude/skills/a.md", 1),
        (Mode::Default, "Write", "a.rs", 1),
        (Mode::Plan, "Write", "a.rs", 0),
        (Mode::Default, "Read", "//server/x", 0),
        (Mode::Default, "Read", "/etc/x", 1),
        (Mode::Plan, "Read", "/etc/x", 1),
    ] {
        let policy = own_policy(mode, &[]);
        let at = if path.starts_with('/') { path.replacen("//", "/", 1) } else { format!("/w/{path}") };
        let (tool, input, intent) = call(tool, path, fact(&at));
        let question =
            Question { tool: &tool, input: &input, intent: &intent, line: None, author: Author::Model };
        let Decision::Ask { suggestions, .. } = decide(&question, &policy, None) else { panic!("{path}") };
        assert_eq!(suggestions.len(), offered, "{path}");
    }
}

#[test]
fn what_cannot_be_shown_whole_is_never_remembered() {
    for (text, offered) in [("+a\n".repeat(100), 1), ("+a\n".repeat(101), 0), ("x".repeat(8_001), 0)] {
        let policy = own_policy(Mode::Default, &[]);
        let (tool, input, mut intent) = call("Write", "a.rs", fact("/w/a.rs"));
        intent.preview = Preview::Diff(text);
        let question =
            Question { tool: &tool, input: &input, intent: &intent, line: None, author: Author::Model };
        let Decision::Ask { suggestions, .. } = decide(&question, &policy, None) else { panic!() };
        assert_eq!(suggestions.len(), offered);
    }
    let long = format!("make {}", "x ".repeat(4_500));
    let (tool, intent) = super::intent(&format!("Bash {long}"));
    let policy = policy(Mode::Default, &[]);
    let line = line(&intent, &policy);
    let question = Question {
        tool: &tool,
        input: &json!({}),
        intent: &intent,
        line: line.as_ref(),
        author: Author::Model,
    };
    let Decision::Ask { suggestions, .. } = decide(&question, &policy, None) else { panic!() };
    assert!(suggestions.is_empty());
}

/// Decides about something that is put to the user.
fn consult(matter: Matter, policy: &Policy, author: Author, hook: Option<&Verdict>) -> &'static str {
    let (tool, access) = ("ExitPlanMode", Access::Consult(matter));
    let intent = Intent { title: tool.into(), access, preview: Preview::None };
    let question = Question { tool, input: &json!({}), intent: &intent, line: None, author };
    match decide(&question, policy, hook) {
        Decision::Allow { .. } => "allow",
        Decision::Ask { suggestions, .. } => {
            assert!(suggestions.is_empty());
            "ask"
        }
        Decision::Deny { .. } => "deny",
    }
}

#[test]
fn only_the_user_settles_what_is_put_to_them() {
    let matters = || {
        let questions: Vec<UserQuestion> = Vec::new();
        let plan = Matter::LeavePlan { plan: "p".into(), file: None };
        [Matter::EnterPlan, plan, Matter::Questions(questions)]
    };
    let allow = Verdict::Allow { hook: "h".into(), reason: String::new() };
    let rules = [("allow", "ExitPlanMode"), ("allow", "ExitPlanMode(x)")];
    for matter in matters() {
        for mode in EVERY_MODE {
            let policy = policy(mode, &rules);
            let asks = match mode {
                Mode::DontAsk | Mode::Bubble => "deny",
                Mode::Default | Mode::AcceptEdits | Mode::Plan | Mode::BypassPermissions => "ask",
            };
            assert_eq!(consult(matter.clone(), &policy, Author::Model, None), asks, "{matter:?} {mode:?}");
            assert_eq!(consult(matter.clone(), &policy, Author::Model, Some(&allow)), asks);
            // A hook that brings the answer with it speaks for the user.
            assert_eq!(consult(matter.clone(), &policy, Author::Hook, Some(&allow)), "allow");
            assert_eq!(consult(matter.clone(), &policy, Author::Hook, None), asks);
            let denied = super::policy(mode, &[("deny", "ExitPlanMode")]);
            assert_eq!(consult(matter.clone(), &denied, Author::Hook, Some(&allow)), "deny");
        }
    }
}

#[test]
fn plan_mode_lets_the_agent_look_and_nothing_else() {
    let rules = [
        ("allow", "Read"),
        ("allow", "Edit"),
        ("allow", "Bash"),
        ("allow", "WebFetch(domain:docs.rs)"),
        ("allow", "mcp__s__t"),
    ];
    let plan = policy(Mode::Plan, &rules);
    for (call, expect) in [
        ("Read /etc/hosts", "allow"),
        ("Bash ls", "allow"),
        ("Bash cat /etc/hosts", "allow"),
        ("Edit /w/a", "ask"),
        ("Bash make", "ask"),
        ("Bash touch a", "ask"),
        ("Bash curl http://x", "ask"),
    ] {
        assert_eq!(judge(call, &plan, None), expect, "{call}");
    }
    let decide_on = |access: Access, tool: &str| {
        let intent = Intent { title: "t".into(), access, preview: Preview::None };
        let question =
            Question { tool, input: &json!({}), intent: &intent, line: None, author: Author::Model };
        matches!(decide(&question, &plan, None), Decision::Allow { .. })
    };
    assert!(decide_on(Access::Network { url: "https://docs.rs/x".into() }, "WebFetch"));
    assert!(!decide_on(Access::Network { url: "https://example.com/x".into() }, "WebFetch"));
    let claims = Access::Mcp { server: "s".into(), tool: "t".into(), read_only: true };
    assert!(!decide_on(claims, "mcp__s__t"), "a server's own word is not enough");
}

#[test]
fn bubble_asks_above_or_not_at_all() {
    let mut bubble = policy(Mode::Bubble, &[("allow", "Bash(make)"), ("deny", "Read(.env)")]);
    for (call, alone, with_parent) in [
        ("Read /w/a", "allow", "allow"),
        ("Read /w/.env", "deny", "deny"),
        ("Bash make", "allow", "allow"),
        ("Edit /w/a", "deny", "ask"),
        ("Bash curl http://x", "deny", "ask"),
        ("Bash rm -rf /", "deny", "deny"),
    ] {
        bubble.above = Above::Nobody;
        assert_eq!(judge(call, &bubble, None), alone, "{call}");
        bubble.above = Above::Parent;
        assert_eq!(judge(call, &bubble, None), with_parent, "{call}");
    }
    let (tool, intent) = super::intent("Edit /w/a");
    let question =
        Question { tool: &tool, input: &json!({}), intent: &intent, line: None, author: Author::Model };
    assert!(matches!(decide(&question, &bubble, None), Decision::Ask { to: Addressee::Parent, .. }));
    assert!("bubble".parse::<Mode>().is_err(), "nobody can choose it");
}

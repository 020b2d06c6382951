//! Cases of the judge: one helper, many calls.

#[expect(clippy::disallowed_methods, reason = "it runs commands in folders of its own to see what they do")]
mod effects;
mod files;
mod laws;

use super::*;
use ostler_proto::{PathFact, Preview, RuleSource};
use proptest::prelude::*;
use serde_json::json;

pub(super) fn policy(mode: Mode, rules: &[(&str, &str)]) -> Policy {
    let mut parsed = Rules::default();
    for (side, text) in rules {
        let rule = Rule::parse(text, RuleSource::Session).unwrap();
        match *side {
            "deny" => parsed.deny.push(rule),
            "ask" => parsed.ask.push(rule),
            _ => parsed.allow.push(rule),
        }
    }
    let readable = vec!["/home/u/.ostler/kept".into()];
    Policy {
        mode,
        rules: parsed,
        roots: vec!["/w".into()],
        home: "/home/u".into(),
        readable,
        editable: vec!["/home/u/.ostler/memory".into()],
        ..Policy::default()
    }
}

pub(super) fn fact(path: &str) -> PathFact {
    PathFact { requested: path.into(), hops: vec![], target: path.into(), exists: true }
}

fn intent(call: &str) -> (String, Intent) {
    let (tool, argument) = call.split_once(' ').unwrap_or((call, ""));
    let access = match tool {
        "Read" | "Grep" => Access::Read { paths: vec![fact(argument)] },
        "Edit" | "Write" => Access::Write { paths: vec![fact(argument)] },
        "Bash" => Access::Execute {
            command: argument.to_owned(),
            cwd: "/w".into(),
            footprint: ostler_proto::Footprint::default(),
        },
        _ => Access::Internal,
    };
    (tool.to_owned(), Intent { title: call.to_owned(), access, preview: Preview::None })
}

fn line(intent: &Intent, policy: &Policy) -> Option<Line> {
    let Access::Execute { command, cwd, .. } = &intent.access else { return None };
    let ground = Ground { directory: cwd.clone(), home: policy.home.clone() };
    Some(Line::new(read(command, &ground), |path| path.to_str().map(fact)))
}

pub(super) fn judge(call: &str, policy: &Policy, hook: Option<&Verdict>) -> &'static str {
    let (tool, mut intent) = intent(call);
    let input = json!({});
    let line = line(&intent, policy);
    if let (Access::Execute { footprint, .. }, Some(line)) = (&mut intent.access, &line) {
        *footprint = line.footprint();
    }
    let question =
        Question { tool: &tool, input: &input, intent: &intent, line: line.as_ref(), author: Author::Model };
    match decide(&question, policy, hook) {
        Decision::Allow { .. } => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

#[track_caller]
fn check(mode: Mode, rules: &[(&str, &str)], call: &str, expect: &str) {
    assert_eq!(judge(call, &policy(mode, rules), None), expect, "{call} under {mode:?} with {rules:?}");
}

#[test]
fn modes() {
    use Mode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    for (call, expect) in [
        ("Read /w/a", ["allow"; 5]),
        ("TodoWrite", ["allow"; 5]),
        ("Read /etc/passwd", ["ask", "ask", "ask", "deny", "allow"]),
        ("Read /home/u/.ostler/kept/x", ["allow"; 5]),
        ("Read /home/u/.ostler/memory/x.md", ["allow"; 5]),
        ("Edit /home/u/.ostler/memory/x.md", ["allow"; 5]),
        ("Edit /home/u/.ostler/memory/../settings.json", ["ask", "ask", "ask", "deny", "allow"]),
        ("Edit /home/u/.ostler/kept/x", ["ask", "ask", "ask", "deny", "allow"]),
        ("Read /home/u/.ostler/kept/../x", ["ask", "ask", "ask", "deny", "allow"]),
        ("Edit /w/a", ["ask", "allow", "ask", "deny", "allow"]),
        ("Edit /etc/hosts", ["ask", "ask", "ask", "deny", "allow"]),
        ("Edit /w/.git/hooks/pre-commit", ["ask", "ask", "ask", "deny", "allow"]),
        ("Bash make", ["ask", "ask", "ask", "deny", "allow"]),
        ("Bash rm -rf /", ["deny"; 5]),
    ] {
        for (mode, expect) in [Default, AcceptEdits, Plan, DontAsk, BypassPermissions].into_iter().zip(expect)
        {
            check(mode, &[], call, expect);
        }
    }
}

#[test]
fn deny_beats_ask_beats_allow() {
    let all = [("allow", "Bash"), ("ask", "Bash(git push *)"), ("deny", "Bash(git push --force:*)")];
    check(Mode::Default, &all, "Bash git status", "allow");
    check(Mode::Default, &all, "Bash git push", "ask");
    check(Mode::BypassPermissions, &all, "Bash git push origin", "ask");
    check(Mode::BypassPermissions, &all, "Bash git push --force", "deny");
}

#[test]
fn command_rules_end_at_words_and_never_cover_shell_syntax() {
    let ls = [("allow", "Bash(ls *)")];
    check(Mode::Default, &ls, "Bash ls -la", "allow");
    check(Mode::Default, &ls, "Bash ls", "allow");
    check(Mode::Default, &ls, "Bash lsx", "ask");
    check(Mode::Default, &ls, "Bash ls; rm x", "ask");
    check(Mode::Default, &ls, "Bash ls $(rm x)", "ask");
    check(Mode::Default, &ls, "Bash ls > /etc/x", "ask");
    check(Mode::Default, &[("allow", "Bash(npm run:*)")], "Bash npm run test", "allow");
    check(Mode::Default, &[("allow", "Bash(make)")], "Bash make x", "ask");
    check(Mode::Default, &[("allow", "Bash(git * main)")], "Bash git log main", "allow");
    check(Mode::Default, &[("allow", "B*")], "Bash make", "ask");
    for command in [
        "rm x",
        "ls; rm x",
        "ls && sudo rm x",
        "echo $(rm x)",
        "A=1 rm x",
        "/bin/rm x",
        "'rm' x",
        "timeout 5 rm x",
    ] {
        check(Mode::BypassPermissions, &[("deny", "Bash(rm *)")], &format!("Bash {command}"), "deny");
    }
}

#[test]
fn path_rules_are_gitignore_patterns_with_anchors() {
    check(Mode::Default, &[("deny", "Read(.env)")], "Read /w/sub/.env", "deny");
    check(Mode::Default, &[("deny", "Read(.env)")], "Edit /w/.env", "deny");
    check(Mode::Default, &[("deny", "Read(secrets/**)")], "Grep /w/a/secrets/k", "deny");
    check(Mode::Default, &[("allow", "Edit(src/**)")], "Write /w/src/a.rs", "allow");
    check(Mode::Default, &[("allow", "Edit(src/**)")], "Write /w/lib/src/a.rs", "ask");
    check(Mode::Default, &[("allow", "Read(~/notes/**)")], "Read /home/u/notes/a", "allow");
    check(Mode::Default, &[("allow", "Read(//etc/hosts)")], "Read /etc/hosts", "allow");
    check(Mode::Default, &[("allow", "Edit(//w/.git/**)")], "Edit /w/.git/config", "ask");
}

#[test]
fn what_the_session_kept_can_still_be_denied() {
    check(Mode::Default, &[("deny", "Read(~/.ostler/**)")], "Read /home/u/.ostler/kept/x", "deny");
    check(Mode::Default, &[("deny", "Edit(~/.ostler/**)")], "Edit /home/u/.ostler/memory/x.md", "deny");
}

#[test]
fn both_ends_of_a_link_count() {
    let linked = PathFact {
        requested: "/w/src/l".into(),
        hops: vec!["/w/src/l".into()],
        target: "/w/.env".into(),
        exists: true,
    };
    let intent =
        Intent { title: "t".into(), access: Access::Write { paths: vec![linked] }, preview: Preview::None };
    let question =
        Question { tool: "Edit", input: &json!({}), intent: &intent, line: None, author: Author::Model };
    let allow = policy(Mode::Default, &[("allow", "Edit(src/**)")]);
    assert!(matches!(decide(&question, &allow, None), Decision::Ask { .. }));
    let deny = policy(Mode::BypassPermissions, &[("deny", "Edit(.env)")]);
    assert!(matches!(decide(&question, &deny, None), Decision::Deny { .. }));
}

#[test]
fn suggested_rules_answer_the_same_question() {
    for call in [
        "Bash cargo test",
        "Bash make a && npm run x -- y; curl -s http://x | jq .",
        "Bash echo a > f.txt",
        "Bash make 'a b' > log 2>&1",
        "Bash touch x*y",
        "Edit /w/a.rs",
        "Read /etc/hosts",
    ] {
        let (tool, intent) = intent(call);
        let input = json!({});
        let policy = policy(Mode::Default, &[]);
        let line = line(&intent, &policy);
        let question = Question {
            tool: &tool,
            input: &input,
            intent: &intent,
            line: line.as_ref(),
            author: Author::Model,
        };
        let Decision::Ask { suggestions, .. } = decide(&question, &policy, None) else { panic!("{call}") };
        let rules: Vec<(&str, &str)> =
            suggestions.iter().map(|offered| ("allow", offered.rule.as_str())).collect();
        check(Mode::Default, &rules, call, "allow");
    }
}

#[test]
fn what_asks_next_time_too_offers_nothing_to_remember() {
    let (tool, intent) = intent("Bash git commit -m x");
    let input = json!({});
    let ask = policy(Mode::Default, &[("ask", "Bash(git commit *)")]);
    let open = policy(Mode::Default, &[]);
    let line = line(&intent, &open);
    let question =
        Question { tool: &tool, input: &input, intent: &intent, line: line.as_ref(), author: Author::Model };
    let offered = |policy: &Policy, hook: Option<&Verdict>| match decide(&question, policy, hook) {
        Decision::Ask { suggestions, .. } => suggestions.len(),
        other @ (Decision::Allow { .. } | Decision::Deny { .. }) => panic!("{other:?}"),
    };
    assert_eq!(offered(&open, None), 1);
    assert_eq!(offered(&ask, None), 0, "the rule asks whatever is allowed");
    let hook = Verdict::Ask { hook: "h".to_owned(), reason: "why".to_owned() };
    assert_eq!(offered(&open, Some(&hook)), 0, "and so does the hook");
}

#[test]
fn vital_folders_cannot_be_removed() {
    for command in [
        "rm -rf /",
        "rm -fr /*",
        "rm -r ~",
        "rm -rf $HOME/",
        "rm -rf .",
        "rm -rf *",
        "sudo rm -rf /etc",
        "rm -rf ..",
        "cd x && rm -rf /w",
        "rm -rf \"$X\"/*",
        "rm -rf ${X}/",
    ] {
        check(Mode::BypassPermissions, &[("allow", "Bash")], &format!("Bash {command}"), "deny");
    }
    for command in [
        "rm -rf \"$X\"",
        "rm -rf \"$X\"/cache/*",
        "d=build; rm -rf \"$d\"/*",
        "rm -rf target",
        "rm -rf ./build/x",
        "rm a",
        "grep -r rm /",
    ] {
        check(Mode::BypassPermissions, &[], &format!("Bash {command}"), "allow");
    }
}

pub(super) fn rank(decision: &str) -> u8 {
    match decision {
        "allow" => 0,
        "ask" => 1,
        _ => 2,
    }
}

proptest! {
    #[test]
    fn a_deny_rule_or_hook_never_loosens(command in "[a-z ;$(|]{1,20}", rule in "[a-z *]{1,10}", bypass in any::<bool>()) {
        let mode = if bypass { Mode::BypassPermissions } else { Mode::Default };
        let call = format!("Bash {command}");
        let base = policy(mode, &[("allow", "Bash(ls *)")]);
        let mut more = base.clone();
        more.rules.deny.push(Rule { tool: "Bash".into(), pattern: Some(rule), source: RuleSource::Session });
        prop_assert!(rank(judge(&call, &more, None)) >= rank(judge(&call, &base, None)));
        let hook = Verdict::Deny { hook: "h".into(), reason: String::new() };
        prop_assert_eq!(judge(&call, &base, Some(&hook)), "deny");
        let hook = Verdict::Allow { hook: "h".into(), reason: String::new() };
        let denied = judge(&call, &more, None) == "deny";
        prop_assert!(!denied || judge(&call, &more, Some(&hook)) == "deny");
    }

    #[test]
    fn searches_see_what_reads_may_see(
        rules in prop::collection::vec(("deny|ask", "(//w/|~/|/|\\./|!)?(\\*\\*/)?[ab*]{1,2}(/[ab*]{1,2}|/\\*\\*|/)?"), 0..4),
        path in "/(w|home/u|x)(/[ab]{1,2}){1,3}",
    ) {
        // A rule without a real pattern is about the whole call: the search would not run.
        let rules: Vec<(&str, String)> =
            rules.iter().filter(|(_, pattern)| pattern != "*").map(|(side, pattern)| (side.as_str(), format!("Read({pattern})"))).collect();
        let rules: Vec<(&str, &str)> = rules.iter().map(|(side, text)| (*side, text.as_str())).collect();
        let policy = policy(Mode::BypassPermissions, &rules);
        let expected = match judge(&format!("Read {path}"), &policy, None) {
            "deny" => Sight::Closed,
            "ask" => Sight::Asks,
            _ => Sight::Open,
        };
        prop_assert_eq!(policy.for_searches().sight(path.as_ref()), expected);
    }
}

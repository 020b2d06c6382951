//! Laws of the judge over random calls, rules, modes, scopes and hooks: strictness only ever adds.

use super::*;

const MODES: [Mode; 6] =
    [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::DontAsk, Mode::BypassPermissions, Mode::Bubble];

fn sources() -> impl Strategy<Value = RuleSource> {
    prop_oneof![
        Just(RuleSource::Managed("/etc/ostler/managed-settings.json".into())),
        Just(RuleSource::Flag("--allowedTools".into())),
        Just(RuleSource::Local("/w/.ostler/settings.local.json".into())),
        Just(RuleSource::Project("/w/.ostler/settings.json".into())),
        Just(RuleSource::User("/home/u/.ostler/settings.json".into())),
        Just(RuleSource::Session),
    ]
}

fn rules() -> impl Strategy<Value = Rule> {
    let text = prop_oneof![
        Just("Read".to_owned()),
        Just("Edit".to_owned()),
        Just("Bash".to_owned()),
        Just("*".to_owned()),
        "(Read|Edit)\\((//w/|~/|/|\\./)?[ab*]{1,2}(/[ab*]{1,2}|/\\*\\*)?\\)",
        "Bash\\((git|make|rm|cat|a)( \\*|:\\*| a)?\\)",
        "Bash\\(timeout:[0-9]\\)",
    ];
    (text, sources()).prop_filter_map("a rule", |(text, source)| Rule::parse(&text, source).ok())
}

fn calls() -> impl Strategy<Value = String> {
    let path = "/(w|home/u|etc)(/(a|b|ab|\\.git|\\.env)){1,3}";
    prop_oneof![
        path.prop_map(|path| format!("Read {path}")),
        path.prop_map(|path| format!("Edit {path}")),
        "(git|make|rm|cat|a)( (a|b|-f|/etc/a|push)){0,2}(( && |; | \\| | > )(a|b|cat a|rm b)){0,2}"
            .prop_map(|command| format!("Bash {command}")),
        "[a-z ;$(|>&]{1,16}".prop_map(|command| format!("Bash {command}")),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let some = || prop::collection::vec(rules(), 0..4);
    (0..MODES.len(), some(), some(), some(), any::<bool>()).prop_map(|(mode, deny, ask, allow, parent)| {
        Policy {
            rules: Rules { deny, ask, allow },
            above: if parent { Above::Parent } else { Above::Nobody },
            ..policy(MODES[mode], &[])
        }
    })
}

fn hooks() -> impl Strategy<Value = Option<Verdict>> {
    let (hook, reason) = (String::from("h"), String::new());
    prop_oneof![
        Just(None),
        Just(Some(Verdict::Allow { hook: hook.clone(), reason: reason.clone() })),
        Just(Some(Verdict::Ask { hook: hook.clone(), reason: reason.clone() })),
        Just(Some(Verdict::Deny { hook, reason })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn one_more_deny_or_ask_rule_never_loosens(call in calls(), policy in policies(), hook in hooks(), rule in rules()) {
        let before = rank(judge(&call, &policy, hook.as_ref()));
        let mut denying = policy.clone();
        denying.rules.deny.push(rule.clone());
        prop_assert!(rank(judge(&call, &denying, hook.as_ref())) >= before, "deny {}", rule);
        let mut asking = policy.clone();
        asking.rules.ask.push(rule.clone());
        prop_assert!(rank(judge(&call, &asking, hook.as_ref())) >= before, "ask {}", rule);
    }

    #[test]
    fn one_more_allow_rule_never_undoes_a_denial(call in calls(), policy in policies(), hook in hooks(), rule in rules()) {
        // What would ask may run by it, and is then no longer denied for want of somebody to ask.
        let nobody = matches!(policy.mode, Mode::DontAsk | Mode::Bubble);
        let before = judge(&call, &policy, hook.as_ref());
        let mut allowing = policy.clone();
        allowing.rules.allow.push(rule);
        prop_assert!(before != "deny" || nobody || judge(&call, &allowing, hook.as_ref()) == "deny");
    }

    #[test]
    fn a_denial_by_rule_holds_in_every_mode_scope_and_hook(
        call in calls(), policy in policies(), hook in hooks(), source in sources(),
    ) {
        let tool = call.split(' ').next().unwrap_or_default().to_owned();
        let mut denied = policy;
        denied.rules.deny.push(Rule { tool, pattern: None, source });
        for mode in MODES {
            denied.mode = mode;
            prop_assert_eq!(judge(&call, &denied, hook.as_ref()), "deny");
        }
    }

    #[test]
    fn a_hook_never_loosens_what_rules_forbid_or_ask(call in calls(), policy in policies()) {
        let mut strict = policy.clone();
        strict.rules.allow.clear();
        let allow = Verdict::Allow { hook: "h".into(), reason: String::new() };
        let (tool, intent) = super::intent(&call);
        let line = super::line(&intent, &policy);
        let input = json!({});
        let question =
            Question { tool: &tool, input: &input, intent: &intent, line: line.as_ref(), author: Author::Model };
        let by_rule = |decision: &Decision| match decision {
            Decision::Deny { because: Reason::Rule { .. }, .. } | Decision::Ask { because: Reason::Rule { .. }, .. } => true,
            Decision::Deny { .. } | Decision::Ask { .. } | Decision::Allow { .. } => false,
        };
        let alone = decide(&question, &strict, None);
        if by_rule(&alone) {
            prop_assert_eq!(decide(&question, &strict, Some(&allow)), alone);
        }
    }

    #[test]
    fn what_is_kept_of_patterns_is_never_stale(call in calls(), policy in policies(), more in rules(), other in rules()) {
        let mut warm = policy;
        judge(&call, &warm, None);
        warm.rules.deny.push(more);
        judge(&call, &warm, None);
        if let Some(last) = warm.rules.deny.last_mut() {
            *last = other;
        }
        warm.roots = vec!["/home/u".into()];
        let fresh = Policy { compiled: Compiled::default(), ..warm.clone() };
        prop_assert_eq!(judge(&call, &warm, None), judge(&call, &fresh, None));
    }

    #[test]
    fn patterns_together_say_what_each_says_alone(call in calls(), rules in prop::collection::vec(rules(), 1..6)) {
        let denying = |rules: Vec<Rule>| {
            judge(&call, &Policy { rules: Rules { deny: rules, ..Rules::default() }, ..policy(Mode::BypassPermissions, &[]) }, None)
        };
        let one_denies = rules.iter().any(|rule| denying(vec![rule.clone()]) == "deny");
        prop_assert_eq!(denying(rules) == "deny", one_denies || denying(Vec::new()) == "deny");
    }

    #[test]
    fn allow_patterns_together_say_what_each_says_alone(path in "/(w|etc)(/(a|b|ab)){1,3}", rules in prop::collection::vec(rules(), 1..6)) {
        let call = format!("Edit {path}");
        let allowing = |rules: Vec<Rule>| {
            judge(&call, &Policy { rules: Rules { allow: rules, ..Rules::default() }, ..policy(Mode::Default, &[]) }, None)
        };
        let one_allows = rules.iter().any(|rule| allowing(vec![rule.clone()]) == "allow");
        prop_assert_eq!(allowing(rules) == "allow", one_allows);
    }
}

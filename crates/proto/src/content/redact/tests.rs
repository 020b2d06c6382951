//! The rules against their own examples.

use super::*;

fn whole(text: &str) -> String {
    text.replace('·', "")
}

#[test]
fn every_rule_finds_its_examples_and_leaves_its_look_alikes() {
    let redactor = Redactor::new();
    let mut wrong = Vec::new();
    for rule in RULES.into_iter().flatten() {
        let name = rule.name;
        if rule.examples.is_empty() || rule.look_alikes.is_empty() {
            wrong.push(format!("{name} shows too little"));
        }
        for example in rule.examples {
            let text = whole(example);
            let redacted = redactor.redact(&text);
            if !redacted.found.iter().any(|found| found.rule == name) {
                wrong.push(format!("{name} missed {text}: {:?}", redacted.found));
            }
            if redacted.text.matches('\n').count() != text.matches('\n').count() {
                wrong.push(format!("{name} lost lines: {}", redacted.text));
            }
            if redactor.redact(&redacted.text).text != redacted.text {
                wrong.push(format!("{name} is not stable: {}", redactor.redact(&redacted.text).text));
            }
        }
        for look_alike in rule.look_alikes {
            let redacted = redactor.redact(look_alike).text;
            if redacted != *look_alike {
                wrong.push(format!("{name} changed {look_alike}: {redacted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

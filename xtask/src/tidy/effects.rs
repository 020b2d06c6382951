//! The one call that runs a plan's effect: in the executor of control, once, and under a name this check can see.
//! Works on names, so it also asks that an effect is always called `effect`.

use crate::tidy::{
    Finding,
    lex::{Token, find, is_word, starts_with},
    tree::{File, Tree},
};

const RULE: &str = "effects";
const HOME: &str = "crates/control/src/executor";
/// The crate that makes plans, and so may take them apart; it may not run them.
const MAKER: &str = "crates/tools/src";

/// Checks all product code.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut home_runs = Vec::new();
    for (file, source) in tree.product() {
        let tokens = &source.product;
        let is_home = file.is_in_module(HOME);
        let runs = runs(tokens);
        if is_home {
            home_runs.extend(runs.iter().map(|&run| (file, tokens[run].line)));
        } else {
            let message = format!("runs an effect; only {HOME} may");
            findings.extend(runs.iter().map(|&run| finding(file, tokens[run].line, &message)));
        }
        if !is_home && !file.is_in_module(MAKER) {
            let message = format!("takes the effect out of a plan; only {HOME} may");
            findings.extend(openings(tokens).iter().map(|token| finding(file, token.line, &message)));
        }
        let message = "holds an effect under another name; call it `effect`, so that running it can be seen";
        findings.extend(other_names(tokens).iter().map(|token| finding(file, token.line, message)));
    }
    findings.extend(not_once(&home_runs));
    findings
}

fn not_once(home_runs: &[(&File, usize)]) -> Vec<Finding> {
    let Some(((first, line), more)) = home_runs.split_first() else {
        let message = "nothing runs a plan's effect; there must be one place".to_owned();
        return vec![Finding { path: HOME.to_owned(), line: 1, rule: RULE, message }];
    };
    let message = format!("runs an effect a second time; the first is at {}:{line}", first.path);
    more.iter().map(|(file, line)| finding(file, *line, &message)).collect()
}

/// Where an effect is run: `effect.run`, also after a chain such as `effect.take()?.run`, and `Effect::run`.
fn runs(tokens: &[Token]) -> Vec<usize> {
    let mut runs: Vec<usize> = (0..tokens.len())
        .filter(|&at| tokens[at].text == "effect" && chain_runs(&tokens[at + 1..]))
        .collect();
    runs.extend(find(tokens, &["Effect", "::", "run"]));
    runs.extend(find(tokens, &["Effect", ">", "::", "run"]));
    runs.sort_unstable();
    runs
}

/// Whether the calls and fields that follow a value lead to `.run`.
fn chain_runs(mut rest: &[Token]) -> bool {
    loop {
        rest = match rest {
            [dot, name, ..] if dot.text == "." && name.text == "run" => return true,
            [dot, name, ..] if dot.text == "." && is_word(name) => &rest[2..],
            [open, ..] if open.text == "(" => &rest[closing(rest)..],
            [sign, ..] if [")", "?"].contains(&sign.text.as_str()) => &rest[1..],
            _ => return false,
        };
    }
}

/// The position after the bracket that closes the first token.
fn closing(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return position + 1;
        }
    }
    tokens.len()
}

/// Where a plan is opened: its field `effect` is named, or it is taken apart by pattern.
fn openings(tokens: &[Token]) -> Vec<&Token> {
    let is_field = |at: &usize| !starts_with(&tokens[at + 2..], &["("]) && !chain_runs(&tokens[at + 2..]);
    let fields = find(tokens, &[".", "effect"]).into_iter().filter(is_field);
    let patterns = find(tokens, &["Plan", "{"]).into_iter().filter(|&at| is_struct_of_plan(tokens, at));
    fields.chain(patterns).map(|at| &tokens[at]).collect()
}

/// Tells `Plan { .. }` and `tools::Plan { .. }` from a variant like `Mode::Plan`, and from a type before a body.
fn is_struct_of_plan(tokens: &[Token], at: usize) -> bool {
    let mut start = at;
    while start >= 2 && tokens[start - 1].text == "::" && is_word(&tokens[start - 2]) {
        start -= 2;
        if tokens[start].text.starts_with(char::is_uppercase) {
            return false;
        }
    }
    let before = start.checked_sub(1).map_or("", |before| tokens[before].text.as_str());
    !["struct", "enum", "impl", "for", "->"].contains(&before)
}

/// Where an effect gets another name: by `let`, by type, by pattern or by `as`.
fn other_names(tokens: &[Token]) -> Vec<&Token> {
    let bound = find(tokens, &[".", "effect", ";"]).into_iter().filter_map(|at| {
        let start = tokens[..at].iter().rposition(|token| [";", "{", "}"].contains(&token.text.as_str()));
        let statement = &tokens[start.map_or(0, |start| start + 1)..at];
        let is_other =
            starts_with(statement, &["let"]) && statement.get(1).is_some_and(|name| name.text != "effect");
        is_other.then(|| &tokens[at])
    });
    let typed = tokens.windows(3).filter(|window| {
        let [name, colon, kind] = window else { return false };
        colon.text == ":" && kind.text == "Effect" && is_word(name) && name.text != "effect"
    });
    let renamed = tokens
        .windows(2)
        .filter(|window| starts_with(window, &["Effect", "as"]) || starts_with(window, &["Plan", "as"]));
    let patterns = find(tokens, &["Plan", "{"]).into_iter().filter_map(|at| {
        let statement = &tokens[at..at + 1 + closing(&tokens[at + 1..])];
        let is_pattern = at > 0 && tokens[at - 1].text == "let";
        let name = find(statement, &["effect", ":"]).first().and_then(|field| statement.get(field + 2))?;
        (is_pattern && name.text != "effect").then_some(name)
    });
    bound
        .chain(typed.map(|window| &window[0]))
        .chain(renamed.map(|window| &window[0]))
        .chain(patterns)
        .collect()
}

fn finding(file: &File, line: usize, message: &str) -> Finding {
    Finding { path: file.path.clone(), line, rule: RULE, message: message.to_owned() }
}

//! The few places where tasks and processes start, so that each is owned and none is lost.
//! The lints forbid the calls by type; this check says where the exceptions may stand.

use crate::tidy::{
    Finding,
    lex::{Token, find},
    tree::Tree,
};

const RULE: &str = "spawns";

/// Where tasks may start.
const TASK_HOMES: [&str; 4] =
    ["crates/engine/src/spawn", "crates/control/src/executor", "crates/tools/src/host/jobs", PROCESS_HOME];
/// Where processes may start.
const PROCESS_HOMES: [&str; 2] = [PROCESS_HOME, "crates/tools/src/host/warden"];
const PROCESS_HOME: &str = "crates/tools/src/host/process";
/// Not part of the product.
const EXEMPT: [&str; 2] = ["crates/testkit", "xtask"];

/// Checks all product code.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.product() {
        if EXEMPT.iter().any(|exempt| file.is_in_module(exempt)) {
            continue;
        }
        let mut add = |tokens: Vec<&Token>, what: &str, homes: &[&str]| {
            if homes.iter().any(|home| file.is_in_module(home)) {
                return;
            }
            findings.extend(tokens.into_iter().map(|token| Finding {
                path: file.path.clone(),
                line: token.line,
                rule: RULE,
                message: format!("starts a {what}; that belongs in {}", homes.join(", ")),
            }));
        };
        add(tasks(&source.product), "task", &TASK_HOMES);
        add(processes(&source.product), "process", &PROCESS_HOMES);
    }
    findings
}

fn tasks(tokens: &[Token]) -> Vec<&Token> {
    let sequences: [&[&str]; 4] =
        [&["tokio", "::", "spawn"], &["task", "::", "spawn"], &["task", "::", "spawn_local"], &["JoinSet"]];
    let named = sequences.into_iter().flat_map(|sequence| find(tokens, sequence)).map(|at| &tokens[at]);
    let imported = imports(tokens).filter(|import| import[1].text == "tokio").flat_map(|import| {
        import.iter().filter(|token| ["spawn", "spawn_local"].contains(&token.text.as_str()))
    });
    named.chain(imported).collect()
}

/// Also an import under another name, behind which the call could hide.
fn processes(tokens: &[Token]) -> Vec<&Token> {
    let calls = find(tokens, &["Command", "::", "new"]).into_iter().map(|at| &tokens[at]);
    let renamed = imports(tokens)
        .filter(|import| import.iter().any(|token| token.text == "process"))
        .filter_map(|import| find(import, &["Command", "as"]).first().map(|&at| &import[at]));
    calls.chain(renamed).collect()
}

/// Each `use ..` up to its `;`.
fn imports(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    find(tokens, &["use"]).into_iter().filter_map(|at| {
        let end = tokens[at..].iter().position(|token| token.text == ";")?;
        (end > 1).then(|| &tokens[at..at + end])
    })
}

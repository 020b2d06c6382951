//! Each rule, shown to fail and to pass on a small workspace of its own.

use super::{findings, tree::Tree};
use std::fs;
use tempfile::TempDir;

const EXECUTOR: &str = "//! Runs.\nfn run(plan: Plan) {\n    plan.effect.run(cx);\n}\n";

/// A workspace that breaks no rule, to break one of them in.
struct Fake {
    root: TempDir,
}

impl Fake {
    fn new() -> Self {
        let fake = Self { root: tempfile::tempdir().unwrap() };
        fake.write("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n");
        fake.write("Cargo.lock", "version = 4\n");
        fake.write(".gitignore", "/target\n");
        fake.write(
            "crates/control/Cargo.toml",
            &manifest("control", "[dependencies]\nostler-proto.workspace = true\n"),
        );
        fake.write("crates/control/src/executor/run.rs", EXECUTOR);
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.root.path().join(path)).unwrap();
    }

    fn findings(&self) -> Vec<String> {
        findings(&Tree::read(self.root.path()).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn expect(&self, expected: &[&str]) {
        let found = self.findings();
        let matches = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
        assert!(matches, "expected {expected:#?}\nfound {found:#?}");
    }
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"ostler-{name}\"\n\n[lints]\nworkspace = true\n\n{rest}")
}

/// Adds one file to a workspace without faults and compares what is then found.
#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let fake = Fake::new();
    fake.write(path, text);
    fake.expect(expected);
}

/// The same for code of a crate, below the line that opens the file.
#[track_caller]
fn check_code(path: &str, code: &str, expected: &[&str]) {
    check(path, &format!("//! A file.\n{code}\n"), expected);
}

/// The same for the dependencies of a crate, whose first line is line 7.
#[track_caller]
fn check_manifest(name: &str, dependencies: &str, expected: &[&str]) {
    check(&format!("crates/{name}/Cargo.toml"), &manifest(name, dependencies), expected);
}

#[test]
fn a_workspace_without_faults_passes() {
    Fake::new().expect(&[]);
}

#[test]
fn crates_name_only_what_the_law_allows() {
    check_manifest(
        "engine",
        "[dependencies]\nostler-control.workspace = true\nostler-model.workspace = true\n",
        &[],
    );
    check_manifest(
        "engine",
        "[dependencies]\nostler-proto.workspace = true\nostler-tools.workspace = true\n",
        &["crates/engine/Cargo.toml:9: 'engine' may not name 'tools', only proto, model, control [crates]"],
    );
    check_manifest(
        "proto",
        "[build-dependencies]\nostler-model = { workspace = true }\n",
        &["crates/proto/Cargo.toml:8: 'proto' may not name 'model', only nothing"],
    );
    check_manifest(
        "tui",
        "[target.'cfg(unix)'.dependencies]\nostler-engine.workspace = true\n",
        &["crates/tui/Cargo.toml:8: 'tui' may not name 'engine'"],
    );
}

#[test]
fn the_testkit_is_for_development_only() {
    check_manifest("model", "[dev-dependencies]\nostler-testkit.workspace = true\n", &[]);
    check_manifest(
        "cli",
        "[dependencies]\nostler-testkit.workspace = true\n",
        &["crates/cli/Cargo.toml:8: 'cli' may not"],
    );
    check_manifest(
        "serve",
        "[dev-dependencies]\nostler-engine.workspace = true\n",
        &["crates/serve/Cargo.toml:8: 'serve' may not name 'engine'"],
    );
}

#[test]
fn another_name_does_not_hide_a_crate() {
    check_manifest(
        "serve",
        "[dependencies]\nrunner = { package = \"ostler-engine\", workspace = true }\n",
        &["crates/serve/Cargo.toml:8: 'serve' may not name 'engine'"],
    );
    let fake = Fake::new();
    fake.write(
        "Cargo.toml",
        "[workspace.dependencies]\nrunner = { package = \"ostler-engine\", path = \"crates/engine\" }\n",
    );
    fake.write("crates/serve/Cargo.toml", &manifest("serve", "[dependencies]\nrunner.workspace = true\n"));
    fake.expect(&["crates/serve/Cargo.toml:8: 'serve' may not name 'engine'"]);
}

#[test]
fn a_crate_outside_the_law_fails() {
    check_manifest("extra", "", &["crates/extra/Cargo.toml:1: the crate 'extra' has no row"]);
    check(
        "crates/cli/fuzz/Cargo.toml",
        "",
        &["crates/cli/fuzz/Cargo.toml:1: the crate 'cli/fuzz' has no row"],
    );
    check(
        "crates/tui/Cargo.toml",
        &manifest("screen", ""),
        &["crates/tui/Cargo.toml:1: the package must be named 'ostler-tui'"],
    );
    check("crates/tui/Cargo.toml", "[package\n", &["crates/tui/Cargo.toml:1: is not a manifest"]);
}

#[test]
fn versions_and_lints_come_from_the_workspace() {
    let expected = ["crates/model/Cargo.toml:8: 'serde' must be `workspace = true`"];
    check_manifest("model", "[dependencies]\nserde = \"1\"\n", &expected);
    check_manifest(
        "model",
        "[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\n",
        &expected,
    );
    check_manifest("model", "[dev-dependencies]\nserde = { path = \"../serde\" }\n", &expected);
    check_manifest("model", "[dependencies]\nserde = { workspace = true, features = [\"derive\"] }\n", &[]);
    check(
        "crates/model/Cargo.toml",
        "[package]\nname = \"ostler-model\"\n",
        &["crates/model/Cargo.toml:1: lacks `[lints] workspace = true`"],
    );
}

#[test]
fn an_effect_runs_in_the_executor_only() {
    let expected =
        ["crates/engine/src/a.rs:2: runs an effect; only crates/control/src/executor may [effects]"];
    check_code("crates/engine/src/a.rs", "fn f() { effect.run(cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { effect /* now */ .run(cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { effect\n    .run\n    (cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { (plan.effect).run(cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { self.effect.take()?.run(cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { Effect::run(held, cx) }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { <tools::Effect>::run(held, cx) }", &expected);
    check_code(
        "crates/tools/src/a.rs",
        "fn f() { plan.effect.run(cx) }",
        &["crates/tools/src/a.rs:2: runs an effect;"],
    );
}

#[test]
fn words_in_texts_and_tests_run_nothing() {
    check_code("crates/engine/src/a.rs", "// effect.run(cx)\nconst A: &str = \"effect.run(cx)\";", &[]);
    check_code(
        "crates/tools/src/a.rs",
        "#[cfg(test)]\nmod tests {\n    fn f() { plan.effect.run(cx); }\n}",
        &[],
    );
    check_code("crates/tools/src/a/tests.rs", "fn f() { plan.effect.run(cx); }", &[]);
    check_code("crates/tools/tests/it.rs", "fn f() { plan.effect.run(cx); }", &[]);
    check_code("crates/engine/src/a.rs", "fn f() { effect.runs(cx); effect(a).b; side.run(cx) }", &[]);
}

#[test]
fn what_stands_below_a_test_item_is_not_test_code() {
    let code = "#[cfg(test)]\nuse a::b;\nfn f() { effect.run(cx) }";
    check_code("crates/engine/src/a.rs", code, &["crates/engine/src/a.rs:4: runs an effect;"]);
}

#[test]
fn the_executor_runs_an_effect_once() {
    check_code(
        "crates/control/src/executor/second.rs",
        "fn f() { effect.run(cx) }",
        &[
            "crates/control/src/executor/second.rs:2: runs an effect a second time; the first is at crates/control/src/executor/run.rs:3",
        ],
    );
    let fake = Fake::new();
    fake.remove("crates/control/src/executor/run.rs");
    fake.expect(&["crates/control/src/executor:1: nothing runs a plan's effect"]);
    fake.write("crates/control/src/executor.rs", EXECUTOR);
    fake.expect(&[]);
    fake.write("crates/control/src/executors.rs", EXECUTOR);
    fake.expect(&["crates/control/src/executors.rs:3: runs an effect; only"]);
}

#[test]
fn a_plan_is_opened_in_the_executor_only() {
    let expected = ["crates/control/src/a.rs:2: takes the effect out of a plan"];
    check_code("crates/control/src/a.rs", "fn f() { keep(plan.effect) }", &expected);
    check_code("crates/control/src/a.rs", "fn f() { let Plan { intent, effect } = plan; }", &expected);
    check_code(
        "crates/control/src/a.rs",
        "fn f() { if let Some(tools::Plan { intent, .. }) = plan {} }",
        &expected,
    );
    check_code("crates/control/src/executor/a.rs", "fn f() { let Plan { intent, effect } = plan; }", &[]);
    check_code("crates/tools/src/a.rs", "fn f() -> Plan { Plan { intent, effect: Effect::new(g) } }", &[]);
    check_code(
        "crates/control/src/a.rs",
        "fn f() -> tools::Plan { if mode == Mode::Plan { plan.intent } }",
        &[],
    );
}

#[test]
fn an_effect_keeps_its_name() {
    let expected = ["crates/control/src/executor/a.rs:2: holds an effect under another name"];
    check_code(
        "crates/control/src/executor/a.rs",
        "fn f() { let held = plan.effect; held.run(cx) }",
        &expected,
    );
    check_code(
        "crates/control/src/executor/a.rs",
        "fn f() { let Plan { effect: held, .. } = plan; }",
        &expected,
    );
    check_code("crates/control/src/executor/a.rs", "fn f(held: Effect) { held.run(cx) }", &expected);
    check_code("crates/control/src/executor/a.rs", "use tools::Effect as Held;", &expected);
    check_code("crates/control/src/executor/a.rs", "fn f(effect: Effect) { let effect = plan.effect; }", &[]);
}

#[test]
fn tasks_start_in_their_homes_only() {
    let expected = ["crates/engine/src/a.rs:2: starts a task; that belongs in crates/engine/src/spawn, "];
    check_code("crates/engine/src/a.rs", "fn f() { tokio::spawn(g()); }", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { tokio::task::spawn(g()); }", &expected);
    check_code("crates/engine/src/a.rs", "struct A { tasks: JoinSet<()> }", &expected);
    check_code("crates/engine/src/a.rs", "use tokio::{sync::mpsc, spawn};", &expected);
    check_code("crates/engine/src/a.rs", "fn f() { tokio::task::spawn_blocking(g); child.spawn(); }", &[]);
    check_code("crates/engine/src/spawn.rs", "fn f() { tokio::spawn(g()); }", &[]);
    check_code("crates/tools/src/host/jobs.rs", "fn f() { tokio::spawn(g()); }", &[]);
    check_code("crates/control/src/executor/a.rs", "use tokio::task::JoinSet;", &[]);
    check_code("crates/testkit/src/a.rs", "fn f() { tokio::spawn(g()); }", &[]);
    check_code("crates/engine/benches/a.rs", "fn f() { tokio::spawn(g()); }", &[]);
}

#[test]
fn processes_start_in_their_home_only() {
    let expected = [
        "crates/control/src/executor/a.rs:2: starts a process; that belongs in crates/tools/src/host/process, crates/tools/src/host/warden",
    ];
    check_code("crates/control/src/executor/a.rs", "fn f() { Command::new(\"ls\"); }", &expected);
    check_code("crates/control/src/executor/a.rs", "use std::process::Command as Start;", &expected);
    check_code("crates/control/src/executor/a.rs", "use ostler_proto::Command as Order;", &[]);
    check_code("crates/tools/src/host/process/group.rs", "fn f() { Command::new(\"ls\"); }", &[]);
    check_code("crates/tools/src/host/warden/stages.rs", "fn f() { Command::new(\"ls\"); }", &[]);
    check_code("crates/tools/tests/it.rs", "fn f() { Command::new(\"ls\"); }", &[]);
}

#[test]
fn source_files_say_what_they_own() {
    check("crates/proto/src/a.rs", "struct A;\n", &["crates/proto/src/a.rs:1: must open with `//!`"]);
    check(
        "crates/proto/src/a/tests.rs",
        "struct A;\n",
        &["crates/proto/src/a/tests.rs:1: must open with `//!`"],
    );
    check("crates/proto/tests/a.rs", "struct A;\n", &[]);
}

#[test]
fn source_files_stay_short() {
    let long = "struct A;\n".repeat(600);
    let expected = ["crates/proto/src/a.rs:1: has 602 lines without tests"];
    check_code("crates/proto/src/a.rs", &long, &expected);
    check_code("crates/proto/src/a/tests.rs", &long, &[]);
    check_code("crates/proto/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}"), &[]);
    check_code("crates/proto/src/a.rs", &format!("#[cfg(test)]\nuse a;\n{long}"), &expected);
}

#[test]
fn nothing_is_left_unfinished() {
    let path = "crates/proto/src/a.rs";
    for (code, what) in [
        ("fn f() { todo!() }", "todo!"),
        ("fn f() { unimplemented!(\"later\") }", "unimplemented!"),
        ("fn f() { dbg!(a); }", "dbg!"),
        ("#[ignore]\nfn f() {}", "#[ignore]"),
        ("#[ignore = \"slow\"]\nfn f() {}", "#[ignore]"),
        ("#[cfg_attr(windows, ignore)]\nfn f() {}", "#[ignore]"),
    ] {
        check_code(path, code, &[&format!("{path}:2: has `{what}`; finish it")]);
    }
    check_code(
        "crates/proto/tests/a.rs",
        "#[ignore]\nfn f() {}",
        &["crates/proto/tests/a.rs:2: has `#[ignore]`"],
    );
    check_code(path, "// todo!()\nconst A: &str = \"dbg!(\";\nuse ignore::Walk;", &[]);
}

#[test]
fn a_module_of_tests_is_test_code() {
    check_code(
        "crates/proto/src/a.rs",
        "mod tests;",
        &["crates/proto/src/a.rs:2: has a module `tests` that is not under"],
    );
    check_code("crates/proto/src/a.rs", "#[cfg(test)]\nmod tests;", &[]);
}

#[test]
fn no_file_knows_a_machine() {
    for folder in ["work", "root", "home"] {
        let found = format!("notes.md:1: names a path of one machine: /{folder}/anna");
        check("notes.md", &format!("see (/{folder}/anna/notes)\n"), &[&found]);
        check(
            "notes.md",
            &format!("~/{folder}/anna $A/{folder}/b src/{folder}/c /{folder}s/d /{folder}/\n"),
            &[],
        );
    }
    check("notes.md", &format!("/{}/u/project and /{0}/<name>\n", "home"), &[]);
    check_code(
        "crates/tui/src/a.rs",
        &format!("// /{}/a", "root"),
        &["crates/tui/src/a.rs:2: names a path of one machine"],
    );
}

#[test]
fn lines_end_cleanly() {
    check(
        "notes.md",
        "one \ntwo\t\nthree\n",
        &["notes.md:1: has spaces at the end", "notes.md:2: has spaces at the end"],
    );
    check("notes.md", "one\ntwo", &["notes.md:2: does not end with a newline"]);
    check("crates/cli/tests/fixtures/a.md", "one \ntwo", &[]);
}

#[test]
fn the_lock_file_is_part_of_the_project() {
    let fake = Fake::new();
    fake.write(".gitignore", "/target\nCargo.lock\n");
    fake.remove("Cargo.lock");
    fake.expect(&[".gitignore:2: ignores Cargo.lock", "Cargo.lock:1: is missing"]);
}

#[test]
fn what_was_built_is_not_looked_at() {
    let fake = Fake::new();
    fake.write("target/debug/a.rs", "dirty \n");
    fake.write("elsewhere/CACHEDIR.TAG", "");
    fake.write("elsewhere/a.rs", "dirty \n");
    fake.expect(&[]);
}

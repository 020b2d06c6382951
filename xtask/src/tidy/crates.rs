//! The law of the crates: who may name whom, and that every crate takes versions and lints from the workspace.
//! Reads manifests only; what the code then names, the compiler checks.

use crate::tidy::{Finding, tree::File, tree::Tree};
use std::collections::HashMap;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

const RULE: &str = "crates";

/// Each crate and the crates it may name, as in the architecture. The testkit may be named for development only.
const MAY_NAME: [(&str, &[&str]); 10] = [
    ("proto", &[]),
    ("model", &["proto"]),
    ("tools", &["proto"]),
    ("control", &["proto", "tools"]),
    ("engine", &["proto", "model", "control"]),
    ("tui", &["proto"]),
    ("serve", &["proto"]),
    ("cli", &["proto", "model", "tools", "control", "engine", "tui", "serve"]),
    ("testkit", &["proto"]),
    ("xtask", &[]),
];

/// The tables of a manifest that name dependencies.
const KINDS: [(&str, Kind); 3] = [
    ("dependencies", Kind::Product),
    ("build-dependencies", Kind::Product),
    ("dev-dependencies", Kind::Development),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Product,
    Development,
}

/// A crate of the workspace while its manifest is checked.
struct Manifest<'a> {
    file: &'a File,
    /// The folder's name, which is the crate's name without the prefix.
    folder: &'a str,
    may_name: &'static [&'static str],
}

/// Checks all manifests.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let renamed = tree.file("Cargo.toml").map(renamed_in_workspace).unwrap_or_default();
    for file in &tree.files {
        let Some(folder) = folder_of_crate(&file.path) else { continue };
        let Some((_, may_name)) = MAY_NAME.iter().find(|(name, _)| *name == folder) else {
            findings.push(finding(
                file,
                0,
                format!("the crate '{folder}' has no row in the law of the crates"),
            ));
            continue;
        };
        match DeTable::parse(&file.text) {
            Ok(table) => Manifest { file, folder, may_name }.check(table.get_ref(), &renamed, &mut findings),
            Err(error) => findings.push(finding(file, 0, format!("is not a manifest: {}", error.message()))),
        }
    }
    findings
}

impl Manifest<'_> {
    fn check(&self, table: &DeTable<'_>, renamed: &HashMap<String, String>, findings: &mut Vec<Finding>) {
        let wanted =
            if self.folder == "xtask" { "xtask".to_owned() } else { format!("ostler-{}", self.folder) };
        if text(table, "package", "name") != Some(&wanted) {
            findings.push(finding(self.file, 0, format!("the package must be named '{wanted}'")));
        }
        let lints = table.get("lints").and_then(|lints| lints.get_ref().get("workspace"));
        if lints.and_then(|inherits| inherits.get_ref().as_bool()) != Some(true) {
            findings.push(finding(self.file, 0, "lacks `[lints] workspace = true`".to_owned()));
        }
        let targets = table.get("target").and_then(|targets| targets.get_ref().as_table());
        let targets =
            targets.into_iter().flat_map(DeTable::values).filter_map(|target| target.get_ref().as_table());
        for holder in std::iter::once(table).chain(targets) {
            for (name, kind) in KINDS {
                let dependencies =
                    holder.get(name).and_then(|dependencies| dependencies.get_ref().as_table());
                for (key, value) in dependencies.into_iter().flatten() {
                    self.check_dependency(key, value.get_ref(), kind, renamed, findings);
                }
            }
        }
    }

    fn check_dependency(
        &self,
        key: &Spanned<impl AsRef<str>>,
        value: &DeValue<'_>,
        kind: Kind,
        renamed: &HashMap<String, String>,
        findings: &mut Vec<Finding>,
    ) {
        let name = key.get_ref().as_ref();
        let at = key.span().start;
        if value.get("workspace").and_then(|inherits| inherits.get_ref().as_bool()) != Some(true) {
            let message = format!("'{name}' must be `workspace = true`; versions live in the root manifest");
            findings.push(finding(self.file, at, message));
        }
        let package = value.get("package").and_then(|package| package.get_ref().as_str());
        let package = package.or(renamed.get(name).map(String::as_str)).unwrap_or(name);
        let Some(named) = package.strip_prefix("ostler-") else { return };
        let is_test_aid = named == "testkit" && kind == Kind::Development;
        if !is_test_aid && !self.may_name.contains(&named) {
            let allowed =
                if self.may_name.is_empty() { "nothing".to_owned() } else { self.may_name.join(", ") };
            let message = format!("'{}' may not name '{named}', only {allowed}", self.folder);
            findings.push(finding(self.file, at, message));
        }
    }
}

/// The crate a manifest belongs to.
fn folder_of_crate(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    Some(folder.strip_prefix("crates/").unwrap_or(folder))
}

/// Dependencies that the root manifest gives another name, by that name.
fn renamed_in_workspace(root: &File) -> HashMap<String, String> {
    let Ok(table) = DeTable::parse(&root.text) else { return HashMap::new() };
    let workspace =
        table.get_ref().get("workspace").and_then(|workspace| workspace.get_ref().get("dependencies"));
    let dependencies = workspace.and_then(|dependencies| dependencies.get_ref().as_table());
    let package =
        |value: &Spanned<DeValue<'_>>| Some(value.get_ref().get("package")?.get_ref().as_str()?.to_owned());
    dependencies
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.get_ref().to_string(), package(value)?)))
        .collect()
}

fn text<'a>(table: &'a DeTable<'_>, section: &str, key: &str) -> Option<&'a str> {
    table.get(section)?.get_ref().get(key)?.get_ref().as_str()
}

fn finding(file: &File, at: usize, message: String) -> Finding {
    let line = file.text[..at].matches('\n').count() + 1;
    Finding { path: file.path.clone(), line, rule: RULE, message }
}

//! Runs the benchmarks of `crates/cli/benches`, each a program of its own, built like a release.
//! Never measures anything itself.

use crate::run::{cargo, succeeds};
use anyhow::{Context, Result, bail};
use std::{fs, path::Path};

/// Runs one benchmark with its arguments, or all of them.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let known = names(root)?;
    let Some((chosen, rest)) = arguments.split_first() else {
        let mut passed = true;
        for name in &known {
            passed &= bench(root, name, &[])?;
        }
        return Ok(passed);
    };
    if !known.contains(chosen) {
        bail!("there is no benchmark '{chosen}'; there are: {}", known.join(", "));
    }
    bench(root, chosen, rest)
}

fn bench(root: &Path, name: &str, arguments: &[String]) -> Result<bool> {
    println!("── bench {name}");
    succeeds(
        cargo(root).args(["bench", "--quiet", "-p", "ostler-cli", "--bench", name, "--"]).args(arguments),
    )
}

/// A benchmark is a file of the folder, or a folder with a `main.rs`.
fn names(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("crates/cli/benches");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let is_bench =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
        if let (true, Some(name)) = (is_bench, path.file_stem()) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_found_by_file_and_by_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("crates/cli/benches");
        fs::create_dir_all(folder.join("turns")).unwrap();
        fs::create_dir_all(folder.join("shared")).unwrap();
        for file in ["start.rs", "turns/main.rs", "shared/mod.rs", "notes.md"] {
            fs::write(folder.join(file), "").unwrap();
        }
        assert_eq!(names(root.path()).unwrap(), ["start", "turns"]);
    }

    #[test]
    fn an_unknown_benchmark_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("crates/cli/benches")).unwrap();
        fs::write(root.path().join("crates/cli/benches/start.rs"), "").unwrap();
        let error = run(root.path(), &["finish".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "there is no benchmark 'finish'; there are: start");
    }
}

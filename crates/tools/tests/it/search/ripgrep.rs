//! `Grep` beside `rg`: the same questions must get the same lines.

use crate::Scene;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Stdio},
};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("a.rs", "fn alpha() {\n    beta();\n}\n\nfn gamma() {\n    // Alpha alpha\n}\n");
    scene.write("b/b.py", "def alpha():\n    return 'beta alpha'\n\n\n\n\nalpha = 1");
    scene.write("b/c.txt", "nothing here\nALPHA\n");
    scene.write("b/ignored/d.rs", "alpha\n");
    scene.write("b/.ignore", "ignored\n");
    scene.write(".hidden.rs", "alpha\n");
    scene.write("z.bin", b"alpha\0alpha\n");
    scene.write("umlaut", "größe alpha\nno newline at the end: alpha");
    scene
}

/// Runs `rg` in a folder; `None` where it is not installed.
fn rg(folder: &Path, arguments: &[&str]) -> Option<String> {
    let fixed = ["--no-config", "--no-heading", "--with-filename", "--color=never", "--sort=path"];
    let output = Command::new("rg")
        .args(fixed)
        .args(arguments)
        .arg("./")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).unwrap().replace("./", "").trim_end().to_owned())
}

#[tokio::test]
async fn every_option_does_what_it_does_in_ripgrep() {
    let scene = scene();
    if rg(&scene.dir, &["--version"]).is_none() {
        println!("skipped: rg is not installed");
        return;
    }
    let patterns = ["alpha", "^fn", "b.t.|größe", r"\balpha\b$", "", r"\s+$", "nowhere"];
    let options: [(Value, &[&str]); 13] = [
        (json!({}), &["-n"]),
        (json!({"-i": true}), &["-n", "-i"]),
        (json!({"-n": false}), &[]),
        (json!({"-o": true}), &["-n", "-o"]),
        (json!({"-A": 1}), &["-n", "-A1"]),
        (json!({"-B": 2}), &["-n", "-B2"]),
        (json!({"-C": 1}), &["-n", "-C1"]),
        (json!({"context": 2, "-A": 0}), &["-n", "-B2"]),
        (json!({"type": "py"}), &["-n", "-tpy"]),
        (json!({"glob": "*.{rs,txt}"}), &["-n", "-g*.{rs,txt}"]),
        (json!({"glob": "!*.py"}), &["-n", "-g!*.py"]),
        (json!({"multiline": true}), &["-n", "-U", "--multiline-dotall"]),
        (json!({"multiline": true, "-o": true, "-i": true}), &["-n", "-U", "--multiline-dotall", "-o", "-i"]),
    ];
    for pattern in patterns.into_iter().chain([r"alpha.*?beta", r"\{[^}]*\}"]) {
        for (option, flags) in &options {
            // Parts of nothing but space say nothing; which of them are listed differs.
            if ["", r"\s+$"].contains(&pattern) && option.get("-o").is_some() {
                continue;
            }
            let mut input = option.clone();
            input["pattern"] = Value::from(pattern);
            input["output_mode"] = Value::from("content");
            input["head_limit"] = Value::from(0);
            let ours = scene.call("Grep", input.clone()).await.unwrap();
            let theirs = rg(&scene.dir, &[flags, &["-e", pattern][..]].concat()).unwrap();
            // A break between files is drawn by rg and needless with names on every line.
            assert_eq!(lines(ours.structured["content"].as_str().unwrap()), lines(&theirs), "{input}");
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| *line != "--").collect()
}

#[tokio::test]
async fn files_and_counts_are_those_of_ripgrep() {
    let scene = scene();
    if rg(&scene.dir, &["--version"]).is_none() {
        println!("skipped: rg is not installed");
        return;
    }
    for pattern in ["alpha", "(?i)alpha", "beta", "^$", "nowhere", "a", "alpha.*?beta", r"\{[^}]*\}"] {
        let ours = scene.call("Grep", json!({"pattern": pattern})).await.unwrap();
        let mut ours: Vec<&str> =
            ours.structured["filenames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        ours.sort_unstable();
        assert_eq!(ours.join("\n"), rg(&scene.dir, &["-l", "-e", pattern]).unwrap(), "{pattern}");
        for (multiline, flags) in [(false, &[][..]), (true, &["-U", "--multiline-dotall"])] {
            let input = json!({"pattern": pattern, "output_mode": "count", "multiline": multiline});
            let ours = scene.call("Grep", input).await.unwrap();
            let theirs = rg(&scene.dir, &[flags, &["-c", "-e", pattern]].concat()).unwrap();
            assert_eq!(ours.structured["content"].as_str().unwrap(), theirs, "{pattern} {multiline}");
        }
    }
}

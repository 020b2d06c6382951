//! Protected names (S3): neither made, replaced nor got at by moving what is around them, whether
//! they exist or not; and nothing of the protection is left on the disk.

use crate::cage::{Cage, backends, cages, finish};
use ostler_tools::host::Backend;
use std::{path::Path, process::Stdio};

/// Every name of the protected set (P6), and one further down.
const NAMES: [&str; 22] = [
    ".claude",
    ".ostler",
    ".codex",
    ".gemini",
    ".cursor",
    ".mcp.json",
    ".git/hooks",
    ".git/config",
    ".git/info",
    ".git/modules",
    ".git/worktrees",
    ".gitmodules",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".envrc",
    ".npmrc",
    ".pre-commit-config.yaml",
    "sub/project/.claude/settings.json",
];

fn attempts(name: &str) -> Vec<String> {
    let parent = Path::new(name).parent().unwrap().display().to_string();
    let mut attempts = vec![
        format!("mkdir -p '{parent}/.' 2>/dev/null; echo evil > {name}"),
        format!("mkdir -p '{parent}/.' 2>/dev/null; mkdir -p {name} && echo evil > {name}/evil"),
        format!(
            "echo evil > src/evil; mkdir -p '{parent}/.' 2>/dev/null; mv -fT src/evil {name} && grep evil {name}"
        ),
        format!("mkdir -p src/evil && touch src/evil/evil; mv -fT src/evil {name} && test -e {name}/evil"),
        format!("ln -sfT /tmp {name} && test -L {name}"),
        format!("echo evil > src/evil; ln -fT src/evil {name} && grep evil {name}"),
        format!("rm -rf {name}; mkdir -p {name} && echo evil > {name}/evil"),
        format!("mv -T {name} src/away && mkdir -p {name} && echo evil > {name}/evil"),
    ];
    if !parent.is_empty() {
        attempts.push(format!("mv -T {parent} src/moved && mkdir -p {name} && echo evil > {name}/evil"));
        attempts.push(format!("rm -rf {parent}; mkdir -p {parent}; echo evil > {name}"));
        attempts.push(format!("mkdir -p src/p/$(basename {name}) && touch src/p/$(basename {name})/evil && mv -fT src/p {parent} && test -e {name}/evil"));
        attempts.push(format!("rm -rf {parent}; ln -sT /tmp {parent} && test -L {parent}"));
    }
    attempts
}

/// Everything below a folder, links not followed.
fn everything(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        found.push(entry.path().display().to_string());
        if kind.is_dir() {
            found.extend(everything(&entry.path()));
        }
    }
    found.sort();
    found
}

/// One command that tries everything, so that a try may build on what another has done.
#[track_caller]
fn try_all(cage: &Cage) {
    let one = |attempt: String| {
        format!("rm -rf src/*\n(\n{attempt}\n) > /dev/null 2>&1 && cat <<'X'\n{attempt}\nX\n")
    };
    let script: String = NAMES.iter().flat_map(|name| attempts(name)).map(one).collect();
    std::fs::write(cage.outside.join("script"), script).unwrap();
    let ran = cage.allows(". $OUTSIDE/script; rm -rf src/*");
    assert_eq!(ran.output, "", "{}: these got through", cage.backend);
}

#[test]
fn absent_names_cannot_be_made() {
    for mut cage in cages() {
        for name in NAMES {
            cage.freeze(name);
        }
        try_all(&cage);
        let target = |name: &str| cage.project.join(name);
        let made: Vec<_> = NAMES.iter().filter(|name| target(name).symlink_metadata().is_ok()).collect();
        assert_eq!(made, Vec::<&&str>::new(), "{}", cage.backend);
    }
}

#[test]
fn files_that_are_there_cannot_be_changed() {
    for mut cage in cages() {
        for name in NAMES {
            let target = cage.project.join(name);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::write(&target, "good").unwrap();
            cage.freeze(name);
        }
        try_all(&cage);
        for name in NAMES {
            assert_eq!(std::fs::read(cage.project.join(name)).unwrap(), b"good", "{}: {name}", cage.backend);
        }
    }
}

#[test]
fn folders_that_are_there_cannot_be_changed() {
    for mut cage in cages() {
        for name in NAMES {
            std::fs::create_dir_all(cage.project.join(name)).unwrap();
            std::fs::write(cage.project.join(name).join("good"), "good").unwrap();
            cage.freeze(name);
        }
        try_all(&cage);
        for name in NAMES {
            assert_eq!(
                everything(&cage.project.join(name)),
                [cage.project.join(name).join("good").display().to_string()],
                "{}: {name}",
                cage.backend
            );
        }
    }
}

#[test]
fn nothing_is_left_of_the_protection() {
    for backend in backends() {
        let mut cage = Cage::new(backend);
        std::fs::create_dir(cage.project.join(".git")).unwrap();
        let before = everything(&cage.project);
        for name in NAMES {
            cage.freeze(name);
        }
        cage.allows("true");
        cage.run("kill -9 $$");
        drop(cage.launch("sleep 1000", Stdio::null()).unwrap());
        finish(cage.launch("exit 0", Stdio::null()).unwrap()).unwrap();
        for _ in 0..500 {
            if everything(&cage.project) == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(everything(&cage.project), before, "{backend}");
    }
}

#[test]
fn commands_side_by_side_share_the_protection() {
    for backend in backends() {
        let mut cage = Cage::new(backend);
        cage.freeze(".mcp.json");
        let (mut ready, end) = std::io::pipe().unwrap();
        let waiting =
            "echo ready; until test -e src/go; do sleep 0.01; done; echo evil > .mcp.json && exit 9; exit 0";
        let long = cage.launch(waiting, end.into()).unwrap();
        std::io::Read::read_exact(&mut ready, &mut [0; 6]).unwrap();
        cage.refuses("echo evil > .mcp.json");
        cage.allows("touch src/go");
        assert_eq!(
            finish(long).unwrap().code(),
            Some(0),
            "{backend}: the first to end took the protection away"
        );
        assert!(!cage.project.join(".mcp.json").exists(), "{backend}");
    }
}

#[test]
fn a_placeholder_left_behind_is_taken_for_nothing() {
    for backend in backends() {
        let mut cage = Cage::new(backend);
        cage.freeze(".claude/settings.json");
        let left = cage.project.join(".claude");
        std::fs::create_dir(&left).unwrap();
        std::fs::set_permissions(&left, std::os::unix::fs::PermissionsExt::from_mode(0o1555)).unwrap();
        cage.refuses("mkdir -p .claude; echo evil > .claude/settings.json");
        // Landlock needs none, and so does not look for them.
        assert_eq!(left.exists(), backend == Backend::Landlock, "{backend}");
    }
}

#[test]
fn links_on_the_way_are_held_in_place() {
    for backend in backends() {
        let mut cage = Cage::new(backend);
        std::fs::create_dir_all(cage.project.join("shared/claude")).unwrap();
        std::os::unix::fs::symlink("shared/claude", cage.project.join(".claude")).unwrap();
        cage.freeze(".claude/settings.json");
        if backend == Backend::Bubblewrap {
            let error = cage.try_run("true").unwrap_err().to_string();
            assert!(error.contains("symbolic link") && error.contains(".claude"), "{error}");
            continue;
        }
        for attempt in [
            "echo evil > .claude/settings.json",
            "echo evil > shared/claude/settings.json",
            "rm .claude && mkdir .claude && echo evil > .claude/settings.json",
            "mv .claude src/x && mkdir .claude && echo evil > .claude/settings.json",
            "mv shared src/x && mkdir -p shared/claude && echo evil > .claude/settings.json",
            "ln -sfT src .claude && echo evil > .claude/settings.json",
        ] {
            cage.refuses(attempt);
        }
        assert!(!cage.project.join(".claude/settings.json").exists());
    }
}

#[test]
fn a_writable_folder_inside_a_frozen_one_stays_writable() {
    for mut cage in cages() {
        std::fs::create_dir_all(cage.project.join(".ostler/tmp")).unwrap();
        cage.freeze(".ostler");
        cage.bounds.writable.push(cage.project.join(".ostler/tmp"));
        cage.refuses("touch .ostler/x");
        if cage.backend != Backend::Landlock {
            cage.allows("touch .ostler/tmp/x");
        }
    }
}

#[test]
fn git_works_beside_frozen_parts() {
    if !Path::new("/usr/bin/git").exists() {
        println!("not tested: there is no git");
        return;
    }
    for mut cage in cages() {
        if cage.backend == Backend::Landlock {
            println!("landlock is not tested: it cannot tell the names in a folder apart");
            continue;
        }
        cage.allows("git init -q . && git config user.email a@b.c && git config user.name n");
        for name in NAMES.iter().filter(|name| name.starts_with(".git")) {
            cage.freeze(name);
        }
        cage.allows(
            "echo a > a && git add a && git commit -qm one && git checkout -qb other && git log --oneline",
        );
        assert_eq!(cage.allows("git status --porcelain").output, "", "{}", cage.backend);
        cage.refuses("git config core.fsmonitor ./evil");
    }
}

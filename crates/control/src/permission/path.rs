//! Where a path lies: inside the working directories, or among the names that decide about the
//! agent or run by themselves. Component-wise on resolved paths, never by string prefix.

use ostler_proto::PathFact;
use std::path::{Component, Path, PathBuf};

/// Folders whose content is policy, or is run by other tools without asking.
const PROTECTED_FOLDERS: &[&str] = &[
    ".git",
    ".ostler",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".kiro",
    ".amazonq",
    ".amp",
    ".roo",
    ".continue",
    ".zed",
    ".vscode",
    ".idea",
    ".husky",
    ".circleci",
    ".buildkite",
    ".cargo",
    ".devcontainer",
    ".yarn",
    ".mvn",
    ".ssh",
    ".gnupg",
    ".aws",
];

/// Files whose content is policy, or is run by other tools without asking.
const PROTECTED_FILES: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".bash_logout",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".profile",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".bazelversion",
    ".bazeliskrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yml",
    ".lefthook.yaml",
    "gradle-wrapper.properties",
    "maven-wrapper.properties",
    ".devcontainer.json",
    ".ripgreprc",
    "pyrightconfig.json",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
    ".mcp.json",
    ".claude.json",
];

/// Folders of such content inside folders that hold other things too.
const PROTECTED_WITHIN: &[[&str; 2]] =
    &[[".config", "git"], [".github", "workflows"], [".github", "actions"]];

/// Of these the ones that must not even come into being: what agents, editors and builds act on by
/// themselves, and what no program minds as an empty folder.
const HELD: &[&str] = &[
    ".ostler",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".vscode",
    ".idea",
    ".husky",
    ".cargo",
    ".devcontainer",
    ".mcp.json",
    ".claude.json",
    ".envrc",
];

/// Whether the path, every link on the way and the target lie in one of the roots.
pub(super) fn is_inside(fact: &PathFact, roots: &[PathBuf]) -> bool {
    fact.spellings().all(|path| {
        // A path that still climbs is not where it seems.
        !path.components().any(|part| part == Component::ParentDir)
            && roots.iter().any(|root| path.starts_with(root))
    })
}

/// What a command that was approved does to a repository's own folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GitWork {
    /// Nothing that git was called for.
    None,
    /// It works in a repository: commits, branches, configuration.
    Changes,
    /// It makes one.
    Makes,
}

/// What of a working directory no confined command may write, whether it exists or not. Of `.git`
/// only what git itself acts on: the rest is where commits go.
pub(super) fn protected_below(root: &Path, git: GitWork) -> impl Iterator<Item = PathBuf> {
    const OF_GIT: [&str; 5] = [".git/hooks", ".git/config", ".git/info", ".git/modules", ".git/worktrees"];
    let of_git = match git {
        GitWork::None => &OF_GIT[..],
        GitWork::Changes => &OF_GIT[..1],
        GitWork::Makes => &[],
    };
    of_git.iter().chain(HELD).map(|name| root.join(name)).collect::<Vec<_>>().into_iter()
}

/// What of a working directory no confined command may write if it exists.
pub(super) fn kept_below(root: &Path) -> impl Iterator<Item = PathBuf> {
    let names = PROTECTED_FOLDERS
        .iter()
        .chain(PROTECTED_FILES)
        .filter(|name| **name != ".git" && !HELD.contains(name));
    let within = PROTECTED_WITHIN.iter().map(|[outer, inner]| root.join(outer).join(inner));
    names.map(|name| root.join(name)).chain(within).collect::<Vec<_>>().into_iter()
}

/// Whether any spelling of the path names something protected.
pub(super) fn is_protected(fact: &PathFact) -> bool {
    fact.spellings().any(names_protected)
}

/// Whether every spelling lies in an agent's own folder, and nothing in it decides what may run: the user
/// can let the agent write there for a session.
pub(super) fn is_own_folder(fact: &PathFact) -> bool {
    const OWN: [&str; 2] = [".ostler", ".claude"];
    fact.spellings().all(|path| {
        let names = plain_names(path);
        let decides = names
            .last()
            .is_some_and(|name| name.starts_with("settings") || PROTECTED_FILES.contains(&name.as_str()));
        let elsewhere = |name: &&String| {
            let name = name.as_str();
            PROTECTED_FOLDERS.contains(&name) && !OWN.contains(&name) || name == "hooks"
        };
        names.iter().any(|name| OWN.contains(&name.as_str()))
            && !decides
            && !names.iter().any(|name| elsewhere(&name))
    })
}

fn plain_names(path: &Path) -> Vec<String> {
    let normal = path.components().filter_map(|part| {
        if let Component::Normal(name) = part { Some(plain(&name.to_string_lossy())) } else { None }
    });
    normal.collect()
}

fn names_protected(path: &Path) -> bool {
    let names = plain_names(path);
    let worktree = names.windows(2).any(|pair| pair[0] == ".claude" && pair[1] == "worktrees");
    let in_folder = names
        .iter()
        .any(|name| PROTECTED_FOLDERS.contains(&name.as_str()) && !(name == ".claude" && worktree));
    in_folder
        || names.last().is_some_and(|name| PROTECTED_FILES.contains(&name.as_str()))
        || names.windows(2).any(|pair| PROTECTED_WITHIN.iter().any(|within| pair == within))
}

/// The name as the most forgiving file system would compare it.
fn plain(name: &str) -> String {
    let visible: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    let stream = visible.split(':').next().unwrap_or_default();
    stream.trim_end_matches(['.', ' ']).to_lowercase()
}

fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_hold_in_every_spelling() {
        for path in [
            "/w/.git/hooks/x",
            "/w/.GIT/config",
            "/w/a/.mcp.json",
            "/w/.bashrc.",
            "/w/.claude/settings.json",
            "/w/.g\u{200b}it/x",
            "/h/.config/git/config",
            "/w/.github/Workflows/ci.yml",
            "/w/a/.gitlab-ci.yml",
            "/w/Jenkinsfile",
            "/w/.kiro/settings/mcp.json",
        ] {
            assert!(names_protected(Path::new(path)), "{path}");
        }
        for path in ["/w/git/x", "/w/src/.gitignore", "/w/.claude/worktrees/a/f", "/w/.github/x"] {
            assert!(!names_protected(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn inside_means_every_spelling() {
        let roots = [PathBuf::from("/w")];
        let fact = |requested: &str, target: &str| PathFact {
            requested: requested.into(),
            hops: vec![],
            target: target.into(),
            exists: true,
        };
        assert!(is_inside(&fact("/w/a", "/w/a"), &roots));
        assert!(!is_inside(&fact("/w-evil/a", "/w-evil/a"), &roots));
        assert!(!is_inside(&fact("/w/link", "/etc/passwd"), &roots));
        assert!(!is_inside(&fact("/w/../etc", "/w/x"), &roots));
    }
}

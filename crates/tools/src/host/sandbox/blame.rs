//! Tells whether a command failed because of its bounds, in a sentence that says what to do about it.
//! It only reads what the command printed; it is a hint, and decides nothing.

use super::{Bounds, Network};
use std::path::Path;

/// How much of the output is looked at, from its end: failures are told last.
const LOOKED_AT: usize = 16 * 1024;

const READ_ONLY: [&str; 2] = ["Read-only file system", "EROFS"];
const DENIED: [&str; 4] = ["Permission denied", "Operation not permitted", "EACCES", "EPERM"];
const BUSY: [&str; 2] = ["Device or resource busy", "EBUSY"];
const NO_NETWORK: [&str; 12] = [
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "Could not resolve proxy",
    "failed to lookup address information",
    "dial tcp: lookup",
    "No address associated with hostname",
];
/// Written by the proxy into its refusals.
const PROXY: [&str; 3] = ["blocked-by-sandbox", "response 403", "tunnel failed"];

/// Why a command that ended with `code` may have failed inside its bounds; nothing if it succeeded or
/// the failure looks like one of its own.
pub fn blame(output: &str, code: i32, bounds: &Bounds) -> Option<String> {
    if code == 0 {
        return None;
    }
    let output = tail(output);
    let line_with = |signs: &[&str]| output.lines().find(|line| signs.iter().any(|sign| line.contains(sign)));
    let is_frozen = |line: &str| bounds.frozen.iter().any(|path| mentions(line, path));
    let is_hidden = |line: &str| bounds.hidden.iter().any(|path| mentions(line, path));
    let way_out = "If it is needed, run it again with dangerouslyDisableSandbox, which asks the user.";
    if let Some(line) = line_with(&READ_ONLY).or_else(|| line_with(&BUSY).filter(|line| is_frozen(line))) {
        let what = if is_frozen(line) {
            "it tried to change a protected path".to_owned()
        } else {
            format!("it tried to write outside of {}", list(&bounds.writable))
        };
        return Some(format!("The sandbox stopped this command: {what} ({}). {way_out}", line.trim()));
    }
    if let Some(line) = line_with(&DENIED).filter(|line| is_frozen(line) || is_hidden(line)) {
        let what = if is_hidden(line) { "read a hidden path" } else { "change a protected path" };
        return Some(format!(
            "The sandbox stopped this command: it tried to {what} ({}). {way_out}",
            line.trim()
        ));
    }
    let network = match &bounds.network {
        Network::Open => return None,
        Network::Cut => "it has no network in there".to_owned(),
        Network::Hosts(hosts) => format!("of the network it reaches only {}", hosts.join(", ")),
    };
    let line = line_with(&NO_NETWORK).or_else(|| line_with(&PROXY))?;
    Some(format!("The sandbox may have stopped this command: {network} ({}). {way_out}", line.trim()))
}

fn tail(output: &str) -> &str {
    let from = output.len().saturating_sub(LOOKED_AT);
    let from = (from..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or_default();
    &output[from..]
}

/// Whether a line names a path, whole or by its last parts, as programs print it.
fn mentions(line: &str, path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = path.parent().and_then(Path::file_name);
    let short = parent.map(|parent| format!("{}/{name}", parent.to_string_lossy()));
    line.contains(&*path.to_string_lossy())
        || short.is_some_and(|short| line.contains(&short))
        || name.starts_with('.') && line.contains(&name)
}

fn list(paths: &[std::path::PathBuf]) -> String {
    match paths {
        [] => "nothing: it may write nowhere".to_owned(),
        [one] => one.display().to_string(),
        [first, ..] => format!("{} and the session's other folders", first.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, code: i32, network: Network, expected: Option<&str>) {
        let bounds = Bounds {
            kept: Vec::new(),
            writable: vec!["/home/u/project".into()],
            frozen: vec!["/home/u/project/.git/hooks".into(), "/home/u/project/.mcp.json".into()],
            hidden: vec!["/home/u/.ssh".into()],
            network,
        };
        let blamed = blame(output, code, &bounds);
        match expected {
            None => assert_eq!(blamed, None, "{output}"),
            Some(part) => {
                let blamed = blamed.expect(output);
                assert!(blamed.contains(part) && blamed.contains("dangerouslyDisableSandbox"), "{blamed}");
            }
        }
    }

    #[test]
    fn failures_of_the_sandbox_are_told_from_others() {
        use Network::{Cut, Hosts, Open};
        check("bash: /etc/x: Read-only file system", 1, Cut, Some("write outside of /home/u/project"));
        check("Error: EROFS: read-only file system, open '/usr/x'", 1, Open, Some("write outside"));
        check("mv: cannot move 'a' to '.mcp.json': Device or resource busy", 1, Cut, Some("protected path"));
        check("touch: .git/hooks/pre-commit: Read-only file system", 1, Cut, Some("protected path"));
        check("cat: /home/u/.ssh: Permission denied", 1, Cut, Some("hidden path"));
        check("curl: (6) Could not resolve host: example.org", 6, Cut, Some("no network"));
        check(
            "curl: (56) CONNECT tunnel failed, response 403",
            56,
            Hosts(vec!["a.org".into()]),
            Some("a.org"),
        );
        check("curl: (6) Could not resolve host: example.org", 6, Open, None);
        check("bash: /etc/x: Read-only file system", 0, Cut, None);
        check("cat: /var/log/x: Permission denied", 1, Cut, None);
        check("umount: /mnt: Device or resource busy", 1, Cut, None);
        check("error[E0308]: mismatched types", 101, Cut, None);
        check(&"€".repeat(20_000), 1, Cut, None);
    }
}

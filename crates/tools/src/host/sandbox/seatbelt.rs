//! Bounds written as a profile for macOS's `sandbox-exec`. Only text; starting a program under it is
//! left to whoever runs on that system.

use super::{Bounds, Network};
use std::{fmt::Write as _, path::Path};

const HEAD: &str = "\
(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name \"com.apple.system.opendirectoryd.libinfo\")
  (global-name \"com.apple.system.notification_center\")
  (global-name \"com.apple.logd\")
  (global-name \"com.apple.trustd.agent\"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-ioctl (literal \"/dev/null\") (literal \"/dev/tty\") (regex #\"^/dev/ttys[0-9]+$\"))
(allow file-read*)
(allow file-write-data
  (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\") (literal \"/dev/dtracehelper\"))
";

/// The profile. Later rules win over earlier ones, so what is frozen or hidden comes last.
pub fn seatbelt(bounds: &Bounds) -> String {
    let mut profile = HEAD.to_owned();
    for path in &bounds.writable {
        // Writing to a string cannot fail.
        let _ = writeln!(profile, "(allow file-write* (subpath {}))", quoted(path));
    }
    for path in bounds.frozen.iter().chain(&bounds.kept) {
        let _ = writeln!(profile, "(deny file-write* (subpath {}))", quoted(path));
    }
    for folder in parents(bounds) {
        // Whoever could move a folder on the way could put another in its place.
        let _ = writeln!(profile, "(deny file-write-unlink (literal {}))", quoted(folder));
    }
    for path in &bounds.hidden {
        let _ = writeln!(profile, "(deny file-read* file-write* (subpath {}))", quoted(path));
    }
    profile.push_str(match bounds.network {
        // Hosts are let through by a proxy, which listens on this machine.
        Network::Hosts(_) => "(allow network-outbound (remote ip \"localhost:*\"))\n",
        Network::Open => "(allow network*)\n(allow system-socket)\n",
        Network::Cut => "",
    });
    profile
}

/// The folders between what may be written and what may not.
fn parents(bounds: &Bounds) -> Vec<&Path> {
    let is_writable = |path: &Path| bounds.writable.iter().any(|root| path.starts_with(root) && path != root);
    let between = bounds.frozen.iter().flat_map(|path| path.ancestors().skip(1));
    let mut parents: Vec<&Path> = between.filter(|path| is_writable(path)).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(bounds: &Bounds) -> String {
        seatbelt(bounds).strip_prefix(HEAD).unwrap().to_owned()
    }

    #[test]
    fn what_is_frozen_or_hidden_comes_after_what_is_writable() {
        let bounds = Bounds {
            kept: Vec::new(),
            writable: vec!["/p".into()],
            frozen: vec!["/p/.git/hooks".into(), "/p/.mcp.json".into()],
            hidden: vec!["/home/u/.ssh".into()],
            network: Network::Cut,
        };
        let expected = "\
(allow file-write* (subpath \"/p\"))
(deny file-write* (subpath \"/p/.git/hooks\"))
(deny file-write* (subpath \"/p/.mcp.json\"))
(deny file-write-unlink (literal \"/p/.git\"))
(deny file-read* file-write* (subpath \"/home/u/.ssh\"))
";
        assert_eq!(rules(&bounds), expected);
    }

    #[test]
    fn the_network_is_cut_unless_said() {
        let with = |network| rules(&Bounds { network, ..Bounds::default() });
        assert_eq!(with(Network::Cut), "");
        assert!(with(Network::Hosts(vec!["a.org".into()])).contains("localhost"));
        assert!(with(Network::Open).contains("(allow network*)"));
    }

    proptest! {
        #[test]
        fn no_path_breaks_out_of_its_quotes(path in "[\\PC\"\\\\()\n]{1,30}") {
            let text = quoted(Path::new(&path));
            let inside = &text[1..text.len() - 1];
            let mut characters = inside.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\\' => prop_assert!(matches!(characters.next(), Some('\\' | '"'))),
                    other => prop_assert_ne!(other, '"'),
                }
            }
        }
    }
}

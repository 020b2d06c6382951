//! What a child may touch, as plain data, and what this machine has to hold it to that. Control
//! decides the bounds for each call; `process` and the warden apply them; nothing here judges.

mod blame;
mod greeting;
mod host_list;
pub mod proxy;
mod seatbelt;

pub use blame::blame;
pub use host_list::HostList;
pub use seatbelt::seatbelt;

use std::{fmt, path::PathBuf};

/// The terms on which a call's children run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// What they may touch.
    pub confinement: Confinement,
    /// Variables they find beside the host's own, e.g. to keep git from running a repository's helpers.
    pub env: Vec<(String, String)>,
    /// A file that stays locked, shared, until nothing they started lives, whatever becomes of this process.
    pub hold: Option<PathBuf>,
}

/// Whether the operating system confines a child.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Confinement {
    /// It runs with all of the user's rights: somebody said so, or there is nothing to confine it with.
    #[default]
    Free,
    /// It may touch only this much.
    Within(Bounds),
}

/// How far a confined child reaches. Whatever is not named may be read and not written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Trees that may be written: the working directories and the session's temporary folder.
    pub writable: Vec<PathBuf>,
    /// Paths below them that may not, whether they exist or not.
    pub frozen: Vec<PathBuf>,
    /// Paths below them that may not, if they exist. To hold an absent one takes a placeholder, which
    /// would stop programs that read the name when they find it.
    pub kept: Vec<PathBuf>,
    /// Paths that may not even be read: keys, credentials, what rules deny.
    pub hidden: Vec<PathBuf>,
    /// The network.
    pub network: Network,
}

/// What of the network a confined child reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing.
    #[default]
    Cut,
    /// These hosts, through a proxy; `*.example.org` means every host below it.
    Hosts(Vec<String>),
    /// Everything.
    Open,
}

/// A way to confine children, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Namespaces that the warden makes itself.
    Namespaces,
    /// Namespaces made by the system's `bwrap`, where only that program may make them.
    Bubblewrap,
    /// Landlock and seccomp alone. The network can only be cut or open, and no file can be made
    /// right in a folder that holds a frozen name.
    Landlock,
}

/// Which ways to confine children work here: found out by trying each one for real.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Each way, strongest first, with why it does not work if it does not.
    pub tried: Vec<(Backend, Result<(), String>)>,
}

impl Backend {
    /// All, strongest first.
    pub const ALL: [Self; 3] = [Self::Namespaces, Self::Bubblewrap, Self::Landlock];

    /// Its name in messages and on the warden's command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
        }
    }

    /// What it cannot do that the strongest can; for the user.
    pub fn weakness(self) -> Option<&'static str> {
        match self {
            Self::Namespaces => None,
            Self::Bubblewrap => Some("a protected name that is a symbolic link makes commands be refused"),
            Self::Landlock => Some(
                "host lists cannot be used (the network stays cut), unix sockets are off, and no new file can \
                 be made right in a folder that holds a protected name",
            ),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Survey {
    /// The strongest way that works.
    pub fn best(&self) -> Option<Backend> {
        self.tried.iter().find(|(_, outcome)| outcome.is_ok()).map(|(backend, _)| *backend)
    }

    /// Why nothing works, in one line.
    pub fn reasons(&self) -> String {
        let failed =
            self.tried.iter().filter_map(|(backend, outcome)| Some((backend, outcome.as_ref().err()?)));
        let texts: Vec<String> = failed.map(|(backend, why)| format!("{backend}: {why}")).collect();
        if texts.is_empty() { "nothing was tried".to_owned() } else { texts.join("; ") }
    }
}

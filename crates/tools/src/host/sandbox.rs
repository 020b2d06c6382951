//! What a child may touch, as plain data. Control decides it for each call; `process` applies it.

use std::path::PathBuf;

/// The terms on which a call's children run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// What they may touch.
    pub confinement: Confinement,
    /// Variables they find beside the host's own, e.g. to keep git from running a repository's helpers.
    pub env: Vec<(String, String)>,
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

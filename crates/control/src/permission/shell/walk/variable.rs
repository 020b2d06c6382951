//! Variables: what is known of one, which ones the shell keeps for itself, and which ones change what
//! programs do. Lists only; who holds which value is the scope's to know.

/// Variables the shell itself gives a meaning or a value, so that what was assigned says nothing.
const DYNAMIC: [&str; 27] = [
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "PWD",
    "OLDPWD",
    "SHELLOPTS",
    "BASHOPTS",
    "FUNCNAME",
    "GROUPS",
    "DIRSTACK",
    "HISTCMD",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "PIPESTATUS",
    "OPTIND",
    "OPTARG",
    "REPLY",
    "MAPFILE",
    "IFS",
    "COMP_WORDS",
    "COPROC",
    "BASHPID",
    "_",
];

/// Variables that change what the shell or ordinary programs do, besides those with a known prefix.
const STEERING: [&str; 43] = [
    "PATH",
    "IFS",
    "HOME",
    "PWD",
    "OLDPWD",
    "CDPATH",
    "ENV",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "GLOBIGNORE",
    "EXECIGNORE",
    "FIGNORE",
    "HISTFILE",
    "HISTCONTROL",
    "TMPDIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "TERMINFO",
    "TERMCAP",
    "LOCPATH",
    "NLSPATH",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "RUSTC",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "MAKEFLAGS",
    "CC",
    "CXX",
    "CFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CLASSPATH",
    "no_proxy",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// Beginnings of the names of such variables.
const STEERING_PREFIXES: [&str; 24] = [
    "LD_", "DYLD_", "BASH", "GIT_", "LESS", "MAN", "PYTHON", "PERL", "RUBY", "NODE_", "NPM_", "npm_",
    "CARGO_", "RUSTUP_", "JAVA_", "JDK_", "_JAVA", "GCONV", "MALLOC_", "GLIBC_", "SSH_", "RIPGREP_", "FZF_",
    "XDG_",
];

/// Ends of the names of such variables.
const STEERING_SUFFIXES: [&str; 11] = [
    "OPTIONS", "OPTS", "_FLAGS", "_PRELOAD", "_PAGER", "_EDITOR", "_COMMAND", "_HOME", "_CONFIG", "_PATH",
    "_PROXY",
];

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Exactly this text.
    Known(String),
    /// A name of a file that fits this pattern, or the pattern itself.
    Pattern(String),
    /// Some whole number.
    Number,
    /// Anything.
    Unknown,
}

/// Whether a variable changes what the shell or ordinary programs do.
pub(crate) fn steers(name: &str) -> bool {
    STEERING.contains(&name)
        || STEERING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || STEERING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether the shell itself gives a variable its value.
pub(super) fn is_dynamic(name: &str) -> bool {
    DYNAMIC.contains(&name)
}

impl Value {
    /// Whether it is certainly a number.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Known(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            }
            Self::Number => true,
            Self::Pattern(_) | Self::Unknown => false,
        }
    }
}

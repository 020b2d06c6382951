//! Which variables may be set without changing what other programs do. An allow-list: names that are
//! not on it may load code, name helpers or redirect connections.

/// Names that only change how programs print, count or speak.
const HARMLESS: [&str; 38] = [
    "LANG",
    "TZ",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "VERBOSE",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_LIB_BACKTRACE",
    "RUST_TEST_THREADS",
    "CARGO_TERM_COLOR",
    "CARGO_NET_OFFLINE",
    "CARGO_INCREMENTAL",
    "CARGO_TERM_PROGRESS_WHEN",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "GREP_COLORS",
    "GREP_COLOR",
    "LS_COLORS",
    "BLOCK_SIZE",
    "TIME_STYLE",
    "QUOTING_STYLE",
    "DEBIAN_FRONTEND",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GOMAXPROCS",
    "SOURCE_DATE_EPOCH",
    "NPM_CONFIG_LOGLEVEL",
];

/// Whether other programs do what they would do anyway when they see this variable.
pub(crate) fn is_harmless_variable(name: &str) -> bool {
    is_name(name) && (HARMLESS.contains(&name) || name.starts_with("LC_"))
}

/// Whether setting this variable changes the shell only: names in small letters are its own, but for
/// a few that programs read.
pub(super) fn is_local_variable(name: &str) -> bool {
    is_harmless_variable(name) || (is_name(name) && is_local(name))
}

/// Whether the text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_local(name: &str) -> bool {
    let read_by_programs = name.ends_with("_proxy") || name.starts_with("npm_") || name.starts_with("cargo_");
    !read_by_programs && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

//! The surroundings of the process, looked at once: environment, folders, terminals.
//! Everything below `cli` is handed these facts and never looks itself.
#![expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]

use anyhow::Context;
use std::{
    collections::BTreeMap,
    io::IsTerminal,
    path::{Path, PathBuf},
};

/// What the process was started with.
#[derive(Clone)]
pub(crate) struct Machine {
    vars: BTreeMap<String, String>,
    /// Where it was started, canonical.
    pub(crate) cwd: PathBuf,
    /// The user's home.
    pub(crate) home: PathBuf,
    /// Which of the standard streams are terminals.
    pub(crate) terminals: Terminals,
    /// This program's own file, to be started again as a warden.
    pub(crate) program: PathBuf,
}

/// Which of the standard streams are terminals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminals {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

/// Variables of our own that no child may see.
const OWN_SECRETS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "OPENAI_API_KEY",
    "OPENAI_CUSTOM_HEADERS",
];
/// What children get of the environment: what programs need to find each other and to speak the
/// user's language. A star at the end is a prefix.
const CHILDREN_GET: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TMPDIR",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "CI",
    "EDITOR",
    "XDG_*",
    "HOSTNAME",
    "DISPLAY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "CC",
    "CXX",
    "AR",
    "LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_*",
    "CMAKE_*",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "CARGO_*",
    "RUST*",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOFLAGS",
    "GOCACHE",
    "GOMODCACHE",
    "GOPROXY",
    "GOTOOLCHAIN",
    "GO111MODULE",
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_*",
    "M2_HOME",
    "GRADLE_*",
    "ANDROID_*",
    "NODE_*",
    "NVM_*",
    "NPM_CONFIG_*",
    "npm_config_*",
    "PNPM_HOME",
    "VOLTA_HOME",
    "DENO_*",
    "BUN_INSTALL",
    "PYTHON*",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYENV_*",
    "POETRY_*",
    "UV_*",
    "PIP_*",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "RBENV_*",
    "PHP_*",
    "COMPOSER_*",
    "DOTNET_*",
    "NIX_*",
    "DEBIAN_FRONTEND",
    "NODE_ENV",
    "OSTLER_TEST_*",
];
/// Parts of names that no list of ours lets through: only the user can, by the whole name.
const SOUNDS_SECRET: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "API_KEY", "APIKEY", "PRIVATE_KEY"];

impl Machine {
    /// Looks.
    pub(crate) fn look() -> anyhow::Result<Self> {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let vars: BTreeMap<_, _> =
            std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize());
        let cwd = cwd.context("cannot find the working directory; start ostler in a folder that exists")?;
        let home = vars.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let terminals = Terminals {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
        };
        // On Linux the running program can be named as such, also after its file was replaced.
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().context("cannot find this program's own file")?
        };
        Ok(Self { vars, cwd, home, terminals, program })
    }

    /// The same machine, seen from another folder.
    pub(crate) fn moved_to(&self, cwd: PathBuf) -> Self {
        Self { cwd, ..self.clone() }
    }

    /// A variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A look-up that can outlive this value.
    pub(crate) fn lookup(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
        let machine = self.clone();
        move |name| machine.var(name)
    }

    /// Adds variables from settings; what the process was started with wins.
    pub(crate) fn add_vars(&mut self, more: &BTreeMap<String, String>) {
        for (name, value) in more {
            self.vars.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// A number in a variable; anything else is an error that names it.
    pub(crate) fn number(&self, name: &str) -> anyhow::Result<Option<u64>> {
        let Some(text) = self.var(name) else { return Ok(None) };
        let number =
            text.trim().parse().with_context(|| format!("{name} must be a whole number, not '{text}'"))?;
        Ok(Some(number))
    }

    /// The environment for children: the usual variables and those the user names. Keys of ours stay here
    /// whatever is named.
    pub(crate) fn child_env(&self, more: &[String], own_secrets: &[String]) -> Vec<(String, String)> {
        let fits = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        let usual = |name: &str| {
            let upper = name.to_ascii_uppercase();
            CHILDREN_GET.iter().any(|pattern| fits(pattern, name))
                && !SOUNDS_SECRET.iter().any(|part| upper.contains(part))
        };
        let named = |name: &str| more.iter().any(|pattern| fits(pattern, name));
        let own = |name: &str| OWN_SECRETS.contains(&name) || own_secrets.iter().any(|secret| secret == name);
        self.vars
            .iter()
            .filter(|(name, _)| (usual(name) || named(name)) && !own(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Our own folder for settings and sessions.
    pub(crate) fn config_dir(&self) -> PathBuf {
        self.var("OSTLER_CONFIG_DIR").map_or_else(|| self.home.join(".ostler"), PathBuf::from)
    }

    /// The folder of the tool whose assets and SDKs we share.
    pub(crate) fn shared_config_dir(&self) -> PathBuf {
        self.var("CLAUDE_CONFIG_DIR").map_or_else(|| self.home.join(".claude"), PathBuf::from)
    }

    /// Whether an SDK started us and will look for sessions in the shared folder.
    pub(crate) fn is_sdk_host(&self) -> bool {
        self.var("CLAUDE_CONFIG_DIR").is_some()
            || self.entrypoint().starts_with("sdk-") && self.var("CLAUDE_CODE_ENTRYPOINT").is_some()
    }

    /// Whether whoever speaks the control protocol may have files put back: a host of an SDK says that it wants to.
    pub(crate) fn wants_rewinding(&self) -> bool {
        match self
            .var("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING")
            .map(|value| value.to_lowercase())
            .as_deref()
        {
            Some(value) => matches!(value, "true" | "1" | "yes" | "on"),
            None => !self.is_sdk_host(),
        }
    }

    /// What kind of program started us.
    pub(crate) fn entrypoint(&self) -> String {
        self.var("CLAUDE_CODE_ENTRYPOINT").unwrap_or_else(|| "sdk-cli".to_owned())
    }

    /// The folder of the git repository around the working directory.
    pub(crate) fn git_folder(&self) -> Option<PathBuf> {
        self.cwd.ancestors().map(|folder| folder.join(".git")).find(|folder| folder.exists())
    }

    /// The branch that is checked out, read from the file; no program of the repository is run.
    pub(crate) fn git_branch(&self) -> String {
        let head = self.git_folder().and_then(|folder| std::fs::read_to_string(folder.join("HEAD")).ok());
        let branch = head.as_deref().and_then(|head| head.trim().strip_prefix("ref: refs/heads/"));
        branch.unwrap_or_default().to_owned()
    }
}

/// Reads a file that was named on the command line.
pub(crate) fn read_named(flag: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{flag}: cannot read {}", path.display()))
}

/// Reads a file whose damaged characters are no reason to lose the rest.
pub(crate) fn read_lossy(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

//! A project and a home of their own for the program under measurement, and its start there.
//! Nothing of the caller's environment but the search path reaches it, and no child outlives a benchmark.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program from outside")]

use anyhow::{Context, bail};
use ostler_testkit::{Server, TempRepo};
use std::{
    ffi::OsStr,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

/// The program, built like a release.
pub(crate) const OSTLER: &str = env!("CARGO_BIN_EXE_ostler");

/// No run takes this long unless something is wrong.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where the program runs.
pub(crate) struct Stage {
    pub(crate) repo: TempRepo,
    pub(crate) home: TempRepo,
}

/// A started program.
pub(crate) struct Run {
    pub(crate) child: Child,
    /// Just before it was started.
    pub(crate) began: Instant,
}

impl Stage {
    /// A repository with these files, and an empty home.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self { repo: TempRepo::with_git(files), home: TempRepo::new(&[]) }
    }

    /// Starts one turn against a scripted model, whichever API the model's name picks.
    pub(crate) fn ask(&self, server: &Server, model: &str, words: &[&str]) -> anyhow::Result<Run> {
        let words = [&["-p", "go", "--model", model], words].concat();
        let urls = [("ANTHROPIC_BASE_URL", server.url()), ("OPENAI_BASE_URL", &server.openai_url())];
        self.start(OSTLER, &words, &urls)
    }

    /// Starts a program with these variables; its output goes nowhere, its complaints to ours.
    pub(crate) fn start(
        &self,
        program: &str,
        words: &[impl AsRef<OsStr>],
        vars: &[(&str, &str)],
    ) -> anyhow::Result<Run> {
        let mut command = Command::new(program);
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("OSTLER_CONFIG_DIR", self.home.join(".ostler"))
            .env("ANTHROPIC_API_KEY", "none")
            .env("OPENAI_API_KEY", "none")
            .envs(vars.iter().copied())
            .current_dir(self.repo.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Run { child, began })
    }
}

impl Run {
    /// Waits for a good end and returns how long the whole run took.
    pub(crate) fn finish(mut self) -> anyhow::Result<Duration> {
        let pid = rustix::process::Pid::from_child(&self.child);
        let (ended, watch) = mpsc::channel::<()>();
        let (status, took) = std::thread::scope(|scope| {
            scope.spawn(move || {
                if watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    // It may end at this very moment, which is as good.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            });
            let status = self.child.wait();
            let took = self.began.elapsed();
            drop(ended);
            (status, took)
        });
        let status = status?;
        if !status.success() {
            bail!("the program under measurement ended with {status}");
        }
        Ok(took)
    }
}

//! A project, a world around it and a command confined to the project, for each way to confine that
//! this machine has.

use ostler_tools::host::{
    Backend, Bounds, Confinement, Warden,
    process::{Group, Launch, start},
};
use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
};

pub(crate) const WARDEN: &str = env!("CARGO_BIN_EXE_custody-stand-in");
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

pub(crate) struct Cage {
    _temp: tempfile::TempDir,
    pub(crate) warden: Warden,
    pub(crate) backend: Backend,
    /// May be written.
    pub(crate) project: PathBuf,
    /// May be read.
    pub(crate) outside: PathBuf,
    pub(crate) bounds: Bounds,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) output: String,
}

/// Each way to confine that works here; says why the others do not.
pub(crate) fn backends() -> Vec<Backend> {
    let survey = Warden::new(WARDEN.into()).survey();
    for (backend, outcome) in &survey.tried {
        if let Err(why) = outcome {
            println!("{backend} is not tested: {why}");
        }
    }
    survey.tried.into_iter().filter(|(_, outcome)| outcome.is_ok()).map(|(backend, _)| backend).collect()
}

/// One cage for each way to confine.
pub(crate) fn cages() -> Vec<Cage> {
    backends().into_iter().map(Cage::new).collect()
}

impl Cage {
    pub(crate) fn new(backend: Backend) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (project, outside) = (root.join("project"), root.join("outside"));
        for folder in [&project, &project.join("src"), &outside] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(outside.join("file"), "outside").unwrap();
        std::fs::write(outside.join("secret"), "s3cr3t").unwrap();
        let bounds = Bounds {
            kept: Vec::new(),
            writable: vec![project.clone()],
            hidden: vec![outside.join("secret")],
            ..Bounds::default()
        };
        Self {
            _temp: temp,
            warden: Warden::with_backend(WARDEN.into(), backend),
            backend,
            project,
            outside,
            bounds,
        }
    }

    /// Freezes a path of the project.
    pub(crate) fn freeze(&mut self, name: &str) {
        self.bounds.frozen.push(self.project.join(name));
    }

    pub(crate) fn launch(&self, command: &str, output: Stdio) -> io::Result<Group> {
        launch(&self.warden, &Confinement::Within(self.bounds.clone()), &self.project, command, output)
    }

    /// Runs a command to its end; `$OUTSIDE` is the world around.
    pub(crate) fn run(&self, command: &str) -> Ran {
        self.try_run(command).unwrap()
    }

    pub(crate) fn try_run(&self, command: &str) -> io::Result<Ran> {
        let (mut output, end) = io::pipe()?;
        let command = format!("exec 2>&1; OUTSIDE={}; {command}", self.outside.display());
        let group = self.launch(&command, end.into())?;
        let mut text = Vec::new();
        output.read_to_end(&mut text)?;
        let status = finish(group)?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
        Ok(Ran { code, output: String::from_utf8_lossy(&text).into_owned() })
    }

    /// Runs a command that must fail.
    #[track_caller]
    pub(crate) fn refuses(&self, command: &str) -> Ran {
        let ran = self.run(command);
        assert_ne!(ran.code, 0, "{}: {command}: {ran:?}", self.backend);
        ran
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn allows(&self, command: &str) -> Ran {
        let ran = self.run(command);
        assert_eq!(ran.code, 0, "{}: {command}: {ran:?}", self.backend);
        ran
    }
}

/// Waits for the end as a runtime would, then finishes.
pub(crate) fn finish(group: Group) -> io::Result<std::process::ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(group.ended())?;
    group.finish()
}

/// Starts a bash command under a warden.
pub(crate) fn launch(
    warden: &Warden,
    confinement: &Confinement,
    cwd: &Path,
    command: &str,
    output: Stdio,
) -> io::Result<Group> {
    start(Launch {
        program: "/bin/bash".as_ref(),
        args: ["--norc", "--noprofile", "-c", command].map(OsString::from).to_vec(),
        cwd,
        env: &[("PATH".to_owned(), PATH.to_owned()), ("HOME".to_owned(), "/nonexistent".to_owned())],
        stdio: [Stdio::null(), output, Stdio::inherit()],
        confinement,
        warden: Some(warden),
    })
}

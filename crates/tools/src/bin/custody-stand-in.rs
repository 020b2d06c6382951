//! Stands in for the product in tests and measurements: a warden, or, called as
//! `custody-stand-in harness free|BACKEND CWD COMMAND`, a harness that starts one command,
//! whose warden holds the file `CWD/held`, and waits to be killed.

use ostler_tools::host::{
    Backend, Bounds, Confinement, Warden, enter_warden,
    process::{Launch, start_holding},
};
use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{ExitCode, Stdio},
};

fn main() -> ExitCode {
    if let Some(code) = enter_warden() {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.as_slice() {
        [mode, how, cwd, command] if mode == "harness" => match harness(how, Path::new(cwd), command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        _ => ExitCode::FAILURE,
    }
}

fn harness(how: &OsString, cwd: &Path, command: &OsString) -> io::Result<()> {
    let warden = std::env::current_exe()?;
    let backend = Backend::ALL.into_iter().find(|backend| how == backend.name());
    let (warden, confinement) = match backend {
        Some(backend) => {
            let bounds = Bounds { writable: vec![cwd.to_owned()], ..Bounds::default() };
            (Warden::with_backend(warden, backend), Confinement::Within(bounds))
        }
        None => (Warden::new(warden), Confinement::Free),
    };
    let launch = Launch {
        program: "/bin/bash".as_ref(),
        args: vec!["-c".into(), command.clone()],
        cwd,
        env: &[("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        stdio: [Stdio::null(), Stdio::null(), Stdio::null()],
        confinement: &confinement,
        warden: Some(&warden),
    };
    let _group = start_holding(launch, &cwd.join("held"))?;
    loop {
        std::thread::park();
    }
}

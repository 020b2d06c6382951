//! Hooks that are programs: the input on stdin, the answer in exit code and output, all of it
//! within bounds. Dropping the future kills the program with everything in its process group.

use super::{
    Surroundings,
    answer::{Exit, Trouble, of_process},
    export::Exports,
    run::Ended,
};
use ostler_proto::{HookEvent, hook::HookEnd};
use ostler_tools::host::process::{Group, Launch, start};
use std::{
    ffi::OsString,
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::Stdio,
    time::Duration,
};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
};

/// What is read of stdout and of stderr before a hook counts as babbling.
pub(super) const MAX_OUTPUT: usize = 4 * 1024 * 1024;
/// What is read of the variables a hook leaves.
const MAX_EXPORTS: u64 = 256 * 1024;
/// How long output of children left behind is awaited once the program has ended.
const LINGER: Duration = Duration::from_millis(200);

/// A program as settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// A line for the shell, or a program.
    pub(super) line: String,
    /// The program's arguments; without them the line goes to a shell as it is.
    pub(super) args: Option<Vec<String>>,
    /// Which shell.
    pub(super) shell: Shell,
}

/// The shells a line can go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Sh,
    Bash,
}

/// The event a program is started for.
pub(super) struct Call<'a> {
    /// Which.
    pub(super) event: HookEvent,
    /// Where it starts.
    pub(super) cwd: &'a Path,
    /// Its input.
    pub(super) input: &'a str,
    /// Variables of the hook's own source, e.g. its plugin's folder.
    pub(super) vars: &'a [(String, String)],
}

/// What came out of a program.
#[derive(Default)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Why a program is not listened to any more.
enum Broken {
    Babbled,
    Pipe(io::Error),
}

/// Runs a program to its end and reads its answer.
pub(super) async fn run(program: &Program, call: &Call<'_>, around: &Surroundings, limit: Duration) -> Ended {
    let mut output = Output::default();
    let exports = keeps_variables(call.event).then(tempfile::NamedTempFile::new).transpose();
    let ended = match exports {
        Ok(file) => {
            let file = file.as_ref();
            let exit = follow(program, call, around, (limit, &mut output, file)).await;
            exit.map(|exit| (exit, file.and_then(exported)))
        }
        Err(error) => Err((HookEnd::Failed, format!("it gets no file for its variables: {error}"))),
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let (end, result, exports) = match ended {
        Err((end, problem)) => (end, Err(Trouble::Broken(problem)), None),
        Ok((exit, exports)) => {
            let end = match exit {
                Exit::Code(code) => HookEnd::Exited { code },
                Exit::Signal(signal) => HookEnd::Killed { signal },
            };
            (end, of_process(call.event, exit, &output.stdout, &stderr), exports)
        }
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    Ended { end, result, stdout, stderr, exports, spent: None }
}

/// Follows a program to its end.
async fn follow(
    program: &Program,
    call: &Call<'_>,
    around: &Surroundings,
    (limit, output, exports): (Duration, &mut Output, Option<&NamedTempFile>),
) -> Result<Exit, (HookEnd, String)> {
    let failed = |problem: String| (HookEnd::Failed, problem);
    let (group, pipes) = launch(program, call, around, exports.map(NamedTempFile::path))
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    match tokio::time::timeout(limit, talk(&group, pipes, call.input, output)).await {
        Err(_) => return Err((HookEnd::TimedOut, format!("it took longer than {} s", limit.as_secs_f64()))),
        Ok(Err(Broken::Babbled)) => {
            return Err((HookEnd::Babbled, format!("it said more than {MAX_OUTPUT} bytes")));
        }
        Ok(Err(Broken::Pipe(error))) => return Err(failed(format!("it cannot be followed: {error}"))),
        Ok(Ok(())) => {}
    }
    let status = group.finish().map_err(|error| failed(format!("its end is not known: {error}")))?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    })
}

/// Whether variables can be left at this event for later commands.
fn keeps_variables(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged
    )
}

/// What a program wrote into its file; nothing if it wrote nothing, or more than variables are.
fn exported(file: &NamedTempFile) -> Option<Exports> {
    let mut text = String::new();
    let mut file = file.reopen().ok()?.take(MAX_EXPORTS + 1);
    let read = file.read_to_string(&mut text).ok()?;
    (read > 0 && read as u64 <= MAX_EXPORTS).then_some(Exports(text))
}

/// Our ends of a program's standard streams.
struct Pipes {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

fn launch(
    program: &Program,
    call: &Call<'_>,
    around: &Surroundings,
    exports: Option<&Path>,
) -> io::Result<(Group, Pipes)> {
    let env = environment(call, around, exports);
    let (program, args) = words(program, call, around);
    let (stdin_end, stdin) = io::pipe()?;
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    let group = start(Launch {
        program: &program,
        args,
        // A folder that is gone must not keep every gate closed.
        cwd: if call.cwd.is_dir() { call.cwd } else { &around.project },
        env: &env,
        stdio: [Stdio::from(stdin_end), stdout_end.into(), stderr_end.into()],
        confinement: &around.confinement,
        warden: around.warden.as_deref(),
    })?;
    let pipes = Pipes {
        stdin: pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?,
        stdout: pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?,
        stderr: pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?,
    };
    Ok((group, pipes))
}

/// Program and arguments. A line for the shell is handed over as it stands in the settings, and
/// names its variables there; nothing is put into it. Only whole words are filled in by us.
fn words(program: &Program, call: &Call<'_>, around: &Surroundings) -> (OsString, Vec<OsString>) {
    let Some(args) = &program.args else {
        let shell = match program.shell {
            Shell::Sh => "/bin/sh",
            Shell::Bash if Path::new("/bin/bash").exists() => "/bin/bash",
            Shell::Bash => "/usr/bin/bash",
        };
        return (OsString::from(shell), vec!["-c".into(), OsString::from(&program.line)]);
    };
    let project = around.project.to_string_lossy();
    let known = |name: &str| match name {
        "CLAUDE_PROJECT_DIR" => Some(project.as_ref()),
        _ => call.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()),
    };
    let name = fill(&program.line, known);
    // A relative path counts from where the hook starts, not from where we stand.
    let is_path = name.contains('/');
    let name = if is_path { call.cwd.join(name).into_os_string() } else { OsString::from(name) };
    (name, args.iter().map(|word| OsString::from(fill(word, known))).collect())
}

/// Replaces `${NAME}` for the names that are known; what is filled in is not read again.
fn fill<'a>(text: &str, known: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        filled.push_str(&rest[..at]);
        let end = rest[at..].find('}').map(|length| at + length);
        if let Some((end, value)) = end.and_then(|end| Some((end, known(&rest[at + 2..end])?))) {
            filled.push_str(value);
            rest = &rest[end + 1..];
        } else {
            filled.push_str("${");
            rest = &rest[at + 2..];
        }
    }
    filled + rest
}

fn environment(call: &Call<'_>, around: &Surroundings, exports: Option<&Path>) -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut env = around.env.clone();
    env.extend_from_slice(call.vars);
    env.push(("CLAUDE_PROJECT_DIR".to_owned(), text(&around.project)));
    env.extend(exports.map(|file| ("CLAUDE_ENV_FILE".to_owned(), text(file))));
    env
}

/// Feeds the program and listens to it until it has ended and said everything.
async fn talk(group: &Group, pipes: Pipes, input: &str, output: &mut Output) -> Result<(), Broken> {
    let Pipes { stdin, stdout, stderr } = pipes;
    let listening = async {
        let (stdout, stderr) = (listen(stdout, &mut output.stdout), listen(stderr, &mut output.stderr));
        tokio::try_join!(feed(stdin, input), stdout, stderr).map(|_| ())
    };
    tokio::pin!(listening);
    let heard = tokio::select! {
        heard = &mut listening => Some(heard),
        ended = group.ended() => ended.map(|()| None).map_err(Broken::Pipe)?,
    };
    match heard {
        Some(heard) => {
            heard?;
            group.ended().await.map_err(Broken::Pipe)
        }
        // Everything it wrote is in the pipes; only children it left behind can hold them open.
        None => tokio::time::timeout(LINGER, listening).await.unwrap_or(Ok(())),
    }
}

/// A program need not read its input, nor all of it.
async fn feed(mut stdin: pipe::Sender, input: &str) -> Result<(), Broken> {
    match stdin.write_all(input.as_bytes()).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Broken::Pipe(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn listen(mut pipe: pipe::Receiver, heard: &mut Vec<u8>) -> Result<(), Broken> {
    loop {
        if heard.len() > MAX_OUTPUT {
            return Err(Broken::Babbled);
        }
        heard.reserve(16 * 1024);
        if pipe.read_buf(heard).await.map_err(Broken::Pipe)? == 0 {
            return Ok(());
        }
    }
}

/// The name under which a command is listed.
pub(super) fn name(program: &Program) -> String {
    let args = program.args.iter().flatten().map(String::as_str);
    std::iter::once(program.line.as_str()).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_filled_in_and_only_once() {
        let known = |name: &str| (name == "A").then_some("${A} x; rm");
        assert_eq!(fill("${A}/${B}/$A/${", known), "${A} x; rm/${B}/$A/${");
        assert_eq!(fill("plain", known), "plain");
    }
}

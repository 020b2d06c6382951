//! Hooks that are programs: the input on stdin, the answer in exit code and output, all of it
//! within bounds. Dropping the future kills the program with everything in its process group.

use super::{
    Surroundings,
    answer::{Answer, Exit, Trouble, of_process},
};
use ostler_proto::{HookEvent, hook::HookEnd};
use ostler_tools::host::process::{Group, Launch, start};
use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
};

/// What is read of stdout and of stderr before a hook counts as babbling.
pub(super) const MAX_OUTPUT: usize = 4 * 1024 * 1024;
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
pub(super) async fn run(
    program: &Program,
    call: &Call<'_>,
    around: &Surroundings,
    limit: Duration,
) -> (HookEnd, Result<Answer, Trouble>) {
    let broken = |end, problem: String| (end, Err(Trouble::Broken(problem)));
    let (group, pipes) = match launch(program, call, around) {
        Ok(started) => started,
        Err(error) => return broken(HookEnd::Failed, format!("it cannot be started: {error}")),
    };
    let mut output = Output::default();
    let talking = talk(&group, pipes, call.input, &mut output);
    let status = match tokio::time::timeout(limit, talking).await {
        Err(_) => return broken(HookEnd::TimedOut, format!("it took longer than {} s", limit.as_secs_f64())),
        Ok(Err(Broken::Babbled)) => {
            return broken(HookEnd::Babbled, format!("it said more than {MAX_OUTPUT} bytes"));
        }
        Ok(Err(Broken::Pipe(error))) => {
            return broken(HookEnd::Failed, format!("it cannot be followed: {error}"));
        }
        Ok(Ok(())) => match group.finish() {
            Ok(status) => status,
            Err(error) => return broken(HookEnd::Failed, format!("its end is not known: {error}")),
        },
    };
    let (end, exit) = match (status.code(), status.signal()) {
        (Some(code), _) => (HookEnd::Exited { code }, Exit::Code(code)),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            (HookEnd::Killed { signal }, Exit::Signal(signal))
        }
    };
    (end, of_process(call.event, exit, &output.stdout, &String::from_utf8_lossy(&output.stderr)))
}

/// Our ends of a program's standard streams.
struct Pipes {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

fn launch(program: &Program, call: &Call<'_>, around: &Surroundings) -> io::Result<(Group, Pipes)> {
    let env = environment(call, around);
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

fn environment(call: &Call<'_>, around: &Surroundings) -> Vec<(String, String)> {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let keeps_variables = matches!(
        call.event,
        HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged
    );
    let file = around.env_file.as_ref().filter(|_| keeps_variables);
    let mut env = around.env.clone();
    env.extend_from_slice(call.vars);
    env.push(("CLAUDE_PROJECT_DIR".to_owned(), text(&around.project)));
    env.extend(file.map(|file| ("CLAUDE_ENV_FILE".to_owned(), text(file))));
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

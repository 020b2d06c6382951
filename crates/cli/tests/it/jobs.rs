//! Commands in the background as a whole run sees them: the model is told of their end, an idle session wakes
//! up for it, and nothing survives the session.

use crate::stage::Stage;
use ostler_proto::Json;
use ostler_testkit::process;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

const WAITS: &str = "until [ -e go ]; do sleep 0.01; done; echo hello";

/// A host that talks with the binary line by line.
struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Host {
    fn start(stage: &Stage) -> Self {
        let args = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        let mut command = stage.command(&args);
        command.args(["--allowedTools", "Bash"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn say(&mut self, line: &Json) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn prompt(&mut self, text: &str) {
        self.say(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// Reads up to and including the next result; a frame is told by its kind.
    fn until_result(&mut self) -> (Vec<String>, Vec<Json>) {
        let (mut kinds, mut frames) = (Vec::new(), Vec::new());
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended after {kinds:?}");
            let frame: Json = serde_json::from_str(&line).unwrap();
            let kind = frame["subtype"].as_str().filter(|_| frame["type"] == "system");
            kinds.push(kind.or(frame["type"].as_str()).unwrap().to_owned());
            frames.push(frame);
            if kinds.last().unwrap() == "result" {
                return (kinds, frames);
            }
        }
    }

    /// Closes stdin and returns what else came, and the exit code.
    fn end(mut self) -> (Vec<Json>, Option<i32>) {
        self.stdin = None;
        let frames = self.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        (frames, self.child.wait().unwrap().code())
    }
}

fn background(command: &str) -> String {
    format!(
        "{{ call = 'Bash', id = 'bg', input = {{ command = '{command}', description = 'wait', run_in_background = true }} }}"
    )
}

#[test]
fn an_idle_session_wakes_up_when_a_job_ends() {
    let script = format!(
        "[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'started' }}]\n[[turn]]\nexpect = ['completed (exit code 0)']\nsteps = [{{ text = 'it ended' }}]\n",
        background(WAITS)
    );
    let stage = Stage::new(&script);
    let mut host = Host::start(&stage);
    host.prompt("go");
    let (kinds, frames) = host.until_result();
    let expected =
        ["init", "assistant", "task_started", "background_tasks_changed", "user", "assistant", "result"];
    assert_eq!(kinds, expected);
    let started = &frames[2];
    assert_eq!((&started["tool_use_id"], &started["task_type"]), (&json!("bg"), &json!("local_bash")));
    let id = started["task_id"].clone();
    assert_eq!(
        frames[3]["tasks"],
        json!([{"task_id": id, "task_type": "local_bash", "description": "wait"}])
    );
    assert_eq!(frames[4]["tool_use_result"]["backgroundTaskId"], id);
    assert!(frames[6].get("origin").is_none());

    stage.repo.write("go", "");
    let (kinds, frames) = host.until_result();
    let expected =
        ["task_updated", "task_notification", "background_tasks_changed", "init", "assistant", "result"];
    assert_eq!(kinds, expected);
    assert_eq!(frames[0]["patch"]["status"], "completed");
    assert_eq!((&frames[1]["task_id"], &frames[1]["status"]), (&id, &json!("completed")));
    let file = frames[1]["output_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello\n");
    assert_eq!(frames[2]["tasks"], json!([]));
    assert_eq!(frames[5]["origin"], json!({"kind": "task-notification"}));
    assert_eq!(frames[5]["result"], "it ended");
    assert_eq!(host.end(), (vec![], Some(0)));
    stage.server.assert_no_failures();
    stage.server.assert_valid_histories();
    stage.server.assert_append_only();
}

#[test]
fn a_host_stops_a_job_and_the_model_learns_of_it() {
    let script = format!(
        "[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'started' }}]\n[[turn]]\nexpect = ['was stopped']\nsteps = [{{ text = 'so be it' }}]\n",
        background("sleep 1000")
    );
    let stage = Stage::new(&script);
    let mut host = Host::start(&stage);
    host.prompt("go");
    let (_, frames) = host.until_result();
    let id = &frames.iter().find(|frame| frame["subtype"] == "task_started").unwrap()["task_id"];
    host.say(&json!({"type": "control_request", "request_id": "r", "request": {"subtype": "stop_task", "task_id": id}}));
    let (kinds, frames) = host.until_result();
    assert_eq!(kinds[..3], ["control_response", "task_updated", "task_notification"]);
    assert_eq!((&frames[1]["patch"]["status"], &frames[2]["status"]), (&json!("killed"), &json!("stopped")));
    assert_eq!(frames.last().unwrap()["result"], "so be it");
    assert_eq!(host.end().1, Some(0));
    process::assert_none_running_in(stage.repo.path());
}

#[test]
fn jobs_end_with_a_dialogue() {
    let script = format!(
        "[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'started' }}]\n",
        background("sleep 1000")
    );
    let stage = Stage::new(&script);
    let mut host = Host::start(&stage);
    host.prompt("go");
    host.until_result();
    let (frames, code) = host.end();
    assert_eq!(code, Some(0));
    assert_eq!(frames[1]["status"], "stopped", "{frames:?}");
    process::assert_none_running_in(stage.repo.path());
}

#[test]
fn a_single_prompt_stops_what_still_runs_and_says_so() {
    let script = format!(
        "[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'started' }}]\n[[turn]]\nexpect = ['was stopped']\nsteps = [{{ text = 'going on' }}]\n",
        background("trap \"\" TERM; sleep 1000")
    );
    let stage = Stage::new(&script);
    let frames = stage.frames(&["--allowedTools", "Bash"]);
    let result = frames.result();
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["background_tasks_stopped"][0]["description"], "wait");
    assert!(frames.kinds().contains("system/task_notification"), "{}", frames.kinds());
    // Who goes on with the session is told that the command is gone.
    assert_eq!(stage.run(&["-p", "x", "--continue"]).check_ok().stdout, "going on\n");
    stage.server.assert_no_failures();
    stage.server.assert_valid_histories();
}

#[test]
fn a_plain_run_tells_of_it_on_stderr() {
    let script = format!(
        "[[turn]]\nsteps = [{}]\n[[turn]]\nsteps = [{{ text = 'started' }}]\n",
        background("sleep 1000")
    );
    let stage = Stage::new(&script);
    let done = stage.run(&["-p", "go", "--allowedTools", "Bash"]);
    assert_eq!(done.check_ok().stdout, "started\n");
    assert!(
        done.stderr.contains("background commands were stopped with the session: wait"),
        "{}",
        done.stderr
    );
}

#[test]
fn the_model_is_told_once_whenever_the_job_ends() {
    let script = format!(
        r#"
[[turn]]
steps = [{}, {{ call = "TaskOutput", input = {{}} }}]
[[turn]]
expect = ["running for"]
steps = [{{ call = "Bash", input = {{ command = "touch go; until [ -e ended ]; do sleep 0.01; done" }} }}]
[[turn]]
steps = [{{ text = "done" }}]
[[turn]]
steps = [{{ text = "done" }}]
"#,
        background(&format!("{WAITS}; touch ended"))
    );
    let stage = Stage::new(&script);
    let mut host = Host::start(&stage);
    host.prompt("go");
    host.until_result();
    let told = || {
        let requests = stage.server.requests();
        let body = String::from_utf8_lossy(&requests.last().unwrap().body).into_owned();
        body.matches("completed (exit code 0)").count()
    };
    // It ends while the turn runs, or just after; then a turn of its own tells of it.
    if told() == 0 {
        host.until_result();
    }
    assert_eq!(told(), 1);
    assert_eq!(host.end().1, Some(0));
    stage.server.assert_valid_histories();
}

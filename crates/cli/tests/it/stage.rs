//! A stage for one test: a scripted server, a project, a home, and the binary between them.

use ostler_proto::Json;
use ostler_testkit::{Options, Server, TempRepo, process};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

/// Which API the model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Anthropic,
    Chat,
    Responses,
}

pub(crate) const APIS: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) repo: TempRepo,
    pub(crate) home: TempRepo,
    api: Api,
    env: BTreeMap<String, String>,
}

/// What a run left.
pub(crate) struct Done {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Stage {
    /// A stage whose model plays this script; `{{cwd}}` is the project.
    pub(crate) fn new(script: &str) -> Self {
        Self::speaking(Api::Anthropic, script)
    }

    pub(crate) fn speaking(api: Api, script: &str) -> Self {
        let repo = TempRepo::new(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "bee\n")]);
        let options = Options { cwd: Some(repo.path().to_path_buf()), ..Options::default() };
        let server = Server::start_with(ostler_testkit::script(script), options).unwrap();
        Self { server, repo, home: TempRepo::new(&[]), api, env: BTreeMap::new() }
    }

    /// Sets a variable for all runs.
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The binary with its surroundings set, ready to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.repo.path()).env_clear().env("PATH", path).env("HOME", self.home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match self.api {
            Api::Anthropic => {
                command
                    .env("ANTHROPIC_BASE_URL", self.server.url())
                    .env("ANTHROPIC_API_KEY", "key-for-tests");
            }
            Api::Chat | Api::Responses => {
                command
                    .env("OPENAI_BASE_URL", self.server.openai_url())
                    .env("OPENAI_API_KEY", "key-for-tests");
            }
        }
        command.envs(&self.env).args(args);
        let asks_a_model = args.iter().any(|word| ["-p", "--input-format"].contains(word));
        if asks_a_model && !args.contains(&"--model") {
            command.args(["--model", self.model()]);
        }
        command
    }

    pub(crate) fn model(&self) -> &'static str {
        match self.api {
            Api::Anthropic => "claude-sonnet-4-5",
            Api::Chat => "chat:some-model",
            Api::Responses => "openai:gpt-5",
        }
    }

    /// Runs to the end; nothing may be left running in the project.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let output = self.command(args).output().unwrap();
        process::assert_none_running_in(self.repo.path());
        Done::from(output)
    }

    /// Runs a prompt with stream-json output and returns its frames.
    #[track_caller]
    pub(crate) fn frames(&self, args: &[&str]) -> Frames {
        let mut all = vec!["-p", "go", "--output-format", "stream-json", "--verbose"];
        all.extend(args);
        self.run(&all).frames()
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// The one transcript that was written.
    #[track_caller]
    pub(crate) fn transcript(&self) -> PathBuf {
        let all = self.transcripts();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    pub(crate) fn transcripts(&self) -> Vec<PathBuf> {
        let folders = self.home.join(".ostler/projects").read_dir().into_iter().flatten().flatten();
        folders
            .flat_map(|folder| folder.path().read_dir().unwrap())
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .collect()
    }

    /// Goes on with the session: it must be whole enough for the model to be asked again.
    #[track_caller]
    pub(crate) fn check_resumable(&self) {
        let asked = self.server.requests().len();
        let done = self.run(&["-p", "and then?", "--continue"]);
        assert!(self.server.requests().len() > asked, "nothing was asked: {}", done.stderr);
        self.server.assert_valid_histories();
    }
}

/// The frames of a run.
pub(crate) struct Frames {
    pub(crate) all: Vec<Json>,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Done {
    #[track_caller]
    pub(crate) fn frames(self) -> Frames {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Frames { all: self.stdout.lines().map(parse).collect(), stderr: self.stderr, code: self.code }
    }

    #[track_caller]
    pub(crate) fn check_ok(&self) -> &Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }
}

impl Frames {
    #[track_caller]
    pub(crate) fn result(&self) -> &Json {
        let last = self.all.last().unwrap_or_else(|| panic!("no frames; stderr: {}", self.stderr));
        assert_eq!(last["type"], "result");
        last
    }

    /// What kind of frames came, in order, e.g. `system/init assistant user result/success`.
    pub(crate) fn kinds(&self) -> String {
        let kinds = self.all.iter().map(|frame| {
            let kind = frame["type"].as_str().unwrap_or("?");
            frame["subtype"].as_str().map_or_else(|| kind.to_owned(), |subtype| format!("{kind}/{subtype}"))
        });
        kinds.collect::<Vec<_>>().join(" ")
    }

    /// Texts of all tool results, in order.
    pub(crate) fn tool_results(&self) -> Vec<String> {
        let users = self.all.iter().filter(|frame| frame["type"] == "user");
        let blocks = users.filter_map(|frame| frame["message"]["content"].as_array()).flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .map(|block| text_of(&block["content"]))
            .collect()
    }
}

fn text_of(content: &Json) -> String {
    content.as_str().map_or_else(|| content.to_string(), str::to_owned)
}

//! Where text comes from and where it goes, by the names programs use for them. Decides nothing.

use std::{fmt, str::FromStr};

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What a tool of ours returned.
    ToolResult,
    /// A file of the project.
    FileRead,
    /// A page or a search on the web.
    Web,
    /// A server of tools: its results and its descriptions.
    McpServer,
    /// A command, or what it wrote.
    Command,
    /// The name of a branch or tag.
    BranchName,
    /// The name of a file or folder.
    FileName,
    /// The message of a commit.
    CommitMessage,
    /// An issue, a pull request, or a comment on one.
    Issue,
    /// What a hook said.
    Hook,
    /// Instructions in the project's or user's own files.
    Instructions,
    /// Another agent.
    Agent,
    /// The model.
    Model,
    /// The person who is served.
    User,
}

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// A terminal, where the text may have colours.
    Terminal,
    /// A terminal, where all colours are ours.
    PlainTerminal,
    /// What a model reads.
    ModelContext,
    /// A question somebody decides by what it shows.
    PermissionPrompt,
    /// The difference of two texts, shown to a person.
    DiffView,
    /// The record of a session; its writer encodes every text as JSON, so nothing is changed.
    TranscriptJsonl,
    /// A log.
    Log,
    /// A text to be shared.
    Export,
    /// One line among others, such as a title or a status.
    Title,
}

/// A name that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    what: &'static str,
    name: String,
    known: String,
}

/// Each source, its name, and other names it goes by.
const SOURCES: [(Source, &[&str]); 14] = [
    (Source::ToolResult, &["tool_result", "tool_output", "tool"]),
    (Source::FileRead, &["file_read", "file", "read", "file_content"]),
    (Source::Web, &["web", "web_fetch", "web_search", "web_page"]),
    (Source::McpServer, &["mcp_server", "mcp", "mcp_tool", "mcp_result", "mcp_description"]),
    (Source::Command, &["command", "command_output", "bash", "shell", "stdout", "stderr"]),
    (Source::BranchName, &["branch_name", "branch", "git_branch", "git_ref"]),
    (Source::FileName, &["file_name", "filename", "file_path", "path"]),
    (Source::CommitMessage, &["commit_message", "commit", "git_log"]),
    (Source::Issue, &["issue", "issue_comment", "pull_request", "github_issue"]),
    (Source::Hook, &["hook", "hook_output"]),
    (Source::Instructions, &["instructions", "memory", "project_memory", "skill"]),
    (Source::Agent, &["agent", "subagent"]),
    (Source::Model, &["model", "assistant", "model_output"]),
    (Source::User, &["user", "user_prompt", "prompt"]),
];

/// Each sink, likewise.
const SINKS: [(Sink, &[&str]); 9] = [
    (Sink::Terminal, &["terminal", "tty", "tui", "screen"]),
    (Sink::PlainTerminal, &["plain_terminal", "terminal_plain"]),
    (Sink::ModelContext, &["model_context", "model", "context"]),
    (Sink::PermissionPrompt, &["permission_prompt", "approval_prompt", "permission", "approval"]),
    (Sink::DiffView, &["diff_view", "diff"]),
    (Sink::TranscriptJsonl, &["transcript_jsonl", "transcript", "jsonl"]),
    (Sink::Log, &["log", "log_file", "debug_log", "trace", "telemetry"]),
    (Sink::Export, &["export", "share"]),
    (Sink::Title, &["title", "window_title", "status_line", "notification"]),
];

impl Source {
    /// The name programs use.
    pub fn as_str(self) -> &'static str {
        name_of(&SOURCES, self)
    }
}

impl Sink {
    /// The name programs use.
    pub fn as_str(self) -> &'static str {
        name_of(&SINKS, self)
    }
}

impl FromStr for Source {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        named(&SOURCES, "source", name)
    }
}

impl FromStr for Sink {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        named(&SINKS, "sink", name)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} '{}'; known are {}", self.what, self.name.escape_debug(), self.known)
    }
}

impl std::error::Error for Unknown {}

fn name_of<T: Copy + PartialEq>(table: &[(T, &[&'static str])], wanted: T) -> &'static str {
    let row = table.iter().find(|(value, _)| *value == wanted);
    row.and_then(|(_, names)| names.first()).copied().unwrap_or_default()
}

fn named<T: Copy>(table: &[(T, &[&'static str])], what: &'static str, name: &str) -> Result<T, Unknown> {
    let plain = name.trim().to_ascii_lowercase().replace('-', "_");
    let row = table.iter().find(|(_, names)| names.contains(&plain.as_str()));
    row.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<&str> = table.iter().filter_map(|(_, names)| names.first().copied()).collect();
        Unknown { what, name: name.to_owned(), known: known.join(", ") }
    })
}

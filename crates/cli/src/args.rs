//! The command line. Flags keep the names programs already pass; what is not built is not offered.

use crate::{config::Scope, replay::Replay};
use clap::{Parser, ValueEnum};
use ostler_proto::Effort;
use std::{path::PathBuf, process::ExitCode};

/// A coding agent that proposes, asks and can be trusted.
#[derive(Debug, Clone, Parser)]
#[command(name = "ostler", disable_version_flag = true, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "flags are independent of each other")]
pub(crate) struct Args {
    /// What to do; piped input is added to it
    pub(crate) prompt: Option<String>,

    /// Answer once and exit (without a terminal this is the default)
    #[arg(short, long)]
    pub(crate) print: bool,

    /// What to write: text, json (one result object) or stream-json (a line per event)
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,

    /// What to read from stdin: text, or stream-json (a line per message)
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,

    /// Tell the run as it happens; required by stream-json output
    #[arg(long)]
    pub(crate) verbose: bool,

    /// With stream-json output: also the answer in pieces
    #[arg(long)]
    pub(crate) include_partial_messages: bool,

    /// With stream-json output: also the user's messages
    #[arg(long)]
    pub(crate) replay_user_messages: bool,

    /// With stream-json output: also hooks as they run, for all events
    #[arg(long)]
    pub(crate) include_hook_events: bool,

    /// Model name or alias, or anthropic:NAME, openai:NAME, chat:NAME, script:FILE
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// Models to turn to when that one is overloaded or not to be had, separated by commas
    #[arg(long, value_name = "MODELS")]
    pub(crate) fallback_model: Option<String>,

    /// Permission mode: default, acceptEdits, plan, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<ostler_proto::Mode>,

    /// Rules for calls that run without asking, e.g. "Bash(git log *)" Edit
    #[arg(long = "allowedTools", alias = "allowed-tools", num_args = 1.., value_name = "RULES")]
    pub(crate) allowed_tools: Vec<String>,

    /// Rules for calls that never run; a bare name hides the tool
    #[arg(long = "disallowedTools", alias = "disallowed-tools", num_args = 1.., value_name = "RULES")]
    pub(crate) disallowed_tools: Vec<String>,

    /// Built-in tools to offer: a list, "" for none, or default
    #[arg(long, num_args = 1.., value_name = "TOOLS")]
    pub(crate) tools: Option<Vec<String>>,

    /// Who answers questions without a terminal: stdio (the program on the other end)
    #[arg(long, value_name = "WHO")]
    pub(crate) permission_prompt_tool: Option<String>,

    /// Run everything without asking, save what rules forbid
    #[arg(long)]
    pub(crate) dangerously_skip_permissions: bool,

    /// Let the program on the other end switch to bypassPermissions later
    #[arg(long)]
    pub(crate) allow_dangerously_skip_permissions: bool,

    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub(crate) system_prompt: Option<String>,

    /// Replace the system prompt by a file's content
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,

    /// Add to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,

    /// Say folder, platform and date in the first message, so that folders share the system prompt's cache
    #[arg(long)]
    pub(crate) exclude_dynamic_system_prompt_sections: bool,

    /// Whether a resumed session keeps the system prompt it was recorded with
    #[arg(long, value_enum, default_value = "on", value_name = "on|off")]
    pub(crate) system_prompt_snapshot: SnapshotFlag,

    /// End the turn instead of sending a request that breaks the prompt cache
    #[arg(long)]
    pub(crate) forbid_cache_break: bool,

    /// Continue the newest conversation of this folder
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub(crate) continue_newest: bool,

    /// Resume a conversation: by its id, the beginning of its id, or words of its title or prompts
    #[arg(short, long, value_name = "ID|TEXT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,

    /// With --resume or --continue: go on in a copy and leave the original as it is
    #[arg(long)]
    pub(crate) fork_session: bool,

    /// With --resume: go on from this line of the transcript and leave out what came after it
    #[arg(long, value_name = "UUID")]
    pub(crate) resume_session_at: Option<String>,

    /// With --resume-session-at: only if exactly the turn of this prompt is left out
    #[arg(long, value_name = "UUID", requires = "resume_session_at")]
    pub(crate) resume_drops_turn: Option<String>,

    /// The title of the session
    #[arg(short, long, value_name = "TITLE")]
    pub(crate) name: Option<String>,

    /// The id of the new session, a UUID
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<String>,

    /// Write no transcript
    #[arg(long)]
    pub(crate) no_session_persistence: bool,

    /// Most answers of the model per turn
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Most dollars to spend
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = positive)]
    pub(crate) max_budget_usd: Option<f64>,

    /// When the conversation is compacted by itself: auto (near the model's limit), or a window in tokens
    #[arg(long, value_name = "auto|TOKENS", value_parser = autocompact)]
    pub(crate) autocompact: Option<Window>,

    /// Reasoning before the answer: adaptive, enabled or disabled
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) thinking: Option<ThinkingFlag>,

    /// Most tokens of reasoning
    #[arg(long, value_name = "N")]
    pub(crate) max_thinking_tokens: Option<u64>,

    /// How hard the model should try: low, medium, high, xhigh or max
    #[arg(long, value_parser = effort, value_name = "LEVEL")]
    pub(crate) effort: Option<Effort>,

    /// More settings: a file, or JSON itself
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) settings: Option<String>,

    /// Which settings files to read: a list of user, project, local; "" for none
    #[arg(long, value_name = "SOURCES", num_args = 1)]
    pub(crate) setting_sources: Option<String>,

    /// Believe this folder's own configuration for this run; with =SEAL only if it has that seal
    #[arg(long, value_name = "SEAL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) trust: Option<String>,

    /// Start with nothing but Bash, file tools and the prompt: no instructions, notes or hooks
    #[arg(long)]
    pub(crate) bare: bool,

    /// More working directories
    #[arg(long, num_args = 1.., value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,

    /// Write a debug log to stderr
    #[arg(short, long)]
    pub(crate) debug: bool,

    /// Write a debug log to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) debug_file: Option<PathBuf>,

    /// Print the version
    #[arg(short, long)]
    pub(crate) version: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Subcommand>,
}

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Show what this installation finds: versions, settings, keys by name, sandbox, git, terminal
    Doctor,
    /// Watch a scripted model repair a small broken project with the real tools; needs no key
    Demo {
        /// Leave the project's folder behind
        #[arg(long)]
        keep: bool,
    },
    /// Go back to a checkpoint: the state before one of your prompts, also of what commands changed
    Rewind(Rewind),
    /// Run a recorded session again and say whether it comes to the same
    Replay(Replay),
    /// Show which session, agent and call changed a file, or one line of it
    Blame {
        /// The file, and a line if you like: src/main.rs:12
        #[arg(value_name = "FILE[:LINE]")]
        place: String,
    },
    /// Look after the checkpoints of this folder
    Checkpoints {
        #[command(subcommand)]
        upkeep: Option<crate::rewind::Upkeep>,
    },
    /// Show what fills a session's context window, and what broke its prompt cache
    Context(crate::context::ContextArgs),
    /// List, show, search, name, export, check and remove sessions
    Session {
        #[command(subcommand)]
        command: crate::session::SessionCommand,
    },
    /// Show hooks, try them out, or check that a session kept to them
    Hooks(crate::hooks::HooksArgs),
    /// Show which files with instructions a session here would read, why, and which not
    Instructions {
        /// Write JSON
        #[arg(long)]
        json: bool,
        /// Also what would count once this file is touched
        #[arg(long, value_name = "FILE")]
        touching: Vec<PathBuf>,
    },
    /// Look at the notes that sessions keep about this project
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// Try the filters for text from elsewhere
    Debug {
        #[command(subcommand)]
        filter: Filter,
    },
    /// Read and write settings, and see which file decides
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Believe a folder's own configuration, or not
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Ask the judge: what would be allowed, asked or denied, and why; nothing is run
    Permissions {
        #[command(subcommand)]
        command: PermissionsCommand,
    },
}

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the value in force
    Get {
        /// The key by its path, e.g. permissions.defaultMode
        key: String,
    },
    /// Write a value: JSON, or text
    Set {
        /// The key by its path
        key: String,
        /// The value
        value: String,
        /// Which file
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Remove a value
    Unset {
        /// The key by its path
        key: String,
        /// Which file
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Print everything that is set and where
    List,
    /// Print which files speak about a key and which of them wins
    Explain {
        /// The key by its path
        key: String,
    },
    /// Print the JSON schema of settings files
    Schema,
}

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum MemoryCommand {
    /// Print the notes, with their kind and age
    List,
    /// Print a note, or the index
    Show {
        /// The note's file or name; without it, the index
        note: Option<String>,
    },
    /// Print the folder they are kept in
    Path,
}

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum TrustCommand {
    /// Print what this folder's configuration would make active, and whether it is trusted
    Show,
    /// Trust this folder with its configuration as it is now
    Add,
    /// Take trust back from this folder
    Remove,
    /// Print all trusted folders
    List,
}

#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Explain one call: its parse, what each part would do, and the rule that decides
    Explain {
        /// The command line, or for another tool its main argument or its input as JSON
        call: String,
        /// The tool
        #[arg(long, default_value = "Bash")]
        tool: String,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Judge many calls: one JSON object a line, with the policy to judge it by
    Check {
        /// The file; - for stdin
        #[arg(long, value_name = "FILE")]
        jsonl: PathBuf,
    },
}

/// Each reads a JSON object a line, with an id and a text, plain or in base64, and writes one a line.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Filter {
    /// Clean texts for where they go: with "source" and "sink"; "origin" if it is known
    Sanitize(Jsonl),
    /// Take secrets out of texts
    Redact(Jsonl),
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Jsonl {
    /// The lines; - is stdin
    #[arg(long, value_name = "FILE|-")]
    pub(crate) jsonl: PathBuf,
}

/// What to rewind, and how far.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are independent of each other")]
pub(crate) struct Rewind {
    /// The session; without it, the one that last did anything in this folder
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Show the checkpoints
    #[arg(long, conflicts_with_all = ["to", "undo"])]
    pub(crate) list: bool,

    /// The checkpoint: its number in the list, or the id of its prompt
    #[arg(long, value_name = "PROMPT|N", conflicts_with = "undo")]
    pub(crate) to: Option<String>,

    /// Rewind files only (the default)
    #[arg(long, conflicts_with_all = ["conversation", "both"])]
    pub(crate) files: bool,

    /// Rewind the conversation only
    #[arg(long, conflicts_with = "both")]
    pub(crate) conversation: bool,

    /// Rewind files and conversation
    #[arg(long)]
    pub(crate) both: bool,

    /// Take the last rewind back: of files, or as --conversation and --both say
    #[arg(long)]
    pub(crate) undo: bool,

    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Overwrite also what others changed since
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    Text,
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotFlag {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingFlag {
    Adaptive,
    Enabled,
    Disabled,
}

/// How much of a model's window counts before the conversation is compacted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// All of it.
    Whole,
    /// So many tokens.
    Tokens(u64),
}

/// Help, or a complaint about the words, ready to be shown.
pub(crate) struct Shown(clap::Error);

impl Shown {
    /// Shows it. Wrong words are exit code 1, as programs that start us expect.
    pub(crate) fn print(&self) -> ExitCode {
        // A reader that has gone needs no help text.
        let _ = self.0.print();
        if self.0.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Reads the command line.
pub(crate) fn parse(words: Vec<String>) -> Result<Args, Shown> {
    let args = Args::try_parse_from(words).map_err(Shown)?;
    let wrong = |text: &str| {
        let mut command = <Args as clap::CommandFactory>::command();
        Err(Shown(command.error(clap::error::ErrorKind::ArgumentConflict, text)))
    };
    if args.output_format == OutputFormat::StreamJson && !args.verbose {
        return wrong("--output-format stream-json needs --verbose");
    }
    if args.input_format == InputFormat::StreamJson && args.output_format != OutputFormat::StreamJson {
        return wrong("--input-format stream-json needs --output-format stream-json");
    }
    if args.permission_prompt_tool.as_deref().is_some_and(|who| who != "stdio") {
        return wrong(
            "--permission-prompt-tool takes stdio; tools of MCP servers cannot answer questions yet",
        );
    }
    let goes_on = args.resume.is_some() || args.continue_newest;
    if args.fork_session && !goes_on {
        return wrong("--fork-session needs --resume or --continue");
    }
    if args.session_id.is_some() && goes_on && !args.fork_session {
        return wrong(
            "--session-id names a new session; with --resume or --continue it needs --fork-session",
        );
    }
    if args.resume_session_at.is_some() && !goes_on {
        return wrong("--resume-session-at needs --resume or --continue");
    }
    Ok(args)
}

/// Splits lists given as one comma or space separated value, or as several; what stands in
/// parentheses is not split.
pub(crate) fn split_list(values: &[String]) -> Vec<String> {
    let mut items = vec![String::new()];
    for value in values {
        let mut depth = 0usize;
        for c in value.chars().chain([',']) {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_end = depth == 0 && (c == ',' || c.is_whitespace());
            match items.last_mut() {
                Some(item) if !is_end => item.push(c),
                Some(item) if !item.is_empty() => items.push(String::new()),
                Some(_) | None => {}
            }
        }
        if items.last().is_some_and(|item| !item.is_empty()) {
            items.push(String::new());
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) | Err(_) => Err("expected a number of dollars above 0".to_owned()),
    }
}

fn autocompact(text: &str) -> Result<Window, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Window::Whole),
        (_, Ok(tokens @ 1..)) => Ok(Window::Tokens(tokens)),
        (_, Ok(0) | Err(_)) => Err("expected 'auto' or a number of tokens above 0".to_owned()),
    }
}

fn effort(text: &str) -> Result<Effort, String> {
    Ok(match text {
        "low" => Effort::Low,
        "medium" => Effort::Medium,
        "high" => Effort::High,
        "xhigh" => Effort::Xhigh,
        "max" => Effort::Max,
        _ => return Err("expected low, medium, high, xhigh or max".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_split_outside_parentheses() {
        let split = |values: &[&str]| split_list(&values.iter().map(|&v| v.to_owned()).collect::<Vec<_>>());
        assert_eq!(split(&["Read,Bash(git log *) Edit"]), ["Read", "Bash(git log *)", "Edit"]);
        assert_eq!(split(&["Read", "Bash(a, b)"]), ["Read", "Bash(a, b)"]);
        assert_eq!(split(&[""]), Vec::<String>::new());
        assert_eq!(split(&["Bash(open", "Read"]), ["Bash(open,", "Read"], "a lost parenthesis stays visible");
    }

    #[test]
    fn flags_take_values_both_ways() {
        let parse = |words: &[&str]| {
            parse(std::iter::once("ostler").chain(words.iter().copied()).map(str::to_owned).collect())
        };
        let args = parse(&[
            "-p",
            "hi",
            "--model=m",
            "--max-turns",
            "3",
            "--system-prompt",
            "",
            "--allowed-tools",
            "A",
        ]);
        let args = args.ok().unwrap();
        assert_eq!(
            (args.model.as_deref(), args.max_turns, args.system_prompt.as_deref()),
            (Some("m"), Some(3), Some(""))
        );
        assert!(parse(&["-p", "x", "--output-format", "stream-json"]).is_err());
        assert!(parse(&["-p", "x", "--max-turns", "many"]).is_err());
        assert!(parse(&["--no-such-flag"]).is_err());
        assert!(matches!(
            parse(&["demo", "--keep"]).ok().unwrap().command,
            Some(Subcommand::Demo { keep: true })
        ));
    }
}

//! What outlives a compaction whatever a summary says, put into words: instructions, the user's own words, the
//! state of the session, and files as they are now. Only text made of facts it is given; the user's words stay as
//! they were said.

use super::{ends, prune::title};
use crate::session::{Failing, Refused, Said};
use ostler_proto::{
    Block, Job, Mode, Todo, TodoStatus, ToolCall,
    content::{Sink, Source, clean, deliver},
};
use std::path::PathBuf;

/// Bytes that a token stands for, on the low side.
const BYTES_PER_TOKEN: usize = 3;
/// Bytes of a message of the user's for which there is hardly room.
const GLIMPSE: usize = 300;

/// Everything that is carried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contract {
    /// Standing instructions, as the model read them.
    pub(crate) instructions: Vec<String>,
    /// What the user said, oldest first.
    pub(crate) said: Vec<Words>,
    /// The summary, marked as such.
    pub(crate) summary: String,
    /// Calls of the last answer, where the messages with them are gone.
    pub(crate) last_calls: Vec<String>,
    pub(crate) todos: Vec<Todo>,
    pub(crate) failing: Option<Failing>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) rules: Vec<String>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) mode: Mode,
    pub(crate) cwd: PathBuf,
    pub(crate) files: Vec<File>,
    /// Where the whole conversation is written.
    pub(crate) transcript: Option<PathBuf>,
}

/// Something the user said, as far as there is room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    Shown(String),
    /// Only that it was said.
    LeftOut,
}

/// A file that was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) changed: bool,
    /// The hash of its content, or what is the matter with it.
    pub(crate) content: String,
    /// Its start, numbered.
    pub(crate) text: Option<String>,
}

/// How many bytes of each thing the user said are shown: the last and the first before all others, then the
/// newest.
pub(crate) fn allot(said: &[Said], tokens: u64) -> Vec<usize> {
    let mut left = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    let each = left / 3;
    let mut allotted = vec![0; said.len()];
    let Some(last) = said.len().checked_sub(1) else { return allotted };
    let order = [last, 0].into_iter().chain((1..last).rev()).take(said.len());
    for at in order {
        let wanted = said[at].text.len().min(each.max(GLIMPSE));
        let given = if wanted <= left { wanted } else { left.min(GLIMPSE) };
        allotted[at] = given;
        left -= given.min(left);
    }
    allotted
}

impl Contract {
    /// What the model reads in the place of the earlier conversation.
    pub(crate) fn blocks(&self, instructions: u64) -> Vec<Block> {
        let mut blocks = vec![Block::text(self.opening())];
        blocks.extend(self.standing(instructions));
        let count = self.said.len();
        for (number, words) in (1..).zip(&self.said) {
            if let Words::Shown(text) = words {
                blocks.push(Block::text(format!("[What the user said, {number} of {count}]\n{text}")));
            }
        }
        blocks.push(Block::text(self.summary.clone()));
        blocks.push(Block::text(self.state()));
        blocks.extend(self.failing.as_ref().map(failure));
        for file in &self.files {
            if let Some(text) = &file.text {
                let path = file.path.display();
                blocks.push(Block::text(format!("[{path} as it is now, read again by Ostler]\n{text}")));
            }
        }
        blocks
    }

    /// Notes down calls whose messages are gone.
    pub(crate) fn note_calls<'a>(&mut self, calls: impl Iterator<Item = &'a ToolCall>) {
        self.last_calls = calls.map(title).collect();
    }

    fn opening(&self) -> String {
        let whole = match &self.transcript {
            Some(path) => format!(" The whole of it stays in {}.", path.display()),
            None => String::new(),
        };
        let left_out = self.said.iter().filter(|words| **words == Words::LeftOut).count();
        let left_out = match left_out {
            0 => String::new(),
            count => format!(" For {count} of the user's messages there was no room."),
        };
        format!(
            "<system-reminder>\nOstler has compacted the conversation up to here: what follows stands for it.{whole} The \
             user's words, the state of the session and the files come from Ostler itself; the summary was written by a \
             model and may be wrong. Every call made so far has been carried out or refused and has had its result: \
             repeat none for its effect. Go on with the user's task from where it stands, without asking again what was \
             asked already.{left_out}\n</system-reminder>"
        )
    }

    fn standing(&self, tokens: u64) -> impl Iterator<Item = Block> {
        let mut left = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        self.instructions.iter().map(move |text| {
            let shown = ends(text, left.max(GLIMPSE), "; read the files again where they matter");
            left = left.saturating_sub(shown.len());
            Block::text(shown)
        })
    }

    fn state(&self) -> String {
        let todo = |todo: &Todo| format!("[{}] {}", progress(todo.status), one_line(&todo.content));
        let refused = |call: &Refused| format!("{} ({})", one_line(&call.title), one_line(&call.because));
        let job = |job: &Job| {
            let (what, command) = (one_line(&job.description), one_line(&job.command));
            format!("{what} ({command}): TaskOutput with task_id {}", job.id)
        };
        let mut lines = vec![
            "[The state of the session]".to_owned(),
            format!("Working directory: {}", one_line(&self.cwd.display().to_string())),
            format!("Permission mode: {}{}", self.mode.as_str(), what_it_means(self.mode)),
        ];
        let mut list = |heading: &str, items: Vec<String>| {
            if !items.is_empty() {
                lines.push(heading.to_owned());
                lines.extend(items.into_iter().map(|item| format!("- {item}")));
            }
        };
        list("The last calls, which are done:", self.last_calls.iter().map(|call| one_line(call)).collect());
        list("The todo list:", self.todos.iter().map(todo).collect());
        list(
            "Rules the user granted in this session:",
            self.rules.iter().map(|rule| one_line(rule)).collect(),
        );
        let heading = "Calls that were refused; their effect is not to be had another way either:";
        list(heading, self.refused.iter().map(refused).collect());
        list("Commands that run in the background:", self.jobs.iter().map(job).collect());
        let heading = "Files that were touched, the last one first, with a hash of what they hold now:";
        list(heading, self.files.iter().map(File::line).collect());
        if self.files.iter().any(|file| file.text.is_none()) {
            let note = "Files that are not shown below count as not read: read them before changing them.";
            lines.push(note.to_owned());
        }
        lines.join("\n")
    }
}

impl File {
    fn line(&self) -> String {
        let how = if self.changed { "changed" } else { "read" };
        format!("{} ({how}, {})", one_line(&self.path.display().to_string()), one_line(&self.content))
    }
}

/// A block of its own, so that what a command printed cannot pass for anything else.
fn failure(failing: &Failing) -> Block {
    let Failing { command, output } = failing;
    let text = format!(
        "[The last command that failed and has not succeeded since, and the end of what it printed]\n$ {command}\n{output}"
    );
    Block::text(clean(&text, Sink::ModelContext).text)
}

/// Words of others on a line of ours: they cannot begin another.
fn one_line(text: &str) -> String {
    deliver(text, Source::FileName, Sink::ModelContext, "").text.into_owned()
}

fn progress(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "to do",
        TodoStatus::InProgress => "being done",
        TodoStatus::Completed => "done",
    }
}

fn what_it_means(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => " (nothing may be changed before the user has approved a plan)",
        Mode::DontAsk => " (what would ask is refused)",
        Mode::Default | Mode::AcceptEdits | Mode::BypassPermissions | Mode::Bubble => "",
    }
}

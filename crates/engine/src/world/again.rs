//! Calls of a tape that are run again for real, one after the other, and held against what came of them then. Only
//! what ran then and touches nothing outside is run, and always through the executor; hooks and answers are the tape's.

use ostler_control::{ExecEvent, Executor, Finished};
use ostler_proto::{
    Access, Answer, AskId, Block, CallId, HookRecord, Intent, Json, PathFact, ToolCall, session::CallState,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Lines of a difference that are shown of each side, and characters of each line.
const SHOWN_LINES: usize = 6;
const SHOWN_CHARACTERS: usize = 160;
/// Tools that are about commands in the background, whose progress nobody can repeat.
const ABOUT_JOBS: [&str; 2] = ["TaskOutput", "TaskStop"];

/// What runs the calls of a recording again.
pub struct Live {
    /// Judges and runs them. It must lead to a copy of the project and to nothing else.
    pub executor: Executor,
    /// Where calls may read and write; others are not run.
    pub inside: Vec<PathBuf>,
}

/// What was run again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Relived {
    /// Calls that came to the same.
    pub same: usize,
    /// Calls whose results were taken from the recording.
    pub given: Vec<Given>,
}

/// A call that was not run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its id.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// Why.
    pub why: String,
}

/// The calls of a tape, run again.
pub(crate) struct Again {
    live: Live,
    known: HashMap<CallId, Known>,
    /// Which call each question was about.
    asks: HashMap<AskId, CallId>,
    relived: Arc<Mutex<Relived>>,
}

/// What the tape has told of a call before its end.
#[derive(Default)]
struct Known {
    intent: Option<Intent>,
    ran: bool,
    /// What whoever was asked made of the input.
    input: Option<Json>,
    by_hooks: ByHooks,
}

/// What hooks had to do with a call.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum ByHooks {
    #[default]
    Nothing,
    /// They may have added to the result, or replaced it.
    Heard,
    /// They changed the input.
    Changed,
}

impl Again {
    pub(crate) fn new(live: Live, relived: Arc<Mutex<Relived>>) -> Self {
        Self { live, known: HashMap::new(), asks: HashMap::new(), relived }
    }

    pub(crate) fn executor(&mut self) -> &mut Executor {
        &mut self.live.executor
    }

    /// The same, to look or to tell.
    pub(crate) fn judge(&self) -> &Executor {
        &self.live.executor
    }

    /// An answer from the tape.
    pub(crate) fn answered(&mut self, ask: AskId, answer: Answer) {
        if let (
            Answer::Allow { input: Some(input) } | Answer::AllowWith { input: Some(input), .. },
            Some(call),
        ) = (answer, self.asks.get(&ask))
        {
            self.known.entry(call.clone()).or_default().input = Some(input);
        }
    }

    /// A report from the tape. With the end of a call it is run again; gives how that differs.
    pub(crate) async fn note(&mut self, event: &ExecEvent) -> Result<(), String> {
        match event {
            ExecEvent::Decided { call, intent, .. } => self.about(call).intent = Some(intent.clone()),
            ExecEvent::Started { call, intent, .. } => {
                let known = self.about(call);
                (known.intent, known.ran) = (Some(intent.clone()), true);
            }
            ExecEvent::Asked(ask) => {
                self.asks.insert(ask.id, ask.call.clone());
            }
            ExecEvent::Hooked { record: HookRecord::Fired(firing), .. } => {
                if let Some(call) = &firing.call {
                    let known = self.about(call);
                    if firing.changed_input {
                        known.by_hooks = ByHooks::Changed;
                    } else if known.by_hooks == ByHooks::Nothing {
                        known.by_hooks = ByHooks::Heard;
                    }
                }
            }
            ExecEvent::Finished(then) => return self.run_again(then).await,
            ExecEvent::Hooked { record: HookRecord::Configured { .. }, .. }
            | ExecEvent::Told(_)
            | ExecEvent::Progress { .. }
            | ExecEvent::AskWithdrawn(_)
            | ExecEvent::JobChanged(_)
            | ExecEvent::Noticed(_)
            | ExecEvent::ModeChanged(_)
            | ExecEvent::Stopped(_) => {}
        }
        Ok(())
    }

    fn about(&mut self, call: &CallId) -> &mut Known {
        self.known.entry(call.clone()).or_default()
    }

    async fn run_again(&mut self, then: &Finished) -> Result<(), String> {
        let known = self.known.remove(&then.call.id).unwrap_or_default();
        if let Some(why) = self.obstacle(then, &known) {
            let (call, tool) = (then.call.id.clone(), then.call.name.clone());
            self.report().given.push(Given { call, tool, why });
            return Ok(());
        }
        let mut call = then.call.clone();
        if let Some(input) = &known.input {
            call.input = input.clone();
        }
        let now = self.run(call, known.ran).await;
        if is_same(then, &now, known.by_hooks) {
            self.report().same += 1;
            return Ok(());
        }
        let number = { self.report().same } + 1;
        let title = known.intent.map(|intent| format!(" ({})", intent.title)).unwrap_or_default();
        Err(format!(
            "call {number} that was run again, {}{title}, {}, came to another result\n{}",
            then.call.name,
            then.call.id,
            difference(&told(then), &told(&now))
        ))
    }

    /// Why a call is not run again.
    fn obstacle(&self, then: &Finished, known: &Known) -> Option<String> {
        match then.state {
            CallState::Complete | CallState::Failed => {}
            CallState::Denied => return Some("it was denied".to_owned()),
            CallState::Cancelled => return Some("it was interrupted".to_owned()),
            CallState::Unknown => return Some("what became of it was not known".to_owned()),
        }
        if known.by_hooks == ByHooks::Changed {
            return Some("a hook changed its input".to_owned());
        }
        let in_background = then.call.input.get("run_in_background").and_then(Json::as_bool) == Some(true);
        if in_background || ABOUT_JOBS.contains(&then.call.name.as_str()) {
            return Some("it is about a command in the background".to_owned());
        }
        let intent = known.intent.as_ref()?;
        let outside = |paths: &[PathFact]| {
            let fact = paths.iter().find(|fact| !fact.spellings().all(|path| self.is_inside(path)))?;
            Some(format!("it touches {}, which is outside of the project", fact.requested.display()))
        };
        match &intent.access {
            Access::Internal => None,
            Access::Read { paths } | Access::Write { paths } => outside(paths),
            Access::Execute { footprint, .. } if footprint.network && !footprint.open => {
                Some("it talks to other machines".to_owned())
            }
            Access::Execute { footprint, .. } => {
                outside(&footprint.reads).or_else(|| outside(&footprint.writes))
            }
            Access::Network { .. } => Some("it talks to other machines".to_owned()),
            Access::Mcp { server, .. } => Some(format!("it is a tool of the server {server}")),
            Access::Agent { .. } => Some("it starts another agent".to_owned()),
            Access::Consult(_) => Some("the user was asked".to_owned()),
        }
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.live.inside.iter().any(|root| path.starts_with(root))
    }

    /// Runs a call to its end. Whoever was asked then said yes if it ran then.
    async fn run(&mut self, call: ToolCall, ran: bool) -> Finished {
        let executor = &mut self.live.executor;
        executor.start(call);
        loop {
            match executor.next().await {
                ExecEvent::Finished(finished) => return finished,
                ExecEvent::Asked(ask) => {
                    let no = "it did not run when it was recorded";
                    executor.answer(
                        ask.id,
                        if ran {
                            Answer::Allow { input: None }
                        } else {
                            Answer::Deny { message: no.to_owned(), interrupt: false }
                        },
                    );
                }
                ExecEvent::Decided { .. }
                | ExecEvent::Hooked { .. }
                | ExecEvent::Told(_)
                | ExecEvent::Started { .. }
                | ExecEvent::Progress { .. }
                | ExecEvent::AskWithdrawn(_)
                | ExecEvent::JobChanged(_)
                | ExecEvent::Noticed(_)
                | ExecEvent::ModeChanged(_)
                | ExecEvent::Stopped(_) => {}
            }
        }
    }

    fn report(&self) -> std::sync::MutexGuard<'_, Relived> {
        self.relived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call came to the same. Words of hooks stand behind a result; they are not said again.
fn is_same(then: &Finished, now: &Finished, by_hooks: ByHooks) -> bool {
    let (before, after) = (&then.result, &now.result);
    let content = match by_hooks {
        ByHooks::Nothing => before.content == after.content,
        ByHooks::Heard | ByHooks::Changed => before.content.starts_with(&after.content),
    };
    content && before.is_error == after.is_error && then.state == now.state
}

fn told(finished: &Finished) -> String {
    let text = |block: &Block| match block {
        Block::Text(text) => text.clone(),
        Block::Image(_) | Block::Document(_) => {
            format!("({block:?})").chars().take(SHOWN_CHARACTERS).collect()
        }
        Block::Thinking { .. } | Block::ToolUse(_) | Block::ToolResult(_) | Block::Opaque(_) => String::new(),
    };
    let texts: Vec<String> = finished.result.content.iter().map(text).collect();
    let how = match finished.state {
        CallState::Complete => "",
        CallState::Failed => "failed: ",
        CallState::Denied => "denied: ",
        CallState::Cancelled | CallState::Unknown => "interrupted: ",
    };
    format!("{how}{}", texts.join("\n"))
}

/// The lines in which two texts differ.
fn difference(then: &str, now: &str) -> String {
    let (then, now): (Vec<&str>, Vec<&str>) = (then.lines().collect(), now.lines().collect());
    let start = then.iter().zip(&now).take_while(|(one, other)| one == other).count();
    let rest = then.len().min(now.len()) - start;
    let end =
        then.iter().rev().zip(now.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let part = |sign: &str, lines: &[&str]| -> Vec<String> {
        let shown = lines.iter().take(SHOWN_LINES).map(|line| {
            let begun: String = crate::rewind::plain(line).chars().take(SHOWN_CHARACTERS).collect();
            format!("  {sign} {begun}")
        });
        let more = lines.len().saturating_sub(SHOWN_LINES);
        shown.chain((more > 0).then(|| format!("  {sign} … {more} more lines"))).collect()
    };
    let (gone, new) = (&then[start..then.len() - end], &now[start..now.len() - end]);
    [vec![format!("  line {} on, - then, + now:", start + 1)], part("-", gone), part("+", new)]
        .concat()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_the_lines_that_are_not_in_both() {
        assert_eq!(difference("a\nb\nc", "a\nx\ny\nc"), "  line 2 on, - then, + now:\n  - b\n  + x\n  + y");
        assert_eq!(difference("a", "a\nb"), "  line 2 on, - then, + now:\n  + b");
        assert_eq!(difference("a\na", "a"), "  line 2 on, - then, + now:\n  - a");
        let long = difference("", &"x\n".repeat(20));
        assert!(long.ends_with("  + x\n  + … 14 more lines"), "{long}");
        assert!(!difference("", "\u{1b}[2J").contains('\u{1b}'));
    }
}

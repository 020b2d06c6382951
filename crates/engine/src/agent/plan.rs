//! Plan mode as the conversation meets it: the model is told when it begins, and when it ends by another hand
//! than its own. The mode itself is the judge's.

use super::{Agent, Reaction};
use ostler_control::hooks::reminder;
use ostler_proto::{Block, Message, Mode, SessionEvent};
use std::{collections::HashSet, path::Path, sync::Arc};

const BEGUN: &str = "Plan mode is on: ";
const ENDED: &str = "Plan mode is over: you may change things again, as permissions allow.";
const LEAVING: &str = " Ask the user where the choice is theirs. When the plan is whole, call ExitPlanMode with it; the \
user approves it there, so do not ask for approval otherwise.";
const ANSWERING: &str = " When the plan is whole, give it as your answer.";

/// What the model knows of plan mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum KnownPlan {
    /// What the conversation says: it was taken over, cut off or made shorter since.
    #[default]
    AsSaid,
    /// As far as it knows, there is none.
    Off,
    /// It was told that it is on.
    On,
}

impl Agent {
    /// A call, or the answer to its question, changed the mode.
    pub(super) async fn on_mode(&mut self, mode: Mode) -> Reaction {
        if mode != Mode::Plan {
            // The call's own result says that the plan was approved.
            self.known_plan = KnownPlan::Off;
        }
        self.parts.session.record(SessionEvent::ModeChanged { mode }).await?;
        Ok(())
    }

    /// The conversation is another one now: what the model knew may no longer stand in it.
    pub(crate) fn look_up_plan(&mut self) {
        self.known_plan = KnownPlan::AsSaid;
    }

    /// Tells the model of plan mode before it is asked, once.
    pub(super) async fn tell_of_plan(&mut self) -> Reaction {
        let now = if self.parts.executor.mode() == Mode::Plan { KnownPlan::On } else { KnownPlan::Off };
        if self.known_plan == KnownPlan::AsSaid {
            self.known_plan = said(&self.parts.session.state().messages());
        }
        if now == self.known_plan {
            return Ok(());
        }
        self.known_plan = now;
        let can_leave = self.tools.iter().any(|tool| tool.name == "ExitPlanMode");
        let more = self.plan_instructions.as_ref().map(|text| format!("\n\n{text}")).unwrap_or_default();
        let text = match (now, can_leave) {
            (KnownPlan::Off | KnownPlan::AsSaid, _) => ENDED.to_owned(),
            (KnownPlan::On, true) => {
                format!("{}{LEAVING}{more}", begun(self.parts.executor.plan_file().as_deref()))
            }
            (KnownPlan::On, false) => format!("{}{ANSWERING}{more}", begun(None)),
        };
        let content = vec![Block::text(reminder(&text))];
        self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
        Ok(())
    }
}

/// What a conversation says of plan mode: the last word counts.
fn said(messages: &[Arc<Message>]) -> KnownPlan {
    let (begun, ended) = (format!("<system-reminder>\n{BEGUN}"), reminder(ENDED));
    let mut succeeded = HashSet::new();
    for block in messages.iter().rev().flat_map(|message| message.content.iter().rev()) {
        match block {
            Block::Text(text) if text.starts_with(&begun) => return KnownPlan::On,
            Block::Text(text) if *text == ended => return KnownPlan::Off,
            Block::ToolResult(result) if !result.is_error => {
                succeeded.insert(&result.id);
            }
            Block::ToolUse(call) if call.name == "ExitPlanMode" && succeeded.contains(&call.id) => {
                return KnownPlan::Off;
            }
            Block::Text(_)
            | Block::Thinking { .. }
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolUse(_)
            | Block::ToolResult(_)
            | Block::Opaque(_) => {}
        }
    }
    KnownPlan::Off
}

fn begun(file: Option<&Path>) -> String {
    let place = file.map_or_else(String::new, |file| {
        format!(" The one file you may write is the plan itself, {}.", file.display())
    });
    format!(
        "{BEGUN}the user wants a plan and no changes yet. Read, search and run commands that only look; \
         nothing else is allowed, whatever earlier words say.{place}"
    )
}

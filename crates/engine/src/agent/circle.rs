//! An agent that goes in circles is not left to it: the model is told first, then whoever can answer is
//! asked. Where nobody can, that is a no, and the turn ends with a clear word.

use super::{Agent, Reaction};
use crate::{
    session::LogError,
    stuck::Finding,
    turn::{Next, Phase},
};
use ostler_proto::{
    Access, AgentEvent, Answer, Ask, AskId, Block, Intent, Preview, Reason, SessionEvent, ToolCall,
    TurnOutcome, Why,
};

const REPEATED: &str = "[The last calls gave the same results as the ones before, and nothing changed in between. Making them again will not help: try another way, or say what you need.]";

/// Whether the turn may go on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    Yes,
    /// Once somebody has answered.
    WhenAllowed,
}

impl Agent {
    /// Looks at what the last round of calls came to.
    pub(super) async fn look_for_circles(&mut self) -> Result<Onward, LogError> {
        let world_moves = self.parts.executor.has_running_jobs();
        let Some(turn) = &mut self.turn else { return Ok(Onward::Yes) };
        if turn.rounds.next() == Why::OutputLimit {
            // Half a call is not the agent's doing, and has its own limit.
            turn.watch.forget_round();
        }
        match turn.watch.end_round(world_moves) {
            Finding::Fine => Ok(Onward::Yes),
            Finding::Repeated => {
                let content = vec![Block::text(REPEATED)];
                self.parts.session.record(SessionEvent::Prompted { content, meta: true }).await?;
                Ok(Onward::Yes)
            }
            Finding::Circle { times, length, call } => {
                let ask = self.question(times, length, call);
                let finding = ask.because.to_string();
                if let Some(turn) = &mut self.turn {
                    turn.phase = Phase::Asking { ask: ask.id, finding };
                }
                self.parts.session.tell(AgentEvent::Asked(ask)).await;
                Ok(Onward::WhenAllowed)
            }
        }
    }

    /// Somebody answered a question: the one whether to go on, or a call's.
    pub(super) async fn on_answer(&mut self, ask: AskId, answer: Answer) -> Reaction {
        let message = match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Asking { ask: own, finding }) if *own == ask => finding.clone(),
            Some(Phase::Asking { .. } | Phase::Answering(_) | Phase::Draining { .. } | Phase::Waiting(_))
            | None => {
                self.parts.executor.answer(ask, answer);
                return Ok(());
            }
        };
        match answer {
            Answer::Allow { .. } | Answer::AllowAlways { .. } | Answer::AllowWith { .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.watch.reset();
                    turn.phase = Phase::Draining { then: Next::Request };
                }
                self.request().await
            }
            Answer::Deny { .. } => self.end(TurnOutcome::Failed { message }).await,
        }
    }

    fn question(&self, times: usize, length: usize, call: ToolCall) -> Ask {
        let what = match length {
            1 => format!("{} gave the same result {times} times in a row", call.name),
            _ => format!(
                "the same {length} rounds of calls, the last {}, came {times} times in a row",
                call.name
            ),
        };
        Ask {
            id: self.parts.executor.new_ask(),
            intent: Intent {
                title: "go on all the same".to_owned(),
                access: Access::Internal,
                preview: Preview::Text(call.input.to_string()),
            },
            because: Reason::Check {
                text: format!("the agent goes in circles: {what}, and nothing changed in between"),
            },
            call: call.id,
            tool: call.name,
            input: call.input,
            suggestions: Vec::new(),
        }
    }
}

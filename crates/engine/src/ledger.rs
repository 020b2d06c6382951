//! What has been spent: by this process and model, and by the session over all its runs.

use ostler_proto::{
    HookRecord, ModelRow, SessionEvent, Usage,
    envelope::{AgentSpend, ModelSpend, ToolSpend},
    session::CallState,
};
use std::collections::BTreeMap;

/// Running totals of this process.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) by_model: BTreeMap<String, ModelSpend>,
    pub(crate) by_agent: BTreeMap<String, AgentSpend>,
    /// Dollars of conversations that this process has left.
    left_usd: f64,
}

/// Who asks a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    /// The agent that the user talks to.
    Main,
    /// Hooks that let a model judge.
    Hooks,
}

/// What a session has used over all its runs, as a fold over its events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spent {
    /// US dollars.
    pub usd: f64,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Tool calls that got a result.
    pub calls: u64,
    /// By tool.
    pub by_tool: BTreeMap<String, ToolSpend>,
    /// The conversation when it was last sent; unknown when that is not how it stands any more.
    pub context: Option<Context>,
}

/// A conversation as a server counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Tokens, the last answer included.
    pub tokens: u64,
    /// Whether any of it was cached.
    pub cached: bool,
}

impl Ledger {
    /// Books one answer and returns its price in US dollars.
    pub(crate) fn book(&mut self, payer: Payer, model: &str, row: &ModelRow, usage: Usage) -> f64 {
        let cost = row.price.cost(usage);
        let name = match payer {
            Payer::Main => "main",
            Payer::Hooks => "hooks",
        };
        let spend = self.by_agent.entry(name.to_owned()).or_default();
        spend.usage.add(usage);
        spend.cost_usd += cost;
        let spend = self.by_model.entry(model.to_owned()).or_default();
        spend.usage.add(usage);
        spend.cost_usd += cost;
        spend.context_window = row.context_window;
        spend.max_output_tokens = row.max_output_tokens;
        cost
    }

    /// The conversation is left for a new one, which has its own account.
    pub(crate) fn start_over(&mut self) {
        *self = Self { left_usd: self.run_usd(), ..Self::default() };
    }

    /// US dollars of this process, whatever conversation they were for.
    pub(crate) fn run_usd(&self) -> f64 {
        self.left_usd + self.total_usd()
    }

    /// US dollars of this conversation.
    pub(crate) fn total_usd(&self) -> f64 {
        // An empty sum of floats is minus zero, which people would read.
        self.by_model.values().fold(0.0, |sum, spend| sum + spend.cost_usd)
    }
}

impl Spent {
    /// Takes one event in.
    pub(crate) fn apply(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Sampled { usage, cost_usd, .. } => {
                self.usd += cost_usd;
                self.tokens = self.tokens.saturating_add(all_tokens(*usage));
                let cached = usage.cache_read > 0 || usage.cache_write > 0;
                self.context = Some(Context { tokens: all_tokens(*usage), cached });
            }
            SessionEvent::Dropped { usage, cost_usd, .. } => {
                self.usd += cost_usd;
                self.tokens = self.tokens.saturating_add(all_tokens(*usage));
            }
            SessionEvent::ToolReturned { tool, result, state, duration_ms, .. } => {
                self.calls += 1;
                let spend = self.by_tool.entry(tool.clone()).or_default();
                spend.calls += 1;
                spend.failed += u64::from(*state != CallState::Complete);
                spend.ran_ms = spend.ran_ms.saturating_add(*duration_ms);
                let texts = result.content.iter().filter_map(ostler_proto::Block::as_text);
                spend.bytes = spend.bytes.saturating_add(texts.map(|text| text.len() as u64).sum());
            }
            SessionEvent::Compacted { compaction, .. } => {
                self.usd += compaction.cost_usd;
                self.tokens = self.tokens.saturating_add(all_tokens(compaction.usage));
                self.context = None;
            }
            SessionEvent::Hooked { record: HookRecord::Fired(firing) } => {
                for spent in firing.runs.iter().filter_map(|run| run.spent.as_ref()) {
                    self.usd += spent.cost_usd;
                    self.tokens = self.tokens.saturating_add(all_tokens(spent.usage));
                }
            }
            // The conversation is another one now.
            SessionEvent::Rewound { .. }
            | SessionEvent::RewindUndone
            | SessionEvent::Uncompacted
            | SessionEvent::ModelChanged { .. } => {
                self.context = None;
            }
            SessionEvent::Opened { .. }
            | SessionEvent::Instructed { .. }
            | SessionEvent::CacheBroken { .. }
            | SessionEvent::Prompted { .. }
            | SessionEvent::Commanded { .. }
            | SessionEvent::Replied { .. }
            | SessionEvent::Decided { .. }
            | SessionEvent::Hooked { record: HookRecord::Configured { .. } }
            | SessionEvent::Interrupted { .. }
            | SessionEvent::Failed { .. }
            | SessionEvent::ModeChanged { .. } => {}
        }
    }
}

/// Tokens of all kinds.
pub(crate) fn all_tokens(usage: Usage) -> u64 {
    [usage.output, usage.cache_read, usage.cache_write].into_iter().fold(usage.input, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{Block, Json, ToolResult};

    fn usage(input: u64, output: u64, cache_read: u64) -> Usage {
        Usage { input, output, cache_write: 0, cache_read }
    }

    #[test]
    fn answers_that_broke_off_are_paid_for_and_say_nothing_of_the_context() {
        let mut spent = Spent::default();
        spent.apply(&SessionEvent::Sampled {
            message: "m".into(),
            model: "x".into(),
            stop: None,
            usage: usage(10, 5, 100),
            cost_usd: 0.5,
            duration_ms: 1,
            request: None,
        });
        spent.apply(&SessionEvent::Dropped {
            message: None,
            reason: "reset".into(),
            partial: String::new(),
            usage: usage(7, 0, 0),
            cost_usd: 0.25,
        });
        let context = Context { tokens: 115, cached: true };
        assert_eq!((spent.usd, spent.tokens, spent.context), (0.75, 122, Some(context)));
        spent.apply(&SessionEvent::Rewound { to: "p".into() });
        assert_eq!((spent.tokens, spent.context), (122, None));
    }

    #[test]
    fn calls_are_counted_by_tool() {
        let mut spent = Spent::default();
        for (tool, state) in
            [("Read", CallState::Complete), ("Read", CallState::Failed), ("Bash", CallState::Denied)]
        {
            let content = vec![Block::text("four")];
            spent.apply(&SessionEvent::ToolReturned {
                tool: tool.into(),
                result: ToolResult { id: "c".into(), content, is_error: false },
                structured: Json::Null,
                state,
                changes: vec![],
                duration_ms: 20,
            });
        }
        assert_eq!(spent.calls, 3);
        assert_eq!(spent.by_tool["Read"], ToolSpend { calls: 2, failed: 1, ran_ms: 40, bytes: 8 });
    }
}

//! Where the tokens of a conversation are: by section, by tool, by kind of message. Guesses, set right by what
//! the last answer was charged for. It reads the whole conversation, so it is for whoever asks, not for each request.

use super::{Budget, request::said, window};
use crate::{
    agent::AutoCompact,
    compaction::Room,
    session::{Lost, State},
    tokens,
};
use ostler_proto::{
    Block, CallId, Instruction, InstructionScope, Message, ModelRow, Role, Section, ToolSpec, Usage,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

/// What an account is made of.
pub struct Picture<'a> {
    /// The conversation.
    pub state: &'a State,
    /// The system prompt in force.
    pub system: &'a [Section],
    /// The tools on offer.
    pub tools: &'a [ToolSpec],
    /// The model's name.
    pub model: &'a str,
    /// What is known of it.
    pub row: &'a ModelRow,
    /// When the conversation is made shorter by itself.
    pub auto_compact: AutoCompact,
}

/// An account of the context window.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextUsage {
    /// The model it is about.
    pub model: String,
    /// The model's room.
    pub budget: Budget,
    /// All tokens in use.
    pub total: u64,
    /// The system prompt, by section.
    pub system: Vec<Share>,
    /// The tools on offer.
    pub tools: Vec<Share>,
    /// The conversation.
    pub talk: Talk,
    /// What the last answer was charged for.
    pub charged: Option<Usage>,
    /// When the cache was lost, and why.
    pub breaks: Vec<Lost>,
    /// Files of instructions in force; their tokens are among those of the conversation.
    pub instructions: Vec<Instructed>,
    /// Tokens at which the conversation is made shorter by itself, if it is.
    pub compacts_at: Option<u64>,
}

/// A file of instructions and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructed {
    /// The file.
    pub path: PathBuf,
    /// Whose words they are.
    pub scope: InstructionScope,
    /// Their tokens, guessed.
    pub tokens: u64,
}

/// A named part and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// What it is.
    pub name: String,
    /// Its tokens.
    pub tokens: u64,
}

/// The conversation by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Talk {
    /// What the user said.
    pub user: u64,
    /// What Ostler said on its own account.
    pub notes: u64,
    /// Pictures and documents.
    pub attachments: u64,
    /// What the model said.
    pub assistant: u64,
    /// What it thought.
    pub thinking: u64,
    /// Calls, by tool.
    pub calls: BTreeMap<String, u64>,
    /// Results, by tool.
    pub results: BTreeMap<String, u64>,
}

impl ContextUsage {
    /// Counts.
    pub fn of(picture: &Picture<'_>) -> Self {
        let Picture { state, system, tools, model, row, auto_compact } = picture;
        let share = |name: &str, tokens| Share { name: name.to_owned(), tokens };
        let mut usage = Self {
            model: (*model).to_owned(),
            budget: window(row),
            total: 0,
            system: said(system).map(|part| share(&part.name, tokens::of_text(&part.text))).collect(),
            tools: tools.iter().map(|tool| share(&tool.name, tokens::of_tool(tool))).collect(),
            talk: Talk::of(&state.messages()),
            charged: state.cache.usage,
            breaks: state.cache.breaks.clone(),
            instructions: state.instructions.iter().map(Instructed::of).collect(),
            compacts_at: auto_compact.enabled.then(|| Room::of(row, auto_compact.window).threshold),
        };
        let guessed = usage.sum();
        let total = state.cache.measured().map_or(guessed, |measured| measured.set_right(guessed));
        usage.scale(total, guessed.max(1));
        usage.total = usage.sum();
        usage
    }

    /// Tokens of the system prompt.
    pub fn system_tokens(&self) -> u64 {
        self.system.iter().map(|share| share.tokens).sum()
    }

    /// Tokens of the tools that `wanted` picks by name.
    pub fn tool_tokens(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        self.tools.iter().filter(|share| wanted(&share.name)).map(|share| share.tokens).sum()
    }

    /// What is left for the conversation to grow.
    pub fn free(&self) -> u64 {
        self.budget.usable.saturating_sub(self.total)
    }

    /// Share of the window in use, in percent.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn percentage(&self) -> f64 {
        self.total as f64 * 100.0 / self.budget.window.max(1) as f64
    }

    fn sum(&self) -> u64 {
        self.system_tokens() + self.tool_tokens(|_| true) + self.talk.total()
    }

    /// Gives every part its share of what was really counted.
    fn scale(&mut self, to: u64, from: u64) {
        let Talk { user, notes, attachments, assistant, thinking, calls, results } = &mut self.talk;
        let listed = self.system.iter_mut().chain(&mut self.tools).map(|share| &mut share.tokens);
        let kinds = [user, notes, attachments, assistant, thinking].into_iter();
        let by_tool = calls.values_mut().chain(results.values_mut());
        for part in listed.chain(kinds).chain(by_tool) {
            *part = part.saturating_mul(to).saturating_add(from / 2) / from;
        }
    }
}

impl Instructed {
    fn of(file: &Instruction) -> Self {
        Self { path: file.path.clone(), scope: file.scope, tokens: file.tokens }
    }
}

impl Talk {
    fn of(messages: &[Arc<Message>]) -> Self {
        let mut talk = Self::default();
        let mut tools: HashMap<CallId, String> = HashMap::new();
        for message in messages {
            talk.said_by(message.role, tokens::FRAME);
            for block in &message.content {
                if let Block::ToolUse(call) = block {
                    tools.insert(call.id.clone(), call.name.clone());
                }
                talk.add(message.role, block, &tools);
            }
        }
        talk
    }

    fn add(&mut self, role: Role, block: &Block, tools: &HashMap<CallId, String>) {
        let tokens = tokens::of_block(block);
        match block {
            Block::Text(text) if role == Role::User && text.starts_with("<system-reminder>") => {
                self.notes += tokens;
            }
            Block::Text(_) | Block::Opaque(_) => self.said_by(role, tokens),
            Block::Thinking { .. } => self.thinking += tokens,
            Block::Image(_) | Block::Document(_) => self.attachments += tokens,
            Block::ToolUse(call) => *self.calls.entry(call.name.clone()).or_default() += tokens,
            Block::ToolResult(result) => {
                let tool = tools.get(&result.id).cloned().unwrap_or_default();
                *self.results.entry(tool).or_default() += tokens;
            }
        }
    }

    fn said_by(&mut self, role: Role, tokens: u64) {
        match role {
            Role::User => self.user += tokens,
            Role::Assistant => self.assistant += tokens,
        }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let Self { user, notes, attachments, assistant, thinking, calls, results } = self;
        let by_tool: u64 = calls.values().chain(results.values()).sum();
        user + notes + attachments + assistant + thinking + by_tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::{Entry, Fingerprint, Scope, SessionEvent};

    fn state(events: Vec<SessionEvent>) -> State {
        let mut state = State::default();
        for (number, event) in events.into_iter().enumerate() {
            let id = format!("e{number}").into();
            state.apply(&Entry { id, parent: None, timestamp: "then".to_owned(), event });
        }
        state
    }

    fn prompted(text: &str) -> SessionEvent {
        SessionEvent::Prompted { content: vec![Block::text(text)], meta: false }
    }

    fn usage(state: &State, row: &ModelRow) -> ContextUsage {
        let system = [Section::new("Character", Scope::Global, "x".repeat(400))];
        let auto_compact = AutoCompact::default();
        ContextUsage::of(&Picture { state, system: &system, tools: &[], model: "m", row, auto_compact })
    }

    #[test]
    fn parts_add_up_to_what_was_counted() {
        let row = ModelRow { context_window: 10_000, max_output_tokens: 1_000, ..ModelRow::default() };
        let said =
            || vec![prompted(&"word ".repeat(200)), prompted("<system-reminder>\nhm\n</system-reminder>")];
        let guessed = usage(&state(said()), &row);
        assert_eq!(guessed.charged, None);
        assert!(guessed.talk.user > 200 && guessed.talk.notes > 0, "{guessed:?}");
        let fingerprint = Fingerprint {
            model: "m".into(),
            manner: String::new(),
            tools: String::new(),
            system: String::new(),
            conversation: String::new(),
            blocks: 2,
            bytes: 0,
            tokens: guessed.total,
        };
        let sampled = SessionEvent::Sampled {
            message: "a".into(),
            model: "m".into(),
            stop: None,
            usage: Usage { input: 10, cache_read: guessed.total / 2, cache_write: 0, output: 5 },
            cost_usd: 0.0,
            duration_ms: 0,
            request: Some(fingerprint),
        };
        let counted = usage(&state(said().into_iter().chain([sampled]).collect()), &row);
        let real = 10 + guessed.total / 2;
        assert!(counted.total.abs_diff(real) <= 3, "{} and {real}", counted.total);
        assert_eq!(counted.total, counted.system_tokens() + counted.talk.total());
        assert_eq!(counted.free(), 9_000 - counted.total);
        let total = f64::from(u32::try_from(counted.total).unwrap());
        assert!((counted.percentage() - total / 100.0).abs() < 1e-9);
    }
}

//! One question to a model, outside any conversation: no tools, no history, only its words and what they cost.
//! Nothing here is recorded; whoever asks says what came of it.

use crate::{
    reply::{Reply, Whole},
    retry,
};
use futures_util::StreamExt;
use ostler_model::{Action, Chosen, ModelError};
use ostler_proto::{Block, Message, ModelEvent, Request, Role, SystemText, Thinking, Usage};
use std::{sync::Arc, time::Duration};

/// Attempts after the first.
const MAX_RETRIES: u32 = 2;
/// The first pause between attempts.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// An answer to a question is short.
const MAX_TOKENS: u64 = 1024;

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Its text.
    pub text: String,
    /// What it used.
    pub usage: Usage,
}

/// Asks, and waits for the whole answer. Dropping the future ends the request. The error says why nobody answered.
pub async fn ask(chosen: &Chosen, system: &str, prompt: &str) -> Result<Words, String> {
    let request = Request {
        model: chosen.row.name.clone().unwrap_or_else(|| chosen.name.clone()),
        system: vec![SystemText { text: system.to_owned(), cache: false }],
        tools: Arc::new([]),
        messages: vec![Arc::new(Message { role: Role::User, content: vec![Block::text(prompt)] })],
        max_output_tokens: chosen.row.max_output_tokens.min(MAX_TOKENS),
        thinking: Thinking::Auto,
        effort: None,
    };
    let mut attempt = 0;
    loop {
        let error = match ask_once(chosen, request.clone()).await {
            Ok(words) => return Ok(words),
            Err(error) => error,
        };
        let Action::Retry { after } = error.action else { return Err(error.message) };
        if attempt == MAX_RETRIES {
            return Err(error.message);
        }
        attempt += 1;
        tokio::time::sleep(retry::delay(attempt, RETRY_BASE, after, fastrand::f64())).await;
    }
}

async fn ask_once(chosen: &Chosen, request: Request) -> Result<Words, ModelError> {
    let mut stream = chosen.provider.stream(request);
    let (mut reply, mut texts) = (Reply::default(), Vec::new());
    while let Some(event) = stream.next().await {
        let event = event?;
        if let Some(Whole::Block(Block::Text(text))) = reply.apply(&event) {
            texts.push(text);
        }
        if matches!(event, ModelEvent::Done { .. }) {
            break;
        }
    }
    Ok(Words { text: texts.join("\n"), usage: reply.usage })
}

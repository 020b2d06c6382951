//! The model that plays a script: answers written down beforehand, with no key and no network.
//! Which turn it plays follows from the conversation alone, so that a resumed one goes on.
#![expect(clippy::disallowed_methods, reason = "the script is a model's source, read once when it is chosen")]

mod play;

use crate::{ChooseError, Copy, EventStream, ModelError, Provider};
use futures_util::{StreamExt as _, stream};
use ostler_proto::{
    Block, ErrorKind, Message, ModelRow, Reasoning, Request, Role,
    script::{Scene, Script, Turn},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Plays a script.
#[derive(Debug, Clone)]
pub struct Player {
    script: Arc<Script>,
    cwd: PathBuf,
}

/// A provider for a script given as text, such as an embedded one.
pub fn from_text(text: &str, cwd: PathBuf) -> Result<Arc<dyn Provider>, ChooseError> {
    Ok(Arc::new(Player { script: Arc::new(parse(text, "the script")?), cwd }))
}

/// What a script can do: as much as any model, for nothing.
pub fn row() -> ModelRow {
    ModelRow {
        api: "script".to_owned(),
        context_window: 200_000,
        max_output_tokens: 32_000,
        thinking: true,
        reasoning: Reasoning::Adaptive,
        images: true,
        ..ModelRow::default()
    }
}

impl Player {
    /// Reads a script file; a relative path starts at `cwd`.
    pub(crate) fn from_file(file: &str, cwd: &Path) -> Result<Self, ChooseError> {
        let path = cwd.join(file);
        let text = fs::read_to_string(&path)
            .map_err(|error| ChooseError(format!("cannot read the script {}: {error}", path.display())))?;
        let script = parse(&text, &path.display().to_string())?;
        Ok(Self { script: Arc::new(script), cwd: cwd.to_owned() })
    }

    /// The turn that answers this request, if it may.
    fn turn(&self, request: &Request) -> Result<(usize, &Turn), String> {
        let played = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let turns = self.script.turns.len();
        let Some(turn) = self.script.turns.get(played) else {
            return Err(format!("the script has {turns} turns, and request {} came", played + 1));
        };
        let number = played + 1;
        if turn.wire.is_some() {
            return Err(format!(
                "turn {number} of the script has a 'wire' table, which needs the test server"
            ));
        }
        let last = request.messages.iter().rev().find(|message| message.role == Role::User);
        let said = last.map(|message| words(message)).unwrap_or_default();
        match turn.expect.iter().find(|piece| !said.contains(piece.as_str())) {
            Some(missing) => Err(format!(
                "turn {number} of the script expected {missing:?} in the last message, which says {:?}",
                crate::http::failure::quote(&said)
            )),
            None => Ok((number, turn)),
        }
    }
}

impl Provider for Player {
    fn stream_copied(&self, request: Request, copy: Copy) -> EventStream {
        let (number, turn) = match self.turn(&request) {
            Ok(found) => found,
            Err(message) => {
                let error = ModelError::hopeless(ErrorKind::InvalidRequest, message);
                return stream::once(std::future::ready(Err(error))).boxed();
            }
        };
        let scene = Scene { cwd: Some(&self.cwd), messages: &request.messages };
        let model = self.script.model.clone().unwrap_or_else(|| request.model.clone());
        let beats = play::beats(turn, number, model, &scene, &request);
        copy.sends("script", &crate::copy::body(&request, &row()).into());
        let played = stream::iter(beats).then(move |beat| {
            let copy = copy.clone();
            async move {
                if !beat.after.is_zero() {
                    tokio::time::sleep(beat.after).await;
                }
                copy.plays(&beat.event);
                Ok(beat.event)
            }
        });
        played.boxed()
    }
}

fn parse(text: &str, source: &str) -> Result<Script, ChooseError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ChooseError(format!("{source}, line {line}: {}", error.message()))
    })
}

/// All that a message says, results included.
fn words(message: &Message) -> String {
    let said = message.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::ToolResult(result) => Some(result.text()),
        Block::Thinking { .. }
        | Block::Image(_)
        | Block::Document(_)
        | Block::ToolUse(_)
        | Block::Opaque(_) => None,
    });
    said.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;

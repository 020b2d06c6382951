//! The door to models: asks them and copies what was said, or gives it again without asking anybody.

use super::{deck::Deck, player::parting};
use futures_util::{Stream, StreamExt, stream};
use ostler_model::{Chosen, Copied, Copy, EventStream, ModelError, Models, Provider, body};
use ostler_proto::{ModelEvent, ModelRow, Request};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A model that is never asked: its answers are on a tape.
pub(crate) struct Silent;

/// Hands the copy of an exchange over when its stream is let go.
struct Keeper {
    deck: Arc<Deck>,
    copy: Copy,
}

/// A stream whose bytes are copied.
struct Kept {
    stream: EventStream,
    _keeper: Keeper,
}

impl Stream for Kept {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(cx)
    }
}

impl Provider for Silent {
    fn stream_copied(&self, _: Request, _: Copy) -> EventStream {
        stream::empty().boxed()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.deck.exchanged(self.copy.take());
    }
}

/// Asks the model.
pub(crate) fn stream(deck: &Arc<Deck>, chosen: &Chosen, request: Request) -> EventStream {
    if deck.is_replaying() {
        return stream_again(deck, &chosen.row, &request);
    }
    if !deck.is_recording() {
        return chosen.provider.stream(request);
    }
    let keeper = Keeper { deck: Arc::clone(deck), copy: Copy::new() };
    let stream = chosen.provider.stream_copied(request, keeper.copy.clone());
    Kept { stream, _keeper: keeper }.boxed()
}

/// A model by its name, or why it cannot be had.
pub(crate) fn choose(deck: &Deck, models: Option<&Models>, name: &str) -> Result<Chosen, String> {
    type Known = Result<(String, ModelRow, String), String>;
    let Some(models) = models else {
        let known: Known = deck.again("a model", Err(String::new()));
        return known.map(|(name, row, key_source)| silent(name, row, key_source));
    };
    let chosen = models.choose(name).map_err(|error| error.to_string());
    let known = |chosen: &Chosen| (chosen.name.clone(), chosen.row.clone(), chosen.key_source.clone());
    let _written: Known = deck.gave("a model", chosen.as_ref().map(known).map_err(Clone::clone));
    chosen
}

/// A model of which only what is known is left.
pub(crate) fn silent(name: String, row: ModelRow, key_source: String) -> Chosen {
    Chosen { name, row, provider: Arc::new(Silent), key_source }
}

fn stream_again(deck: &Deck, row: &ModelRow, request: &Request) -> EventStream {
    let Some(copied) = deck.next_exchange() else { return stream::pending().boxed() };
    let Copied { head, request: then, .. } = &copied;
    let now = body(request, row);
    // Where nothing was sent there is nothing to compare: a key was missing, say.
    let is_same = head.api.is_empty() || *then == now;
    deck.requested(if is_same {
        Ok(())
    } else {
        Err(parting(&String::from_utf8_lossy(then), &String::from_utf8_lossy(&now)))
    });
    copied.read(request)
}

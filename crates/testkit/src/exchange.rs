//! One connection's requests and their answers: recorded, matched with a turn, written out.
//! What an answer is made of is decided in `play` and `reply`; here it only happens.

use crate::{
    conversation::{self, Protocol},
    http::{Connection, Incoming, ReadError},
    log::{Ended, Log, Mark, Recorded},
    play::{Cue, Stage},
    reply::{Asked, Ending, Reply},
    server::AtEnd,
};
use ostler_proto::{
    Json,
    script::{Scene, Script},
};
use serde_json::json;
use std::{io, path::PathBuf, time::Instant};

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) at_end: AtEnd,
    pub(crate) url: String,
    pub(crate) log: Log,
}

/// Whether a connection takes another request.
enum Next {
    Request,
    Close,
    Reset,
}

/// What leaves for the client, told just before: whoever has read it finds it recorded.
enum Leaving {
    Head(u16),
    Steps(Vec<usize>),
}

impl Shared {
    /// Answers a connection's requests until one of the two has enough.
    pub(crate) async fn serve(&self, mut connection: Connection, number: usize) {
        loop {
            let incoming = match connection.read_request().await {
                Ok(Some(incoming)) => incoming,
                Ok(None) | Err(ReadError::Gone) => return,
                Err(ReadError::Malformed { status, problem }) => {
                    self.log.change(|state| state.failures.push(format!("connection {number}: {problem}")));
                    let refusal = Reply::error(Protocol::Anthropic, status, &problem);
                    // The client is told if it still listens.
                    let _ = perform(&mut connection, &refusal, |_| {}).await;
                    return connection.close().await;
                }
            };
            let keep_alive = incoming.keep_alive;
            match self.answer(&mut connection, &incoming, number).await {
                Next::Request if keep_alive => {}
                Next::Request | Next::Close => return connection.close().await,
                Next::Reset => {
                    // The client may have been quicker to leave.
                    let _ = connection.reset();
                    return;
                }
            }
        }
    }

    async fn answer(&self, connection: &mut Connection, incoming: &Incoming, number: usize) -> Next {
        let (index, reply) = self.take(incoming, number);
        let performed = perform(connection, &reply, |leaving| {
            self.log.update(index, |request| leaving.record(request));
        })
        .await;
        let (ended, next) = match (performed, reply.ending) {
            (Err(_), _) => (Ended::ClientLeft, Next::Close),
            (Ok(()), Ending::Whole) => (Ended::Whole, Next::Request),
            (Ok(()), Ending::Close) => (Ended::Whole, Next::Close),
            (Ok(()), Ending::Reset | Ending::Vanish) => (Ended::Broken, Next::Reset),
            (Ok(()), Ending::Stall) => {
                connection.wait_for_leave().await;
                (Ended::ClientLeft, Next::Close)
            }
        };
        self.log.update(index, |request| {
            request.answered = Some(Instant::now());
            request.ended = Some(ended);
        });
        next
    }

    /// Records a request and decides what it gets.
    fn take(&self, incoming: &Incoming, connection: usize) -> (usize, Reply) {
        let path = incoming.path.split('?').next().unwrap_or_default();
        let protocol = Protocol::of_path(path).filter(|_| incoming.method == "POST");
        let mut recorded = Recorded::new(incoming, connection, protocol);
        let (index, cue) = self.log.change(|state| {
            let cue = protocol.and_then(|_| state.playhead.next(&self.script, self.at_end));
            recorded.turn = cue.map(|cue| cue.turn);
            state.requests.push(recorded);
            (state.requests.len() - 1, cue)
        });
        let reply = match protocol {
            Some(protocol) => self.play(protocol, incoming, index + 1, cue).unwrap_or_else(|problem| {
                let refusal = Reply::error(protocol, 400, &problem);
                self.log.change(|state| {
                    state.requests[index].problem = Some(problem.clone());
                    state.failures.push(problem);
                });
                refusal
            }),
            None if path.ends_with("/messages/count_tokens") => {
                Reply::json(200, &json!({"input_tokens": incoming.body.len().div_ceil(4)}))
            }
            None if path == "/" => Reply::json(200, &json!({"turns": self.script.turns.len()})),
            None => {
                let problem = format!("nothing answers {} {path}", incoming.method);
                Reply::error(Protocol::Anthropic, 404, &problem)
            }
        };
        (index, reply)
    }

    /// Plays a turn, or says why it cannot.
    fn play(
        &self,
        protocol: Protocol,
        incoming: &Incoming,
        number: usize,
        cue: Option<Cue>,
    ) -> Result<Reply, String> {
        let turns = &self.script.turns;
        let over = || format!("the script has {} turns, and this is one request more", turns.len());
        let (cue, turn) = cue.and_then(|cue| Some((cue, turns.get(cue.turn)?))).ok_or_else(over)?;
        let body: Json = serde_json::from_slice(&incoming.body)
            .map_err(|error| format!("turn {}: the request is not JSON: {error}", cue.turn + 1))?;
        let messages = conversation::messages(protocol, &body);
        let said = conversation::last_words(&messages);
        if let Some(missing) = turn.expect.iter().find(|piece| !said.contains(piece.as_str())) {
            let turn = cue.turn + 1;
            return Err(format!("turn {turn} expects {missing:?} in the last message, which says: {said}"));
        }
        let own_name = body["model"].as_str().unwrap_or("scripted");
        let model = self.script.model.as_deref().unwrap_or(own_name);
        let scene = Scene { cwd: self.cwd.as_deref(), messages: &messages };
        let stage = Stage { cue, number, model, scene, sent: incoming.body.len() };
        Ok(Reply::scripted(turn, &stage, &Asked { protocol, body: &body, url: &self.url }))
    }
}

impl Leaving {
    fn record(self, request: &mut Recorded) {
        let at = Instant::now();
        match self {
            Self::Head(status) => {
                (request.status, request.first_byte_sent) = (Some(status), Some(at));
            }
            Self::Steps(steps) => {
                request.marks.extend(steps.into_iter().map(|step| Mark { step, at }));
            }
        }
    }
}

/// Writes a reply up to its ending; an error when the client left.
async fn perform(connection: &mut Connection, reply: &Reply, note: impl Fn(Leaving)) -> io::Result<()> {
    if !reply.delay.is_zero() {
        connection.wait(reply.delay).await?;
    }
    if reply.ending == Ending::Vanish {
        return Ok(());
    }
    note(Leaving::Head(reply.status));
    connection.write_head(reply.status, &reply.headers).await?;
    let start = Instant::now();
    for piece in &reply.pieces {
        let wait = piece.at.saturating_sub(start.elapsed());
        if !wait.is_zero() {
            connection.wait(wait).await?;
        }
        if !piece.ended_steps.is_empty() {
            note(Leaving::Steps(piece.ended_steps.clone()));
        }
        connection.write_piece(reply.framing, &piece.bytes).await?;
    }
    match reply.ending {
        Ending::Whole | Ending::Close => connection.end_body(reply.framing).await,
        Ending::Reset | Ending::Vanish | Ending::Stall => Ok(()),
    }
}

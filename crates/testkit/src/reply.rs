//! What goes back for one request: head, pieces and how it ends. Pure, so that every fault of the
//! wire is data before a byte is written.

use crate::{
    anthropic, chat,
    conversation::Protocol,
    http::Framing,
    play::{Answer, Stage},
    responses,
    wire::{self, Frame, Part, Piece},
};
use ostler_proto::{
    Json,
    script::{Cut, CutKind, Turn, Wire},
};
use std::time::Duration;

/// Breaks an event that was begun, and is none itself.
const GARBAGE: &[u8] = b"\n\ndata: {\"\xff\xfe garbage\n\n";

/// A response, ready to be written.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Before the first byte.
    pub(crate) delay: Duration,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) ending: Ending,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As it should; the connection may be used again.
    Whole,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// The connection is reset instead of any answer.
    Vanish,
    /// The connection stays open and silent.
    Stall,
}

/// What a turn is answered to.
pub(crate) struct Asked<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) body: &'a Json,
    /// This server's address, for headers.
    pub(crate) url: &'a str,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Json) -> Self {
        let frames = wire::verbatim(body.to_string());
        let length = frames.iter().map(|frame| frame.bytes.len()).sum();
        Self {
            delay: Duration::ZERO,
            status,
            headers: headers("application/json", Framing::Length, length),
            framing: Framing::Length,
            pieces: wire::split_into(frames, 0),
            ending: Ending::Whole,
        }
    }

    pub(crate) fn error(protocol: Protocol, status: u16, message: &str) -> Self {
        Self::json(status, &error(protocol, status, message))
    }

    /// A turn of the script, with all its wire does.
    pub(crate) fn scripted(turn: &Turn, stage: &Stage<'_>, asked: &Asked<'_>) -> Self {
        let wire = turn.wire.clone().unwrap_or_default();
        let status = wire.status.unwrap_or(200);
        let (frames, content_type, framing) = body(turn, &wire, stage, asked);
        let whole_length = |frames: &[Frame]| frames.iter().map(|frame| frame.bytes.len()).sum::<usize>();
        let length = whole_length(&frames);
        let (frames, ending) = match wire.cut {
            None => (frames, Ending::Whole),
            Some(cut) => cut_short(frames, cut, framing, asked.protocol),
        };
        let length = whole_length(&frames).max(length);
        let mut reply = Self {
            delay: Duration::from_millis(wire.delay_ms),
            status,
            headers: headers(content_type, framing, length),
            framing,
            pieces: wire::split_into(frames, wire.split),
            ending,
        };
        let id_header = match asked.protocol {
            Protocol::Anthropic => "request-id",
            Protocol::Chat | Protocol::Responses => "x-request-id",
        };
        reply.set_header(id_header, format!("req_{}", stage.number));
        for (name, value) in &wire.headers {
            reply.set_header(name, stage.scene.fill(&value.replace("{{url}}", asked.url)));
        }
        reply.obey_headers();
        reply
    }

    fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(given, _)| !given.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    /// A script may speak of the connection and lie about the length.
    fn obey_headers(&mut self) {
        let says = |name: &str| self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        let closes = says("connection").is_some_and(|(_, value)| value.eq_ignore_ascii_case("close"));
        let gives_length = self.framing == Framing::Chunked && says("content-length").is_some();
        if gives_length {
            self.framing = Framing::Length;
            self.headers.retain(|(name, _)| name != "transfer-encoding");
        }
        if matches!(self.status, 204 | 304) {
            self.pieces.clear();
            self.headers.retain(|(name, _)| name != "content-length" && name != "transfer-encoding");
            self.framing = Framing::Length;
        }
        if (closes || gives_length) && self.ending == Ending::Whole {
            self.ending = Ending::Close;
        }
    }
}

/// What the API says of a failure.
pub(crate) fn error(protocol: Protocol, status: u16, message: &str) -> Json {
    match protocol {
        Protocol::Anthropic => anthropic::error(status, message),
        Protocol::Chat | Protocol::Responses => chat::error(status, message),
    }
}

fn body(
    turn: &Turn,
    wire: &Wire,
    stage: &Stage<'_>,
    asked: &Asked<'_>,
) -> (Vec<Frame>, &'static str, Framing) {
    let status = wire.status.unwrap_or(200);
    let succeeds = status < 300;
    if let Some(body) = &wire.body {
        return if succeeds {
            (wire::verbatim(body.as_str()), "text/event-stream", Framing::Chunked)
        } else {
            (wire::verbatim(body.as_str()), "application/json", Framing::Length)
        };
    }
    if !succeeds {
        let error = error(asked.protocol, status, &format!("the script answers with status {status}"));
        return (wire::verbatim(error.to_string()), "application/json", Framing::Length);
    }
    let answer = Answer::new(turn, stage);
    let frames = stream(&answer, asked);
    if asked.body["stream"] == true {
        return (frames, "text/event-stream", Framing::Chunked);
    }
    let whole = match asked.protocol {
        Protocol::Anthropic => anthropic::whole(&answer),
        Protocol::Chat => chat::whole(&answer),
        Protocol::Responses => responses::whole(&answer),
    };
    // Said at once, but no sooner than it would have been streamed.
    let at = frames.last().map_or(Duration::ZERO, |frame| frame.at);
    let frame = Frame { at, bytes: whole.to_string().into(), part: Part::Opening, ends_step: false };
    (vec![frame], "application/json", Framing::Length)
}

fn stream(answer: &Answer, asked: &Asked<'_>) -> Vec<Frame> {
    match asked.protocol {
        Protocol::Anthropic => anthropic::stream(answer),
        Protocol::Chat => {
            let wanted = asked.body["stream_options"]["include_usage"] == true;
            chat::stream(answer, if wanted { chat::UsageChunk::Send } else { chat::UsageChunk::Leave })
        }
        Protocol::Responses => responses::stream(answer),
    }
}

fn cut_short(frames: Vec<Frame>, cut: Cut, framing: Framing, protocol: Protocol) -> (Vec<Frame>, Ending) {
    let (mut head, rest) = wire::cut_at(frames, cut);
    let at = head.last().map_or(Duration::ZERO, |frame| frame.at);
    let insert = |bytes: Vec<u8>| Frame { at, bytes, part: Part::Closing, ends_step: false };
    let ending = match cut.then {
        CutKind::Reset if cut.after_steps.is_none() && cut.after_bytes == 0 => Ending::Vanish,
        CutKind::Reset => Ending::Reset,
        CutKind::Truncate => match framing {
            Framing::Chunked => Ending::Whole,
            Framing::Length => Ending::Close,
        },
        CutKind::Stall => Ending::Stall,
        CutKind::Garbage => {
            head.push(insert(GARBAGE.to_vec()));
            head.extend(rest);
            Ending::Whole
        }
        CutKind::Overload => {
            head.push(insert(match protocol {
                Protocol::Anthropic => anthropic::overload(),
                Protocol::Chat => chat::overload(),
                Protocol::Responses => responses::overload(),
            }));
            Ending::Whole
        }
    };
    (head, ending)
}

fn headers(content_type: &str, framing: Framing, length: usize) -> Vec<(String, String)> {
    let end = match framing {
        Framing::Chunked => ("transfer-encoding", "chunked".to_owned()),
        Framing::Length => ("content-length", length.to_string()),
    };
    [("content-type", content_type.to_owned()), ("cache-control", "no-cache".to_owned()), end]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

//! The one place that speaks HTTP to model APIs: clients, deadlines, and what an answer that is
//! no event stream means. Never follows a redirect, since a key would travel with it, and never retries.

mod deadline;
pub(crate) mod failure;
pub(crate) mod sse;

use crate::{Action, Copy, EventStream, ModelError, secret::Secret, wire::Decode};
use bytes::{Bytes, BytesMut};
use deadline::{on_progress, on_silence, within};
use failure::{quote, request_id};
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self},
};
use ostler_proto::{ErrorKind, ModelEvent};
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use sse::ByteStream;
use std::{
    error::Error as _,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// How much of an error's body is read.
const LARGEST_COMPLAINT: usize = 64 << 10;

/// How long an error's body is waited for.
const LONGEST_COMPLAINT: Duration = Duration::from_secs(10);

/// How long a connection may wait for the next request.
const KEEP_ALIVE: Duration = Duration::from_secs(50);

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// For a connection.
    pub connect: Duration,
    /// From the request to the answer's first word, and from each word to the next.
    pub answer: Duration,
    /// Between two pieces of the answer, whatever they say.
    pub idle: Duration,
    /// For the whole answer.
    pub total: Duration,
}

/// Connections to model APIs, shared by all providers of a process.
#[derive(Debug)]
pub(crate) struct Http {
    waits: Waits,
    /// One for each [`Way`], built when it is first needed.
    clients: [OnceLock<Result<Client, String>>; 3],
}

/// What a client needs, by the address. Each leaves out what costs time to set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// This machine: no proxy could reach it, and a key must not be handed to one.
    Local,
    /// Without root certificates: loading them costs more than a short session's whole start.
    Plain,
    Secure,
}

/// Where a request goes, and what goes along.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// All headers; the one with the key is marked sensitive.
    pub(crate) headers: HeaderMap,
    /// The key, to keep it out of messages.
    pub(crate) secret: Option<Secret>,
    /// The variable that holds the key, or should.
    pub(crate) key_variable: String,
}

impl Http {
    pub(crate) fn new(waits: Waits) -> Self {
        Self { waits, clients: Default::default() }
    }

    /// Sends a request and reads the answer as it comes.
    pub(crate) fn stream(
        self: Arc<Self>,
        target: Arc<Target>,
        body: Bytes,
        decode: Decode,
        copy: Copy,
    ) -> EventStream {
        let explain = Arc::clone(&target);
        let opened = async move {
            let began = Instant::now();
            let response = self.send(&target, body).await?;
            let request = request_id(response.headers());
            let named = request.clone();
            copy.is_answered(request.as_ref());
            let bytes = within(self.waits.answer, checked_body(response, &target.url, self.waits.idle))
                .await
                .map_err(|_| silent(&place(&target.url), self.waits.answer))??;
            let bytes = bytes.inspect_ok(move |piece| copy.receives(piece)).boxed();
            let events = on_progress(sse::events(bytes, decode), self.waits, began)
                .map_ok(move |event| with_request(event, request.as_ref()))
                .map_err(move |error| ModelError {
                    request: error.request.or_else(|| named.clone()),
                    ..error
                });
            Ok(events)
        };
        stream::once(opened).try_flatten().map_err(move |error| explain.explain(error)).boxed()
    }

    async fn send(&self, target: &Target, body: Bytes) -> Result<Response, ModelError> {
        let place = place(&target.url);
        let request = self.client(&target.url)?.post(target.url.clone());
        let sending = request.headers(target.headers.clone()).body(body).send();
        let response = within(self.waits.answer, sending)
            .await
            .map_err(|_| silent(&place, self.waits.answer))?
            .map_err(|error| unreachable_place(&place, &error))?;
        let status = response.status();
        tracing::debug!(%place, status = status.as_u16(), request = request_id(response.headers()), "answered");
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let host = failure::redirect_host(response.headers());
            let message = format!(
                "{place} redirects to {host}, which is not followed because the key would go along; check the base URL"
            );
            return Err(ModelError {
                status: Some(status.as_u16()),
                request: request_id(response.headers()),
                ..ModelError::hopeless(ErrorKind::InvalidRequest, message)
            });
        }
        let headers = response.headers().clone();
        let complaint = read_complaint(&mut pieces(response, self.waits.idle)).await;
        Err(failure::from_answer(status.as_u16(), &headers, &complaint))
    }

    fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        let way = Way::to(url);
        let client = self.clients[way as usize].get_or_init(|| {
            let builder = Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(self.waits.connect)
                .pool_idle_timeout(KEEP_ALIVE);
            let builder = match way {
                Way::Local => builder.no_proxy().tls_certs_only([]),
                Way::Plain => builder.tls_certs_only([]),
                Way::Secure => builder,
            };
            builder.build().map_err(|error| root_cause(&error))
        });
        client.as_ref().map_err(|cause| {
            ModelError::hopeless(ErrorKind::Unknown, format!("cannot set up an HTTP client: {cause}"))
        })
    }
}

impl Way {
    fn to(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_local =
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        match url.scheme() {
            "http" if is_local => Self::Local,
            "http" => Self::Plain,
            _ => Self::Secure,
        }
    }
}

impl Target {
    /// Adds which key to look at, and takes the key itself out of a message that repeats it.
    fn explain(&self, mut error: ModelError) -> ModelError {
        if let Some(secret) = self.secret.as_ref().map(Secret::expose).filter(|key| key.len() > 4) {
            error.message = error.message.replace(secret, "[key]");
        }
        let hint = match error.action {
            Action::LogIn => format!("; check {}", self.key_variable),
            Action::GiveUp if error.status == Some(404) => {
                format!("; check the model's name and the base URL {}", place(&self.url))
            }
            Action::GiveUp | Action::Retry { .. } | Action::Compact => String::new(),
        };
        error.message.push_str(&hint);
        error
    }
}

/// Scheme, host and port: enough to find a mistake, no path or query that may hold a secret.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

pub(crate) fn with_request(mut event: ModelEvent, id: Option<&String>) -> ModelEvent {
    if let ModelEvent::Started { request, .. } = &mut event {
        *request = id.cloned();
    }
    event
}

/// The body, once its first byte looks like an event stream.
async fn checked_body(response: Response, url: &Url, idle: Duration) -> Result<ByteStream, ModelError> {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = quote(content_type.unwrap_or("unknown"));
    let mut rest = pieces(response, idle);
    let mut head = BytesMut::new();
    while first_sign(&head).is_none()
        && head.len() < LARGEST_COMPLAINT
        && let Some(piece) = rest.next().await
    {
        head.extend_from_slice(&piece?);
    }
    let is_page = content_type.contains("html") || first_sign(&head) == Some(b'<');
    if is_page || first_sign(&head) == Some(b'{') {
        head.extend_from_slice(&read_complaint(&mut rest).await);
        return Err(not_a_stream(url, &content_type, is_page, &head));
    }
    Ok(stream::once(async { Ok(head.freeze()) }).chain(rest).boxed())
}

/// A body as it arrives, with an end to silence.
fn pieces(response: Response, idle: Duration) -> ByteStream {
    let bytes = response.bytes_stream().map_err(|error| {
        ModelError::broken(format!("the connection broke during the answer: {}", root_cause(&error)))
    });
    on_silence(bytes, idle)
}

/// The first byte that is neither white space nor part of a byte order mark.
fn first_sign(head: &[u8]) -> Option<u8> {
    head.iter().copied().find(|byte| !byte.is_ascii_whitespace() && !b"\xEF\xBB\xBF".contains(byte))
}

fn not_a_stream(url: &Url, content_type: &str, is_page: bool, body: &[u8]) -> ModelError {
    if !is_page
        && let Ok(value) = serde_json::from_slice::<ostler_proto::Json>(body)
        && value.get("error").is_some_and(|error| !error.is_null())
    {
        return failure::from_complaint(&failure::Complaint::from_json(&value));
    }
    let what = if is_page { "a web page" } else { "something that is no event stream" };
    let place = format!("{}{}", place(url), url.path());
    ModelError::hopeless(
        ErrorKind::InvalidRequest,
        format!("{place} answered with {what} (content type {content_type}); check the base URL"),
    )
}

/// As much of a short body as comes in a short time; a body that breaks still told something.
async fn read_complaint(pieces: &mut ByteStream) -> BytesMut {
    let mut body = BytesMut::new();
    let reading = async {
        while body.len() < LARGEST_COMPLAINT
            && let Some(Ok(piece)) = pieces.next().await
        {
            body.extend_from_slice(&piece);
        }
    };
    // What came until then is all that is told.
    let _ = timeout(LONGEST_COMPLAINT, reading).await;
    body.truncate(LARGEST_COMPLAINT);
    body
}

fn silent(place: &str, limit: Duration) -> ModelError {
    ModelError::broken(format!("{place} did not answer within {} s", limit.as_secs_f64()))
}

fn unreachable_place(place: &str, error: &reqwest::Error) -> ModelError {
    let cause = root_cause(error);
    let message = if error.is_connect() && error.is_timeout() {
        format!("cannot connect to {place}: timed out; check the network and the proxy")
    } else if cause.contains("certificate") {
        format!("cannot connect to {place}: {cause}; check the system's certificates")
    } else if error.is_connect() {
        format!("cannot connect to {place}: {cause}; check the base URL, the network and the proxy")
    } else {
        format!("the connection to {place} broke before an answer came: {cause}")
    };
    ModelError::broken(message)
}

/// The innermost error: the outer ones only say that a request failed, and repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let is_outermost = error.source().is_none();
    if is_outermost { "request failed".to_owned() } else { quote(&cause.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_way(url: &str, expected: Way) {
        assert_eq!(Way::to(&Url::parse(url).unwrap()), expected);
    }

    #[test]
    fn the_address_decides_what_a_client_needs() {
        check_way("http://localhost:11434/v1", Way::Local);
        check_way("http://127.0.0.1:1", Way::Local);
        check_way("http://[::1]:1", Way::Local);
        check_way("http://127.0.0.1.example", Way::Plain);
        check_way("http://gateway.internal", Way::Plain);
        check_way("https://localhost", Way::Secure);
    }

    #[test]
    fn every_client_can_be_built() {
        let wait = Duration::from_secs(1);
        let http = Http::new(Waits { connect: wait, answer: wait, idle: wait, total: wait });
        for url in ["http://localhost", "http://host.example", "https://host.example"] {
            assert!(http.client(&Url::parse(url).unwrap()).is_ok());
        }
    }
}

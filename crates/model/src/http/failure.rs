//! From what an API says went wrong to what the caller should do about it. Pure; the server's
//! own words are untrusted and are cut and cleaned before anyone sees them.

use crate::{Action, ModelError};
use jiff::{Timestamp, fmt::rfc2822};
use ostler_proto::{ErrorKind, Json};
use reqwest::header::{self, HeaderMap};
use std::time::Duration;

/// Longest piece of a server's own words in a message, in characters.
const LONGEST_QUOTE: usize = 500;

/// The HTTP statuses that an API's words for its failures stand for.
const STATUSES: [(&str, u16); 20] = [
    ("invalid_request_error", 400),
    ("invalid_prompt", 400),
    ("context_length_exceeded", 400),
    ("authentication_error", 401),
    ("invalid_api_key", 401),
    ("billing_error", 402),
    ("insufficient_quota", 429),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("model_not_found", 404),
    ("conflict_error", 409),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("rate_limit_exceeded", 429),
    ("api_error", 500),
    ("server_error", 500),
    ("server_is_overloaded", 503),
    ("slow_down", 503),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// An API's account of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Complaint {
    /// Its `type`, e.g. `overloaded_error`.
    pub(crate) kind: String,
    /// Its `code`, e.g. `context_length_exceeded`.
    pub(crate) code: String,
    /// In words.
    pub(crate) message: String,
}

impl Complaint {
    /// Reads the usual shapes: `{"error": {type, code, message}}`, the inner object alone, or a string.
    pub(crate) fn from_json(value: &Json) -> Self {
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let field = |key: &str| match error.get(key) {
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = error.as_str().map_or_else(|| field("message"), str::to_owned);
        Self { kind: field("type"), code: field("code"), message }
    }

    fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Json>(body) {
            Ok(value) => Self::from_json(&value),
            Err(_) => Self { message: String::from_utf8_lossy(body).into_owned(), ..Self::default() },
        }
    }

    fn is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.kind == *name || self.code == *name)
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// The HTTP status this would have been, for complaints inside an answer that began well.
    fn status(&self) -> u16 {
        if let Ok(status @ 400..=599) = self.code.parse() {
            return status;
        }
        let named = |word: &str| STATUSES.iter().find(|(name, _)| *name == word).map(|(_, status)| *status);
        named(&self.code).or_else(|| named(&self.kind)).unwrap_or(500)
    }
}

/// The failure that an HTTP answer other than success means.
pub(crate) fn from_answer(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let complaint = Complaint::from_body(body);
    let (mut action, kind) = judge(status, &complaint);
    match (header_text(headers, "x-should-retry"), &action) {
        (Some("false"), Action::Retry { .. }) => action = Action::GiveUp,
        (Some("true"), Action::GiveUp) => action = Action::Retry { after: None },
        _ => {}
    }
    if let Action::Retry { after } = &mut action {
        *after = retry_after(headers);
    }
    let is_page = header_text(headers, "content-type").is_some_and(|kind| kind.contains("html"));
    let words = if is_page { "an HTML page" } else { &complaint.message };
    let message = sentence(&format!("the API answered {status}"), &complaint, words);
    ModelError { action, kind, status: Some(status), message, request: request_id(headers) }
}

/// The failure that a complaint inside a running answer means.
pub(crate) fn from_complaint(complaint: &Complaint) -> ModelError {
    let status = complaint.status();
    let (action, kind) = judge(status, complaint);
    let message = sentence("the API broke off its answer", complaint, &complaint.message);
    ModelError { action, kind, status: Some(status), message, request: None }
}

fn sentence(what: &str, complaint: &Complaint, words: &str) -> String {
    // The code is the narrower word where an API gives both.
    let label = [&complaint.code, &complaint.kind].into_iter().find(|label| !label.is_empty());
    let label = label.map(|label| format!(" ({})", quote(label))).unwrap_or_default();
    match quote(words).as_str() {
        "" => format!("{what}{label}"),
        words => format!("{what}{label}: {words}"),
    }
}

fn judge(status: u16, complaint: &Complaint) -> (Action, ErrorKind) {
    const TOO_LONG: [&str; 8] = [
        "prompt is too long",
        "exceed context limit",
        "context length",
        "context window",
        "context size",
        "maximum context",
        "too many tokens",
        "input token count",
    ];
    /// A limit on spending is not over in a minute: asking again would only repeat the answer.
    const NOTHING_LEFT: [&str; 7] = [
        "credit balance is too low",
        "spend limit",
        "spending limit",
        "spend cap",
        "usage limit",
        "monthly limit",
        "exceeded your current quota",
    ];
    let retry = Action::Retry { after: None };
    if status == 402
        || complaint.is(&["insufficient_quota", "billing_error", "billing_hard_limit_reached"])
        || complaint.says(&NOTHING_LEFT)
    {
        return (Action::LogIn, ErrorKind::BillingError);
    }
    if status == 413
        || complaint.is(&["context_length_exceeded", "exceed_context_size_error", "request_too_large"])
        || (status == 400 && complaint.says(&TOO_LONG))
    {
        return (Action::Compact, ErrorKind::InvalidRequest);
    }
    match status {
        401 | 403 => (Action::LogIn, ErrorKind::AuthenticationFailed),
        404 => (Action::GiveUp, ErrorKind::ModelNotFound),
        429 => (retry, ErrorKind::RateLimit),
        529 => (retry, ErrorKind::Overloaded),
        408 | 409 | 500..=599 => (retry, ErrorKind::ServerError),
        // Known programs expect `unknown` for a plain 400.
        400 => (Action::GiveUp, ErrorKind::Unknown),
        _ => (Action::GiveUp, ErrorKind::InvalidRequest),
    }
}

/// How long the API asks to wait. Negative times and nonsense count as not asked.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| header_text(headers, name)?.trim().parse::<f64>().ok();
    if let Some(millis) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(millis / 1e3).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| {
        let zoned = rfc2822::parse(header_text(headers, name)?.trim()).ok()?;
        Some(zoned.timestamp())
    };
    // The server's own clock, so that ours may be wrong.
    let now = date("date").unwrap_or_else(Timestamp::now);
    Duration::try_from(date("retry-after")?.duration_since(now)).ok()
}

/// The API's id of the request, for support.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = header_text(headers, "request-id").or_else(|| header_text(headers, "x-request-id"))?;
    Some(quote(id))
}

/// Where a redirect wants to go: the host only, as paths may hold secrets.
pub(crate) fn redirect_host(headers: &HeaderMap) -> String {
    let location = header_text(headers, header::LOCATION.as_str()).unwrap_or_default();
    let host = reqwest::Url::parse(location).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| "another address".to_owned())
}

/// A server's words, made fit to be shown: no control characters or invisible marks, not too long.
pub(crate) fn quote(text: &str) -> String {
    let invisible = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let visible = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    let mut kept = visible.filter(|c| !c.is_control() && !invisible(*c));
    let mut quoted: String = kept.by_ref().take(LONGEST_QUOTE).collect();
    if kept.next().is_some() {
        quoted.push('…');
    }
    quoted.trim().to_owned()
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;

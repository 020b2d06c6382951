//! Tables: what an API says, and what follows from it.

use super::*;
use reqwest::header::{HeaderName, HeaderValue};

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[track_caller]
fn check(status: u16, body: &str, action: &Action, kind: ErrorKind) {
    let error = from_answer(status, &HeaderMap::new(), body.as_bytes());
    assert_eq!((&error.action, error.kind, error.status), (action, kind, Some(status)), "{body}");
}

#[track_caller]
fn check_wait(pairs: &[(&'static str, &'static str)], expected: Option<Duration>) {
    let error = from_answer(529, &headers(pairs), b"");
    assert_eq!(error.action, Action::Retry { after: expected }, "{pairs:?}");
}

#[test]
fn statuses_decide() {
    let retry = &Action::Retry { after: None };
    let anthropic = |kind: &str, text: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{text}"}}}}"#)
    };
    check(
        401,
        &anthropic("authentication_error", "invalid x-api-key"),
        &Action::LogIn,
        ErrorKind::AuthenticationFailed,
    );
    check(403, &anthropic("permission_error", "no"), &Action::LogIn, ErrorKind::AuthenticationFailed);
    check(402, &anthropic("billing_error", "no money"), &Action::LogIn, ErrorKind::BillingError);
    check(404, &anthropic("not_found_error", "model: x"), &Action::GiveUp, ErrorKind::ModelNotFound);
    check(413, &anthropic("request_too_large", "big"), &Action::Compact, ErrorKind::InvalidRequest);
    check(429, &anthropic("rate_limit_error", "slow"), retry, ErrorKind::RateLimit);
    check(500, &anthropic("api_error", "oops"), retry, ErrorKind::ServerError);
    check(504, "<html>bad gateway", retry, ErrorKind::ServerError);
    check(529, &anthropic("overloaded_error", "busy"), retry, ErrorKind::Overloaded);
    check(408, "", retry, ErrorKind::ServerError);
    check(409, "", retry, ErrorKind::ServerError);
    check(418, "", &Action::GiveUp, ErrorKind::InvalidRequest);
    check(
        400,
        &anthropic("invalid_request_error", "roles must alternate"),
        &Action::GiveUp,
        ErrorKind::Unknown,
    );
}

#[test]
fn words_decide_where_the_status_does_not() {
    let openai = |code: &str, text: &str| {
        format!(
            r#"{{"error":{{"message":"{text}","type":"invalid_request_error","param":null,"code":"{code}"}}}}"#
        )
    };
    let too_long = [
        openai("context_length_exceeded", "This model's maximum context length is 128000 tokens"),
        openai("", "the request exceeds the available context size, try increasing it"),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#.to_owned(),
        r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 1 + 2 > 3"}}"#.to_owned(),
        r#"{"error":"input is longer than the context window"}"#.to_owned(),
    ];
    for body in too_long {
        check(400, &body, &Action::Compact, ErrorKind::InvalidRequest);
    }
    check(
        429,
        &openai("insufficient_quota", "You exceeded your current quota"),
        &Action::LogIn,
        ErrorKind::BillingError,
    );
    check(
        400,
        r#"{"error":{"message":"Your credit balance is too low to access the API"}}"#,
        &Action::LogIn,
        ErrorKind::BillingError,
    );
    for words in [
        "This request would exceed your organization's monthly spend limit",
        "You have reached your specified API usage limits",
    ] {
        let body = format!(r#"{{"type":"error","error":{{"type":"rate_limit_error","message":"{words}"}}}}"#);
        check(429, &body, &Action::LogIn, ErrorKind::BillingError);
    }
    check(404, &openai("model_not_found", "no such model"), &Action::GiveUp, ErrorKind::ModelNotFound);
}

#[test]
fn the_api_may_overrule_a_retry() {
    let no = from_answer(500, &headers(&[("x-should-retry", "false"), ("retry-after", "3")]), b"");
    assert_eq!(no.action, Action::GiveUp);
    let yes = from_answer(422, &headers(&[("x-should-retry", "true"), ("retry-after", "3")]), b"");
    assert_eq!(yes.action, Action::Retry { after: Some(Duration::from_secs(3)) });
    let key = from_answer(401, &headers(&[("x-should-retry", "true")]), b"");
    assert_eq!(key.action, Action::LogIn);
}

#[test]
fn waits_are_read_in_every_form() {
    check_wait(&[], None);
    check_wait(&[("retry-after", "0")], Some(Duration::ZERO));
    check_wait(&[("retry-after", " 2 ")], Some(Duration::from_secs(2)));
    check_wait(&[("retry-after", "1.5")], Some(Duration::from_millis(1_500)));
    check_wait(&[("retry-after", "1e9")], Some(Duration::from_secs(1_000_000_000)));
    check_wait(&[("retry-after", "-1")], None);
    check_wait(&[("retry-after", "soon")], None);
    check_wait(&[("retry-after", "NaN")], None);
    check_wait(&[("retry-after", "inf")], None);
    check_wait(&[("retry-after", "1e400")], None);
    check_wait(&[("retry-after-ms", "250"), ("retry-after", "9")], Some(Duration::from_millis(250)));
    let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
    check_wait(&[date, ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], Some(Duration::from_secs(30)));
    check_wait(&[date, ("retry-after", "Wed, 21 Oct 2026 07:27:30 GMT")], None);
    check_wait(&[("retry-after", "Wed, 99 Oct 2026 07:28:30 GMT")], None);
}

#[test]
fn complaints_inside_an_answer_stand_for_a_status() {
    let complaint = |kind: &str, code: &str| Complaint {
        kind: kind.to_owned(),
        code: code.to_owned(),
        message: "m".to_owned(),
    };
    let status = |kind: &str, code: &str| from_complaint(&complaint(kind, code)).status;
    assert_eq!(status("overloaded_error", ""), Some(529));
    assert_eq!(status("api_error", ""), Some(500));
    assert_eq!(status("invalid_request_error", "context_length_exceeded"), Some(400));
    assert_eq!(status("", "502"), Some(502));
    assert_eq!(status("", "1234"), Some(500));
    assert_eq!(status("new_error", ""), Some(500));
    assert_eq!(from_complaint(&complaint("x", "context_length_exceeded")).action, Action::Compact);
    assert_eq!(from_complaint(&Complaint::default()).message, "the API broke off its answer");
}

#[test]
fn the_servers_words_are_cut_and_cleaned() {
    assert_eq!(quote("a\u{1b}[2J\u{7}b\r\nc\u{202e}d\u{e0041}"), "a[2Jb  cd");
    let long = quote(&"ä".repeat(2_000));
    assert_eq!(long.chars().count(), LONGEST_QUOTE + 1);
    let page = from_answer(502, &headers(&[("content-type", "text/html")]), b"<html><script>");
    assert_eq!(page.message, "the API answered 502: an HTML page");
}

//! Hooks that are posted to an address. This decides where to and with what, and reads the answer;
//! the posting itself is a function the composition root hands in.

use super::{
    Surroundings,
    answer::{Answer, Trouble, of_bytes},
    command::MAX_OUTPUT,
};
use futures_util::future::BoxFuture;
use ostler_proto::{HookEvent, hook::HookEnd};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use url::{Host, Url};

/// Posts something and hands back what came.
///
/// Whoever makes one owes: no redirect is followed; no more than `most` bytes and one are read; the
/// address that is dialled is one that was checked against `reach`; dropping the future ends it.
pub type HttpPost = Arc<dyn Fn(Post) -> BoxFuture<'static, Result<Posted, String>> + Send + Sync>;

/// What to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Where to.
    pub url: Url,
    /// Which machines it may lead to.
    pub reach: Reach,
    /// Headers beside the content type, which is JSON.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How much of the answer is read.
    pub most: usize,
}

/// Which machines an address may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This machine and the public network: a name must not lead into private ones.
    PublicOrLocal,
    /// Private networks too, because a list in the settings names the address.
    Listed,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The status.
    pub status: u16,
    /// The content type, empty when none was given.
    pub content_type: String,
    /// The body, at most `most` bytes and one.
    pub body: Vec<u8>,
}

/// An address as settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) allowed_env_vars: Vec<String>,
}

/// What settings say about all posted hooks; nothing said is everything allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Limits {
    pub(super) urls: Option<Vec<String>>,
    pub(super) env_vars: Option<Vec<String>>,
}

/// Posts the input and reads the answer.
pub(super) async fn run(
    http: &Http,
    (event, input): (HookEvent, &str),
    (around, limits): (&Surroundings, &Limits),
    limit: Duration,
) -> (HookEnd, Result<Answer, Trouble>) {
    let broken = |end, problem: String| (end, Err(Trouble::Broken(problem)));
    let post = match request(http, input, around, limits) {
        Ok(post) => post,
        Err(problem) => return broken(HookEnd::Failed, problem),
    };
    let Some(send) = &around.post else {
        return broken(HookEnd::Failed, "nothing can be posted from here".to_owned());
    };
    match tokio::time::timeout(limit, send(post)).await {
        Err(_) => broken(HookEnd::TimedOut, format!("it took longer than {} s", limit.as_secs_f64())),
        Ok(Err(problem)) => broken(HookEnd::Failed, problem),
        Ok(Ok(posted)) if posted.body.len() > MAX_OUTPUT => {
            broken(HookEnd::Babbled, format!("it said more than {MAX_OUTPUT} bytes"))
        }
        Ok(Ok(posted)) => (HookEnd::Answered, read(event, &posted)),
    }
}

/// Only a 2xx with a JSON object, or with nothing at all, is an answer.
fn read(event: HookEvent, posted: &Posted) -> Result<Answer, Trouble> {
    if !(200..300).contains(&posted.status) {
        return Err(Trouble::Broken(format!("it answered with status {}", posted.status)));
    }
    if posted.body.trim_ascii().is_empty() {
        return Ok(Answer::default());
    }
    let kind = posted.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind != "application/json" && !kind.ends_with("+json") {
        return Err(Trouble::Broken(format!("it answered with '{kind}' instead of JSON")));
    }
    of_bytes(event, &posted.body)
}

fn request(http: &Http, input: &str, around: &Surroundings, limits: &Limits) -> Result<Post, String> {
    let url = Url::parse(&http.url).map_err(|error| format!("'{}' is no address: {error}", http.url))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https are posted to, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a name or password in the address is not sent; use a header".to_owned());
    }
    let reach = match &limits.urls {
        None => Reach::PublicOrLocal,
        Some(patterns) if patterns.iter().any(|pattern| covers(pattern, &url)) => Reach::Listed,
        Some(_) => return Err(format!("{url} is not among allowedHttpHookUrls")),
    };
    let may_name = |name: &str| {
        let named = |list: &[String]| list.iter().any(|known| known == name);
        named(&http.allowed_env_vars) && limits.env_vars.as_deref().is_none_or(named)
    };
    let value = |name: &str| {
        let known = around.env.iter().rev().find(|(known, _)| known == name && may_name(name));
        known.map_or("", |(_, value)| value.as_str())
    };
    let header = |(name, text): (&String, &String)| (name.clone(), interpolate(text, value));
    let headers = http.headers.iter().map(header).collect();
    Ok(Post { url, reach, headers, body: input.as_bytes().to_vec(), most: MAX_OUTPUT })
}

/// Puts values in the place of `$NAME` and `${NAME}`. What would end a header is left out.
fn interpolate<'a>(text: &str, value: impl Fn(&str) -> &'a str) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| Some((&inner[..inner.find('}')?], 2)));
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, around) = braced.unwrap_or((&after[..end], 0));
        if name.is_empty() {
            filled.push('$');
            rest = after;
        } else {
            filled.extend(value(name).chars().filter(|c| !c.is_control()));
            rest = &after[name.len() + around..];
        }
    }
    filled + rest
}

/// Whether a pattern with stars covers an address: scheme, host, port and path each for themselves,
/// so that `https://good.example*` can not mean `https://good.example.evil`.
fn covers(pattern: &str, url: &Url) -> bool {
    let Some((scheme, rest)) = pattern.split_once("://") else { return false };
    let (place, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (place, None),
    };
    let is_port = match port {
        Some("*") => true,
        Some(port) => port.parse().ok() == url.port_or_known_default(),
        None => url.port().is_none(),
    };
    let target = url.query().map_or(url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let is_path = match path {
        Some(path) => wildcard(path, &target),
        None => port == Some("*") || target == "/",
    };
    scheme.eq_ignore_ascii_case(url.scheme())
        && host_covers(&host.to_ascii_lowercase(), url)
        && is_port
        && is_path
}

/// A leading `*.` stands for any labels, another star for text within one label.
fn host_covers(pattern: &str, url: &Url) -> bool {
    let host = match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
        Some(host @ (Host::Ipv4(_) | Host::Ipv6(_))) => return host.to_string() == pattern,
        None => return false,
    };
    if pattern == "*" {
        return true;
    }
    let (wanted, given): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    match wanted.split_first() {
        Some((&"*", rest)) => {
            given.len() > rest.len() && labels_cover(rest, &given[given.len() - rest.len()..])
        }
        Some(_) | None => labels_cover(&wanted, &given),
    }
}

fn labels_cover(wanted: &[&str], given: &[&str]) -> bool {
    wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| wildcard(wanted, given))
}

/// Matches `*` against any text.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let Some(last) = parts.pop() else { return text.is_empty() };
    let Some((first, middle)) = parts.split_first() else { return text == last };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, covered: &[&str], not: &[&str]) {
        for url in covered {
            assert!(covers(pattern, &Url::parse(url).unwrap()), "{pattern} should cover {url}");
        }
        for url in not {
            assert!(!covers(pattern, &Url::parse(url).unwrap()), "{pattern} should not cover {url}");
        }
    }

    #[test]
    fn patterns_cover_part_by_part() {
        let odd = ["https://a.example.evil/x", "http://a.example/x", "https://a.example:444/x"];
        check(
            "https://a.example/*",
            &["https://a.example/", "https://A.EXAMPLE/x?y", "https://a.example:443/x"],
            &odd,
        );
        check(
            "https://a.example*",
            &["https://a.example/"],
            &["https://a.example.evil/", "https://a.example/x"],
        );
        check(
            "https://*.a.example/h",
            &["https://x.y.a.example/h"],
            &["https://a.example/h", "https://xa.example/h"],
        );
        check("https://h-*.a.example/*", &["https://h-1.a.example/"], &["https://h-1.x.a.example/"]);
        check(
            "http://localhost:*",
            &["http://localhost:9/any/path"],
            &["http://localhost.evil:9/", "https://localhost:9/"],
        );
        check("http://127.0.0.1:80/", &["http://127.1/", "http://0x7f000001/"], &["http://127.0.0.2/"]);
        check("http://[::1]:8080/*", &["http://[0:0::1]:8080/x"], &["http://[::2]:8080/x"]);
        check("*", &[], &["https://a.example/"]);
    }

    #[test]
    fn headers_take_only_what_they_may_and_stay_one_line() {
        let value = |name: &str| if name == "KEY" { "a\r\nEvil: 1" } else { "" };
        assert_eq!(interpolate("Bearer $KEY.", value), "Bearer aEvil: 1.");
        assert_eq!(interpolate("${KEY}${NO}$ $", value), "aEvil: 1$ $");
        assert_eq!(interpolate("${KEY", value), "${KEY");
    }
}

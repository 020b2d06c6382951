//! One page: dialled where it was checked to be, bounded in size and time, turned into text, and
//! kept for a quarter of an hour.

use super::{
    Reach, Refused,
    address::{self, is_public},
};
use futures_util::StreamExt as _;
use reqwest::{
    Client, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, LOCATION},
    redirect,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;
use url::Url;

/// More is not a page.
const MAX_BYTES: usize = 10 * 1024 * 1024;
const DEADLINE: Duration = Duration::from_mins(1);
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);
/// Moves within one host that are followed.
const MAX_MOVES: usize = 5;
const FRESH: Duration = Duration::from_mins(15);
/// How many pages are kept at once.
const MAX_KEPT: usize = 50;

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it came from, after moves within the host.
    pub url: Url,
    /// The answer's code.
    pub code: u16,
    /// The code's name.
    pub code_text: String,
    /// How many bytes came.
    pub bytes: usize,
    /// Its text; HTML as markdown.
    pub text: String,
    /// Another host it points to instead of answering.
    pub moved_to: Option<Url>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address may not be dialled.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The network or the server failed.
    #[error("cannot fetch {url}: {why}")]
    Failed {
        /// The address.
        url: String,
        /// In words.
        why: String,
    },
}

/// Fetches pages, and keeps them for a while.
#[derive(Clone)]
pub struct Fetcher {
    /// Made when it is first needed: reading the machine's certificates takes a while.
    client: Arc<OnceCell<Client>>,
    reach: Reach,
    kept: Arc<Mutex<HashMap<Url, (Instant, Fetched)>>>,
}

impl Fetcher {
    /// A fetcher that reaches the public network and what the user has named.
    pub fn new(reach: Reach) -> Self {
        Self { client: Arc::default(), reach, kept: Arc::default() }
    }

    async fn client(&self) -> Result<&Client, WebError> {
        let reach = &self.reach;
        let made = self.client.get_or_try_init(|| {
            let reach = reach.clone();
            crate::host::blocking(move || client(&reach))
        });
        made.await.map_err(|why| WebError::Failed { url: "anything".to_owned(), why })
    }

    /// Fetches one page.
    pub async fn fetch(&self, text: &str) -> Result<Fetched, WebError> {
        let mut url = address::check(text, &self.reach)?;
        url.set_fragment(None);
        if url.scheme() == "http" && !address::is_named(&url, &self.reach) && url.port().is_none() {
            // It cannot fail: https is a scheme of the same kind.
            let _ = url.set_scheme("https");
        }
        if let Some(page) = self.kept(&url) {
            return Ok(page);
        }
        let client = self.client().await?;
        let asked = url.clone();
        for _ in 0..=MAX_MOVES {
            let response = client.get(url.clone()).send().await.map_err(|error| failed(&url, &error))?;
            let Some(next) = moved(&response, &url) else {
                let page = read(response, url).await?;
                self.keep(asked, &page);
                return Ok(page);
            };
            let same_port = next.port() == url.port();
            if next.host() != url.host() || !same_port {
                return Ok(Fetched {
                    url,
                    code: response.status().as_u16(),
                    code_text: code_text(response.status()),
                    bytes: 0,
                    text: String::new(),
                    moved_to: Some(next),
                });
            }
            url = address::check(next.as_str(), &self.reach)?;
        }
        Err(WebError::Failed { url: asked.into(), why: format!("it moved more than {MAX_MOVES} times") })
    }

    fn kept(&self, url: &Url) -> Option<Fetched> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(url).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, page)| page.clone())
    }

    fn keep(&self, url: Url, page: &Fetched) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < FRESH);
        if kept.len() < MAX_KEPT && page.code == 200 {
            kept.insert(url, (Instant::now(), page.clone()));
        }
    }
}

fn client(reach: &Reach) -> Result<Client, String> {
    let private = reach.private.iter().map(|named| host_part(named).to_owned()).collect();
    let client = Client::builder()
        .redirect(redirect::Policy::none())
        .dns_resolver(Arc::new(Checked { private }))
        // A proxy would dial for us, and nobody could say where to.
        .no_proxy()
        .connect_timeout(CONNECT_DEADLINE)
        .timeout(DEADLINE)
        .user_agent(concat!("Claude-User (Ostler/", env!("CARGO_PKG_VERSION"), ")"))
        .build();
    client.map_err(|error| in_words(&error))
}

/// Where the server sends us instead of answering.
fn moved(response: &reqwest::Response, from: &Url) -> Option<Url> {
    if !response.status().is_redirection() {
        return None;
    }
    from.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()
}

async fn read(response: reqwest::Response, url: Url) -> Result<Fetched, WebError> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let mut bytes = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| failed(&url, &error))?);
        if bytes.len() > MAX_BYTES {
            let why = format!("it is longer than {} MB", MAX_BYTES / 1024 / 1024);
            return Err(WebError::Failed { url: url.into(), why });
        }
    }
    let length = bytes.len();
    let text = match kind.split(';').next().unwrap_or_default().trim() {
        "text/html" | "application/xhtml+xml" => {
            crate::host::blocking(move || markdown(&decoded(&bytes, &kind))).await
        }
        plain
            if plain.starts_with("text/")
                || plain.ends_with("json")
                || plain.ends_with("xml")
                || plain.is_empty()
                || [
                    "application/javascript",
                    "application/x-yaml",
                    "application/yaml",
                    "application/toml",
                ]
                .contains(&plain) =>
        {
            decoded(&bytes, &kind)
        }
        other => {
            let why = format!("it is {other}, not text; download it with a command if it is needed");
            return Err(WebError::Failed { url: url.into(), why });
        }
    };
    Ok(Fetched {
        url,
        code: status.as_u16(),
        code_text: code_text(status),
        bytes: length,
        text,
        moved_to: None,
    })
}

fn decoded(bytes: &[u8], kind: &str) -> String {
    let label = kind.split("charset=").nth(1).map(|label| label.trim_matches(['"', '\'', ' ', ';']));
    let encoding = label
        .and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()))
        .unwrap_or(encoding_rs::UTF_8);
    encoding.decode(bytes).0.into_owned()
}

fn markdown(html: &str) -> String {
    let converter = htmd::HtmlToMarkdown::builder()
        .skip_tags(vec!["script", "style", "noscript", "template", "iframe", "svg", "head", "form", "nav"])
        .build();
    // What cannot be turned into markdown is still text to somebody.
    converter.convert(html).unwrap_or_else(|_| html.to_owned())
}

fn code_text(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or_default().to_owned()
}

fn failed(url: &Url, error: &reqwest::Error) -> WebError {
    WebError::Failed { url: url.to_string(), why: in_words(error) }
}

/// The innermost reason, which names what happened.
fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn host_part(named: &str) -> &str {
    named.rsplit_once(':').map_or(named, |(host, _)| host)
}

/// Resolves names, and refuses those that lead to a private address, also among public ones.
struct Checked {
    private: Vec<String>,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let may_be_private = self.private.iter().any(|host| host == name.as_str());
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Some(private) = found.iter().find(|found| !is_public(found.ip()) && !may_be_private) {
                let why = format!("the name leads to {}, which is not on the public network", private.ip());
                return Err(Box::<dyn std::error::Error + Send + Sync>::from(why));
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

//! What the environment says about models: keys, addresses, deadlines. Reads variables through
//! the function it is given, once, and never shows a value, only names.

use crate::{http::Waits, secret::Secret};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use std::{fmt, sync::Arc, time::Duration};

/// All that models need to know from outside.
#[derive(Clone)]
pub struct Environment {
    anthropic: Account,
    openai: Account,
    /// How long to wait for what.
    pub waits: Waits,
    /// The program that uses us, told to the API.
    pub client_app: Option<String>,
    /// Whether requests may ask for caching.
    pub caching: bool,
    lookup: Lookup,
}

type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Whose account pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// `ANTHROPIC_…`
    Anthropic,
    /// `OPENAI_…`
    OpenAi,
}

/// What is known of one vendor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) base_url: Option<Url>,
    pub(crate) credential: Option<Credential>,
    pub(crate) headers: HeaderMap,
}

/// A key and how it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    /// The variable it came from.
    pub(crate) variable: String,
    pub(crate) secret: Secret,
    pub(crate) form: KeyForm,
}

/// The header a key travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyForm {
    XApiKey,
    Bearer,
}

/// A variable that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct EnvironmentError {
    /// Its name.
    pub variable: String,
    /// What is wrong with it, without its value.
    pub problem: String,
}

/// Every variable that is looked at, for `describe`. Names of keys in model rows come on top.
const VARIABLES: [&str; 15] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_CUSTOM_HEADERS",
    "API_TIMEOUT_MS",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
    "OSTLER_STREAM_IDLE_TIMEOUT_MS",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "DISABLE_PROMPT_CACHING",
];

/// How many times `API_TIMEOUT_MS` an answer may take that moves on all the time.
const LONGEST_ANSWER: u32 = 6;

impl Environment {
    /// Reads what there is. Empty variables count as absent.
    pub fn from_vars(
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, EnvironmentError> {
        let lookup: Lookup = Arc::new(move |name| lookup(name).filter(|value| !value.trim().is_empty()));
        let idle = match milliseconds(&lookup, "OSTLER_STREAM_IDLE_TIMEOUT_MS")? {
            Some(idle) => Some(idle),
            None => milliseconds(&lookup, "CLAUDE_STREAM_IDLE_TIMEOUT_MS")?,
        };
        let answer = milliseconds(&lookup, "API_TIMEOUT_MS")?.unwrap_or(Duration::from_mins(10));
        Ok(Self {
            anthropic: Account {
                base_url: address(&lookup, "ANTHROPIC_BASE_URL")?,
                credential: match credential(&lookup, "ANTHROPIC_AUTH_TOKEN", KeyForm::Bearer)? {
                    Some(token) => Some(token),
                    None => credential(&lookup, "ANTHROPIC_API_KEY", KeyForm::XApiKey)?,
                },
                headers: headers(&lookup, "ANTHROPIC_CUSTOM_HEADERS")?,
            },
            openai: Account {
                base_url: address(&lookup, "OPENAI_BASE_URL")?,
                credential: credential(&lookup, "OPENAI_API_KEY", KeyForm::Bearer)?,
                headers: headers(&lookup, "OPENAI_CUSTOM_HEADERS")?,
            },
            waits: Waits {
                connect: Duration::from_secs(30),
                answer,
                idle: idle.unwrap_or(Duration::from_mins(5)),
                total: answer.saturating_mul(LONGEST_ANSWER),
            },
            client_app: lookup("CLAUDE_AGENT_SDK_CLIENT_APP"),
            caching: !lookup("DISABLE_PROMPT_CACHING").is_some_and(|value| is_true(&value)),
            lookup,
        })
    }

    /// The names of all variables that are set. Never a value.
    pub fn describe(&self) -> Vec<&'static str> {
        VARIABLES.into_iter().filter(|name| (self.lookup)(name).is_some()).collect()
    }

    /// Whether requests to a vendor go to an address of the user's choice.
    pub fn has_base_url(&self, vendor: Vendor) -> bool {
        self.account(vendor).base_url.is_some()
    }

    /// The model that a family's name means here, if the user says so.
    pub fn family_model(&self, family: &str) -> Option<String> {
        let variable = match family {
            "haiku" => "ANTHROPIC_DEFAULT_HAIKU_MODEL",
            "opus" => "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "sonnet" => "ANTHROPIC_DEFAULT_SONNET_MODEL",
            _ => return None,
        };
        (self.lookup)(variable)
    }

    pub(crate) fn account(&self, vendor: Vendor) -> &Account {
        match vendor {
            Vendor::Anthropic => &self.anthropic,
            Vendor::OpenAi => &self.openai,
        }
    }

    /// The key that a row names.
    pub(crate) fn named_credential(
        &self,
        vendor: Vendor,
        variable: &str,
    ) -> Result<Option<Credential>, EnvironmentError> {
        let form = match vendor {
            Vendor::Anthropic => KeyForm::XApiKey,
            Vendor::OpenAi => KeyForm::Bearer,
        };
        credential(&self.lookup, variable, form)
    }
}

impl Vendor {
    /// The variable that usually holds the key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }
}

impl Credential {
    /// The header that carries the key.
    pub(crate) fn header(&self) -> Result<(HeaderName, HeaderValue), EnvironmentError> {
        let (name, text) = match self.form {
            KeyForm::XApiKey => ("x-api-key", self.secret.expose().to_owned()),
            KeyForm::Bearer => ("authorization", format!("Bearer {}", self.secret.expose())),
        };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| problem(&self.variable, "holds characters that cannot be sent in a header"))?;
        value.set_sensitive(true);
        Ok((HeaderName::from_static(name), value))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("set", &self.describe()).finish_non_exhaustive()
    }
}

/// An `http` or `https` address, or what is wrong with it in words that do not repeat it.
pub(crate) fn parse_address(text: &str) -> Result<Url, &'static str> {
    let address = Url::parse(text.trim()).map_err(|_| "is not a URL such as https://host:port")?;
    if !matches!(address.scheme(), "http" | "https") || !address.has_host() {
        return Err("must begin with http:// or https://");
    }
    Ok(address)
}

fn address(lookup: &Lookup, variable: &str) -> Result<Option<Url>, EnvironmentError> {
    lookup(variable).map(|text| parse_address(&text).map_err(|what| problem(variable, what))).transpose()
}

fn credential(
    lookup: &Lookup,
    variable: &str,
    form: KeyForm,
) -> Result<Option<Credential>, EnvironmentError> {
    let Some(text) = lookup(variable) else { return Ok(None) };
    let credential = Credential { variable: variable.to_owned(), secret: Secret::new(&text), form };
    credential.header()?;
    Ok(Some(credential))
}

fn milliseconds(lookup: &Lookup, variable: &str) -> Result<Option<Duration>, EnvironmentError> {
    let Some(text) = lookup(variable) else { return Ok(None) };
    match text.trim().parse::<u64>() {
        Ok(millis) if millis > 0 => Ok(Some(Duration::from_millis(millis))),
        _ => Err(problem(variable, "must be a number of milliseconds above 0")),
    }
}

fn headers(lookup: &Lookup, variable: &str) -> Result<HeaderMap, EnvironmentError> {
    let mut headers = HeaderMap::new();
    for line in lookup(variable).unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let (name, mut value) =
            parsed.ok_or_else(|| problem(variable, "must hold lines of the form 'Name: value'"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn is_true(value: &str) -> bool {
    !matches!(value.trim().to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
}

fn problem(variable: &str, what: &str) -> EnvironmentError {
    EnvironmentError { variable: variable.to_owned(), problem: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&str, &str)]) -> Result<Environment, EnvironmentError> {
        Environment::from_vars(move |name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn check_problem(pairs: &'static [(&str, &str)], expected: &str) {
        assert_eq!(environment(pairs).unwrap_err().to_string(), expected);
    }

    #[test]
    fn defaults_hold_when_nothing_is_set() {
        let environment = environment(&[("ANTHROPIC_API_KEY", "  ")]).unwrap();
        assert_eq!(environment.describe(), Vec::<&str>::new());
        assert_eq!(environment.waits.answer, Duration::from_mins(10));
        assert_eq!(environment.waits.idle, Duration::from_mins(5));
        assert_eq!(environment.waits.total, Duration::from_hours(1));
        assert!(environment.caching);
        assert!(environment.account(Vendor::Anthropic).credential.is_none());
    }

    #[test]
    fn names_are_described_and_values_are_not() {
        let environment = environment(&[
            ("OPENAI_API_KEY", "hidden1"),
            ("ANTHROPIC_AUTH_TOKEN", "hidden2"),
            ("ANTHROPIC_API_KEY", "hidden3"),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: hidden4\n\nX-Other: b: c"),
        ])
        .unwrap();
        assert_eq!(
            environment.describe(),
            ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_API_KEY"]
        );
        let account = environment.account(Vendor::Anthropic);
        assert_eq!(account.credential.as_ref().unwrap().variable, "ANTHROPIC_AUTH_TOKEN");
        assert_eq!(account.headers["x-other"], "b: c");
        assert!(!format!("{environment:?} {account:?}").contains("hidden"));
    }

    #[test]
    fn a_variable_that_makes_no_sense_is_named_without_its_value() {
        check_problem(
            &[("API_TIMEOUT_MS", "soon")],
            "API_TIMEOUT_MS: must be a number of milliseconds above 0",
        );
        check_problem(
            &[("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "0")],
            "CLAUDE_STREAM_IDLE_TIMEOUT_MS: must be a number of milliseconds above 0",
        );
        check_problem(
            &[("OPENAI_BASE_URL", "localhost")],
            "OPENAI_BASE_URL: is not a URL such as https://host:port",
        );
        check_problem(
            &[("ANTHROPIC_BASE_URL", "ftp://host")],
            "ANTHROPIC_BASE_URL: must begin with http:// or https://",
        );
        check_problem(
            &[("ANTHROPIC_CUSTOM_HEADERS", "secret without colon")],
            "ANTHROPIC_CUSTOM_HEADERS: must hold lines of the form 'Name: value'",
        );
        check_problem(
            &[("ANTHROPIC_API_KEY", "a\nb")],
            "ANTHROPIC_API_KEY: holds characters that cannot be sent in a header",
        );
    }
}

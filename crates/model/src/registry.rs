//! From a model's name to something that answers. One line per API; keys go only where the
//! environment points them.

use crate::{
    ChooseError, Provider, anthropic,
    api::{Api, Remote},
    catalog::Catalog,
    environment::{Credential, Environment, parse_address},
    http::{Http, Target},
    openai_chat, openai_responses, script,
};
use ostler_proto::ModelRow;
use reqwest::{
    Url,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// Every API that is spoken over HTTP.
pub const APIS: [&Api; 3] = [&anthropic::API, &openai_chat::API, &openai_responses::API];

/// All models a session can use.
#[derive(Debug)]
pub struct Models {
    catalog: Catalog,
    environment: Environment,
    cwd: PathBuf,
    http: Arc<Http>,
}

/// A model, ready to be asked.
#[derive(Clone)]
pub struct Chosen {
    /// Its full name, for [`ostler_proto::Request::model`]; choosing it again gives the same.
    pub name: String,
    /// What is known about it.
    pub row: ModelRow,
    /// What answers.
    pub provider: Arc<dyn Provider>,
    /// The variable its key comes from, or `none`.
    pub key_source: String,
}

impl Models {
    /// Nothing is opened or connected before it is needed. Scripts are looked for below `cwd`.
    pub fn new(catalog: Catalog, environment: Environment, cwd: PathBuf) -> Self {
        let http = Arc::new(Http::new(environment.waits));
        Self { catalog, environment, cwd, http }
    }

    /// All that is known about models.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What the environment says.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The model of that name, alias or `api:name`.
    pub fn choose(&self, name: &str) -> Result<Chosen, ChooseError> {
        let (name, mut row) = self.catalog.resolve(name, &self.environment)?;
        row.cache_breakpoints &= self.environment.caching;
        if row.api == "script" {
            let file = row.name.as_deref().unwrap_or(&name);
            let provider = Arc::new(script::Player::from_file(file, &self.cwd)?);
            return Ok(Chosen { name, row, provider, key_source: "none".to_owned() });
        }
        let api = APIS.into_iter().find(|api| api.name == row.api).ok_or_else(|| {
            let known: Vec<&str> = APIS.iter().map(|api| api.name).chain(["script"]).collect();
            let (api, known) = (&row.api, known.join(", "));
            ChooseError(format!("model '{name}' speaks '{api}', which is none of {known}"))
        })?;
        let remote = self.remote(api, &name, row.clone())?;
        let key_source = match remote.target.secret {
            Some(_) => remote.target.key_variable.clone(),
            None => "none".to_owned(),
        };
        Ok(Chosen { name, row, provider: Arc::new(remote), key_source })
    }

    #[expect(clippy::expect_used, reason = "the vendors' addresses are constants, and tests use them all")]
    fn remote(&self, api: &'static Api, name: &str, row: ModelRow) -> Result<Remote, ChooseError> {
        let account = self.environment.account(api.vendor);
        let vendor_base = parse_address(api.base_url).expect("the vendor's address is a constant URL");
        let account_base = account.base_url.as_ref().unwrap_or(&vendor_base);
        let base = match row.base_url.as_deref().map(parse_address).transpose() {
            Ok(address) => address.unwrap_or_else(|| account_base.clone()),
            Err(problem) => return Err(ChooseError(format!("base_url of model '{name}' {problem}"))),
        };
        // A row with its own address names its own key: the vendor's must not travel there.
        let is_home = base.origin() == account_base.origin();
        let credential = match &row.api_key_env {
            Some(variable) => self
                .environment
                .named_credential(api.vendor, variable)
                .map_err(|error| ChooseError(error.to_string()))?,
            None => account.credential.clone().filter(|_| is_home),
        };
        let key_variable = match (&credential, &row.api_key_env) {
            (Some(credential), _) => credential.variable.clone(),
            (None, Some(variable)) => variable.clone(),
            (None, None) => api.vendor.key_variable().to_owned(),
        };
        let mut headers = self.headers(api, credential.as_ref())?;
        if is_home {
            headers.extend(account.headers.clone());
        }
        let target = Target {
            url: api.address(&base),
            headers,
            secret: credential.map(|credential| credential.secret),
            key_variable,
        };
        let needs_key = is_vendor(&base, &vendor_base) && account.headers.is_empty();
        let http = Arc::clone(&self.http);
        Ok(Remote { api, http, target: Arc::new(target), row, written: Mutex::default(), needs_key })
    }

    fn headers(&self, api: &Api, credential: Option<&Credential>) -> Result<HeaderMap, ChooseError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // A compressed stream is often held back until there is enough to compress.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let version = concat!("ostler/", env!("CARGO_PKG_VERSION"));
        let user_agent = match &self.environment.client_app {
            Some(app) => HeaderValue::from_str(&format!("{version} (client-app/{app})")).map_err(|_| {
                ChooseError("CLAUDE_AGENT_SDK_CLIENT_APP cannot be sent in a header".to_owned())
            })?,
            None => HeaderValue::from_static(version),
        };
        headers.insert(USER_AGENT, user_agent);
        for (name, value) in api.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(credential) = credential {
            let (name, value) = credential.header().map_err(|error| ChooseError(error.to_string()))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

fn is_vendor(base: &Url, vendor_base: &Url) -> bool {
    base.origin() == vendor_base.origin()
}

#[cfg(test)]
mod tests;

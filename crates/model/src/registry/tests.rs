//! Where requests go, and which key goes along.

use super::*;
use std::collections::BTreeMap;

fn models(rows: &[(&str, ModelRow)], pairs: &'static [(&str, &str)]) -> Models {
    let environment = Environment::from_vars(move |name| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    });
    let rows: BTreeMap<String, ModelRow> =
        rows.iter().map(|(name, row)| ((*name).to_owned(), row.clone())).collect();
    Models::new(Catalog::new(&rows), environment.unwrap(), PathBuf::from("/"))
}

fn remote(models: &Models, name: &str) -> Remote {
    let (name, row) = models.catalog.resolve(name, &models.environment).unwrap();
    let api = APIS.into_iter().find(|api| api.name == row.api).unwrap();
    models.remote(api, &name, row).unwrap()
}

#[track_caller]
fn check_address(api: &Api, base: &str, expected: &str) {
    assert_eq!(api.address(&Url::parse(base).unwrap()).as_str(), expected);
}

#[test]
fn base_urls_may_or_may_not_name_the_version() {
    let [anthropic, chat, responses] = APIS;
    check_address(anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages");
    check_address(anthropic, "https://gw.example/anthropic/", "https://gw.example/anthropic/v1/messages");
    check_address(anthropic, "http://localhost:8080/v1", "http://localhost:8080/v1/messages");
    check_address(chat, "http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions");
    check_address(chat, "http://localhost:11434", "http://localhost:11434/v1/chat/completions");
    check_address(
        chat,
        "https://g.example/v1beta/openai",
        "https://g.example/v1beta/openai/chat/completions",
    );
    check_address(
        responses,
        "https://az.example/openai?api-version=1",
        "https://az.example/openai/v1/responses?api-version=1",
    );
}

#[test]
fn the_key_travels_in_the_vendors_header() {
    let models = models(&[], &[("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")]);
    assert_eq!(remote(&models, "sonnet").target.headers["x-api-key"], "a");
    assert_eq!(remote(&models, "gpt-5").target.headers["authorization"], "Bearer o");
    assert_eq!(models.choose("sonnet").unwrap().key_source, "ANTHROPIC_API_KEY");
}

#[test]
fn a_token_wins_over_a_key() {
    let models = models(&[], &[("ANTHROPIC_API_KEY", "a"), ("ANTHROPIC_AUTH_TOKEN", "t")]);
    let remote = remote(&models, "sonnet");
    assert_eq!(remote.target.headers["authorization"], "Bearer t");
    assert!(!remote.target.headers.contains_key("x-api-key"));
}

#[test]
fn the_vendors_key_does_not_travel_to_another_address() {
    let row = ModelRow { base_url: Some("http://else.example".to_owned()), ..ModelRow::default() };
    let named = ModelRow { api_key_env: Some("ELSE_KEY".to_owned()), ..row.clone() };
    let models = models(
        &[("elsewhere", row), ("named", named)],
        &[("OPENAI_API_KEY", "o"), ("OPENAI_CUSTOM_HEADERS", "x-team: t"), ("ELSE_KEY", "e")],
    );
    let elsewhere = remote(&models, "elsewhere");
    assert!(!elsewhere.target.headers.contains_key("authorization"));
    assert!(!elsewhere.target.headers.contains_key("x-team"));
    assert_eq!(models.choose("elsewhere").unwrap().key_source, "none");
    assert_eq!(remote(&models, "named").target.headers["authorization"], "Bearer e");
    assert_eq!(models.choose("named").unwrap().key_source, "ELSE_KEY");
    assert_eq!(remote(&models, "gpt-5").target.headers["x-team"], "t");
}

#[test]
fn a_key_is_needed_only_at_the_vendors_own_address() {
    let models = models(&[], &[("OPENAI_BASE_URL", "http://localhost:1")]);
    assert!(!remote(&models, "gpt-5").needs_key);
    assert!(remote(&models, "sonnet").needs_key);
}

#[test]
fn what_cannot_be_chosen_says_why() {
    let odd_api = ModelRow { api: "telepathy".to_owned(), ..ModelRow::default() };
    let odd_url = ModelRow { base_url: Some("nowhere".to_owned()), ..ModelRow::default() };
    let models = models(&[("odd-api", odd_api), ("odd-url", odd_url)], &[]);
    let problem = |name: &str| models.choose(name).err().unwrap().to_string();
    assert_eq!(
        problem("odd-api"),
        "model 'odd-api' speaks 'telepathy', which is none of anthropic, openai-chat, openai-responses, script"
    );
    assert_eq!(problem("odd-url"), "base_url of model 'odd-url' is not a URL such as https://host:port");
    assert!(problem("script:absent.toml").starts_with("cannot read the script /absent.toml: "));
}

#[test]
fn nothing_shows_a_key() {
    let models =
        models(&[], &[("ANTHROPIC_API_KEY", "very-secret"), ("ANTHROPIC_CUSTOM_HEADERS", "a: very-secret")]);
    let remote = remote(&models, "sonnet");
    assert!(!format!("{models:?} {:?}", remote.target).contains("very-secret"));
}

#[test]
fn caching_can_be_turned_off() {
    assert!(!models(&[], &[("DISABLE_PROMPT_CACHING", "1")]).choose("sonnet").unwrap().row.cache_breakpoints);
    assert!(models(&[], &[("DISABLE_PROMPT_CACHING", "0")]).choose("sonnet").unwrap().row.cache_breakpoints);
}

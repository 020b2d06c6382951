//! Names, aliases and shapes.

use super::*;

fn environment(pairs: &'static [(&str, &str)]) -> Environment {
    Environment::from_vars(move |name| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
    .unwrap()
}

fn catalog() -> Catalog {
    let mine = ModelRow {
        api: "openai-chat".to_owned(),
        name: Some("qwen3:32b".to_owned()),
        base_url: Some("http://localhost:11434/v1".to_owned()),
        ..ModelRow::default()
    };
    Catalog::new(&BTreeMap::from([("mine".to_owned(), mine)]))
}

#[track_caller]
fn check(name: &str, full_name: &str, api: &str, api_name: Option<&str>) {
    let catalog = catalog();
    let environment = environment(&[]);
    let (found, row) = catalog.resolve(name, &environment).unwrap();
    assert_eq!((found.as_str(), row.api.as_str(), row.name.as_deref()), (full_name, api, api_name));
    assert_eq!(catalog.resolve(&found, &environment).unwrap(), (found, row), "resolves to the same again");
}

#[test]
fn names_resolve() {
    check("sonnet", "claude-sonnet-5-5", "anthropic", None);
    check(" opus ", "claude-opus-5-5", "anthropic", None);
    check("sonnet[1m]", "claude-sonnet-5-5", "anthropic", None);
    check("claude-sonnet-4-5", "claude-sonnet-4-5", "anthropic", None);
    check("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929", "anthropic", None);
    check("gpt-5-mini-2025-08-07", "gpt-5-mini-2025-08-07", "openai-responses", None);
    check("mine", "mine", "openai-chat", Some("qwen3:32b"));
    check("chat:gpt-4o", "chat:gpt-4o", "openai-chat", Some("gpt-4o"));
    check("chat:mine", "chat:mine", "openai-chat", Some("qwen3:32b"));
    check("anthropic:kimi-k2", "anthropic:kimi-k2", "anthropic", Some("kimi-k2"));
    check("openai:o9", "openai:o9", "openai-responses", Some("o9"));
    check("script:demo/a.toml", "script:demo/a.toml", "script", Some("demo/a.toml"));
    check("claude-next", "claude-next", "anthropic", None);
    check("us.anthropic.claude-sonnet-9-v1:0", "us.anthropic.claude-sonnet-9-v1:0", "anthropic", None);
    check("gpt-99", "gpt-99", "openai-responses", None);
}

#[test]
fn a_longer_name_uses_the_longest_row_it_extends() {
    let catalog = catalog();
    let price = |name: &str| catalog.resolve(name, &environment(&[])).unwrap().1.price.input;
    assert!((price("gpt-5-mini-2025-08-07") - 0.25).abs() < 1e-9);
    assert!((price("gpt-5-codex") - 1.25).abs() < 1e-9);
    assert!((price("claude-opus-5-5-20261001") - 4.0).abs() < 1e-9);
    assert!((price("claude-opus-5-20260724") - 5.0).abs() < 1e-9);
}

#[test]
fn unknown_names_follow_the_environment() {
    let catalog = catalog();
    let api = |pairs| catalog.resolve("llama-4", &environment(pairs)).map(|(_, row)| row.api);
    assert_eq!(api(&[("OPENAI_BASE_URL", "http://localhost:1")]).unwrap(), "openai-chat");
    assert_eq!(api(&[("ANTHROPIC_BASE_URL", "http://localhost:1")]).unwrap(), "anthropic");
    let problem = api(&[]).unwrap_err().to_string();
    assert!(problem.starts_with("no model is named 'llama-4': "), "{problem}");
    assert!(problem.contains("chat:llama-4") && problem.contains("OPENAI_BASE_URL"), "{problem}");
}

#[test]
fn families_may_mean_another_model_here() {
    let environment = environment(&[("ANTHROPIC_DEFAULT_SONNET_MODEL", "claude-sonnet-4-5")]);
    assert_eq!(catalog().resolve("sonnet", &environment).unwrap().0, "claude-sonnet-4-5");
    assert_eq!(catalog().resolve("haiku", &environment).unwrap().0, "claude-haiku-5-5");
}

#[test]
fn the_table_is_sound() {
    let catalog = catalog();
    for (alias, name) in catalog.aliases() {
        assert!(catalog.family_row(name).is_some(), "{alias} stands for {name}, which is unknown");
    }
    for (name, row) in catalog.rows() {
        assert!(crate::APIS.iter().any(|api| api.name == row.api), "{name} speaks {}", row.api);
        assert!(row.max_output_tokens < row.context_window, "{name}");
    }
}

//! From the name a user types to what is known about the model. The table is data
//! (`models.toml`); the user's own rows win over it.

use crate::{
    ChooseError,
    environment::{Environment, Vendor},
};
use ostler_proto::{ModelRow, Reasoning};
use serde::Deserialize;
use std::collections::BTreeMap;

/// All known models.
#[derive(Debug, Clone)]
pub struct Catalog {
    table: Table,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    aliases: BTreeMap<String, String>,
    models: BTreeMap<String, ModelRow>,
}

/// Prefixes that say which API to speak, whatever the name looks like.
const PREFIXES: [(&str, &str); 4] = [
    ("anthropic", "anthropic"),
    ("openai", "openai-responses"),
    ("chat", "openai-chat"),
    ("script", "script"),
];

impl Catalog {
    /// The built-in table with the user's rows over it.
    #[expect(clippy::expect_used, reason = "the table is part of the program, and a test reads it")]
    pub fn new(user_rows: &BTreeMap<String, ModelRow>) -> Self {
        let mut table: Table =
            toml::from_str(include_str!("models.toml")).expect("the built-in table is tested to parse");
        table.models.extend(user_rows.iter().map(|(name, row)| (name.clone(), row.clone())));
        Self { table }
    }

    /// Names and rows, sorted, without aliases.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &ModelRow)> {
        self.table.models.iter().map(|(name, row)| (name.as_str(), row))
    }

    /// The short names, with what they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.table.aliases.iter().map(|(alias, name)| (alias.as_str(), name.as_str()))
    }

    /// The full name and the row of a model. The full name resolves to the same row again.
    pub fn resolve(&self, name: &str, environment: &Environment) -> Result<(String, ModelRow), ChooseError> {
        // The mark for a long context, which these models have by themselves now.
        let name = name.trim().trim_end_matches("[1m]");
        if let Some(row) = self.table.models.get(name) {
            return Ok((name.to_owned(), row.clone()));
        }
        let meant = environment.family_model(name).or_else(|| self.table.aliases.get(name).cloned());
        let name = meant.unwrap_or_else(|| name.to_owned());
        if let Some((api, rest)) = explicit_api(&name) {
            let row = self.explicit_row(api, rest);
            return Ok((name, row));
        }
        match self.family_row(&name) {
            Some(row) => Ok((name, row)),
            None => row_by_shape(&name, environment).map(|row| (name, row)),
        }
    }

    fn explicit_row(&self, api: &str, name: &str) -> ModelRow {
        if api == "script" {
            return ModelRow { name: Some(name.to_owned()), ..crate::script::row() };
        }
        let found = self.table.models.get(name).cloned().or_else(|| self.family_row(name));
        let row = found.unwrap_or_else(|| usual_row(api));
        let api_name = row.name.clone().unwrap_or_else(|| name.to_owned());
        ModelRow { api: api.to_owned(), name: Some(api_name), ..row }
    }

    /// The row that a name extends, such as one with a date. The longest wins.
    fn family_row(&self, name: &str) -> Option<ModelRow> {
        let extends = |row: &str| {
            name.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':']))
        };
        let families = self.table.models.iter().filter(|(row, _)| extends(row));
        let (family, row) = families.max_by_key(|(row, _)| row.len())?;
        let is_itself = family == name;
        let api_name = if is_itself { row.name.clone() } else { None };
        Some(ModelRow { name: api_name, ..row.clone() })
    }
}

fn explicit_api(name: &str) -> Option<(&'static str, &str)> {
    let (prefix, rest) = name.split_once(':')?;
    let (_, api) = PREFIXES.into_iter().find(|(known, _)| *known == prefix)?;
    (!rest.is_empty()).then_some((api, rest))
}

fn row_by_shape(name: &str, environment: &Environment) -> Result<ModelRow, ChooseError> {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let api = if name.contains("claude") {
        "anthropic"
    } else if begins(&["gpt-", "o1", "o3", "o4", "codex-"]) && !begins(&["gpt-oss"]) {
        "openai-responses"
    } else if environment.has_base_url(Vendor::OpenAi) {
        "openai-chat"
    } else if environment.has_base_url(Vendor::Anthropic) {
        "anthropic"
    } else {
        return Err(ChooseError(format!(
            "no model is named '{name}': choose one of the built-in names such as 'sonnet', say which API it \
             speaks (anthropic:{name}, openai:{name} or chat:{name}), set OPENAI_BASE_URL or ANTHROPIC_BASE_URL, \
             or add it under \"models\" in the settings"
        )));
    };
    Ok(usual_row(api))
}

/// What a model of this API can usually do.
fn usual_row(api: &str) -> ModelRow {
    let row = ModelRow { api: api.to_owned(), ..ModelRow::default() };
    match api {
        "anthropic" => ModelRow {
            context_window: 200_000,
            max_output_tokens: 32_000,
            thinking: true,
            reasoning: Reasoning::Adaptive,
            cache_breakpoints: true,
            images: true,
            ..row
        },
        "openai-responses" => ModelRow {
            context_window: 272_000,
            max_output_tokens: 32_000,
            thinking: true,
            images: true,
            ..row
        },
        _ => row,
    }
}

#[cfg(test)]
mod tests;

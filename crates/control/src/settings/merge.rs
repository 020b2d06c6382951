//! How the words of several files on one key come together, for those who show settings. What is in force is
//! worked out where files are read; the two must agree.

use ostler_proto::Json;

/// What becomes of several words on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The strongest file's counts.
    Strongest,
    /// Lists add up.
    AddsUp,
    /// The smallest number counts.
    Smallest,
    /// Each entry is merged by itself.
    ByEntry,
}

/// Keys whose entries stand for themselves.
const BY_ENTRY: &[&str] =
    &["permissions", "sandbox", "hooks", "env", "models", "read", "checkpoints", "session", "budget"];
/// Keys whose lists, at any depth, add up.
const ADDING_UP: &[&str] = &["permissions", "sandbox", "hooks", "passEnv", "claudeMdExcludes"];

/// How a key with such a value is merged.
pub fn merge(key: &str, value: &Json) -> Merge {
    let first = key.split('.').next().unwrap_or_default();
    let depth = key.split('.').count();
    match value {
        // A row of a table of models is one thing.
        Json::Object(_) if first == "models" && depth > 1 => Merge::Strongest,
        Json::Object(_) if BY_ENTRY.contains(&first) => Merge::ByEntry,
        Json::Array(_) if ADDING_UP.contains(&first) => Merge::AddsUp,
        Json::Number(_) if first == "budget" => Merge::Smallest,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            Merge::Strongest
        }
    }
}

/// What several words on a key, the strongest first, amount to.
pub(super) fn merged(key: &str, said: &[&Json]) -> Option<Json> {
    let strongest = *said.first()?;
    Some(match merge(key, strongest) {
        Merge::Strongest => strongest.clone(),
        Merge::AddsUp => {
            let mut items: Vec<Json> = Vec::new();
            for item in said.iter().filter_map(|value| value.as_array()).flatten() {
                if !items.contains(item) {
                    items.push(item.clone());
                }
            }
            Json::Array(items)
        }
        Merge::Smallest => {
            let number = |value: &&&Json| value.as_f64().unwrap_or(f64::INFINITY);
            let least = said.iter().min_by(|a, b| number(a).total_cmp(&number(b)));
            least.map_or_else(|| strongest.clone(), |value| (*value).clone())
        }
        Merge::ByEntry => {
            let mut entries = serde_json::Map::new();
            for name in said.iter().filter_map(|value| value.as_object()).flat_map(serde_json::Map::keys) {
                let words: Vec<&Json> = said.iter().filter_map(|value| value.get(name)).collect();
                if let Some(value) = merged(&format!("{key}.{name}"), &words) {
                    entries.insert(name.clone(), value);
                }
            }
            Json::Object(entries)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(key: &str, said: &[Json], expected: &Json) {
        assert_eq!(merged(key, &said.iter().collect::<Vec<_>>()).as_ref(), Some(expected), "{key}");
    }

    #[test]
    fn words_on_a_key_come_together_as_they_count() {
        check("model", &[json!("a"), json!("b")], &json!("a"));
        check("fallbackModel", &[json!(["a"]), json!(["b"])], &json!(["a"]));
        check("permissions.deny", &[json!(["a", "b"]), json!(["b", "c"])], &json!(["a", "b", "c"]));
        check("budget.usd", &[json!(5), json!(2.5)], &json!(2.5));
        check("budget", &[json!({"usd": 5}), json!({"usd": 2, "calls": 3})], &json!({"usd": 2, "calls": 3}));
        check("env", &[json!({"A": "1"}), json!({"A": "2", "B": "3"})], &json!({"A": "1", "B": "3"}));
        check(
            "models",
            &[json!({"m": {"api": "x"}}), json!({"m": {"name": "y"}})],
            &json!({"m": {"api": "x"}}),
        );
        check("hooks", &[json!({"Stop": [1]}), json!({"Stop": [2]})], &json!({"Stop": [1, 2]}));
        check("statusLine", &[json!({"a": 1}), json!({"b": 2})], &json!({"a": 1}));
    }
}

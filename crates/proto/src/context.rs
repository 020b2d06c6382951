//! What a request is made of and how two requests compare: sections of the system prompt, the fingerprint
//! that is kept of a request, and the ways in which a prompt cache is lost. Plain data; nothing here hashes.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// One section of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// What it is, for people who ask where tokens go.
    pub name: String,
    /// How long its words hold.
    pub scope: Scope,
    /// The words.
    pub text: String,
}

/// How long the words of a section hold. The order is the order in a request: what changes least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For every session of this version with these tools.
    Global,
    /// For one session.
    Session,
    /// For now: said within the conversation as a note, never in the system prompt.
    Ephemeral,
}

/// What is kept of a request, to tell whether the next one extends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The model that was asked.
    pub model: String,
    /// Of how it was asked: reasoning and effort.
    pub manner: String,
    /// Of the tools, in order.
    pub tools: String,
    /// Of the system prompt.
    pub system: String,
    /// Of all blocks of the conversation, in order.
    pub conversation: String,
    /// How many blocks those are.
    pub blocks: usize,
    /// Length of everything that a cache would hold.
    pub bytes: u64,
    /// The same in tokens, guessed.
    pub tokens: u64,
}

/// Why a request did not extend the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CacheBreak {
    /// Another model was asked.
    ModelChanged {
        /// The former one.
        from: String,
        /// The new one.
        to: String,
    },
    /// Other tools were offered. Both lists are empty where only a description or schema changed, or where
    /// the former request was another process's.
    ToolsChanged {
        /// Names that are new.
        added: Vec<String>,
        /// Names that are gone.
        removed: Vec<String>,
    },
    /// The system prompt reads differently.
    SystemChanged,
    /// Reasoning or effort were asked for differently.
    MannerChanged,
    /// The conversation was summed up.
    Compaction,
    /// The conversation was taken back to an earlier prompt.
    Rewind,
    /// The conversation changed in another way.
    HistoryEdited,
}

impl Section {
    /// A section.
    pub fn new(name: &str, scope: Scope, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), scope, text: text.into() }
    }
}

/// Older logs hold the words alone.
impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Words(String),
            Whole { name: String, scope: Scope, text: String },
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Words(text) => Self::new("System prompt", Scope::Session, text),
            Written::Whole { name, scope, text } => Self { name, scope, text },
        })
    }
}

impl fmt::Display for CacheBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelChanged { from, to } => write!(f, "the model changed from {from} to {to}"),
            Self::ToolsChanged { added, removed } => {
                f.write_str("the tools changed")?;
                let signed = |sign: &str, names: &[String]| -> Vec<String> {
                    names.iter().map(|name| format!("{sign}{name}")).collect()
                };
                let names = [signed("+", added), signed("-", removed)].concat();
                if names.is_empty() { Ok(()) } else { write!(f, " ({})", names.join(", ")) }
            }
            Self::SystemChanged => f.write_str("the system prompt changed"),
            Self::MannerChanged => f.write_str("reasoning or effort changed"),
            Self::Compaction => f.write_str("the conversation was compacted"),
            Self::Rewind => f.write_str("the conversation was rewound"),
            Self::HistoryEdited => f.write_str("the earlier conversation changed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sections_are_read_whole_or_as_words_alone() {
        let section = Section::new("Surroundings", Scope::Session, "here");
        let written = serde_json::to_value(&section).unwrap();
        assert_eq!(written, json!({"name": "Surroundings", "scope": "session", "text": "here"}));
        assert_eq!(Section::deserialize(&written).unwrap(), section);
        let words = Section::deserialize(json!("be kind")).unwrap();
        assert_eq!((words.scope, words.text.as_str()), (Scope::Session, "be kind"));
    }

    #[test]
    fn a_break_says_what_happened() {
        let tools = CacheBreak::ToolsChanged { added: vec!["A".into()], removed: vec!["B".into()] };
        assert_eq!(tools.to_string(), "the tools changed (+A, -B)");
        let unknown = CacheBreak::ToolsChanged { added: vec![], removed: vec![] };
        assert_eq!(unknown.to_string(), "the tools changed");
    }
}

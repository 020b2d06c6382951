//! The block of settings at the head of a markdown file. It reads what people write, quotes forgotten or not;
//! what stands in it is data and decides nothing here.

use serde::{Deserialize, de::DeserializeOwned};

/// A head longer than this is no head.
const LONGEST: usize = 64 * 1024;

/// One text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Texts {
    /// One, in which commas outside braces part several.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// The head, without its marks, and what follows it; no head where there is none.
pub(crate) fn split(text: &str) -> (Option<&str>, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return (None, text) };
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return (Some(&rest[..end]), &rest[end + line.len()..]);
        }
        end += line.len();
        if end > LONGEST {
            break;
        }
    }
    (None, text)
}

/// What a head says, or why it says nothing.
pub(crate) fn read<T: DeserializeOwned>(head: &str) -> Result<T, String> {
    if let Ok(value) = serde_saphyr::from_str(head) {
        return Ok(value);
    }
    // A pattern such as `**/*.rs` is no YAML without quotes, and everybody forgets them.
    serde_saphyr::from_str(&quoted(head)).map_err(|error| {
        let text = error.to_string();
        format!("its head cannot be read: {}", text.lines().next().unwrap_or_default())
    })
}

impl Texts {
    /// Each by itself.
    pub(crate) fn into_list(self) -> Vec<String> {
        let all = match self {
            Self::One(text) => split_commas(&text),
            Self::Many(texts) => texts,
        };
        all.into_iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    }
}

fn split_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if c != ',' || depth > 0 => part.push(c),
            Some(_) | None => parts.push(String::new()),
        }
    }
    parts
}

/// The same with quotes around values that begin as no plain text can.
fn quoted(head: &str) -> String {
    let quote = |line: &str| {
        let start = line.find(": ").map_or_else(|| line.find("- "), Some).map_or(line.len(), |at| at + 2);
        let (key, value) = line.split_at(start);
        let value = value.trim();
        if value.starts_with(['*', '{', '&', '!', '%', '@', '`']) {
            format!("{key}\"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            format!("{line}\n")
        }
    };
    head.lines().map(quote).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Deserialize)]
    struct Head {
        paths: Texts,
    }

    #[track_caller]
    fn check(head: &str, expected: &[&str]) {
        let text = format!("---\n{head}\n---\nbody\n");
        let (found, body) = split(&text);
        let read: Head = read(found.unwrap()).unwrap_or_else(|error| panic!("{head}: {error}"));
        assert_eq!(
            (read.paths.into_list(), body),
            (expected.iter().map(|&e| e.to_owned()).collect(), "body\n")
        );
    }

    #[test]
    fn patterns_are_read_as_people_write_them() {
        check("paths: src/**/*.rs", &["src/**/*.rs"]);
        check("paths: \"src/*.{ts,tsx}, lib/**\"", &["src/*.{ts,tsx}", "lib/**"]);
        check("paths:\n  - a/*.rs\n  - \"b/**\"", &["a/*.rs", "b/**"]);
        check("paths: [a.rs, b.rs]", &["a.rs", "b.rs"]);
        check("paths: **/*.rs", &["**/*.rs"]);
        check("other: 1\npaths:\n  - *.md\n  - {a,b}/*.rs", &["*.md", "{a,b}/*.rs"]);
    }

    #[test]
    fn what_is_no_head_stays_text() {
        for text in ["", "# a\n---\n", "---\nnever closed\n", " ---\na: 1\n---\n"] {
            assert_eq!(split(text), (None, text));
        }
        assert!(read::<Head>("paths: [").is_err() && read::<Head>("").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_split_into_what_it_was_made_of(text in "(---\n)?[-a: *{}\n]{0,60}") {
            let (head, body) = split(&text);
            prop_assert!(text.ends_with(body));
            if let Some(head) = head {
                prop_assert!(text[4..].starts_with(head));
                // It may be nonsense; reading it must only say so.
                let _ = read::<Head>(head);
            } else {
                prop_assert_eq!(body, text.as_str());
            }
        }
    }
}

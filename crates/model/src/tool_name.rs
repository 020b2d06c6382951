//! Tool names as an API allows them, and back. A name that fits stays; one that does not is
//! shortened and gets a mark made from the whole name, so that two never fall together.

use ostler_proto::ToolSpec;
use std::{borrow::Cow, collections::BTreeMap};

/// The way back from names on the wire to the tools' own.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolNames {
    originals: BTreeMap<String, String>,
}

impl ToolNames {
    /// Remembers every tool whose name the wire changes.
    pub(crate) fn new(tools: &[ToolSpec], longest: usize) -> Self {
        let changed = tools.iter().filter_map(|tool| match wire_name(&tool.name, longest) {
            Cow::Borrowed(_) => None,
            Cow::Owned(changed) => Some((changed, tool.name.clone())),
        });
        Self { originals: changed.collect() }
    }

    /// The tool's own name.
    pub(crate) fn original(&self, name: String) -> String {
        self.originals.get(&name).cloned().unwrap_or(name)
    }
}

/// The name on the wire: ASCII letters, digits, `_` and `-`, at most `longest` of them.
pub(crate) fn wire_name(name: &str, longest: usize) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= longest && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mark = format!("_{:08x}", fingerprint(name));
    let plain = name.chars().map(|c| if fits(c) { c } else { '_' });
    Cow::Owned(plain.take(longest - mark.len()).chain(mark.chars()).collect())
}

/// FNV-1a: stable across versions and machines, unlike the standard hasher.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_proto::Interrupt;
    use proptest::prelude::*;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            aliases: vec![],
            description: String::new(),
            schema: serde_json::json!({}),
            interrupt: Interrupt::Cancel,
            max_result: 0,
            guidance: String::new(),
        }
    }

    #[test]
    fn a_name_that_fits_stays() {
        assert_eq!(wire_name("mcp__files__read-all", 64), "mcp__files__read-all");
    }

    #[test]
    fn long_names_that_differ_only_at_the_end_stay_apart() {
        let (a, b) = ("x".repeat(80) + "a", "x".repeat(80) + "b");
        assert_ne!(wire_name(&a, 64), wire_name(&b, 64));
    }

    proptest! {
        #[test]
        fn every_name_fits_and_comes_back(name in "\\PC{0,90}") {
            let wire = wire_name(&name, 64).into_owned();
            prop_assert!(!wire.is_empty() && wire.len() <= 64);
            prop_assert!(wire.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert_eq!(ToolNames::new(&[tool(&name)], 64).original(wire), name);
        }
    }
}

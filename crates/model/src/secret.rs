//! A value that must not be seen. It never prints itself; only the code that puts it on the wire
//! may look inside.

use std::fmt;

/// An API key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key, without the white space that copying tends to add.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        let shown = format!("{:?}", Some(Secret::new(" sk-ant-123\n")));
        assert_eq!(shown, "Some(Secret(..))");
        assert_eq!(Secret::new(" sk-ant-123\n").expose(), "sk-ant-123");
    }
}

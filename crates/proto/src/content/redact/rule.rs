//! What a rule is made of. The rules themselves are tables beside this file.

/// One kind of secret.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What stands in the place of the secret.
    pub name: &'static str,
    /// Texts, in any case, at which the pattern begins; only there it is tried.
    pub keywords: &'static [&'static str],
    /// What may stand before.
    pub before: Before,
    /// A regular expression over bytes; the first group that takes part is the secret, else all of it is.
    pub pattern: &'static str,
    /// What must hold besides.
    pub check: Check,
    /// Texts with a secret. A `·` is left out, so that no scanner takes our own examples for secrets.
    pub examples: &'static [&'static str],
    /// Texts that only look like it and stay as they are.
    pub look_alikes: &'static [&'static str],
}

/// What may stand before a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Anything.
    Anything,
    /// No letter, digit or `_`, save in an escape such as `\n`.
    NoWord,
    /// The same, and no `-`.
    NoToken,
    /// The digits of a number of eight to ten.
    Number,
    /// Three or more letters, digits, `_`, `~`, `.` or `-`.
    Token,
}

/// What must hold of a secret besides its pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It is no placeholder.
    Real,
    /// It is no placeholder, or its own checksum is right (CRC-32 in base 62, as GitHub and npm do).
    Checksum,
    /// It looks drawn at random: letters and digits mixed.
    Random,
    /// It could be a password: random, or a mix of kinds of characters.
    Password,
    /// It is a password that stands where only one can, such as in an address.
    Plain,
    /// It opens a block of encoded lines, all of which is secret.
    Block,
}

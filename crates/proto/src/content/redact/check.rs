//! What tells a secret from what only looks like one, beyond its pattern. Plain counting; no network, no lists of words
//! beyond those that placeholders are made of.

use super::rule::{Before, Check};
use std::ops::Range;

/// Words and signs nobody has in a secret, in lower case.
const PLACEHOLDERS: [&str; 18] = [
    "example",
    "xxxx",
    "your-",
    "your_",
    "yourkey",
    "yourtoken",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "insert",
    "replace",
    "...",
    "****",
    "<",
    "${",
    "{{",
];
/// What documents write where a secret belongs.
const STAND_INS: [&str; 8] = ["password", "passwd", "pass", "pwd", "secret", "token", "key", "true"];
/// A secret drawn at random has more different characters than this.
const FEWEST_KINDS: usize = 6;
/// And no character so many times in a row.
const LONGEST_REPEAT: usize = 6;
/// Bits for each character; identifiers and words stay below.
const LEAST_ENTROPY: f64 = 3.0;
/// How often letters and digits take turns in a random text of sixteen characters, at the least.
const FEWEST_TURNS: usize = 3;
const SHORTEST_RANDOM: usize = 16;
const SHORTEST_SOLID: usize = 20;
const FEWEST_DIGITS: usize = 4;
/// Bytes of the longest block of encoded lines.
const LONGEST_BLOCK: usize = 64 * 1024;
/// Encoded characters that make a block more than a mention of one.
const SHORTEST_BODY: usize = 24;

/// Whether a rule may begin behind these bytes.
pub(super) fn fits_before(before: Before, text: &[u8]) -> bool {
    let last = text.last().copied();
    let is_escape = || matches!(text, [.., b'\\', b'n' | b'r' | b't']);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match before {
        Before::Anything => true,
        Before::NoWord => last.is_none_or(|byte| !is_word(byte)) || is_escape(),
        Before::NoToken => last.is_none_or(|byte| !is_word(byte) && byte != b'-') || is_escape(),
        Before::Number => {
            let digits = text.iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
            (8..=10).contains(&digits)
        }
        Before::Token => {
            let is_part = |byte: &u8| is_word(*byte) || b"~.-".contains(byte);
            text.len() >= 3 && text.iter().rev().take(3).all(is_part)
        }
    }
}

/// Where the secret that begins at a place ends, if it is one. `group` is the group of the pattern that found
/// it; in patterns of assignments the last is a value without quotes.
pub(super) fn end_of_secret(check: Check, text: &str, span: Range<usize>, group: usize) -> Option<usize> {
    let mut end = span.end;
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let secret = &text[span.start..end];
    let is_secret = match check {
        Check::Real => is_real(secret),
        Check::Checksum => is_real(secret) || has_checksum(secret),
        Check::Random => is_real(secret) && is_random(secret),
        Check::Password => is_password(secret, group, text[..span.start].ends_with('=')),
        Check::Plain => !is_placeholder(secret) && !is_reference(secret),
        Check::Block => return end_of_block(text, span.start, end),
    };
    is_secret.then_some(end)
}

/// Whether a value in a distinctive format is no placeholder.
fn is_real(secret: &str) -> bool {
    !is_placeholder(secret) && kinds(secret) >= FEWEST_KINDS
}

fn is_placeholder(secret: &str) -> bool {
    let lower = secret.to_ascii_lowercase();
    let repeats =
        lower.as_bytes().chunk_by(|left, right| left == right).any(|run| run.len() >= LONGEST_REPEAT);
    repeats || STAND_INS.contains(&lower.as_str()) || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// Whether a value stands for another: a variable, a call, a path, an address.
fn is_reference(value: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_dotted = value.contains('.') && value.split('.').all(is_name);
    value.starts_with(['$', '%', '@', '&', '/', '~', '!', '#'])
        || value.contains("://")
        || value.contains("::")
        || value.contains("->")
        || value.contains(['(', '{'])
        || is_dotted
}

/// Whether a value is words, each with a number at most, as names are: `SHA256_WITH_RSA2048`, `my-app-v2`.
fn is_compound(value: &str) -> bool {
    let mut parts = value.split(['_', '-', '.']);
    let is_word = |part: &str| {
        part.trim_start_matches(|c: char| c.is_ascii_alphabetic()).bytes().all(|c| c.is_ascii_digit())
    };
    value.contains(['_', '-', '.']) && parts.all(is_word)
}

fn is_random(secret: &str) -> bool {
    let core: String = secret.chars().filter(char::is_ascii_alphanumeric).collect();
    let digits = core.bytes().filter(u8::is_ascii_digit).count();
    // A word of this length with so many digits is no name, however they stand.
    let is_solid = core.len() == secret.len() && core.len() >= SHORTEST_SOLID && digits >= FEWEST_DIGITS;
    core.len() >= SHORTEST_RANDOM
        && !is_uuid(secret)
        && !is_reference(secret)
        && !is_compound(secret)
        && digits < core.len()
        && entropy(&core) >= LEAST_ENTROPY
        && (turns(secret) >= FEWEST_TURNS || is_solid || changes_often(secret))
}

fn is_password(secret: &str, group: usize, is_set: bool) -> bool {
    if is_placeholder(secret) || is_reference(secret) || is_uuid(secret) || kinds(secret) < FEWEST_KINDS {
        return false;
    }
    let is_quoted = group < 3;
    let classes: [fn(&u8) -> bool; 4] =
        [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit, u8::is_ascii_punctuation];
    let mixed = classes.iter().filter(|class| secret.as_bytes().iter().any(*class)).count();
    let has_digit = secret.bytes().any(|byte| byte.is_ascii_digit());
    let is_name =
        secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    match (is_quoted, is_name) {
        (true, _) | (false, false) => mixed >= 3 && has_digit,
        // Without quotes and with the letters of a name it must not read like one, save right behind `=`.
        (false, true) => turns(secret) >= FEWEST_TURNS || is_set && mixed >= 3 && has_digit,
    }
}

/// How often a letter follows a digit or the other way round.
fn turns(text: &str) -> usize {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_alphabetic());
    let pairs = text.as_bytes().windows(2);
    pairs.filter(|pair| kind(pair[0]) != kind(pair[1]) && pair.iter().all(u8::is_ascii_alphanumeric)).count()
}

/// Whether small letters, capitals and digits change more often than in words written together.
fn changes_often(text: &str) -> bool {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase(), byte.is_ascii_lowercase());
    let changes = text.as_bytes().windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    changes * 2 > text.len() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn kinds(text: &str) -> usize {
    counts(text).iter().filter(|count| **count > 0).count()
}

/// Shannon's entropy, in bits for each byte.
#[expect(clippy::cast_precision_loss, reason = "counts of bytes in one value")]
fn entropy(text: &str) -> f64 {
    let total = text.len() as f64;
    let shares = counts(text).into_iter().filter(|count| *count > 0).map(|count| count as f64 / total);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

fn counts(text: &str) -> [usize; 256] {
    let mut counts = [0; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    counts
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether the last six of the characters after the prefix are the checksum of those before.
fn has_checksum(token: &str) -> bool {
    let body = token.rsplit('_').next().unwrap_or_default();
    let Some((random, checksum)) = body.len().checked_sub(6).and_then(|at| body.split_at_checked(at)) else {
        return false;
    };
    let mut sum = crc32(random.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        let rest = (sum % 62) as u8;
        *digit = match rest {
            0..=9 => b'0' + rest,
            10..=35 => b'A' + rest - 10,
            _ => b'a' + rest - 36,
        };
        sum /= 62;
    }
    digits == checksum.as_bytes()
}

/// The CRC of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// The end of the block that begins at a place and whose first line ends at `head`.
fn end_of_block(text: &str, start: usize, head: usize) -> Option<usize> {
    let limit = text.floor_char_boundary(text.len().min(start + LONGEST_BLOCK));
    let rest = &text[head..limit];
    // Another block bounds the search, so that many openings without an end cost no more than one.
    let rest = &rest[..rest.find("-----BEGIN").unwrap_or(rest.len())];
    let body = rest.find("-----END").map_or(rest, |end| &rest[..end]);
    let encoded = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let longest =
        body.as_bytes().chunk_by(|left, right| encoded(left) && encoded(right)).map(<[u8]>::len).max();
    if longest.unwrap_or_default() < SHORTEST_BODY {
        return None;
    }
    if body.len() < rest.len() {
        let end = head + body.len() + "-----END".len();
        let line = &text[end..limit];
        let dashes = line.find("-----").filter(|at| !line[..*at].contains('\n'));
        return Some(end + dashes.map_or(0, |at| at + 5));
    }
    // Cut off before its end: its headers, and then the lines that are all code.
    let is_header = |line: &str| line.contains(": ");
    let is_code = |line: &str| !line.is_empty() && line.bytes().all(|byte| encoded(&byte) || byte == b'\\');
    let mut length = 0;
    let mut has_code = false;
    for line in body.split_inclusive('\n') {
        let words = line.trim();
        if !is_code(words) && (has_code || !words.is_empty() && !is_header(words)) {
            break;
        }
        has_code |= is_code(words);
        length += line.len();
    }
    Some(head + body[..length].trim_end().len())
}

//! Brace expansion, which bash does on the text before anything else. Only forms with one clear
//! meaning are expanded; for the rest the words are not known.

use super::super::syntax::Part;

/// More words than this are not listed.
const MOST_WORDS: usize = 64;
/// More braces than this are not looked at.
const MOST_BRACES: usize = 32;

/// A character of unquoted text, or any other part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    Part(Part),
}

/// The words that the parts of one word become, or nothing if that is not clear.
pub(super) fn expand(parts: &[Part]) -> Option<Vec<Vec<Part>>> {
    let has_brace = |part: &Part| matches!(part, Part::Literal(text) if text.contains('{'));
    if !parts.iter().any(has_brace) {
        return Some(vec![parts.to_vec()]);
    }
    let tokens = tokens_of(parts);
    if !tokens.contains(&Token::Char(',')) && !has_dots(&tokens) {
        return Some(vec![parts.to_vec()]);
    }
    let braces = tokens.iter().filter(|token| **token == Token::Char('{')).count();
    if braces > MOST_BRACES || joins_oddly(&tokens) {
        return None;
    }
    let words = words_of(&tokens)?;
    Some(words.into_iter().map(parts_of).collect())
}

fn tokens_of(parts: &[Part]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for part in parts {
        match part {
            Part::Literal(text) => tokens.extend(text.chars().map(Token::Char)),
            Part::Quoted(_)
            | Part::Double { .. }
            | Part::Parameter(_)
            | Part::Command(_)
            | Part::Process { .. }
            | Part::Arithmetic(_) => tokens.push(Token::Part(part.clone())),
        }
    }
    tokens
}

fn parts_of(tokens: Vec<Token>) -> Vec<Part> {
    let mut parts = Vec::new();
    for token in tokens {
        match (token, parts.last_mut()) {
            (Token::Char(c), Some(Part::Literal(text))) => text.push(c),
            (Token::Char(c), _) => parts.push(Part::Literal(c.to_string())),
            (Token::Part(part), _) => parts.push(part),
        }
    }
    parts
}

/// Whether the pieces could join to something else: bash expands the text, so that `$x{a,b}` becomes
/// `$xa` and `$xb`.
fn joins_oddly(tokens: &[Token]) -> bool {
    let is_open = |token: &Token| matches!(token, Token::Part(Part::Parameter(name)) if !name.braced);
    let is_brace = |token: &Token| matches!(token, Token::Char('{' | ',' | '}'));
    tokens.contains(&Token::Char('$'))
        || tokens.windows(2).any(|pair| is_open(&pair[0]) && is_brace(&pair[1]))
}

fn has_dots(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| pair[0] == Token::Char('.') && pair[1] == Token::Char('.'))
}

fn words_of(tokens: &[Token]) -> Option<Vec<Vec<Token>>> {
    let Some(open) = tokens.iter().position(|token| *token == Token::Char('{')) else {
        return Some(vec![tokens.to_vec()]);
    };
    // An open brace without its other half means this or that, depending on what else is there.
    let close = matching(tokens, open)?;
    let inside = tokens.get(open + 1..close)?;
    let before = tokens.get(..open)?;
    let mut middle = Vec::new();
    let pieces = at_commas(inside);
    if pieces.len() > 1 {
        for piece in pieces {
            middle.extend(words_of(piece)?);
        }
    } else if has_dots(inside) {
        middle = sequence(inside)?;
    } else {
        for mut word in words_of(inside)? {
            word.insert(0, Token::Char('{'));
            word.push(Token::Char('}'));
            middle.push(word);
        }
    }
    let after = words_of(tokens.get(close + 1..)?)?;
    if middle.len() * after.len() > MOST_WORDS {
        return None;
    }
    let joined = middle.iter().flat_map(|middle| after.iter().map(move |after| (middle, after)));
    Some(joined.map(|(middle, after)| [before, middle, after].concat()).collect())
}

fn matching(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Char('{') => depth += 1,
            Token::Char('}') => {
                depth -= 1;
                if depth == 0 {
                    return Some(index);
                }
            }
            Token::Char(_) | Token::Part(_) => {}
        }
    }
    None
}

fn at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    tokens
        .split(|token| {
            match token {
                Token::Char('{') => depth += 1,
                Token::Char('}') => depth = depth.saturating_sub(1),
                Token::Char(_) | Token::Part(_) => {}
            }
            *token == Token::Char(',') && depth == 0
        })
        .collect()
}

/// `1..3`, `a..c` and the like; with a step it is not clear enough.
fn sequence(tokens: &[Token]) -> Option<Vec<Vec<Token>>> {
    let chars = tokens.iter().map(|token| match token {
        Token::Char(c) => Some(*c),
        Token::Part(_) => None,
    });
    let text: String = chars.collect::<Option<_>>()?;
    let (from, to) = text.split_once("..")?;
    let single = |text: &str| text.chars().next().filter(|c| c.is_ascii_lowercase() && text.len() == 1);
    let values: Vec<String> = if let (Some(from), Some(to)) = (single(from), single(to)) {
        range(u32::from(from).into(), u32::from(to).into())?
            .into_iter()
            .map(|value| u8::try_from(value).map(|byte| char::from(byte).to_string()))
            .collect::<Result<_, _>>()
            .ok()?
    } else {
        range(plain_number(from)?, plain_number(to)?)?.iter().map(ToString::to_string).collect()
    };
    Some(values.iter().map(|value| value.chars().map(Token::Char).collect()).collect())
}

fn plain_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let padded = digits.len() > 1 && digits.starts_with('0');
    let is_plain = !padded && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_plain { text.parse().ok().filter(|value| *value != 0 || text == "0") } else { None }
}

fn range(from: i64, to: i64) -> Option<Vec<i64>> {
    let most = i64::try_from(MOST_WORDS).ok()?;
    if from.checked_sub(to)?.checked_abs()? >= most {
        return None;
    }
    Some(if from <= to { (from..=to).collect() } else { (to..=from).rev().collect() })
}

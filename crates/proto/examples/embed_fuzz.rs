//! Throws made-up lines and values at `embed` and `tokenize` for some seconds: `embed_fuzz [SECONDS] [SEED]`.
//! Stops at the first value that does not come back, or that came out of nothing.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use ostler_proto::{
    Json,
    embed::{Sentinel, Token, embed, tokenize},
};
use std::{
    collections::BTreeMap,
    error::Error,
    time::{Duration, Instant},
};

/// Pieces that lines and data are made of; the likeliest to confuse.
const PIECES: [&str; 24] = [
    "a",
    " ",
    "'",
    "\"",
    "\\",
    "$",
    "$(",
    ")",
    "(",
    "{",
    "}",
    "${X}",
    "$X",
    "$Y",
    "|",
    "&&",
    ";",
    "<",
    ">",
    "\n",
    "ostler0v",
    "0123456789abcdef0123456789abcdef",
    "z",
    "é🦀",
];

/// A small generator (xorshift64*): the same seed gives the same run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % limit
    }

    fn text(&mut self, words: &[String]) -> String {
        let piece = |random: &mut Self| match random.below(PIECES.len() + words.len()) {
            at if at < PIECES.len() => PIECES[at].to_owned(),
            at => {
                let word = &words[at - PIECES.len()];
                // Sometimes only the start of one.
                word[..random.below(word.len()) + random.below(2)].to_owned()
            }
        };
        (0..self.below(14)).map(|_| piece(self)).collect()
    }

    fn value(&mut self, depth: usize) -> Json {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Json::Null,
            1 => Json::from(self.next().is_multiple_of(2)),
            2 => Json::from(self.next().cast_signed()),
            3 => Json::from(f64::from_bits(self.next())),
            4 => Json::from(self.text(&[])),
            5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => (0..self.below(4)).map(|_| (self.text(&[]), self.value(depth - 1))).collect(),
        }
    }
}

fn values<'a>(tokens: &'a [Token], found: &mut Vec<&'a Json>) {
    for token in tokens {
        match token {
            Token::Value(value) => found.push(value),
            Token::Nested(inner) | Token::Joined(inner) => values(inner, found),
            Token::Text(_) | Token::Operator(_) => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().as_deref().unwrap_or("10").parse()?;
    let seed: u64 = args.next().as_deref().unwrap_or("1").parse()?;
    let mut random = Random(seed.max(1));
    let began = Instant::now();
    let (mut runs, mut understood, mut forged) = (0_u64, 0_u64, 0_u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        let sentinel = Sentinel::new(u128::from(random.next()) << 64 | u128::from(random.next()));
        let (embedded, structured) = (random.value(3), random.value(3));
        let word = embed(&embedded, &sentinel);
        let alone = tokenize(&format!("x '{word}'"), &BTreeMap::new(), &sentinel)?;
        if alone.get(1) != Some(&Token::Value(embedded.clone())) {
            return Err(format!("run {runs}: {embedded} came back as {alone:?}").into());
        }
        // Data that knows the true word must still be data.
        let data = random.text(std::slice::from_ref(&word));
        let vars = BTreeMap::from([("X".to_owned(), Json::from(data)), ("Y".to_owned(), structured.clone())]);
        let line = random.text(std::slice::from_ref(&word));
        if let Ok(tokens) = tokenize(&line, &vars, &sentinel) {
            understood += 1;
            let mut found = Vec::new();
            values(&tokens, &mut found);
            let known = |value: &&Json| **value == embedded || **value == structured;
            forged += u64::from(line.contains("ostler0v") && found.is_empty());
            if let Some(odd) = found.into_iter().find(|value| !known(value)) {
                return Err(format!("run {runs}: {odd} came out of {line:?}").into());
            }
            if !line.contains(&word)
                && !line.contains('Y')
                && !tokens.iter().all(|token| !matches!(token, Token::Value(_)))
            {
                return Err(format!("run {runs}: a value came out of {line:?} and {vars:?}").into());
            }
        }
        runs += 1;
    }
    println!("{runs} lines, {understood} understood, {forged} look-alikes taken for the text they are");
    Ok(())
}

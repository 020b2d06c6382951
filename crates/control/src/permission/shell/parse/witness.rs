//! The second opinion: tree-sitter's grammar must find the same commands with the same words in the
//! same places. It can only refuse; what the tree says is the first reader's word alone.

use super::super::syntax::Span;
use super::{Mask, NotUnderstood, Notes, Result};
use std::{collections::BTreeSet, ops::ControlFlow};
use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// How often the grammar may come up for air. A text within the limits needs a tenth of it.
const MOST_STEPS: usize = 2_000;

/// The spans of a command's words.
type Words = Vec<(usize, usize)>;

/// Refuses unless the second reader sees what the first has noted.
pub(super) fn agrees(text: &str, notes: &Notes) -> Result<()> {
    compare(&masked(text, &notes.masks), &noted(notes), 0)
}

/// The same for the body of a here-document, of which only the expansions are shown.
pub(super) fn agrees_about_body(text: &str, notes: &Notes, body: Span) -> Result<()> {
    if notes.commands.is_empty() {
        return Ok(());
    }
    // A command in front makes the expansions arguments, as they are for the shell.
    let front = b"true ";
    let shown = masked(text, &notes.masks);
    let shown = shown.get(body.start..body.end).unwrap_or_default();
    let mut first = noted(notes);
    for (start, end) in first.iter_mut().flatten() {
        *start = *start + front.len() - body.start;
        *end = *end + front.len() - body.start;
    }
    compare(&[front.as_slice(), shown].concat(), &first, front.len())
}

fn noted(notes: &Notes) -> Vec<Words> {
    let spans = |words: &Vec<Span>| words.iter().map(|span| (span.start, span.end)).collect();
    notes.commands.iter().map(spans).collect()
}

/// Compares the commands that begin at or behind `from`.
fn compare(shown: &[u8], first: &[Words], from: usize) -> Result<()> {
    let refuse = |why: &str, at: usize| NotUnderstood { why: why.to_owned(), at };
    let tree = read(shown).ok_or_else(|| refuse("a second reading of it did not end", 0))?;
    if tree.root_node().has_error() {
        return Err(refuse("a second reading of it found an error", 0));
    }
    let first: BTreeSet<&Words> = first.iter().collect();
    let second = commands(&tree);
    let second = second.iter().filter(|words| words.first().is_some_and(|(at, _)| *at >= from)).collect();
    match first.symmetric_difference(&second).filter_map(|words| words.first()).min() {
        Some((at, _)) => Err(refuse("two readings of it disagree", *at)),
        None => Ok(()),
    }
}

/// The text with each masked span shown as its mask says, at the same length.
fn masked(text: &str, masks: &[(Span, Mask)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (span, mask) in masks {
        let (shown, filler) = match mask {
            Mask::Blank => ("", b' '),
            Mask::Shown(shown) => (*shown, b' '),
            Mask::Word => ("", b'x'),
        };
        let shown = shown.bytes().chain(std::iter::repeat(filler));
        for (byte, shown) in bytes.iter_mut().take(span.end).skip(span.start).zip(shown) {
            *byte = shown;
        }
    }
    bytes
}

fn read(text: &[u8]) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut steps = 0;
    let mut progress = |_: &tree_sitter::ParseState| {
        steps += 1;
        if steps > MOST_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| text.get(at..).unwrap_or_default(), None, Some(options))
}

/// The spans of each command's words, as the second reader sees them.
fn commands(tree: &Tree) -> BTreeSet<Words> {
    let mut found = BTreeSet::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        let words = match node.kind() {
            "command" => command_words(node),
            "declaration_command" | "unset_command" => declaration_words(node),
            _ => Vec::new(),
        };
        if !words.is_empty() {
            found.insert(words);
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
}

fn command_words(node: Node<'_>) -> Words {
    let mut words = Vec::new();
    let mut cursor = node.walk();
    let mut more = cursor.goto_first_child();
    while more {
        if matches!(cursor.field_name(), Some("name" | "argument")) {
            words.push(span(cursor.node()));
        }
        more = cursor.goto_next_sibling();
    }
    words
}

fn declaration_words(node: Node<'_>) -> Words {
    let mut cursor = node.walk();
    node.children(&mut cursor).map(span).collect()
}

fn span(node: Node<'_>) -> (usize, usize) {
    (node.start_byte(), node.end_byte())
}

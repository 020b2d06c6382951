//! Characters without a shape of their own: what reorders text, what carries text nobody sees, what only fills.
//! Where a script or an emoji needs one it stays; everywhere else it is spelled out. Never judges words.

use super::rewrite::{End, Rewrite, position, run_of, spell};
use super::{Behaviours, script};
use std::borrow::Cow;
use std::fmt::Write as _;

/// What becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each is spelled out.
    Spell,
    /// The same; blanks that are no space, direction marks and private characters too, whatever is beside them.
    SpellAll,
    /// The same as `Spell`; of tag characters only the number is told, so that their text reaches no model.
    Summarise,
    /// Only tag characters, misplaced selectors and bidirectional controls are spelled out.
    File,
}

/// Why a character is not simply shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bidi,
    /// A weak mark of direction, honest on a line that runs from right to left.
    Direction,
    Tag,
    Selector,
    Invisible,
    Private,
    Mark,
    /// Looks like a space and is none.
    Blank,
}

/// What stands to the left of a place.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Whether anything does.
    any: bool,
    /// The character there; nothing if it was spelled out.
    character: Option<char>,
    /// How many combining marks it ends with.
    marks: usize,
    /// Whether a letter that runs from right to left stands on the line.
    leftward: bool,
}

/// More marks than this on one letter are no writing (the longest honest stacks, in Tibetan, are shorter).
const MOST_MARKS: usize = 8;
/// A longer row of icons is no decoration.
const MOST_ICONS: usize = 3;
const BLACK_FLAG: char = '\u{1f3f4}';
/// The flags made of tag characters: England, Scotland and Wales.
const FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Cleans a whole text.
pub(super) fn whole<'a>(text: &'a str, manner: Manner, counts: &mut Behaviours) -> Cow<'a, str> {
    piece(text, manner, End::Final, &mut Left::default(), counts).0
}

/// Cleans a piece, and says how much of it is settled; the rest comes again with the next piece.
pub(super) fn piece<'a>(
    text: &'a str,
    manner: Manner,
    end: End,
    left: &mut Left,
    counts: &mut Behaviours,
) -> (Cow<'a, str>, usize) {
    let mut rewrite = Rewrite::new(text);
    let mut at = 0;
    while let Some(found) = position(&text.as_bytes()[at..], |byte| byte >= 0x80) {
        if found > 0 {
            left.pass_ascii(&text.as_bytes()[at..at + found]);
            at += found;
        }
        let rest = &text[at..];
        let Some(step) = look(rest, manner, end, left) else { return (rewrite.finish(at), at) };
        match step {
            Step::Keep(length) => at += length,
            Step::Spell { kind, length } => {
                spell_out(kind, &rest[..length], manner, rewrite.replace(at..at + length), counts);
                left.replaced(kind);
                at += length;
            }
        }
    }
    left.pass_ascii(&text.as_bytes()[at..]);
    (rewrite.finish(text.len()), text.len())
}

/// What to do with the start of a text.
enum Step {
    /// So many bytes stay.
    Keep(usize),
    /// So many bytes are of a kind and are spelled out.
    Spell { kind: Kind, length: usize },
}

impl Left {
    fn pass(&mut self, character: char) {
        // A joiner that was let pass must not make room for more marks.
        if !matches!(character, '\u{200c}' | '\u{200d}') {
            self.marks = if script::is_mark(character) { self.marks + 1 } else { 0 };
        }
        self.leftward |= script::runs_leftward(character);
        self.any = true;
        self.character = Some(character);
    }

    fn pass_ascii(&mut self, text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.leftward &= !text.contains(&b'\n');
        self.pass(char::from(*last));
    }

    fn replaced(&mut self, kind: Kind) {
        if kind != Kind::Mark {
            self.marks = 0;
        }
        self.any = true;
        self.character = None;
    }
}

/// Judges the first character of a text, which is not ASCII; nothing if that takes more text.
fn look(rest: &str, manner: Manner, end: End, left: &mut Left) -> Option<Step> {
    let mut characters = rest.chars();
    let character = characters.next()?;
    let after = characters.as_str();
    if character == BLACK_FLAG {
        return flag(after, end, left);
    }
    let Some(kind) = suspicion(character, manner, left) else {
        left.pass(character);
        return Some(Step::Keep(character.len_utf8()));
    };
    if after.is_empty() && end == End::More {
        return None;
    }
    let next = after.chars().next();
    let is_honest = match kind {
        Kind::Bidi | Kind::Tag | Kind::Mark | Kind::Blank | Kind::Private => false,
        Kind::Direction => manner != Manner::SpellAll && is_beside_leftward(left, next),
        Kind::Selector => left.character.is_some_and(|before| is_variant(before, character)),
        Kind::Invisible => is_needed(character, manner, left, next),
    };
    if is_honest {
        left.pass(character);
        return Some(Step::Keep(character.len_utf8()));
    }
    let row = match kind {
        Kind::Tag | Kind::Private => rest.find(|next| shapeless(next) != Some(kind)),
        Kind::Bidi | Kind::Direction | Kind::Selector | Kind::Invisible | Kind::Mark | Kind::Blank => {
            Some(run_of(character, rest) * character.len_utf8())
        }
    };
    let length = row.unwrap_or(rest.len());
    if length == rest.len() && end == End::More {
        return None;
    }
    let row = &rest[..length];
    if kind == Kind::Private && manner != Manner::SpellAll && is_decoration(row) {
        left.pass(character);
        return Some(Step::Keep(length));
    }
    Some(Step::Spell { kind, length })
}

/// A black flag, with the tags that make it another flag.
fn flag(after: &str, end: End, left: &mut Left) -> Option<Step> {
    if end == End::More && FLAGS.iter().any(|tags| tags.len() > after.len() && tags.starts_with(after)) {
        return None;
    }
    left.pass(BLACK_FLAG);
    let tags = FLAGS.iter().find(|tags| after.starts_with(**tags)).map_or(0, |tags| tags.len());
    Some(Step::Keep(BLACK_FLAG.len_utf8() + tags))
}

/// What a character might be up to where it stands.
fn suspicion(character: char, manner: Manner, left: &Left) -> Option<Kind> {
    let kind = shapeless(character);
    match (manner, kind) {
        (Manner::File, Some(Kind::Bidi | Kind::Tag | Kind::Selector))
        | (Manner::Spell | Manner::Summarise | Manner::SpellAll, Some(_)) => kind,
        (Manner::File, _) => None,
        (Manner::SpellAll, None) if character.is_whitespace() || character == '\u{2800}' => Some(Kind::Blank),
        (Manner::Spell | Manner::Summarise | Manner::SpellAll, None) => {
            (left.marks >= MOST_MARKS && script::is_mark(character)).then_some(Kind::Mark)
        }
    }
}

/// Characters that have no shape, whatever is beside them, or none anybody agreed on.
fn shapeless(character: char) -> Option<Kind> {
    Some(match character {
        // The bulk of all text, told apart first.
        '\0'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{370}'..='\u{61b}' | '\u{3165}'..='\u{d7ff}' => {
            return None;
        }
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => Kind::Bidi,
        '\u{200e}' | '\u{200f}' | '\u{61c}' => Kind::Direction,
        '\u{e0000}'..='\u{e007f}' => Kind::Tag,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            Kind::Selector
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{3164}'
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e00ff}'
        | '\u{e01f0}'..='\u{e0fff}' => Kind::Invisible,
        private if script::is_private(private) => Kind::Private,
        // The last two of each plane are no characters.
        other if u32::from(other) & 0xfffe == 0xfffe => Kind::Invisible,
        _ => return None,
    })
}

/// Whether a selector after this character means a variant of it.
fn is_variant(before: char, selector: char) -> bool {
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => script::is_pictograph(before) || script::is_key(before),
        '\u{fe00}'..='\u{fe0d}' => script::is_ideograph(before) || script::has_variants(before),
        '\u{180b}'..='\u{180f}' => script::is_mongolian(before),
        _ => script::is_ideograph(before),
    }
}

/// Whether a script or an emoji needs an invisible character here.
fn is_needed(character: char, manner: Manner, left: &Left, next: Option<char>) -> bool {
    let before = |test: fn(char) -> bool| left.character.is_some_and(test);
    let after = |test: fn(char) -> bool| next.is_some_and(|next| is_settled(next) && test(next));
    match character {
        '\u{200c}' | '\u{200d}' => {
            let is_doubled = before(|before| matches!(before, '\u{200c}' | '\u{200d}'));
            let is_in_emoji = character == '\u{200d}'
                && before(|before| before == '\u{fe0f}' || script::is_pictograph(before))
                && after(script::is_pictograph);
            is_in_emoji || !is_doubled && (before(script::joins) || after(script::joins))
        }
        '\u{200b}' => before(script::breaks_invisibly) && after(script::breaks_invisibly),
        '\u{34f}' => before(|before| matches!(before, '\u{590}'..='\u{5ff}')),
        '\u{115f}' => next.is_some_and(|next| matches!(next, '\u{1161}'..='\u{11a7}')),
        '\u{1160}' => before(|before| matches!(before, '\u{1100}'..='\u{115e}' | '\u{a960}'..='\u{a97c}')),
        '\u{180e}' => before(script::is_mongolian),
        '\u{13430}'..='\u{1343f}' => before(|before| matches!(before, '\u{13000}'..='\u{1345f}')),
        // The mark of the byte order may open a text.
        '\u{feff}' => !left.any && manner != Manner::SpellAll,
        _ => false,
    }
}

fn is_beside_leftward(left: &Left, next: Option<char>) -> bool {
    left.leftward || next.is_some_and(|next| is_settled(next) && script::runs_leftward(next))
}

/// Whether a character is shown as it is whatever stands before it, so that others may be judged by it.
fn is_settled(character: char) -> bool {
    shapeless(character).is_none() && !script::is_mark(character)
}

fn is_decoration(row: &str) -> bool {
    row.chars().count() <= MOST_ICONS && row.chars().all(script::is_icon)
}

fn spell_out(kind: Kind, row: &str, manner: Manner, out: &mut String, counts: &mut Behaviours) {
    let count = row.chars().count();
    let counter = match kind {
        Kind::Tag if manner == Manner::Summarise => {
            counts.tags_removed += count;
            let characters = if count == 1 { "character" } else { "characters" };
            // Writing to a string cannot fail.
            let _ = write!(out, "[{count} hidden tag {characters}]");
            return;
        }
        Kind::Bidi | Kind::Direction => &mut counts.bidi_made_visible,
        Kind::Tag => &mut counts.tags_made_visible,
        Kind::Selector => &mut counts.selectors_made_visible,
        Kind::Invisible | Kind::Blank => &mut counts.invisible_made_visible,
        Kind::Private => &mut counts.private_use_made_visible,
        Kind::Mark => &mut counts.marks_made_visible,
    };
    *counter += count;
    let mut rest = row;
    while let Some(character) = rest.chars().next() {
        let run = run_of(character, rest);
        spell(character, run, out);
        rest = &rest[run * character.len_utf8()..];
    }
}

//! Terminal sequences (ECMA-48) and control characters. No sequence takes readable text with it: one that never
//! ends loses its opening only, so that nothing can hide behind it.

use super::rewrite::{End, Rewrite, position, run_of, spell};
use super::{Behaviours, style::Style};
use std::borrow::Cow;

/// What becomes of sequences and controls; newline and tab stay, save in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Sequences go, save colours and weights; controls are spelled out.
    KeepStyle,
    /// Sequences go; controls are spelled out.
    Remove,
    /// Sequences and controls go.
    RemoveAll,
    /// The same as `Remove`, and newlines and tabs are spelled out too.
    OneLine,
    /// Nothing is taken for a sequence: each control is spelled out.
    Spell,
}

/// A sequence at the start of a text.
struct Sequence {
    length: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `ESC [ … m`.
    Style,
    Other,
    /// It may go on behind the end of the text.
    Open,
}

/// Cleans a whole text.
pub(super) fn whole<'a>(text: &'a str, manner: Manner, counts: &mut Behaviours) -> Cow<'a, str> {
    piece(text, manner, End::Final, counts).0
}

/// Cleans a piece, and says how much of it is settled; the rest comes again with the next piece. Text in pieces
/// keeps no styles, and so nothing has to be known of the pieces before.
pub(super) fn piece<'a>(
    text: &'a str,
    manner: Manner,
    end: End,
    counts: &mut Behaviours,
) -> (Cow<'a, str>, usize) {
    let mut pass = Pass { text, manner, end, rewrite: Rewrite::new(text), style: Style::default(), counts };
    let mut at = 0;
    while let Some(found) = next_control(&text.as_bytes()[at..], manner) {
        at += found;
        match pass.control(at) {
            Some(length) => at += length,
            None => return (pass.rewrite.finish(at), at),
        }
    }
    if end == End::Final && pass.style.is_on() {
        pass.counts.style_reset = true;
        pass.rewrite.replace(text.len()..text.len()).push_str("\u{1b}[0m");
    }
    (pass.rewrite.finish(text.len()), text.len())
}

/// One piece being cleaned.
struct Pass<'a, 'b> {
    text: &'a str,
    manner: Manner,
    end: End,
    rewrite: Rewrite<'a>,
    style: Style,
    counts: &'b mut Behaviours,
}

impl Pass<'_, '_> {
    /// Deals with the control at a place, and says how long it was; nothing if it must wait for more text.
    fn control(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let character = rest.chars().next()?;
        if self.manner != Manner::Spell
            && let Some(Sequence { length, kind }) = sequence(rest)
        {
            return self.take(at, length, kind);
        }
        match (character, self.manner) {
            (_, Manner::Spell) | ('\r', Manner::OneLine) => {}
            ('\r', _) => return self.carriage_return(at),
            ('\u{8}', Manner::KeepStyle | Manner::RemoveAll) => {
                if let Some(length) = self.overstrike(at) {
                    return Some(length);
                }
            }
            _ => {}
        }
        let count = run_of(character, rest);
        let length = count * character.len_utf8();
        if self.end == End::More && length == rest.len() {
            return None;
        }
        let out = self.rewrite.replace(at..at + length);
        if self.manner == Manner::RemoveAll {
            self.counts.controls_removed += count;
        } else {
            self.counts.controls_made_visible += count;
            spell(character, count, out);
        }
        Some(length)
    }

    fn take(&mut self, at: usize, length: usize, kind: Kind) -> Option<usize> {
        if kind == Kind::Open && self.end == End::More {
            return None;
        }
        let out = self.rewrite.replace(at..at + length);
        if (kind, self.manner) == (Kind::Style, Manner::KeepStyle)
            && let Some(kept) = self.style.apply(&self.text[at + 2..at + length - 1])
        {
            self.counts.styles_kept += 1;
            out.push_str(&kept);
        } else {
            self.counts.escapes_removed += 1;
        }
        Some(length)
    }

    /// A return before a newline is part of it. Alone it would overwrite the line; here each state stays readable.
    fn carriage_return(&mut self, at: usize) -> Option<usize> {
        let count = run_of('\r', &self.text[at..]);
        let after = &self.text[at + count..];
        if after.is_empty() && self.end == End::More {
            return None;
        }
        self.counts.returns_made_newlines += count;
        let out = self.rewrite.replace(at..at + count);
        if !after.is_empty() && !after.starts_with('\n') {
            out.push('\n');
        }
        Some(count)
    }

    /// A backspace that only makes bold or underlined text, as manual pages do: `x BS x`, `_ BS x`.
    fn overstrike(&mut self, at: usize) -> Option<usize> {
        let next = *self.text.as_bytes().get(at + 1)?;
        let before = at.checked_sub(1).filter(|before| *before >= self.rewrite.done())?;
        let previous = self.text.as_bytes()[before];
        if !next.is_ascii_graphic() || previous != next && previous != b'_' {
            return None;
        }
        self.counts.controls_removed += 1;
        if previous == next {
            self.rewrite.replace(at..at + 2);
            return Some(2);
        }
        self.rewrite.replace(before..at + 1);
        Some(1)
    }
}

/// How far the next control is that is not a plain newline or tab.
fn next_control(bytes: &[u8], manner: Manner) -> Option<usize> {
    let keeps_lines = manner != Manner::OneLine;
    let mut at = 0;
    loop {
        at += position(&bytes[at..], |byte| {
            byte < 0x20 && !(keeps_lines && matches!(byte, b'\n' | b'\t')) || matches!(byte, 0x7f | 0xc2)
        })?;
        // The first of two bytes: of a control, or of something else.
        if bytes[at] != 0xc2 || matches!(bytes.get(at + 1), Some(0x80..=0x9f)) {
            return Some(at);
        }
        at += 1;
    }
}

/// The sequence a text starts with. What has no end in the text is only its opening.
fn sequence(text: &str) -> Option<Sequence> {
    let bytes = text.as_bytes();
    let sequence = |length, kind| Some(Sequence { length, kind });
    match (bytes.first(), bytes.get(1)) {
        (Some(0x1b), Some(b'[')) => Some(control_sequence(bytes, Kind::Style)),
        (Some(0xc2), Some(0x9b)) => Some(control_sequence(bytes, Kind::Other)),
        (Some(0x1b), Some(b']' | b'P' | b'X' | b'^' | b'_'))
        | (Some(0xc2), Some(0x90 | 0x98 | 0x9d | 0x9e | 0x9f)) => Some(string(bytes)),
        (Some(0x1b), None) => sequence(1, Kind::Open),
        (Some(0x1b), Some(0x20..=0x7e)) => {
            let between = bytes[1..].iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
            match bytes.get(1 + between) {
                Some(0x30..=0x7e) => sequence(2 + between, Kind::Other),
                Some(_) => sequence(1 + between, Kind::Other),
                None => sequence(1 + between, Kind::Open),
            }
        }
        (Some(0x1b), Some(_)) => sequence(1, Kind::Other),
        _ => None,
    }
}

/// Parameters, intermediates, then one final character.
fn control_sequence(bytes: &[u8], style: Kind) -> Sequence {
    let parameters = bytes[2..].iter().take_while(|byte| matches!(byte, 0x30..=0x3f)).count();
    let between = bytes[2 + parameters..].iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
    let length = 2 + parameters + between;
    match bytes.get(length) {
        Some(b'm') if between == 0 => Sequence { length: length + 1, kind: style },
        Some(0x40..=0x7e) => Sequence { length: length + 1, kind: Kind::Other },
        Some(_) => Sequence { length, kind: Kind::Other },
        None => Sequence { length, kind: Kind::Open },
    }
}

/// Titles, links, the clipboard and the like, up to BEL, `ESC \` or its one-character form.
fn string(bytes: &[u8]) -> Sequence {
    let opening = Sequence { length: 2, kind: Kind::Other };
    let open = Sequence { length: 2, kind: Kind::Open };
    let mut end = 2;
    loop {
        let Some(found) = bytes[end..].iter().position(|byte| *byte < 0x20 || *byte == 0xc2) else {
            return open;
        };
        end += found;
        return match (bytes[end], bytes.get(end + 1)) {
            (0x07, _) => Sequence { length: end + 1, kind: Kind::Other },
            (0x1b, Some(b'\\')) | (0xc2, Some(0x9c)) => Sequence { length: end + 2, kind: Kind::Other },
            (0x1b, None) => open,
            (0xc2, Some(0xa0..=0xbf)) => {
                end += 2;
                continue;
            }
            _ => opening,
        };
    }
}

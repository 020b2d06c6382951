//! What a failed search may have meant: the places in a file that are most like a text that does
//! not stand in it. Only lines the model has seen are quoted.

use crate::{host::Lines, text};
use std::{collections::HashMap, ops::Range};

/// How many lines are compared one by one when no line of the text stands in the file.
const MAX_COMPARED: usize = 5000;
/// How many lines of a difference, and how many other places, are shown.
const MAX_SHOWN: usize = 24;
const MAX_PLACES: usize = 3;

/// A sentence on the nearest places, to follow `not found`; empty when nothing is near.
pub(super) fn near_misses(text: &str, old: &str, seen: &Lines) -> String {
    let wanted: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    if let Some(plain) = without_numbers(&wanted)
        && text.contains(&plain)
    {
        return "; it has line numbers before its lines, which are not part of the file".to_owned();
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let window = |start: usize| start..(start + wanted.len()).min(lines.len());
    let places: Vec<Range<usize>> = candidates(&lines, &wanted, seen)
        .into_iter()
        .map(window)
        .filter(|place| seen.cover(place))
        .take(MAX_PLACES)
        .collect();
    let Some((nearest, others)) = places.split_first() else { return String::new() };
    let found = &lines[nearest.clone()];
    let same_words = found.len() == wanted.len()
        && found.iter().zip(&wanted).all(|(found, wanted)| words(found).eq(words(wanted)));
    let only = if same_words { "; only white space differs" } else { "" };
    let others = others
        .iter()
        .flat_map(|place| ["\nalso near: ".to_owned(), numbered(place.start, lines[place.start])]);
    let others: String = others.collect();
    format!(
        "; the nearest text is on lines {}-{}{only} (- is old_string, + is the file):\n{}{others}",
        nearest.start + 1,
        nearest.end,
        compared(&wanted, found, nearest.start),
    )
}

/// Where the text may start, nearest first.
fn candidates(lines: &[&str], wanted: &[&str], seen: &Lines) -> Vec<usize> {
    let mut indices: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        indices.entry(line.trim()).or_default().push(index);
    }
    let is_seen = |number: usize| seen.cover(&(number..number + 1));
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        for index in indices.get(line.trim()).into_iter().flatten() {
            if *index <= number && is_seen(number) {
                *votes.entry(number - index).or_default() += 1;
            }
        }
    }
    if votes.is_empty() {
        return alike(lines, wanted, is_seen);
    }
    let mut starts: Vec<(usize, usize)> = votes.into_iter().collect();
    starts.sort_by_key(|(start, votes)| (usize::MAX - votes, *start));
    starts.into_iter().map(|(start, _)| start).collect()
}

/// Where a line much like the first one looked for stands.
fn alike(lines: &[&str], wanted: &[&str], is_seen: impl Fn(usize) -> bool) -> Vec<usize> {
    let Some((index, line)) = wanted.iter().enumerate().find(|(_, line)| !line.trim().is_empty()) else {
        return Vec::new();
    };
    let line = line.trim();
    let plausible: Vec<(usize, &str)> = lines
        .iter()
        .enumerate()
        .map(|(number, found)| (number, found.trim()))
        .filter(|(number, found)| !found.is_empty() && found.len() <= 4 * line.len() && is_seen(*number))
        .take(MAX_COMPARED)
        .collect();
    let found: Vec<&str> = plausible.iter().map(|(_, found)| *found).collect();
    let mut close = similar::get_close_matches(line, &found, MAX_PLACES, 0.6);
    close.dedup();
    let starts = close.iter().filter_map(|close| plausible.iter().find(|(_, found)| found == close));
    starts.map(|(number, _)| number.saturating_sub(index)).collect()
}

fn compared(wanted: &[&str], found: &[&str], start: usize) -> String {
    let ops = similar::capture_diff_slices(similar::Algorithm::Myers, wanted, found);
    let mut shown = Vec::new();
    for op in ops {
        let (_, old, new) = op.as_tag_tuple();
        if wanted[old.clone()] == found[new.clone()] {
            shown.extend(new.map(|line| format!("  {}", numbered(start + line, found[line]))));
        } else {
            shown.extend(wanted[old].iter().map(|line| format!("- {}", short(line))));
            shown.extend(new.map(|line| format!("+ {}", numbered(start + line, found[line]))));
        }
    }
    if shown.len() > MAX_SHOWN {
        shown.truncate(MAX_SHOWN);
        shown.push("…".to_owned());
    }
    shown.join("\n")
}

/// The lines without the numbers that a read puts before them, if all have one.
fn without_numbers(lines: &[&str]) -> Option<String> {
    let plain: Option<Vec<&str>> = lines
        .iter()
        .map(|line| {
            let (number, rest) = line.trim_start().split_once(['\t', '→'])?;
            (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
        })
        .collect();
    plain.map(|lines| lines.join("\n"))
}

fn words(line: &str) -> impl Iterator<Item = char> {
    line.chars().filter(|c| !c.is_whitespace())
}

fn numbered(number: usize, line: &str) -> String {
    format!("{}\t{}", number + 1, short(line))
}

/// A line, cut when it is very long.
fn short(line: &str) -> String {
    text::first(line, 300).map_or_else(|| line.to_owned(), |start| format!("{start}…"))
}

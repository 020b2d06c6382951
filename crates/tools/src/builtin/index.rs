//! Where each of many texts stands in one long one, found in a single pass: a batch of edits would
//! otherwise go through the whole file once for each.

use memchr::memmem;
use std::collections::HashMap;

/// Shorter texts are looked for one by one: they have no fingerprint.
const FINGERPRINT: usize = size_of::<u64>();
const TABLE: usize = 1 << u16::BITS;

/// Every place, overlapping ones too, where each of some texts stands.
#[derive(Debug)]
pub(super) struct Index {
    places: Vec<Vec<usize>>,
}

impl Index {
    /// Looks for texts, none of them empty.
    pub(super) fn of(text: &str, wanted: &[&str]) -> Self {
        let mut places = vec![Vec::new(); wanted.len()];
        // The end of a text tells more than its start, which often is only indentation.
        let mut by_ending: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut table = vec![false; TABLE];
        for (number, wanted) in wanted.iter().enumerate() {
            match wanted.as_bytes().last_chunk::<FINGERPRINT>() {
                Some(ending) => {
                    let ending = u64::from_le_bytes(*ending);
                    table[slot(ending)] = true;
                    by_ending.entry(ending).or_default().push(number);
                }
                None => places[number] = all_places(text, wanted),
            }
        }
        if by_ending.is_empty() {
            return Self { places };
        }
        let bytes = text.as_bytes();
        for (start, window) in bytes.windows(FINGERPRINT).enumerate() {
            let Some(window) = window.first_chunk().map(|window| u64::from_le_bytes(*window)) else {
                continue;
            };
            if !table[slot(window)] {
                continue;
            }
            for number in by_ending.get(&window).into_iter().flatten() {
                let (wanted, end) = (wanted[*number].as_bytes(), start + FINGERPRINT);
                if bytes[..end].ends_with(wanted) {
                    places[*number].push(end - wanted.len());
                }
            }
        }
        Self { places }
    }

    /// Where the text of a number stands, ascending.
    pub(super) fn places(&self, number: usize) -> &[usize] {
        &self.places[number]
    }
}

/// Every place, overlapping ones too, where a text stands.
pub(super) fn all_places(text: &str, wanted: &str) -> Vec<usize> {
    let finder = memmem::Finder::new(wanted);
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(at) = text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
        places.push(from + at);
        from += at + 1;
    }
    places
}

/// Spreads fingerprints over the table (Fibonacci hashing): the upper bits of the product are well mixed.
fn slot(fingerprint: u64) -> usize {
    let [.., low, high] = fingerprint.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    usize::from(u16::from_le_bytes([low, high]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_found(text in "[abé\n]{0,200}", wanted in prop::collection::vec("[abé\n]{1,12}", 1..6)) {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let index = Index::of(&text, &wanted);
            for (number, wanted) in wanted.iter().enumerate() {
                let expected: Vec<usize> =
                    (0..text.len()).filter(|at| text.as_bytes()[*at..].starts_with(wanted.as_bytes())).collect();
                prop_assert_eq!(index.places(number), expected.as_slice());
                prop_assert_eq!(all_places(&text, wanted), expected);
            }
        }
    }
}

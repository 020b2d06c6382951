//! Whole records in a line that is none: where the end of a line is lost, or a torn one was written on,
//! two records share a line. Gives only what could stand on a line of its own.

use serde::de::IgnoredAny;

/// How records begin.
const BEGINNINGS: [&str; 2] = ["{\"type\":\"", "{\"parentUuid\":"];

/// The records that are whole, in order.
pub(in crate::session) fn salvage(line: &str) -> Vec<&str> {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<IgnoredAny>();
    let first = match values.next() {
        Some(Ok(_)) => &line[..values.byte_offset()],
        Some(Err(_)) | None => "",
    };
    let rest = &line[first.len()..];
    // What is nested in a record never ends with the line: the record's own brace comes after it.
    let starts = BEGINNINGS.iter().flat_map(|beginning| rest.match_indices(beginning).map(|(at, _)| at));
    let is_whole = |text: &&str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let last = starts.map(|at| &rest[at..]).find(is_whole);
    let is_record = first.starts_with('{') && first.len() < line.len();
    is_record.then_some(first).into_iter().chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, whole: &[&str]) {
        assert_eq!(salvage(line), whole, "{line}");
    }

    #[test]
    fn whole_records_are_found_beside_damage() {
        let (one, two) = (r#"{"type":"user","m":[{"type":"text"}]}"#, r#"{"parentUuid":null,"type":"x"}"#);
        check(&format!("{one}{two}"), &[one, two]);
        check(&format!("{one}\u{7}{two}"), &[one, two]);
        check(&format!("{}{two}", &one[..20]), &[two]);
        check(&format!("{one}{}", &two[..9]), &[one]);
        check(&one[..30], &[]);
        check("", &[]);
        check("12 {\"type\":\"a\"}", &["{\"type\":\"a\"}"]);
    }
}

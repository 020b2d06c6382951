//! Finds the end of a JSON object in text that arrives in pieces, reading each byte once.
//! It only finds the end: whether the text is valid JSON is for the parser to say.

/// Where a scan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scan {
    /// Nothing but white space so far.
    #[default]
    Blank,
    /// Inside the object.
    Open,
    /// The object is closed; what follows is not part of it.
    Closed,
    /// The first character does not begin an object.
    NotAnObject,
}

/// The state between two pieces: three words, whatever the length of the text.
#[derive(Debug, Default)]
pub struct Scanner {
    state: Scan,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scanner {
    /// Reads one more piece. Returns where the scan stands and how many bytes of the piece
    /// belong to the object: all of them until it closes.
    pub fn push(&mut self, piece: &[u8]) -> (Scan, usize) {
        for (position, byte) in piece.iter().enumerate() {
            match self.state {
                Scan::Closed => return (Scan::Closed, position),
                Scan::NotAnObject => return (Scan::NotAnObject, piece.len()),
                Scan::Blank => self.begin(*byte),
                Scan::Open => self.step(*byte),
            }
        }
        (self.state, piece.len())
    }

    fn begin(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' => {
                self.state = Scan::Open;
                self.depth = 1;
            }
            _ => self.state = Scan::NotAnObject,
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = Scan::Closed;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\x00-\\x7f\u{e4}\u{1f40e}]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn closes_exactly_at_the_end_however_the_text_is_cut(inner in any_json(), cuts in prop::collection::vec(1usize..9, 1..40), pretty in any::<bool>()) {
            let value = json!({ "k}\"": inner });
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let with_tail = format!(" {text} tail}}");
            let mut scanner = Scanner::default();
            let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
            while at < with_tail.len() {
                let end = (at + cuts.next().unwrap()).min(with_tail.len());
                let (state, used) = scanner.push(&with_tail.as_bytes()[at..end]);
                if state == Scan::Closed {
                    prop_assert_eq!(at + used, text.len() + 1);
                    return Ok(());
                }
                prop_assert_eq!(used, end - at);
                at = end;
            }
            prop_assert!(false, "the object never closed");
        }
    }

    #[test]
    fn an_array_or_a_word_is_not_an_object() {
        assert_eq!(Scanner::default().push(b" [1]").0, Scan::NotAnObject);
        assert_eq!(Scanner::default().push(b"x").0, Scan::NotAnObject);
        assert_eq!(Scanner::default().push(b" \n").0, Scan::Blank);
    }
}

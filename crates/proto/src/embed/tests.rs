//! Values go in and come out the same, and nothing else comes out as a value.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn sentinel() -> Sentinel {
    Sentinel::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677)
}

fn vars() -> BTreeMap<String, Json> {
    [
        ("LIST", json!([1, {"a": "b c"}])),
        ("TEXT", json!("it's $LIST; rm -rf / | \"x\" $(y)")),
        ("N", json!(3)),
        ("EMPTY", json!("")),
        ("1", json!({"first": true})),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn text(text: &str) -> Token {
    Token::Text(text.to_owned())
}

#[track_caller]
fn check(line: &str, expected: &[Token]) {
    assert_eq!(tokenize(line, &vars(), &sentinel()).as_deref(), Ok(expected), "{line}");
}

#[track_caller]
fn check_error(line: &str, at: usize, kind: ErrorKind) {
    assert_eq!(tokenize(line, &vars(), &sentinel()), Err(Error { at, kind }), "{line}");
}

#[test]
fn words_quotes_and_operators_are_read() {
    use Operator::{And, From, Onto, Or, Pipe, Then, To};
    check(
        "  a  'b c' d\\ e \"f 'g' \\\" \\x\" ''",
        &[text("a"), text("b c"), text("d e"), text("f 'g' \" \\x"), text("")],
    );
    let op = Token::Operator;
    check(
        "a|b&&c||d;e<f>g>>h\ni",
        &[
            text("a"),
            op(Pipe),
            text("b"),
            op(And),
            text("c"),
            op(Or),
            text("d"),
            op(Then),
            text("e"),
            op(From),
            text("f"),
            op(To),
            text("g"),
            op(Onto),
            text("h"),
            op(Then),
            text("i"),
        ],
    );
    check("'|' \\; a\"&&\"", &[text("|"), text(";"), text("a&&")]);
    check("", &[]);
}

#[test]
fn a_value_alone_stays_a_value_and_beside_text_becomes_text() {
    let list = || Token::Value(json!([1, {"a": "b c"}]));
    check("$LIST ${LIST} \"$LIST\"", &[list(), list(), list()]);
    check("'$LIST' \\$LIST $ $-", &[text("$LIST"), text("$LIST"), text("$"), text("$-")]);
    check("x=$LIST \"${N} things\" $N$N", &[text(r#"x=[1,{"a":"b c"}]"#), text("3 things"), text("33")]);
    check("$1 $N", &[Token::Value(json!({"first": true})), Token::Value(json!(3))]);
    check("$LIST|cat", &[list(), Token::Operator(Operator::Pipe), text("cat")]);
}

#[test]
fn texts_are_inserted_as_data() {
    let data = "it's $LIST; rm -rf / | \"x\" $(y)";
    check("$TEXT", &[text(data)]);
    check("\"a $TEXT\"b", &[text(&format!("a {data}b"))]);
    check("$EMPTY x$EMPTY", &[text(""), text("x")]);
}

#[test]
fn nesting_is_kept() {
    let inner = vec![text("ls"), Token::Value(json!(3))];
    check("$(ls $N)", &[Token::Nested(inner.clone())]);
    check(
        "a\"$(ls $N)\"$LIST",
        &[Token::Joined(vec![text("a"), Token::Nested(inner.clone()), text(r#"[1,{"a":"b c"}]"#)])],
    );
    check("$(a $(ls $N) ')')", &[Token::Nested(vec![text("a"), Token::Nested(inner), text(")")])]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    check_error("a 'b", 2, ErrorKind::OpenQuote);
    check_error("a \"b", 2, ErrorKind::OpenQuote);
    check_error("x $(a", 2, ErrorKind::OpenNesting);
    check_error("a )", 2, ErrorKind::StrayParenthesis);
    check_error("(a)", 0, ErrorKind::StrayParenthesis);
    check_error("${LIST:-x}", 0, ErrorKind::BadName);
    check_error("${}", 0, ErrorKind::BadName);
    check_error("é $NOPE", 3, ErrorKind::Unknown("NOPE".to_owned()));
    check_error("a & b", 2, ErrorKind::NotUnderstood('&'));
    check_error("a << b", 2, ErrorKind::NotUnderstood('<'));
    check_error("`a`", 0, ErrorKind::NotUnderstood('`'));
    check_error(&"$(".repeat(10_000), 128, ErrorKind::TooDeep);
    let error = tokenize("$NOPE", &vars(), &sentinel()).unwrap_err();
    assert_eq!(error.to_string(), "$NOPE has no value (at byte 0)");
}

#[test]
fn an_embedded_value_survives_its_surroundings() {
    let value = json!({"k": [null, "a\"b", 1.5]});
    let word = embed(&value, &sentinel());
    let same = || Token::Value(value.clone());
    for line in [word.clone(), format!("'{word}'"), format!("\"{word}\""), format!(" {word} ")] {
        check(&line, &[same()]);
    }
    check(
        &format!("$(a|{word})"),
        &[Token::Nested(vec![text("a"), Token::Operator(Operator::Pipe), same()])],
    );
    check(&format!("x{word}abc0"), &[text(&format!("x{value}abc0"))]);
    check(&format!("{word}{word}"), &[text(&format!("{value}{value}"))]);
}

#[test]
fn data_cannot_forge() {
    let word = embed(&json!(["secret"]), &sentinel());
    // Even the very word, when it comes as data, is text.
    let vars = |value: &str| BTreeMap::from([("X".to_owned(), json!(value))]);
    assert_eq!(tokenize("$X", &vars(&word), &sentinel()), Ok(vec![Token::Text(word.clone())]));
    // Nor can data complete what the line begins.
    let (start, end) = word.split_at(40);
    let line = format!("{start}$X");
    assert_eq!(tokenize(&line, &vars(end), &sentinel()), Ok(vec![Token::Text(word.clone())]));
    // In the line itself, only the true tag counts.
    let other = embed(&json!(["secret"]), &Sentinel::new(7));
    let payload_changed = word.replacen("5b22", "5b20", 1);
    assert_ne!(payload_changed, word);
    for forged in [other, payload_changed, word[..word.len() - 1].to_owned(), format!("{MARK}z")] {
        check(&forged, &[text(&forged)]);
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "\\PC{0,12}|[\u{0}-\u{1f}'\"$`\\\\|&;<>()]{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            proptest::collection::btree_map("\\PC{0,6}", inner, 0..5)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_comes_back(value in any_json(), seed in any::<u128>(), quote in "['\"]?") {
        let sentinel = Sentinel::new(seed);
        let line = format!("cmd {quote}{}{quote} end", embed(&value, &sentinel));
        let expected = vec![text("cmd"), Token::Value(value), text("end")];
        prop_assert_eq!(tokenize(&line, &BTreeMap::new(), &sentinel), Ok(expected));
    }

    #[test]
    fn every_variable_comes_back(value in any_json(), quote in "\"?") {
        let vars = BTreeMap::from([("X".to_owned(), value.clone())]);
        let expected = match value.as_str() {
            Some(data) => text(data),
            None => Token::Value(value),
        };
        let line = format!("a {quote}${{X}}{quote}");
        prop_assert_eq!(tokenize(&line, &vars, &sentinel()), Ok(vec![text("a"), expected]));
    }

    #[test]
    fn no_line_breaks_it_and_none_holds_a_value(
        line in "(ostler0v|z|[0-9a-f]{1,40}|[ '\"$(){}|&;<>\\\\`\n]|\\PC){0,40}",
        data in "(ostler0v[0-9a-f]{32,48}z|\\PC){0,6}",
    ) {
        fn has_value(tokens: &[Token]) -> bool {
            tokens.iter().any(|token| match token {
                Token::Value(_) => true,
                Token::Nested(inner) | Token::Joined(inner) => has_value(inner),
                Token::Text(_) | Token::Operator(_) => false,
            })
        }
        let vars = BTreeMap::from([("X".to_owned(), Json::from(data))]);
        if let Ok(tokens) = tokenize(&line, &vars, &sentinel()) {
            prop_assert!(!has_value(&tokens));
        }
    }

    #[test]
    fn a_changed_word_is_no_value(value in any_json(), at in any::<prop::sample::Index>(), new in "[0-9a-z]") {
        let word = embed(&value, &sentinel());
        let at = at.index(word.len());
        prop_assume!(word[at..=at] != new);
        let changed = format!("{}{new}{}", &word[..at], &word[at + 1..]);
        let tokens = tokenize(&changed, &BTreeMap::new(), &sentinel());
        prop_assert_eq!(tokens, Ok(vec![Token::Text(changed)]));
    }
}

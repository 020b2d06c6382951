//! Input made to break a reader: it must come back with an answer, whatever it is given.

use super::corpus::{Case, corpus};
use super::reading;
use proptest::{prelude::*, sample::Index};

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in "\\PC{0,80}") {
        reading(&text);
    }

    #[test]
    fn shell_signs_in_any_order_get_an_answer(text in "[a1 \t\n;&|(){}<>$`'\"\\\\*?\\[\\]!#~=:+@-]{0,60}") {
        reading(&text);
    }

    #[test]
    fn a_damaged_line_gets_an_answer(pick in any::<Index>(), other in any::<Index>(), cut in any::<Index>(), with in "[;&|(){}<>$`'\" \n\\\\]{0,3}") {
        let corpus = corpus();
        let Case { cmd, .. } = pick.get(&corpus);
        let chars: Vec<char> = cmd.chars().collect();
        let at = cut.index(chars.len() + 1);
        let front: String = chars.iter().take(at).collect();
        let back: String = chars.iter().skip(at).collect();
        reading(&format!("{front}{with}{back}"));
        reading(&format!("{front}{with}{}", other.get(&corpus).cmd));
        reading(&front);
        reading(&back);
    }
}

#[test]
fn deep_and_long_input_ends_soon() {
    for sign in [
        "(",
        "((",
        "$(",
        "$((",
        "`",
        "\"$(",
        "${x:-",
        "{ ",
        "[[ ( ",
        "[[ ! ",
        "! ",
        "<(",
        "a[",
        "{a,",
        "if ",
        "case x in x) ",
        "f() ",
        "time ",
        "\\\n",
        "$[",
        "{",
        "a=(",
        "<<E ",
        "coproc ",
    ] {
        reading(&sign.repeat(10_000 / sign.len()));
        reading(&sign.repeat(39));
    }
    for (open, close) in [("(", ")"), ("{ ", ";}"), ("$(", ")"), ("\"$(", ")\""), ("{a,", "}")] {
        for depth in [1, 5, 39, 41, 900] {
            reading(&format!("{}a{}", open.repeat(depth), close.repeat(depth)));
        }
    }
    let loops = format!("{}ls{}", "for i in 1 2 3 4; do ".repeat(9), "; done".repeat(9));
    assert!(reading(&loops).commands.len() <= 700);
    let loops = format!("{}ls{}", "while a; do ".repeat(12), "; done".repeat(12));
    assert_eq!(reading(&loops).problem, None);
    let mut nested = "ls".to_owned();
    for _ in 0..7 {
        nested = format!("{}eval {}{}", "(".repeat(36), quoted(&nested), ")".repeat(36));
        if nested.len() < 10_000 {
            reading(&nested);
        }
    }
    reading(&"[".repeat(9_000));
    reading(&format!("echo {}", "{}".repeat(4_000)));
    reading(&format!("echo {}", "{a,b}".repeat(1_500)));
    reading(&"a=1;".repeat(490));
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if "\"\\$`".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

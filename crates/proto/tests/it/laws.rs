//! Laws that hold for every text.

use ostler_proto::content::{Redactor, Sink, Stream, clean, from_bytes};
use proptest::prelude::*;

const SINKS: [Sink; 8] = [
    Sink::Terminal,
    Sink::PlainTerminal,
    Sink::ModelContext,
    Sink::PermissionPrompt,
    Sink::DiffView,
    Sink::Log,
    Sink::Title,
    Sink::TranscriptJsonl,
];

/// Text made of everything that means something to a stage, mixed with plain letters.
fn hostile() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "\u{1b}",
        "\u{1b}[",
        "\u{1b}]",
        "\u{1b}\\",
        "\u{1b}P",
        "\u{9b}",
        "\u{9d}",
        "\u{9c}",
        "\u{7}",
        "\u{8}",
        "\r",
        "\n",
        "\n\n",
        "\t",
        " ",
        "      ",
        "\u{0}",
        "\u{7f}",
        "[",
        "]",
        "m",
        "31",
        ";",
        ":",
        "8",
        "30;40",
        "38;5;1",
        "0m",
        "J",
        "_",
        "a",
        "a",
        "é",
        "é",
        "漢",
        "א",
        "ب",
        "ก",
        "क",
        "्",
        "\u{301}",
        "\u{e47}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{200e}",
        "\u{200f}",
        "\u{202e}",
        "\u{2066}",
        "\u{feff}",
        "\u{fe0f}",
        "\u{fe00}",
        "\u{e0100}",
        "\u{e0067}",
        "\u{e0062}",
        "\u{e007f}",
        "\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "🏴",
        "😀",
        "👩",
        "1",
        "#",
        "\u{20e3}",
        "\u{e0a0}",
        "\u{100000}",
        "\u{1100}",
        "\u{115f}",
        "\u{1160}",
        "\u{1161}",
        "ᠠ",
        "\u{180b}",
        "\u{180e}",
        "\u{3164}",
        "\u{ad}",
        "\u{a0}",
        "\u{2800}",
        "<",
        "</",
        "＜",
        "system-reminder",
        "tool_result>",
        "<|im_start|>",
        "Human:",
        "Assistant:",
        "[INST]",
        "<<SYS>>",
        "&lt;",
    ]);
    prop::collection::vec(parts, 0..40).prop_map(|parts| parts.concat())
}

/// Whether every escape in a text only sets a style.
fn has_only_styles(text: &str) -> bool {
    text.split('\u{1b}').skip(1).all(|rest| {
        let Some(rest) = rest.strip_prefix('[') else { return false };
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'));
        end.is_some_and(|end| rest[end..].starts_with('m'))
    })
}

proptest! {
    #[test]
    fn what_is_clean_stays_as_it_is(text in prop_oneof![hostile(), any::<String>()]) {
        for sink in SINKS {
            let once = clean(&text, sink).text.into_owned();
            prop_assert_eq!(&clean(&once, sink).text, &once, "{:?}", sink);
        }
    }

    #[test]
    fn nothing_but_styles_moves_a_terminal(text in prop_oneof![hostile(), any::<String>()]) {
        for sink in SINKS.into_iter().filter(|sink| *sink != Sink::TranscriptJsonl) {
            let shown = clean(&text, sink).text;
            prop_assert!(has_only_styles(&shown), "{:?}", shown);
            let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t') || c == '\u{1b}' && sink == Sink::Terminal;
            prop_assert!(shown.chars().all(is_plain), "{:?} {:?}", sink, shown);
        }
    }

    #[test]
    fn printable_ascii_passes(text in "[ -~\n\t]{0,200}") {
        for sink in [Sink::Terminal, Sink::PlainTerminal, Sink::DiffView, Sink::Log] {
            prop_assert_eq!(&clean(&text, sink).text, &text);
        }
    }

    #[test]
    fn pieces_make_the_whole(text in prop_oneof![hostile(), any::<String>()], cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        places.sort_unstable();
        places.push(text.len());
        let (mut stream, mut shown, mut done) = (Stream::default(), String::new(), 0);
        for place in places {
            shown.push_str(&stream.push(&text[done..place]));
            done = place;
        }
        shown.push_str(&stream.finish());
        prop_assert_eq!(&shown, &clean(&text, Sink::PlainTerminal).text);
    }

    #[test]
    fn bytes_that_are_no_text_are_counted(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let (text, invalid) = from_bytes(&bytes);
        prop_assert_eq!(invalid == 0, str::from_utf8(&bytes).is_ok());
        prop_assert!(invalid > 0 || text.as_bytes() == bytes);
    }
}

#[test]
fn redacting_is_stable_and_keeps_lines() {
    let redactor = Redactor::new();
    let text = "(?s).{0,60}(password|token|sk-|ghp_|eyJ|://|-----BEGIN PRIVATE KEY-----|SK)[ -~\n]{0,100}";
    proptest!(|(text in text)| {
        let once = redactor.redact(&text).text.into_owned();
        prop_assert_eq!(&redactor.redact(&once).text, &once);
        prop_assert_eq!(once.matches('\n').count(), text.matches('\n').count());
    });
}

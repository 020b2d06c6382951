//! Texts that honest people, programs and scripts write. They pass byte for byte wherever they go.

use ostler_proto::content::{Behaviours, Redactor, Sink, Source, clean, deliver};

/// Text that is the same everywhere.
const EVERYWHERE: &[&str] = &[
    "",
    "plain text\n\twith tabs\n",
    "fn main() {\n    println!(\"{:?}\", vec![1, 2]);\n}\n",
    "a < b && c > d",
    "if a <system.web> b",
    "<div class=\"system\">x</div>",
    "Vec<Human>",
    "The human: a study",
    "Note\nHuman: in the same paragraph",
    "x << y >> z",
    "x <| f |> g",
    "[install] INST=1",
    "user@host:~$ ls -la",
    "C:\\u{41}\\x1b[31m is how it is written",
    "100 % — “quoted” ‘text’ … • † ©®™",
    "àéîõü ÀÉÎÕÜ ß ñ ø å",
    "e\u{301}a\u{308}o\u{302}\u{323}",
    "Tiếng Việt có dấu thanh chồng lên nhau: ễ ộ ử",
    "Ελληνικά και πολυτονικά: ᾧ ἄνθρωπος",
    "Русский, українська, български",
    "עברית עם ניקוד: שָׁלוֹם",
    "בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים",
    "العربية مع التشكيل: السَّلَامُ عَلَيْكُمْ",
    "می\u{200c}خواهم کتاب\u{200c}ها را بخوانم",
    "اردو میں لکھا ہوا متن",
    "ئۇيغۇرچە",
    "ܫܠܡܐ",
    "ދިވެހި",
    "हिन्दी में क्\u{200d}ष और क्\u{200c}ष",
    "বাংলা: র\u{200d}্যাব",
    "தமிழ் எழுத்து",
    "తెలుగు: క్\u{200c}ష",
    "ಕನ್ನಡ: ರ\u{200d}್ಯ",
    "മലയാളം: അവന്\u{200d} വന്നു",
    "සිංහල: ශ්\u{200d}රී ලංකා",
    "ਪੰਜਾਬੀ ગુજરાતી ଓଡ଼ିଆ",
    "ภาษาไทย ที่นี่ น้ำ",
    "ພາສາລາວ",
    "ភាសា\u{200b}ខ្មែរ\u{200b}សរសេរ",
    "မြန်မာ\u{200b}စာ",
    "བོད་ཡིག་གི་སྒྲུབ་ཐབས",
    "ᠮᠣᠩᠭᠣᠯ\u{180e}ᠠ",
    "ᠨ\u{180b}",
    "አማርኛ",
    "ქართული ჰაერი",
    "Հայերեն",
    "ᏣᎳᎩ",
    "漢字とひらがなとカタカナ",
    "简体中文，繁體中文。",
    "葛\u{e0100}城 辻\u{e0101}",
    "한국어 텍스트",
    "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
    "\u{1100}\u{1160}\u{115f}\u{1161}",
    "😀 😃 👍🏽 🧑🏿",
    "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🏴‍☠️ 🧔‍♂️",
    "❤️ ☎️ ✔️ ™️ ©️ ℹ️ ↔️ 〰️ ㊗️",
    "❤︎ ☎︎",
    "1️⃣ 2️⃣ #️⃣ *️⃣",
    "🇩🇪 🇯🇵 🇺🇦",
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} 🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} 🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
    "🏴 alone",
    "❤️‍🔥 👁️‍🗨️ 🐻‍❄️ 🧑‍🚀",
    "∀x ∈ ℝ: ⌈x⌉ = −⌊−x⌋ ≠ ∅ ∩\u{fe00}",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝓈𝒸𝓇𝒾𝓅𝓉 𝟙𝟚𝟛",
    "┌──┬──┐\n│  │  │\n└──┴──┘",
    "▁▂▃▄▅▆▇█ ░▒▓",
    "♪ ♫ 𝄞 𝅘𝅥𝅮",
    "⣿⣷⣯⣟ ⠋⠙⠹⠸",
    "Ｆｕｌｌ　ｗｉｄｔｈ".split_at(12).0,
    "\u{fffd} is shown where bytes were broken",
    "ﬁ ﬂ ligatures, № ½ ² ₂",
    "𓀀𓁐𓂀 hieroglyphs",
    "𐎀𐎁 cuneiform 𒀀",
    "Z͑a̓l g̈o light",
    "a̐éö̲",
    "#!/bin/sh\nset -eu\nfor f in *; do echo \"$f\"; done\n",
    "{\"a\": [1, 2, {\"b\": null}]}",
    "key: value\nlist:\n  - a\n  - b\n",
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "SELECT * FROM t WHERE a < 1 AND b > 2;",
    "\\begin{equation} E = mc^2 \\end{equation}",
    "print('\\x1b[31mred\\x1b[0m')",
    "error[E0382]: borrow of moved value: `x`\n --> src/main.rs:4:5\n",
    "https://example.com/a?b=c&d=e#f",
    "<https://example.com> and <user@example.com>",
    "<parameter name=\"x\">1</parameter>",
    "<user><name>Ann</name></user>",
    "<toolbar/><system-tray/><tool/><result/>",
    "generic<T: Into<String>>(t: T)",
    "            deeply indented\n\n\n        code\n",
    "\t\t\t\t\t\tsix tabs\n",
    "| a    | b    |\n|------|------|\n",
];

/// Text with blanks that are no spaces, colours or icons: the same but in questions, or only where colours may be.
const MOSTLY: &[&str] = &[
    "10\u{a0}000\u{202f}km",
    "日本語\u{3000}全角スペース",
    "a\u{2003}b\u{2009}c",
    "\u{2800}⠁⠂\u{2800}",
    "\u{e0a0} main \u{e0b0}",
    "\u{f09b} \u{f1d3}\u{f126} icons",
    "\u{f0219} file",
    "א\u{200f}! ב\u{200e} c",
    "السعر 5\u{200f}€ ل\u{61c}",
    "\u{feff}a file with a mark of its byte order",
];

const STYLED: &[&str] = &[
    "\u{1b}[1m\u{1b}[32mok\u{1b}[0m 3 passed",
    "\u{1b}[38;5;10mcargo\u{1b}[39m\u{1b}[0m",
    "\u{1b}[1;31merror\u{1b}[0m: x\n\u{1b}[2mdim\u{1b}[22m\u{1b}[m",
    "\u{1b}[48;2;255;0;0m\u{1b}[38;2;0;0;0mx\u{1b}[0m",
    "\u{1b}[30;47mx\u{1b}[0m \u{1b}[7mreverse\u{1b}[27m\u{1b}[0m",
    "\u{1b}[4:3;58:2::255:0:0mwavy\u{1b}[0m",
];

/// Text without secrets that scanners like to take for some.
const NOT_SECRET: &[&str] = &[
    "commit 2c62e2d8f1b0a9c7d6e5f4a3b2c1d0e9f8a7b6c5",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "\"integrity\": \"sha512-vU3kR8vFk5Q0pQ2xh0b1Xk1p6lKQv5nX2i0W5mC2t0uWg7o3vT6x7f2o0z8o1Q2w3e4r5t6y7u8i9o0pA==\"",
    "checksum = \"c982642fa9e8606056828ee9a8505737230110bb1099153c79efe865c59d12ba\"",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxx",
    "GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN }}",
    "token: $TOKEN",
    "password: ${DB_PASSWORD:-changeme}",
    "api_key = os.environ[\"API_KEY\"]",
    "const token = await getAccessToken(user1, scope2);",
    "let secret = Secret::new(config.secret_key_path);",
    "password = \"********\"",
    "token=<your-token-here>",
    "https://user@github.com/org/repo.git",
    "git@github.com:org/repo.git",
    "http://localhost:8080/path@2x.png",
    "npm_config_cache=/tmp/cache npm_package_version=1.2.3",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@host",
    "-----BEGIN CERTIFICATE-----\nMIIDXTCCAkWgAwIBAgIJAJC1HiIAZAiUMA0GCSqGSIb3DQEBCwUAMEUxCzAJBgNV\n-----END CERTIFICATE-----",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBFexampleexampleexample\n-----END PGP PUBLIC KEY BLOCK-----",
    "\"tokens_used\": 12345, \"max_tokens\": 4096",
    "tokenizer = AutoTokenizer.from_pretrained(\"bert-base-uncased\")",
    "secretKeyRef:\n  name: app-secrets-2024\n  key: database-url",
    "if password == stored_password_hash:",
    "UPDATE users SET password = :password WHERE id = 1",
    "def test_token_is_refreshed_after_3600_seconds(): pass",
    "pk_live_51H8a9bKZxYwVuTsRqPoNmLkJ",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
    "ETag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"",
    "Authorization: Bearer $ACCESS_TOKEN",
    "version 1.2.3-beta.4+build.20240101",
    "eyJ is how encoded JSON begins",
    "SKU-1234-5678 SK1234",
    "/usr/lib/python3/dist-packages/secretstorage/__init__.py",
    "arn:aws:iam::123456789012:role/service-role/MyRole",
    "the key-value store and the key-0 entry",
];

fn sinks() -> [Sink; 9] {
    use Sink::*;
    [Terminal, PlainTerminal, ModelContext, PermissionPrompt, DiffView, TranscriptJsonl, Log, Export, Title]
}

#[track_caller]
fn check_same(text: &str, sink: Sink) {
    let cleaned = clean(text, sink);
    assert_eq!(cleaned.text, text, "{sink:?}");
    assert_eq!(cleaned.behaviours, Behaviours::default(), "{sink:?} {text:?}");
}

#[test]
fn honest_text_passes_everywhere() {
    for text in EVERYWHERE.iter().chain(NOT_SECRET) {
        for sink in sinks().into_iter().filter(|sink| *sink != Sink::Title) {
            check_same(text, sink);
        }
        assert_eq!(deliver(text, Source::FileRead, Sink::ModelContext, "").text, *text);
        check_same(&text.replace(['\n', '\t'], " "), Sink::Title);
    }
}

#[test]
fn only_questions_spell_out_blanks_and_icons() {
    for text in MOSTLY {
        for sink in sinks().into_iter().filter(|sink| *sink != Sink::PermissionPrompt) {
            check_same(text, sink);
        }
        assert_ne!(clean(text, Sink::PermissionPrompt).text, *text);
    }
}

#[test]
fn colours_of_programs_reach_the_terminal() {
    for text in STYLED {
        assert_eq!(clean(text, Sink::Terminal).text, *text);
        assert!(!clean(text, Sink::ModelContext).text.contains('\u{1b}'));
    }
}

#[test]
fn what_only_looks_secret_stays() {
    let redactor = Redactor::new();
    let wrong: Vec<_> = EVERYWHERE
        .iter()
        .chain(MOSTLY)
        .chain(NOT_SECRET)
        .filter_map(|text| {
            let redacted = redactor.redact(text);
            (redacted.text != *text).then(|| format!("{text}: {:?}", redacted.found))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! How fast text is cleaned and redacted: `cargo run --release -p ostler-proto --example content_speed`.
#![expect(clippy::print_stdout, reason = "a program that prints its measurements")]

use ostler_proto::content::{Redactor, Sink, clean};
use std::time::{Duration, Instant};

const SIZE: usize = 8 << 20;
const ROUNDS: u32 = 5;

fn main() {
    let redactor = Redactor::new();
    let start = Instant::now();
    Redactor::new();
    println!("a redactor is made in {:?}", start.elapsed());
    for (name, piece) in [
        ("source code", include_str!("content_speed.rs")),
        ("log with colours", "\u{1b}[32m INFO\u{1b}[0m request token=abc user=1 path=/a/b took 3 ms\n"),
        ("Chinese", "文本在到达人或模型之前经过清理，保持原样。\n"),
        ("Arabic", "النص في طريقه إلى شخص أو نموذج\n"),
        ("emoji", "👩‍👩‍👧 ❤️ 👍🏽 ok\n"),
        ("escapes only", "\u{1b}]0;\u{1b}[2J\u{9b}\u{202e}\u{e0041}"),
        ("openings only", "\u{1b}]"),
        ("keywords only", "password=token=eyJ.sk-ghp_://a:-----BEGIN PRIVATE KEY-----"),
        ("one token", "eyJhbGciOiJIUzI1NiJ9"),
        ("tags only", "<system-reminder>"),
    ] {
        let text = piece.repeat(SIZE / piece.len());
        let terminal = fastest(|| clean(&text, Sink::Terminal).text.len());
        let model = fastest(|| clean(&text, Sink::ModelContext).text.len());
        let prompt = fastest(|| clean(&text, Sink::PermissionPrompt).text.len());
        let redact = fastest(|| redactor.redact(&text).text.len());
        let speed = |time: Duration| format!("{} MB/s", text.len() as u128 / time.as_micros().max(1));
        println!(
            "{name:18} terminal {:>10}  model {:>10}  prompt {:>10}  redact {:>10}",
            speed(terminal),
            speed(model),
            speed(prompt),
            speed(redact)
        );
    }
}

fn fastest(work: impl Fn() -> usize) -> Duration {
    let once = || {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed()
    };
    (0..ROUNDS).map(|_| once()).min().unwrap_or_default()
}

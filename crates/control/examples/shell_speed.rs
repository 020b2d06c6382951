//! Prints how long reading a command line takes, for a short one and for the longest that is read.
#![expect(clippy::print_stdout, reason = "it is a program for people")]

use ostler_control::permission::explain;
use std::{path::Path, time::Instant};

const SHORT: &str = "cd crates/control && git log --oneline -n 20 -- src/permission | head -5; for f in src/*.rs; do \
     printf '%s: ' \"$f\"; grep -c 'fn ' \"$f\" 2>/dev/null || true; done | sort -t: -k2 -rn > /tmp/out.txt";

fn main() {
    let piece =
        "echo \"$HOME/a b\" 'it is' $(git rev-parse HEAD) | grep -v \"x$y\" > out.txt && ls -la src/*.rs; ";
    let long: String = piece.chars().cycle().take(9_975).collect();
    let end = long.rfind(';').unwrap_or(long.len());
    let words = format!("echo {}", "word ".repeat(1_990));
    for (name, line) in [
        ("a line as people write it", SHORT),
        ("the longest line, many commands", &long[..end]),
        ("the longest line, one command", &words),
        ("the longest line, not understood", &format!("{} '", &long[..end])),
        ("the longest line, nested", &"$(".repeat(4_990)),
    ] {
        measure(name, line);
    }
}

fn measure(name: &str, line: &str) {
    let mut times: Vec<u128> = (0..50)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(explain(line, Path::new("/w"), Path::new("/home/user")));
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("{name}: {} characters, best {} µs, median {} µs", line.chars().count(), times[0], times[25]);
}

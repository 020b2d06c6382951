//! Replays a history with the file tools and says what came of it:
//! `replay_history <repository> [commits]` or `replay_history --synthetic <commits> [seed]`.
#![expect(clippy::disallowed_methods, reason = "it works on a repository from outside the tools")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it is run by hand and read by people")]

#[path = "../tests/it/replay.rs"]
mod replay;

use std::path::Path;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, or: usize| arguments.get(index).map_or(or, |word| word.parse().unwrap());
    let start = std::time::Instant::now();
    let report = match arguments.first().map(String::as_str) {
        Some("--synthetic") => {
            let temp = tempfile::tempdir().unwrap();
            replay::synthetic(temp.path(), number(1, 2000), number(2, 1) as u64);
            replay::replay(temp.path(), usize::MAX).await
        }
        Some(repository) => replay::replay(Path::new(repository), number(1, 200)).await,
        None => {
            return println!("usage: replay_history <repository> [commits] | --synthetic <commits> [seed]");
        }
    };
    println!("{report:#?}\nin {:.1?}", start.elapsed());
}

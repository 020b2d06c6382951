//! The programs of poppler, each in a child of its own with a bound on memory and time: whatever a
//! hostile document does to them, it costs this one read. They get the bytes, never a path.

use super::{Extracted, MAX_PAGES, MAX_WHOLE_PAGES, Pages};
use crate::host::{
    Confinement, blocking,
    process::{Launch, start},
};
use std::{
    ffi::{OsStr, OsString},
    io::{self, PipeReader, Read as _, Write as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Where programs of the system are; not where a project may have put some.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/opt/local/bin";
/// Bounds memory (in KiB) and processor time (in seconds), then becomes the program.
const BOUNDED: &str = "ulimit -v 1500000; ulimit -t 30; exec \"$@\"";
const DEADLINE: Duration = Duration::from_secs(30);
/// What a shell returns when it finds no such program.
const NOT_FOUND: i32 = 127;
const MAX_TEXT: u64 = 4 * 1024 * 1024;
const MAX_PICTURE: u64 = 32 * 1024 * 1024;
/// The longer edge of a rendered page, in pixels.
const EDGE: &str = "1568";

/// The texts of pages; `None` when poppler is not installed.
pub(super) async fn extract(
    bytes: &Arc<Vec<u8>>,
    pages: Option<&Pages>,
) -> Result<Option<Extracted>, String> {
    let Some(info) = run(bytes, &["pdfinfo", "-"], MAX_TEXT).await? else { return Ok(None) };
    let total = String::from_utf8_lossy(&info)
        .lines()
        .find_map(|line| line.strip_prefix("Pages:")?.trim().parse::<usize>().ok())
        .ok_or("it does not say how many pages it has")?;
    let (first, last) = match pages {
        Some(Pages(pages)) => (*pages.start(), *pages.end()),
        None if total > MAX_WHOLE_PAGES => return Ok(Some(Extracted { total, texts: Vec::new() })),
        None => (1, total),
    };
    let last = last.min(total).min(first + MAX_PAGES - 1);
    if first > last {
        return Ok(Some(Extracted { total, texts: Vec::new() }));
    }
    let (from, to) = (first.to_string(), last.to_string());
    let args = ["pdftotext", "-layout", "-enc", "UTF-8", "-f", &from, "-l", &to, "-", "-"];
    let Some(text) = run(bytes, &args, MAX_TEXT).await? else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    // Every page ends with a form feed.
    let mut texts: Vec<String> = text.split('\u{C}').map(str::to_owned).collect();
    texts.resize(last - first + 1, String::new());
    Ok(Some(Extracted { total, texts }))
}

/// A page as PNG; `None` when the renderer is not installed.
pub(super) async fn render(bytes: &Arc<Vec<u8>>, page: usize) -> Result<Option<Vec<u8>>, String> {
    let page = page.to_string();
    let args = ["pdftoppm", "-png", "-scale-to", EDGE, "-singlefile", "-f", &page, "-l", &page, "-"];
    run(bytes, &args, MAX_PICTURE).await
}

/// Runs a program over the bytes and returns what it writes; `None` when there is no such program.
async fn run(bytes: &Arc<Vec<u8>>, command: &[&str], limit: u64) -> Result<Option<Vec<u8>>, String> {
    let (input, mut to_input) = io::pipe().map_err(|error| error.to_string())?;
    let (from_output, output) = io::pipe().map_err(|error| error.to_string())?;
    let args = ["-c", BOUNDED, "sh"].iter().chain(command).map(OsString::from).collect();
    let environment = [("PATH".to_owned(), PATH.to_owned())];
    let group = start(Launch {
        program: OsStr::new("/bin/sh"),
        args,
        cwd: Path::new("/"),
        env: &environment,
        confinement: &Confinement::Free,
        warden: None,
        stdio: [input.into(), output.into(), std::process::Stdio::null()],
    })
    .map_err(|error| format!("{} cannot be started: {error}", command[0]))?;
    let bytes = Arc::clone(bytes);
    // A program that has seen enough closes its input early.
    let feed = blocking(move || drop(to_input.write_all(&bytes)));
    let collect = blocking(move || read_up_to(from_output, limit));
    let work = async {
        let ((), output) = tokio::join!(feed, collect);
        group.ended().await.map(|()| output)
    };
    // Who runs out of time is killed with the group, which also ends the two threads at the pipes.
    let output = match tokio::time::timeout(DEADLINE, work).await {
        Err(_) => return Err(format!("{} took too long", command[0])),
        Ok(output) => output.and_then(|output| output).map_err(|error| error.to_string())?,
    };
    match group.finish().map_err(|error| error.to_string())?.code() {
        Some(NOT_FOUND) => Ok(None),
        Some(0) => Ok(Some(output)),
        Some(_) | None => Err(format!("{} cannot read it (damaged, or locked by a password)", command[0])),
    }
}

fn read_up_to(output: PipeReader, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other("it holds too much; ask for fewer pages"));
    }
    Ok(bytes)
}

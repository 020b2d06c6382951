//! Text files: numbered lines of a range, within limits that hold before and after reading.

use super::{Failure, Job, binary};
use crate::{
    builtin::{
        encoding::{Encoding, Extent},
        lines::{self, Picked, Total, Wanted},
        tokens,
    },
    host::{HostError, Lines, Opened, Version, blocking},
    text,
};
use ostler_proto::{Json, ToolError, ToolOutput};
use serde_json::json;
use std::{
    fmt::Write as _,
    io::{self, Read as _},
    path::Path,
};
use tokio_util::sync::CancellationToken;

/// A longer line is cut, unless it is asked for alone.
const MAX_LINE: usize = 2000;
/// However little may be shown, a line may.
const MIN_CHARS: usize = 3000;
/// A total is not worth reading a whole disk for.
const LOOK_AHEAD: u64 = 64 * 1024 * 1024;

pub(super) async fn read(job: Job, cancel: &CancellationToken) -> Result<ToolOutput, Failure> {
    let range = job.first()..job.first().saturating_add(job.limit.unwrap_or(job.limits.lines));
    // A little less than the result's own limit: a notice may follow.
    let max_chars = (job.limits.tokens.saturating_mul(4) - job.limits.tokens / 25).max(MIN_CHARS);
    // No text has more tokens than one and a half times its characters.
    let max_line = if job.limit == Some(1) { (job.limits.tokens / 3 * 2).max(MAX_LINE) } else { MAX_LINE };
    let wanted = Wanted { range, max_line, max_chars, look_ahead: LOOK_AHEAD };
    let opening = job.cx.host.open(&job.fact.target);
    let cancel = cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    blocking(move || {
        let file = opening()?;
        check_size(&job, file.stat.size)?;
        let read = pick(file, wanted, job.limits.in_memory, &cancel);
        let read =
            read.map_err(|error| HostError::Io { action: "read", path: job.fact.target.clone(), error })?;
        let Some((version, picked)) = read else { return Err(binary(&job.fact.requested).into()) };
        Ok(show(&job, version, picked)?)
    })
    .await
}

/// Refuses to read a large file without knowing which part is wanted.
fn check_size(job: &Job, size: u64) -> Result<(), ToolError> {
    if job.is_ranged() || job.allow_large || size <= job.limits.whole {
        return Ok(());
    }
    Err(ToolError::Failed(format!(
        "{} has {size} bytes, too many to read at once ({}); say which part with offset and limit, or search it \
         with Grep",
        job.fact.requested.display(),
        job.limits.whole
    )))
}

/// Picks the wanted lines; `None` when the file is no text.
fn pick(
    file: Opened,
    wanted: Wanted,
    in_memory: u64,
    cancel: &CancellationToken,
) -> io::Result<Option<(Version, Picked)>> {
    let Opened { stat, reader } = file;
    if stat.size >= in_memory {
        let picked = lines::stream(reader, wanted, cancel)?;
        return Ok(picked.map(|picked| (Version::of_long(&stat), picked)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default() + 1);
    // Whatever it grows by while it is read, memory stays bounded.
    reader.take(in_memory).read_to_end(&mut bytes)?;
    let version = Version { hash: blake3::hash(&bytes), size: bytes.len() as u64, modified: stat.modified };
    let encoding = Encoding::of(&bytes, Extent::Whole);
    Ok(encoding.map(|encoding| (version, lines::pick(&bytes, encoding, wanted))))
}

fn show(job: &Job, version: Version, picked: Picked) -> Result<ToolOutput, ToolError> {
    let (path, first) = (&job.fact.requested, job.first());
    if version.size == 0 {
        job.cx.files.record_seen(&job.fact.target, version, 0..1);
        return Ok(empty(path));
    }
    if picked.count == 0 && !picked.overflowed {
        let text = format!("The file has only {} lines; line {} is past its end.", picked.total, first + 1);
        return Ok(ToolOutput::text(text, structured(path, first, &picked)));
    }
    let (picked, text) = within_limits(job, picked)?;
    job.cx.files.record_lines(&job.fact.target, version, &shown_lines(first, &picked));
    let view = blake3::hash(text.as_bytes());
    let output = ToolOutput::text(text::of_file(text), structured(path, first, &picked));
    Ok(job.unless_repeated(view, output))
}

/// The numbered text, cut to what may be shown; a range that was asked for is not cut but refused.
fn within_limits(job: &Job, mut picked: Picked) -> Result<(Picked, String), ToolError> {
    let first = job.first();
    let mut text = numbered(&picked.content, first);
    if !tokens::surely_fit(&text, job.limits.tokens) {
        let fitting = tokens::fitting_lines(&text, job.limits.tokens).max(1);
        if fitting < picked.count {
            text.truncate(end_of_line(&text, fitting));
            picked.content.truncate(end_of_line(&picked.content, fitting));
            (picked.count, picked.overflowed) = (fitting, true);
        }
    }
    let end = first + picked.count;
    if picked.overflowed && job.is_ranged() {
        let total = picked.total.known();
        return Err(ToolError::Failed(format!(
            "lines {}-{} are too long to show together; ask for at most {} lines from there",
            first + 1,
            job.limit.map_or(total, |limit| total.min(first.saturating_add(limit))),
            picked.count
        )));
    }
    let more = match picked.total {
        Total::Exact(total) => end < total,
        Total::MoreThan(_) => true,
    };
    // Who set a limit knows that there may be more.
    if more && job.limit.is_none() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n\n[PARTIAL view: lines {}-{end} of {}; read on with offset {}]",
            first + 1,
            picked.total,
            end + 1
        );
    }
    Ok((picked, text))
}

/// The lines that are there, told from those of which only the start is.
fn shown_lines(first: usize, picked: &Picked) -> Lines {
    let (mut lines, mut done) = (Lines::default(), first);
    for (position, bytes) in picked.cut.iter().filter(|(position, _)| *position < picked.count) {
        lines.add(done..first + position);
        lines.add_start(first + position, *bytes);
        done = first + position + 1;
    }
    lines.add(done..first + picked.count);
    lines
}

fn numbered(content: &str, first: usize) -> String {
    let mut text = String::with_capacity(content.len() + content.len() / 4);
    for (position, line) in content.split('\n').enumerate() {
        let newline = if position == 0 { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{newline}{}\t{line}", first + position + 1);
    }
    text
}

/// Where the line of a number, counted from 1, ends.
fn end_of_line(text: &str, number: usize) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).nth(number - 1).unwrap_or(text.len())
}

pub(super) fn empty(path: &Path) -> ToolOutput {
    let file = json!({"filePath": path, "content": "", "numLines": 1, "startLine": 1, "totalLines": 1});
    ToolOutput::text("The file exists but is empty.", json!({"type": "text", "file": file}))
}

fn structured(path: &Path, first: usize, picked: &Picked) -> Json {
    let mut structured = json!({"type": "text", "file": {
        "filePath": path,
        "content": picked.content,
        "numLines": picked.count,
        "startLine": first + 1,
        "totalLines": picked.total.known(),
    }});
    if picked.overflowed {
        structured["file"]["truncatedByTokenCap"] = json!(true);
    }
    structured
}

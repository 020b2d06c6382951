//! Notebooks: cells with what they printed, pictures as pictures. `offset` and `limit` count cells.

use super::{Failure, Job, image, plain};
use crate::{
    RunContext,
    builtin::{
        MAX_WHOLE,
        notebook::{Cell, Notebook, joined},
        tokens,
    },
    host::blocking,
    text,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ostler_proto::{Block, Json, Source, ToolError, ToolOutput};
use serde_json::{Map, json};
use std::{fmt::Write as _, ops::Range};

/// The longest output of a cell that is shown, in characters, and the most pictures.
const MAX_OUTPUT: usize = 10_000;
const MAX_PICTURES: usize = 10;
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A cell as it is shown.
struct Shown {
    blocks: Vec<Block>,
    structured: Json,
}

pub(super) async fn read(job: Job, run: RunContext) -> Result<ToolOutput, Failure> {
    let (version, bytes) = job.load(MAX_WHOLE).await?;
    let (job, shown) = blocking(move || {
        let shown = show(&job, &bytes);
        (job, shown)
    })
    .await;
    match shown {
        Some(shown) => {
            let (output, cells) = shown?;
            job.cx.files.record_cells(&job.fact.target, version, cells);
            Ok(job.show(version, output))
        }
        // What is no notebook in spite of its name may still be mended as a text.
        None => plain::read(job, &run.cancel).await,
    }
}

/// Shows the wanted cells and says which they are; `None` when it is no notebook.
fn show(job: &Job, bytes: &[u8]) -> Option<Result<(ToolOutput, Range<usize>), ToolError>> {
    let notebook = Notebook::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    let first = job.first();
    let total = notebook.cells.len();
    let wanted = notebook.cells.iter().skip(first).take(job.limit.unwrap_or(usize::MAX));
    let mut pictures = MAX_PICTURES;
    let mut shown = Vec::new();
    let mut cost = 0;
    for cell in wanted {
        let cell = show_cell(job, cell, &notebook.language, &mut pictures);
        cost += cell.blocks.iter().filter_map(Block::as_text).map(tokens::count).sum::<usize>();
        if cost > job.limits.tokens {
            let fitting = shown.len();
            if job.is_ranged() && fitting > 0 {
                return Some(Err(ToolError::Failed(format!(
                    "the cells from {} on are too long to show together; ask for at most {fitting}",
                    first + 1
                ))));
            }
            if fitting == 0 {
                return Some(Err(ToolError::Failed(format!(
                    "cell {} is too long to show; look at its parts with jq in Bash",
                    first + 1
                ))));
            }
            break;
        }
        shown.push(cell);
    }
    let cells = first..first + shown.len();
    Some(Ok((output(job, shown, total), cells)))
}

fn output(job: &Job, shown: Vec<Shown>, total: usize) -> ToolOutput {
    let (first, end) = (job.first(), job.first() + shown.len());
    let mut content = Vec::new();
    let mut cells = Vec::new();
    for cell in shown {
        cells.push(cell.structured);
        for block in cell.blocks {
            match (content.last_mut(), block) {
                (Some(Block::Text(before)), Block::Text(text)) => {
                    // Writing to a string cannot fail.
                    let _ = write!(before, "\n{text}");
                }
                (_, block) => content.push(block),
            }
        }
    }
    let notice = match (end < total, cells.is_empty()) {
        (_, true) if total == 0 => Some("The notebook has no cells.".to_owned()),
        (_, true) => {
            Some(format!("The notebook has only {total} cells; cell {} is past its end.", first + 1))
        }
        (true, false) if job.limit.is_none() => Some(format!(
            "\n[PARTIAL view: cells {}-{end} of {total}; read on with offset {}]",
            first + 1,
            end + 1
        )),
        (true | false, false) => None,
    };
    content.extend(notice.map(Block::Text));
    let structured = json!({"type": "notebook", "file": {"filePath": job.fact.requested, "cells": cells}});
    ToolOutput { content, structured, is_error: false, changes: Vec::new() }
}

fn show_cell(job: &Job, cell: &Cell<'_>, language: &str, pictures: &mut usize) -> Shown {
    let (id, kind) = (&cell.id, &cell.parts.cell_type);
    let is_code = kind == "code";
    let foreign =
        if is_code && language != "python" { format!(" language=\"{language}\"") } else { String::new() };
    let mut blocks =
        vec![Block::Text(format!("<cell id=\"{id}\" type=\"{kind}\"{foreign}>\n{}\n</cell>", cell.source))];
    let mut structured = json!({"cellType": kind, "source": cell.source, "cell_id": id});
    if is_code {
        structured["language"] = json!(language);
        let count =
            cell.parts.execution_count.and_then(|count| serde_json::from_str::<u64>(count.get()).ok());
        if let Some(count) = count {
            structured["execution_count"] = json!(count);
        }
    }
    let outputs = cell.parts.outputs.map_or("[]", |outputs| outputs.get());
    let outputs = match serde_json::from_str::<Vec<Json>>(outputs) {
        Ok(outputs) => outputs,
        Err(error) => {
            blocks.push(Block::Text(format!("[The outputs of {id} cannot be read: {error}]")));
            Vec::new()
        }
    };
    let mut shown = Vec::new();
    for output in &outputs {
        shown.push(show_output(job, id, output, &mut blocks, pictures));
    }
    if !shown.is_empty() {
        structured["outputs"] = Json::Array(shown);
    }
    Shown { blocks, structured }
}

/// Shows one output in blocks, and returns it for programs.
fn show_output(job: &Job, id: &str, output: &Json, blocks: &mut Vec<Block>, pictures: &mut usize) -> Json {
    let kind = output.get("output_type").and_then(Json::as_str).unwrap_or("unknown");
    let mut structured = json!({"output_type": kind});
    if let Some(text) = printed(kind, output) {
        let text = text::join_ends(&text::clean(&text), "", 0, MAX_OUTPUT);
        blocks.push(Block::Text(format!("<output of=\"{id}\">\n{}\n</output>", text.trim_end())));
        structured["text"] = json!(text);
    }
    let data = output.get("data").and_then(Json::as_object);
    if let Some((media_type, encoded)) = data.and_then(picture) {
        match fit_picture(job, &encoded, pictures) {
            Ok(block) => {
                if let Block::Image(Source::Base64 { media_type, data }) = &block {
                    structured["image"] = json!({"image_data": data, "media_type": media_type});
                }
                blocks.push(block);
            }
            Err(reason) => {
                blocks.push(Block::Text(format!("[A picture ({media_type}) is left out: {reason}]")));
            }
        }
    }
    structured
}

/// What an output says in words.
fn printed(kind: &str, output: &Json) -> Option<String> {
    let text = |value: &Json| joined(&value.to_string()).ok();
    match kind {
        "stream" => text(output.get("text")?),
        "error" => {
            let part = |key: &str| output.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
            let lines: Vec<&str> =
                output.get("traceback")?.as_array()?.iter().filter_map(Json::as_str).collect();
            let trace = if lines.is_empty() { String::new() } else { format!("\n{}", lines.join("\n")) };
            Some(format!("{}: {}{trace}", part("ename"), part("evalue")))
        }
        _ => text(output.get("data")?.get("text/plain")?),
    }
}

/// The first picture among the forms of an output, still encoded.
fn picture(data: &Map<String, Json>) -> Option<(&'static str, String)> {
    PICTURES.into_iter().find_map(|kind| Some((kind, joined(&data.get(kind)?.to_string()).ok()?)))
}

fn fit_picture(job: &Job, encoded: &str, pictures: &mut usize) -> Result<Block, String> {
    let left = pictures.checked_sub(1).ok_or_else(|| format!("only {MAX_PICTURES} are shown at once"))?;
    let compact: String = encoded.split_ascii_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(compact).map_err(|error| format!("it is no base64 ({error})"))?;
    let block = image::fit(&bytes, job.limits)?.into_block();
    *pictures = left;
    Ok(block)
}

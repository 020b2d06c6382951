//! `NotebookEdit`: replaces, inserts or deletes one cell of a notebook. Everything else in the file
//! keeps its bytes: the change is spliced into the text, in the file's own style.

use super::{
    EditNeeds, MAX_WHOLE,
    change::line_count,
    diff::diff,
    notebook::{Cell, Notebook},
    parse, resolve,
    search::{is_file, missing},
    shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Content, Expected, Hash, HostError, Lines, Replacement, Standing, blocking, read_whole},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json, ser::PrettyFormatter};
use std::{ops::Range, sync::Arc};

const DESCRIPTION: &str = "Changes one cell of a Jupyter notebook that was read before: replaces its source \
(and clears its outputs), inserts a new cell after it, or deletes it.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The notebook; absolute, or relative to the working directory.
    notebook_path: String,
    /// The new source of the cell.
    new_source: String,
    /// The cell, by the id that Read shows. A new cell comes after it, or first without it.
    cell_id: Option<String>,
    /// What the cell is: as it was unless told; a new cell is code.
    cell_type: Option<CellType>,
    /// replace unless told.
    #[serde(default)]
    edit_mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CellType {
    Code,
    Markdown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Replace,
    Insert,
    Delete,
}

/// The tool.
pub(super) struct NotebookEdit {
    spec: ToolSpec,
    needs: EditNeeds,
}

impl NotebookEdit {
    pub(super) fn new(needs: EditNeeds) -> Self {
        Self { spec: spec::<Input>("NotebookEdit", DESCRIPTION, Interrupt::Finish), needs }
    }
}

impl Tool for NotebookEdit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("NotebookEdit", input)?;
            let fact = resolve(&input.notebook_path, cx).await?;
            if fact.target.extension().is_none_or(|extension| extension != "ipynb") {
                return Err(ToolError::Failed(format!(
                    "{} is no .ipynb file; change other files with Edit",
                    fact.requested.display()
                )));
            }
            let new_id = format!("{:08x}", fastrand::u32(..));
            let job = Arc::new(Job { input, new_id, needs: self.needs, fact, cx: cx.clone() });
            let planned = change(&job).await?;
            let name = shown(&job.fact.requested, &cx.cwd);
            let intent = Intent {
                title: title(&job.input, &planned.edited.cell_id, &name),
                access: Access::Write { paths: vec![job.fact.clone()] },
                preview: Preview::Diff(diff(&name, &planned.original, &planned.updated).unified),
            };
            Ok(Plan { intent, effect: Effect::new(move |_| apply(job)) })
        })
    }
}

fn title(input: &Input, cell: &str, name: &str) -> String {
    match input.edit_mode {
        Mode::Replace => format!("Edit cell {cell} of {name}"),
        Mode::Insert => format!("Insert a cell into {name}"),
        Mode::Delete => format!("Delete cell {cell} of {name}"),
    }
}

/// One edit of one notebook.
struct Job {
    input: Input,
    /// The id of a cell that is inserted.
    new_id: String,
    needs: EditNeeds,
    fact: PathFact,
    cx: PlanContext,
}

/// An edit worked out on one content of the file.
struct Change {
    hash: Hash,
    original: String,
    updated: String,
    edited: Edited,
    /// The cells that the model knows when it is done.
    known: Lines,
}

/// What an edit does to the text, and to which cell.
#[derive(Debug, PartialEq, Eq)]
struct Edited {
    /// What is put in place of what, from front to back.
    splices: Vec<(Range<usize>, String)>,
    cell_id: String,
    cell_type: String,
    language: String,
    old_source: Option<String>,
}

async fn apply(job: Arc<Job>) -> Result<ToolOutput, ToolError> {
    // An earlier call of the same turn may have changed the notebook: the edit is worked out anew.
    let Change { hash, original, updated, edited, known } = change(&job).await?;
    let replacement = Replacement {
        target: job.fact.target.clone(),
        content: Content::Whole(updated.clone().into_bytes()),
        expected: Expected::Content(hash),
    };
    let version = job.cx.host.replace(replacement).await?;
    job.cx.files.record_notebook(&job.fact.target, version, known);
    let path = job.fact.requested.display();
    let Input { new_source, edit_mode, .. } = &job.input;
    let text = match edit_mode {
        Mode::Replace => format!("Replaced cell {} of {path}", edited.cell_id),
        Mode::Insert => format!("Inserted cell {} into {path}", edited.cell_id),
        Mode::Delete => format!("Deleted cell {} of {path}", edited.cell_id),
    };
    let mut structured = json!({"new_source": new_source});
    if let Some(old_source) = edited.old_source {
        structured["old_source"] = json!(old_source);
    }
    for (key, value) in [
        ("cell_id", json!(edited.cell_id)),
        ("cell_type", json!(edited.cell_type)),
        ("language", json!(edited.language)),
        ("edit_mode", json!(edit_mode)),
        ("notebook_path", json!(job.fact.requested)),
        ("original_file", json!(original)),
        ("updated_file", json!(updated)),
    ] {
        structured[key] = value;
    }
    Ok(ToolOutput::text(text, structured))
}

/// Reads the notebook, checks that the model knows it, and works the edit out.
async fn change(job: &Arc<Job>) -> Result<Change, ToolError> {
    let (host, target) = (job.cx.host.as_ref(), &job.fact.target);
    let unread = ToolError::Failed(format!(
        "{} has not been read; read it before editing it",
        job.fact.requested.display()
    ));
    // What the model has never seen is not even opened.
    if job.cx.files.version(target).is_none() && is_file(host, target).await? {
        return Err(unread);
    }
    let bytes = match read_whole(host, target, MAX_WHOLE).await {
        Ok((_, bytes)) => bytes,
        Err(HostError::Missing(_)) => return Err(missing(&job.fact, &job.cx).await),
        Err(error) => return Err(error.into()),
    };
    let job = Arc::clone(job);
    blocking(move || {
        let path = job.fact.requested.display();
        let failed = |text: String| ToolError::Failed(text);
        let hash = blake3::hash(&bytes);
        let lines = match job.cx.files.standing(&job.fact.target, hash) {
            Standing::Current(lines) => lines,
            Standing::Unseen => return Err(unread),
            Standing::Changed => {
                return Err(failed(format!("{path} changed on disk since it was read; read it again first")));
            }
        };
        let original = String::from_utf8(bytes)
            .map_err(|_| failed(format!("{path} is no notebook: it is not UTF-8")))?;
        let notebook =
            Notebook::parse(&original).map_err(|error| failed(format!("{path} is no notebook: {error}")))?;
        let cells = if lines.cover(&(0..line_count(&original))) {
            // It was shown or written as the text it is.
            Lines::first(notebook.cells.len())
        } else {
            job.cx.files.cells(&job.fact.target)
        };
        let known = known_after(&job, &notebook, &cells).map_err(failed)?;
        let edited = edit(&notebook, &job.input, &job.new_id).map_err(failed)?;
        let start = original.len() - notebook.text.len();
        let mut updated = original.clone();
        for (range, text) in edited.splices.iter().rev() {
            updated.replace_range(start + range.start..start + range.end, text);
        }
        Ok(Change { hash, original, updated, edited, known })
    })
    .await
}

/// The cells that the model knows after the edit, if it knows those it needs to know before.
fn known_after(job: &Job, notebook: &Notebook<'_>, seen: &Lines) -> Result<Lines, String> {
    let total = notebook.cells.len();
    let place = job.input.cell_id.as_deref().map(|id| notebook.find(id)).transpose()?;
    let needed = match (job.needs, job.input.edit_mode, place) {
        (EditNeeds::WholeFile, _, _) => 0..total,
        (EditNeeds::TouchedLines, Mode::Replace | Mode::Delete, Some(place)) => place..place + 1,
        (EditNeeds::TouchedLines, Mode::Insert, _)
        | (EditNeeds::TouchedLines, Mode::Replace | Mode::Delete, None) => 0..0,
    };
    if let Some(unseen) = needed.clone().find(|cell| !seen.cover(&(*cell..cell + 1))) {
        return Err(format!(
            "cell {} of {} has not been read; read it with offset {} and limit 1 before editing it",
            unseen + 1,
            job.fact.requested.display(),
            unseen + 1
        ));
    }
    let mut known = Lines::default();
    let new = place.map_or(0, |place| place + 1);
    for cell in (0..total).filter(|cell| seen.cover(&(*cell..cell + 1))) {
        let moved = match job.input.edit_mode {
            Mode::Replace => Some(cell),
            Mode::Insert => Some(if cell < new { cell } else { cell + 1 }),
            Mode::Delete if Some(cell) == place => None,
            Mode::Delete => Some(if place.is_some_and(|place| cell > place) { cell - 1 } else { cell }),
        };
        if let Some(cell) = moved {
            known.add(cell..cell + 1);
        }
    }
    if job.input.edit_mode == Mode::Insert {
        known.add(new..new + 1);
    }
    Ok(known)
}

fn edit(notebook: &Notebook<'_>, input: &Input, new_id: &str) -> Result<Edited, String> {
    let place = input.cell_id.as_deref().map(|id| notebook.find(id)).transpose()?;
    match (input.edit_mode, place) {
        (Mode::Insert, place) => Ok(insert(notebook, input, place.map_or(0, |place| place + 1), new_id)),
        (Mode::Replace, Some(place)) => replace(notebook, input, &notebook.cells[place]),
        (Mode::Delete, Some(place)) => Ok(delete(notebook, place)),
        (Mode::Replace | Mode::Delete, None) => {
            Err("say which cell with cell_id; only a new cell can do without".to_owned())
        }
    }
}

fn replace(notebook: &Notebook<'_>, input: &Input, cell: &Cell<'_>) -> Result<Edited, String> {
    let parts = &cell.parts;
    let style = Style::of(notebook);
    let source = source(&input.new_source, parts.source.get());
    let cell_type = input.cell_type.map_or_else(|| parts.cell_type.clone(), |kind| kind.name().to_owned());
    let splices = if cell_type == parts.cell_type {
        let mut splices = Vec::new();
        let place = notebook.place(parts.source);
        let text = style.write(&source, &Style::indent_at(notebook.text, place.start));
        splices.push((place, text));
        // What a cell printed came from the source it had.
        if cell_type == "code" {
            let outputs = parts.outputs.map(|outputs| (notebook.place(outputs), "[]".to_owned()));
            let count = parts.execution_count.map(|count| (notebook.place(count), "null".to_owned()));
            splices.extend(outputs);
            splices.extend(count);
        }
        splices.sort_by_key(|(place, _)| place.start);
        splices
    } else {
        let whole =
            serde_json::from_str(&notebook.text[cell.span.clone()]).map_err(|error| error.to_string())?;
        let whole = converted(whole, &cell_type, &source);
        let indent = Style::indent_at(notebook.text, cell.span.start);
        vec![(cell.span.clone(), style.write(&Json::Object(whole), &indent))]
    };
    Ok(Edited {
        splices,
        cell_id: cell.id.clone(),
        cell_type,
        language: notebook.language.clone(),
        old_source: Some(cell.source.clone()),
    })
}

/// A cell as one of another type, with a new source.
fn converted(cell: Map<String, Json>, cell_type: &str, source: &Json) -> Map<String, Json> {
    let mut converted = Map::new();
    for (key, value) in cell {
        match key.as_str() {
            "cell_type" => {
                converted.insert(key, json!(cell_type));
                if cell_type == "code" {
                    converted.insert("execution_count".to_owned(), Json::Null);
                }
            }
            "source" => {
                if cell_type == "code" {
                    converted.insert("outputs".to_owned(), json!([]));
                }
                converted.insert(key, source.clone());
            }
            "outputs" | "execution_count" => {}
            // Only text has pictures pasted into it.
            "attachments" if cell_type == "code" => {}
            _ => {
                converted.insert(key, value);
            }
        }
    }
    converted
}

fn insert(notebook: &Notebook<'_>, input: &Input, place: usize, new_id: &str) -> Edited {
    let style = Style::of(notebook);
    let kind = input.cell_type.unwrap_or(CellType::Code);
    let example = notebook.cells.first().map_or("[]", |cell| cell.parts.source.get());
    let source = source(&input.new_source, example);
    // In the order in which Jupyter writes them.
    let mut cell = Map::from_iter([("cell_type".to_owned(), json!(kind))]);
    if kind == CellType::Code {
        cell.insert("execution_count".to_owned(), Json::Null);
    }
    if notebook.has_ids {
        cell.insert("id".to_owned(), json!(new_id));
    }
    cell.insert("metadata".to_owned(), json!({}));
    if kind == CellType::Code {
        cell.insert("outputs".to_owned(), json!([]));
    }
    cell.insert("source".to_owned(), source);
    let cell = Json::Object(cell);
    let splice = match (notebook.cells.get(place), place.checked_sub(1).map(|before| &notebook.cells[before]))
    {
        (_, Some(before)) => {
            let indent = Style::indent_at(notebook.text, before.span.start);
            let text = format!(",{}{}", style.line(&indent), style.write(&cell, &indent));
            (before.span.end..before.span.end, text)
        }
        (Some(after), None) => {
            let indent = Style::indent_at(notebook.text, after.span.start);
            let text = format!("{},{}", style.write(&cell, &indent), style.line(&indent));
            (after.span.start..after.span.start, text)
        }
        (None, None) => {
            let outer = Style::indent_at(notebook.text, notebook.span.start);
            let text = style.write(&Json::Array(vec![cell]), &outer);
            (notebook.span.clone(), text)
        }
    };
    Edited {
        splices: vec![splice],
        cell_id: if notebook.has_ids { new_id.to_owned() } else { format!("cell-{place}") },
        cell_type: kind.name().to_owned(),
        language: notebook.language.clone(),
        old_source: None,
    }
}

fn delete(notebook: &Notebook<'_>, place: usize) -> Edited {
    let cell = &notebook.cells[place];
    let range = match (notebook.cells.get(place + 1), place.checked_sub(1)) {
        (Some(after), _) => cell.span.start..after.span.start,
        (None, Some(before)) => notebook.cells[before].span.end..cell.span.end,
        (None, None) => notebook.span.start + 1..notebook.span.end - 1,
    };
    Edited {
        splices: vec![(range, String::new())],
        cell_id: cell.id.clone(),
        cell_type: cell.parts.cell_type.clone(),
        language: notebook.language.clone(),
        old_source: Some(cell.source.clone()),
    }
}

/// A source as the notebook writes sources: as its lines, or as one string.
fn source(text: &str, example: &str) -> Json {
    if example.starts_with('"') {
        return json!(text);
    }
    Json::Array(text.split_inclusive('\n').map(Json::from).collect())
}

impl CellType {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
        }
    }
}

/// How a file lays its JSON out.
enum Style {
    /// All in one line.
    Compact,
    /// In lines that end so, each level indented by so much more.
    Indented { newline: &'static str, unit: String },
}

impl Style {
    fn of(notebook: &Notebook<'_>) -> Self {
        let Some((first, rest)) = notebook.text.split_once('\n') else { return Self::Compact };
        let newline = if first.ends_with('\r') { "\r\n" } else { "\n" };
        let unit = rest.chars().take_while(|character| matches!(character, ' ' | '\t')).collect();
        Self::Indented { newline, unit }
    }

    /// How far the line of a place is indented.
    fn indent_at(text: &str, place: usize) -> String {
        let line = text[..place].rfind('\n').map_or(0, |newline| newline + 1);
        text[line..place].chars().take_while(|character| matches!(character, ' ' | '\t')).collect()
    }

    /// A new line with an indent.
    fn line(&self, indent: &str) -> String {
        match self {
            Self::Compact => String::new(),
            Self::Indented { newline, .. } => format!("{newline}{indent}"),
        }
    }

    /// A value whose first line stands in a line with an indent.
    fn write(&self, value: &Json, indent: &str) -> String {
        let Self::Indented { unit, .. } = self else { return value.to_string() };
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // Memory takes whatever is written to it, and a value has only keys that can be written.
        let _ = value.serialize(&mut serializer);
        let text = String::from_utf8_lossy(&bytes);
        // Strings hold no bare newline, so each one is between values.
        text.replace('\n', &self.line(indent))
    }
}

#[cfg(test)]
mod tests;

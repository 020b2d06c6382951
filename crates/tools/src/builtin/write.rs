//! `Write`: puts a whole file in place. What it would overwrite must have been read.

use super::{
    MAX_WHOLE,
    diff::{Diff, diff},
    parse, resolve, shown, spec,
};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Expected, Hash, Replacement, Standing, Version, blocking, read_whole},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

const DESCRIPTION: &str = "Writes a whole file, creating missing folders. A file that exists is replaced and \
must have been read first. To change part of a file use Edit.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    /// All of its new content.
    content: String,
}

/// The tool.
pub(super) struct Write {
    spec: ToolSpec,
}

impl Write {
    pub(super) fn new() -> Self {
        Self { spec: spec::<Input>("Write", DESCRIPTION, Interrupt::Finish) }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Write", input)?;
            let fact = resolve(&input.file_path, cx).await?;
            plan_whole(fact, input.content, cx, structured).await
        })
    }
}

/// The plan to give a file a whole new content; `Edit` creates files with it too and words the
/// structured result in its own way.
pub(super) async fn plan_whole(
    fact: PathFact,
    content: String,
    cx: &PlanContext,
    structured: fn(&Written<'_>) -> Json,
) -> Result<Plan, ToolError> {
    let name = shown(&fact.requested, &cx.cwd);
    let before = Before::of(&fact, cx).await?;
    let verb = if before.hash.is_some() { "Overwrite" } else { "Create" };
    let (diff, content) = compare(name.clone(), &before, content).await;
    let intent = Intent {
        title: format!("{verb} {name}"),
        access: Access::Write { paths: vec![fact.clone()] },
        preview: Preview::Diff(diff.unified.clone()),
    };
    let cx = cx.clone();
    let effect = Effect::new(move |_| async move {
        // An earlier call of the same turn may have changed the file since; that is no outside change.
        let now = Before::of(&fact, &cx).await?;
        let (diff, content) =
            if now.hash == before.hash { (diff, content) } else { compare(name, &now, content).await };
        let expected = now.hash.map_or(Expected::Absent, Expected::Content);
        let bytes = content.clone().into_bytes();
        let hash = blake3::hash(&bytes);
        let replacement = Replacement { target: fact.target.clone(), bytes, expected };
        let stat = cx.host.replace(replacement).await?;
        let version = Version { hash, size: stat.size, modified: stat.modified };
        cx.files.record_written(&fact.target, version, line_count(&content));
        let written = Written { path: &fact.requested, before: &now, content: &content, diff: &diff };
        Ok(ToolOutput::text(summary(&written), structured(&written)))
    });
    Ok(Plan { intent, effect })
}

/// What a write replaces.
pub(super) struct Before {
    pub(super) text: String,
    hash: Option<Hash>,
}

/// A write that was done.
pub(super) struct Written<'a> {
    pub(super) path: &'a Path,
    pub(super) before: &'a Before,
    pub(super) content: &'a str,
    pub(super) diff: &'a Diff,
}

impl Before {
    /// Looks at the file and makes sure that the model knows all of it.
    async fn of(fact: &PathFact, cx: &PlanContext) -> Result<Self, ToolError> {
        if cx.host.stat(&fact.target).await?.is_none() {
            return Ok(Self { text: String::new(), hash: None });
        }
        let path = fact.requested.display();
        let (_, bytes) = read_whole(cx.host.as_ref(), &fact.target, MAX_WHOLE).await?;
        let hash = blake3::hash(&bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match cx.files.standing(&fact.target, hash) {
            Standing::Unseen => Err(ToolError::Failed(format!(
                "{path} exists and has not been read; read it before overwriting it"
            ))),
            Standing::Changed => Err(ToolError::Failed(format!(
                "{path} changed on disk since it was read; read it again first"
            ))),
            Standing::Current(lines) if !lines.cover(&(0..line_count(&text))) => {
                Err(ToolError::Failed(format!(
                    "of {path} only lines {lines} of {} were read; read the rest before overwriting it, or use Edit",
                    line_count(&text)
                )))
            }
            Standing::Current(_) => Ok(Self { text, hash: Some(hash) }),
        }
    }
}

async fn compare(name: String, before: &Before, content: String) -> (Diff, String) {
    let old = before.text.clone();
    blocking(move || (diff(&name, &old, &content), content)).await
}

/// Lines as `Read` counts them: what follows a last newline is a line too.
fn line_count(text: &str) -> usize {
    text.matches('\n').count() + 1
}

fn summary(written: &Written<'_>) -> String {
    let (path, diff) = (written.path.display(), written.diff);
    match written.before.hash {
        None => format!("Created {path} with {} lines.", diff.added),
        Some(_) => format!("Replaced {path}: {} lines added, {} removed.", diff.added, diff.removed),
    }
}

fn structured(written: &Written<'_>) -> Json {
    let Written { path, before, content, diff } = written;
    match before.hash {
        None => json!({
            "type": "create", "filePath": path, "content": content,
            "structuredPatch": [], "originalFile": null,
        }),
        Some(_) => json!({
            "type": "update", "filePath": path, "content": content,
            "structuredPatch": diff.hunks, "originalFile": before.text,
        }),
    }
}

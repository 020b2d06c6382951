//! `Write`: puts a whole file in place. What it would overwrite must have been read.

use super::{
    MAX_WHOLE,
    change::{line_count, partly_read},
    counted,
    diff::{Diff, diff},
    parse, resolve,
    search::is_file,
    shown,
    source::Source,
    spec,
};
use crate::{
    Effect, Plan, PlanContext, Tool,
    host::{Content, Expected, Hash, HostError, Replacement, Standing, blocking, read_whole},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

const DESCRIPTION: &str = "Writes a whole file, creating missing folders. A file that exists is replaced and \
must have been read as a whole. To change part of a file use Edit.";

const GUIDANCE: &str =
    "Change files that exist with Edit rather than Write, and create new ones only where they are needed.";

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
        Self { spec: spec::<Input>("Write", DESCRIPTION, Interrupt::Finish).guided(GUIDANCE) }
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
            plan_whole(fact, input.content, cx).await
        })
    }
}

async fn plan_whole(fact: PathFact, content: String, cx: &PlanContext) -> Result<Plan, ToolError> {
    let name = shown(&fact.requested, &cx.cwd);
    let before = Before::of(&fact, cx).await?;
    let verb = if before.hash.is_some() { "Overwrite" } else { "Create" };
    let (diff, content) = compare(name.clone(), &before, content).await;
    // What cannot be written is said before anybody is asked.
    before.encode(&fact, content.clone())?;
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
        let bytes = Content::Whole(now.encode(&fact, content.clone())?);
        let replacement = Replacement { target: fact.target.clone(), content: bytes, expected };
        let version = cx.host.replace(replacement).await?;
        cx.files.record_written(&fact.target, version, line_count(&content));
        let written = Written { path: &fact.requested, before: &now, content: &content, diff: &diff };
        Ok(ToolOutput::text(written.summary(), written.structured()))
    });
    Ok(Plan { intent, effect })
}

/// What a write replaces.
struct Before {
    hash: Option<Hash>,
    text: String,
    /// How the text is written; the new one is written the same way. What is no text has no way.
    source: Option<Source>,
}

/// A write that was done.
struct Written<'a> {
    path: &'a Path,
    before: &'a Before,
    content: &'a str,
    diff: &'a Diff,
}

impl Before {
    /// Looks at the file and makes sure that the model knows all of it.
    async fn of(fact: &PathFact, cx: &PlanContext) -> Result<Self, ToolError> {
        let path = fact.requested.display();
        let unread = || {
            ToolError::Failed(format!("{path} exists and has not been read; read it before overwriting it"))
        };
        // What the model has never seen is not even opened.
        if cx.files.version(&fact.target).is_none() && is_file(cx.host.as_ref(), &fact.target).await? {
            return Err(unread());
        }
        let bytes = match read_whole(cx.host.as_ref(), &fact.target, MAX_WHOLE).await {
            Ok((_, bytes)) => bytes,
            Err(HostError::Missing(_)) => return Ok(Self { hash: None, text: String::new(), source: None }),
            Err(error) => return Err(error.into()),
        };
        let hash = blake3::hash(&bytes);
        let standing = cx.files.standing(&fact.target, hash);
        let lossy = String::from_utf8_lossy(&bytes).into_owned();
        let source = Source::decode(bytes).ok();
        let text = source.as_ref().map_or(lossy, |source| source.text().to_owned());
        let total = line_count(&text);
        match standing {
            Standing::Unseen => Err(unread()),
            Standing::Changed => Err(ToolError::Failed(format!(
                "{path} changed on disk since it was read; read it again first"
            ))),
            Standing::Current(lines) if !lines.cover(&(0..total)) => {
                let problem = partly_read(&fact.requested, &lines, total);
                Err(ToolError::Failed(format!("{problem}, or change part of it with Edit")))
            }
            Standing::Current(_) => Ok(Self { hash: Some(hash), text, source }),
        }
    }

    /// The bytes of a new content. The model sees neither encoding nor BOM, so both stay; it does
    /// write line endings, so those are as it wrote them.
    fn encode(&self, fact: &PathFact, content: String) -> Result<Vec<u8>, ToolError> {
        let Some(source) = &self.source else { return Ok(content.into_bytes()) };
        let content = content.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(content);
        source.encode(content).map_err(|reason| {
            ToolError::Failed(format!("{} cannot be written: {reason}", fact.requested.display()))
        })
    }
}

async fn compare(name: String, before: &Before, content: String) -> (Diff, String) {
    let old = before.text.clone();
    blocking(move || (diff(&name, &old, &content), content)).await
}

impl Written<'_> {
    fn summary(&self) -> String {
        let (path, diff) = (self.path.display(), self.diff);
        if self.before.hash.is_none() {
            return format!("Created {path} with {}.", counted(diff.added as u64, "line"));
        }
        let had_returns = self.before.text.contains("\r\n");
        let endings = if had_returns && self.content.contains('\n') && !self.content.contains("\r\n") {
            " Its lines ended with CRLF and now end with LF."
        } else {
            ""
        };
        let added = counted(diff.added as u64, "line");
        format!("Replaced {path}: {added} added, {} removed.{endings}", diff.removed)
    }

    fn structured(&self) -> Json {
        let Written { path, before, content, diff } = self;
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
}

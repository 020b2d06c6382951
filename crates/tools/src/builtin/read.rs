//! `Read`: shows a file as a model can take it (numbered lines, a picture, cells, pages) and
//! remembers what was shown. What never ends or is no such file is refused before it is opened.

mod image;
mod notebook;
mod pdf;
mod plain;

use super::{parse, resolve, search::missing, shown, spec};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{Kind, Version, blocking, read_whole},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

const DESCRIPTION: &str = "Reads a file. Text comes as number, tab, text: without offset and limit the first \
2000 lines; longer files are read in parts. Also shows images, PDF pages and notebook cells (offset and limit \
count cells). Read a file before you change it.";
const GUIDANCE: &str = "Read a file, and enough of it to follow its conventions, before you change it. Use Read rather than cat, head or sed.";

/// However few tokens are allowed, a notice is never cut.
const MIN_RESULT: usize = 4000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file; absolute, or relative to the working directory.
    file_path: String,
    /// The first line to show, counted from 1.
    offset: Option<usize>,
    /// How many lines to show.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// The pages of a PDF to show, such as 3 or 1-5; at most 20.
    pages: Option<String>,
    /// Show the start of a file of any size.
    #[serde(default)]
    allow_large: bool,
}

/// How much a read may show and how it goes about it. Fixed for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest file that is read without saying which part.
    pub whole: u64,
    /// Tokens of the longest text that is shown.
    pub tokens: usize,
    /// Bytes of the largest file that is read into memory as a whole.
    pub in_memory: u64,
    /// Bytes of the largest picture that is shown.
    pub picture: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { whole: 256 * 1024, tokens: 25_000, in_memory: super::MAX_WHOLE, picture: 512 * 1024 }
    }
}

/// The tool.
pub(super) struct Read {
    spec: ToolSpec,
    limits: Limits,
}

/// One read of one file.
struct Job {
    fact: PathFact,
    cx: PlanContext,
    limits: Limits,
    offset: Option<usize>,
    limit: Option<usize>,
    pages: Option<pdf::Pages>,
    allow_large: bool,
}

/// What a file is shown as, by its name.
enum Form {
    Plain,
    Picture,
    Notebook,
    Document,
    /// Something no text can be made of.
    Binary,
}

impl Read {
    pub(super) fn new(limits: Limits) -> Self {
        let spec = spec::<Input>("Read", DESCRIPTION, Interrupt::Cancel).guided(GUIDANCE);
        // It keeps its own limit, in tokens of hardly more than four characters.
        Self {
            spec: ToolSpec { max_result: limits.tokens.saturating_mul(4).max(MIN_RESULT), ..spec },
            limits,
        }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan<'a>(&'a self, input: Json, cx: &'a PlanContext) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(async move {
            let input: Input = parse("Read", input)?;
            let pages = input.pages.as_deref().map(str::trim).filter(|pages| !pages.is_empty());
            let pages = pages.map(pdf::Pages::parse).transpose()?;
            let fact = resolve(&input.file_path, cx).await?;
            let intent = Intent {
                title: format!("Read {}", shown(&fact.requested, &cx.cwd)),
                access: Access::Read { paths: vec![fact.clone()] },
                preview: Preview::None,
            };
            let Input { offset, limit, allow_large, .. } = input;
            let job = Job { fact, cx: cx.clone(), limits: self.limits, offset, limit, pages, allow_large };
            Ok(Plan { intent, effect: Effect::new(move |run| read(job, run)) })
        })
    }
}

async fn read(job: Job, run: RunContext) -> Result<ToolOutput, ToolError> {
    let path = job.fact.requested.display();
    if job.fact.target == Path::new("/dev/null") {
        return Ok(plain::empty(&job.fact.requested));
    }
    let form = form(&job.fact.target);
    if matches!(form, Form::Binary) {
        return Err(binary(&job.fact.requested));
    }
    let Some(stat) = job.cx.host.stat(&job.fact.target).await? else {
        return Err(missing(&job.fact, &job.cx).await);
    };
    match stat.kind {
        Kind::File => {}
        Kind::Directory => {
            return Err(ToolError::Failed(format!(
                "{path} is a directory, not a file; list it with LS or Glob"
            )));
        }
        Kind::Special(kind) => {
            return Err(ToolError::Failed(format!("{path} is {kind}, not a regular file")));
        }
    }
    match form {
        Form::Plain => plain::read(job, stat, run).await,
        Form::Picture => image::read(job).await,
        Form::Notebook => notebook::read(job, stat, run).await,
        Form::Document => pdf::read(job).await,
        Form::Binary => Err(binary(&job.fact.requested)),
    }
}

fn form(path: &Path) -> Form {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" => Form::Picture,
        "ipynb" => Form::Notebook,
        "pdf" => Form::Document,
        "7z" | "a" | "aac" | "avi" | "avif" | "bmp" | "bz2" | "class" | "dll" | "dmg" | "doc" | "docx"
        | "dylib" | "eot" | "epub" | "exe" | "flac" | "gz" | "heic" | "icns" | "ico" | "iso" | "jar"
        | "lz4" | "m4a" | "mkv" | "mov" | "mp3" | "mp4" | "mpg" | "o" | "odp" | "ods" | "odt" | "ogg"
        | "otf" | "parquet" | "pkl" | "ppt" | "pptx" | "psd" | "pyc" | "pyo" | "rar" | "rlib" | "so"
        | "sqlite" | "sqlite3" | "tar" | "tgz" | "tif" | "tiff" | "ttf" | "wasm" | "wav" | "webm" | "wmv"
        | "woff" | "woff2" | "xls" | "xlsx" | "xz" | "zip" | "zst" => Form::Binary,
        _ => Form::Plain,
    }
}

impl Job {
    /// Whether the model said which part it wants.
    fn is_ranged(&self) -> bool {
        self.offset.is_some() || self.limit.is_some()
    }

    /// The first thing to show, counted from 0.
    fn first(&self) -> usize {
        self.offset.unwrap_or(1).max(1) - 1
    }

    /// Reads all of the file.
    async fn load(&self, limit: u64) -> Result<(Version, Vec<u8>), ToolError> {
        let (stat, bytes) = read_whole(self.cx.host.as_ref(), &self.fact.target, limit).await?;
        let (hash, bytes) = blocking(move || (blake3::hash(&bytes), bytes)).await;
        Ok((Version { hash, size: stat.size, modified: stat.modified }, bytes))
    }

    /// Gives a result that shows no lines to the model, or says that it has it already.
    fn show(&self, version: Version, output: ToolOutput) -> ToolOutput {
        self.cx.files.record_seen(&self.fact.target, version, 0..0);
        let view = blake3::hash(output.structured.to_string().as_bytes());
        self.unless_repeated(view, output)
    }

    fn unless_repeated(&self, view: blake3::Hash, output: ToolOutput) -> ToolOutput {
        if !self.cx.files.record_view(&self.fact.target, view) {
            return output;
        }
        let path = &self.fact.requested;
        ToolOutput::text(
            format!("{} is unchanged: the earlier result of this read still holds.", path.display()),
            json!({"type": "file_unchanged", "file": {"filePath": path}}),
        )
    }
}

fn binary(path: &Path) -> ToolError {
    ToolError::Failed(format!("{} is a binary file and cannot be shown as text", path.display()))
}

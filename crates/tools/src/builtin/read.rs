//! `Read`: shows a file as a model can take it (numbered lines, a picture, cells, pages) and
//! remembers what was shown. What never ends or is no such file is refused before it is opened.

mod image;
mod notebook;
mod pdf;
mod plain;

use super::{parse, resolve, search::missing, shown, spec};
use crate::{
    Effect, Plan, PlanContext, RunContext, Tool,
    host::{HostError, Version, blocking, read_opened},
};
use futures_util::future::BoxFuture;
use ostler_proto::{Access, Intent, Interrupt, Json, PathFact, Preview, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use tokio_util::sync::CancellationToken;

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
    /// Lines that are shown without saying how many.
    pub lines: usize,
    /// Bytes of the largest file that is read into memory as a whole.
    pub in_memory: u64,
    /// Bytes of the largest picture that is shown.
    pub picture: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            whole: 256 * 1024,
            tokens: 25_000,
            lines: 2000,
            in_memory: super::MAX_WHOLE,
            picture: 512 * 1024,
        }
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
        let spec = spec::<Input>("Read", &description(limits), Interrupt::Cancel).guided(GUIDANCE);
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

fn description(limits: Limits) -> String {
    format!(
        "Reads a file. Text comes as number, tab, line: the first {} lines unless offset and limit say which. A \
         line over 2000 characters is cut unless it is read alone, with limit 1. Also shows images, PDF pages and \
         notebook cells (offset and limit count cells).",
        limits.lines
    )
}

/// Shows the start of a text file again, in at most so many tokens, and remembers what was shown. It is for
/// a file that a call has read or written before; whoever asks has made sure that it may be read.
pub async fn show_again(fact: PathFact, cx: &PlanContext, tokens: usize) -> Result<String, ToolError> {
    if !matches!(form(&fact.target), Form::Plain) {
        return Err(binary(&fact.requested));
    }
    let limits = Limits { tokens, ..Limits::default() };
    let job = Job { fact, cx: cx.clone(), limits, offset: None, limit: None, pages: None, allow_large: true };
    match plain::read(job, &CancellationToken::new()).await {
        Ok(output) => Ok(output.content.iter().filter_map(ostler_proto::Block::as_text).collect()),
        Err(Failure::Told(error)) => Err(error),
        Err(Failure::Host(error)) => Err(error.into()),
    }
}

async fn read(job: Job, run: RunContext) -> Result<ToolOutput, ToolError> {
    if job.fact.target == Path::new("/dev/null") {
        return Ok(plain::empty(&job.fact.requested));
    }
    let form = form(&job.fact.target);
    if matches!(form, Form::Binary) {
        return Err(binary(&job.fact.requested));
    }
    let (fact, cx) = (job.fact.clone(), job.cx.clone());
    let shown = match form {
        Form::Plain => plain::read(job, &run.cancel).await,
        Form::Picture => image::read(job).await,
        Form::Notebook => notebook::read(job, run).await,
        Form::Document => pdf::read(job).await,
        Form::Binary => Err(Failure::Told(binary(&job.fact.requested))),
    };
    match shown {
        Ok(output) => Ok(output),
        Err(Failure::Told(error)) => Err(error),
        Err(Failure::Host(HostError::Missing(_))) => Err(missing(&fact, &cx).await),
        Err(Failure::Host(HostError::Directory(_))) => Err(ToolError::Failed(format!(
            "{} is a directory, not a file; list it with LS or Glob",
            fact.requested.display()
        ))),
        Err(Failure::Host(error)) => Err(error.into()),
    }
}

/// Why a file is not shown.
enum Failure {
    /// The machine did not give it.
    Host(HostError),
    /// It says so itself.
    Told(ToolError),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Told(error)
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
    async fn load(&self, limit: u64) -> Result<(Version, Vec<u8>), HostError> {
        let (opening, path) = (self.cx.host.open(&self.fact.target), self.fact.target.clone());
        blocking(move || {
            let (stat, bytes) = read_opened(opening()?, path, limit)?;
            let version = Version { hash: blake3::hash(&bytes), size: stat.size, modified: stat.modified };
            Ok((version, bytes))
        })
        .await
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

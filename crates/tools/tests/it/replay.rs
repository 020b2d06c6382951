//! Replays the history of a git repository with the file tools: each change of a text file becomes
//! the calls a model would make, with no more context than needed and only the lines read that are
//! touched. What stands on the disk afterwards must be what git has, byte for byte.

use ostler_proto::Json;
use ostler_tools::{
    PlanContext, Progress, ReadPolicy, Registry, RunContext,
    builtin::all,
    host::{FileState, Local},
};
use serde_json::json;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::{
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

/// The most lines of context that are tried before a file is written whole.
const MAX_CONTEXT: usize = 60;

/// What was replayed.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) commits: usize,
    pub(crate) reads: usize,
    pub(crate) edits: usize,
    pub(crate) batches: usize,
    /// Replacements in all edits and batches.
    pub(crate) replacements: usize,
    pub(crate) writes: usize,
    /// Changes no tool is for: removals, links, binary files.
    pub(crate) by_hand: usize,
    /// Files that were compared with git's.
    pub(crate) compared: usize,
    /// Files that were not as git has them, and calls that failed.
    pub(crate) wrong: Vec<String>,
}

/// Replays the last `limit` commits of the current branch.
pub(crate) async fn replay(repository: &Path, limit: usize) -> Report {
    let commits = commits(repository, limit.saturating_add(1).min(1_000_000_000));
    let temp = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&temp.path().canonicalize().unwrap());
    let mut blobs = Blobs::open(repository);
    let empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned();
    let mut from = empty_tree;
    for (position, commit) in commits.iter().enumerate() {
        // Where the history is cut off, its first commit is only set out.
        let is_set_out = position == 0 && commits.len() > limit;
        for change in changes(repository, &from, commit) {
            let new = change.new.as_ref().map(|blob| blobs.get(blob));
            if is_set_out {
                stage.by_hand(&change.path, new.as_deref());
                continue;
            }
            let old = change.old.as_ref().map(|blob| blobs.get(blob));
            stage.replay(&change, old.as_deref(), new.as_deref()).await;
            stage.compare(&change.path, new.as_deref());
        }
        stage.report.commits += usize::from(!is_set_out);
        from.clone_from(commit);
    }
    for change in changes(repository, "4b825dc642cb6eb9a060e54bf8d69288fbee4904", &from) {
        let held = change.new.as_ref().map(|blob| blobs.get(blob));
        stage.compare(&change.path, held.as_deref());
    }
    stage.report
}

/// One changed file of a commit.
struct Change {
    path: String,
    old: Option<String>,
    new: Option<String>,
}

fn git(repository: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The last commits, oldest first.
fn commits(repository: &Path, limit: usize) -> Vec<String> {
    let count = format!("--max-count={limit}");
    let list = git(repository, &["rev-list", "--first-parent", &count, "HEAD"]);
    let mut commits: Vec<String> = String::from_utf8(list).unwrap().lines().map(str::to_owned).collect();
    commits.reverse();
    commits
}

fn changes(repository: &Path, from: &str, to: &str) -> Vec<Change> {
    let raw = git(repository, &["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to]);
    let mut fields = raw.split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned());
    let mut changes = Vec::new();
    while let (Some(head), Some(path)) = (fields.next().filter(|head| !head.is_empty()), fields.next()) {
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let blob = |mode: &str, id: &str| matches!(mode, "100644" | "100755").then(|| id.to_owned());
        let (old, new) = (blob(words[0], words[2]), blob(words[1], words[3]));
        // Links and submodules are nobody's text.
        if old.is_some() || new.is_some() {
            changes.push(Change { path, old, new });
        }
    }
    // What is removed makes room for folders and files of the same name.
    changes.sort_by_key(|change| change.new.is_some());
    changes
}

/// Contents by id, from one git process.
struct Blobs {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Blobs {
    fn open(repository: &Path) -> Self {
        let mut child = Command::new("git")
            .arg("-C")
            .arg(repository)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (ask, answer) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, ask, answer }
    }

    fn get(&mut self, id: &str) -> Vec<u8> {
        writeln!(self.ask, "{id}").unwrap();
        self.ask.flush().unwrap();
        let mut head = String::new();
        self.answer.read_line(&mut head).unwrap();
        let size: usize = head.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let mut bytes = vec![0; size + 1];
        self.answer.read_exact(&mut bytes).unwrap();
        bytes.truncate(size);
        bytes
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text as a model sees it, and what a model cannot see of it.
#[derive(PartialEq, Eq)]
struct Text {
    visible: String,
    form: Form,
}

#[derive(PartialEq, Eq, Clone, Copy)]
struct Form {
    is_wide: bool,
    has_mark: bool,
    /// Whether all lines end alike, and how; nothing for a text of mixed ends.
    returns: Option<bool>,
}

impl Text {
    fn of(bytes: &[u8]) -> Option<Self> {
        let is_wide = bytes.starts_with(b"\xFF\xFE");
        let raw = if is_wide {
            let pairs: Vec<u16> =
                bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&pairs).ok()?
        } else {
            String::from_utf8(bytes.to_vec()).ok()?
        };
        if raw.contains('\0') {
            return None;
        }
        let (has_mark, raw) = raw.strip_prefix('\u{FEFF}').map_or((false, raw.as_str()), |rest| (true, rest));
        let (returns, newlines) = (raw.matches("\r\n").count(), raw.matches('\n').count());
        let form =
            Form { is_wide, has_mark, returns: (returns == 0 || returns == newlines).then_some(returns > 0) };
        Some(Self { visible: raw.replace("\r\n", "\n"), form })
    }
}

/// A working copy and the tools.
struct Stage {
    dir: PathBuf,
    tools: Registry,
    cx: PlanContext,
    report: Report,
}

impl Stage {
    fn new(dir: &Path) -> Self {
        let cx = PlanContext {
            cwd: dir.to_owned(),
            roots: vec![dir.to_owned()],
            host: Arc::new(Local::new(dir.to_owned(), Vec::new())),
            files: Arc::new(FileState::default()),
            read_policy: ReadPolicy::open(),
            plan_file: None,
        };
        Self { dir: dir.to_owned(), tools: Registry::new(all()).unwrap(), cx, report: Report::default() }
    }

    async fn call(&self, tool: &str, input: Json) -> Result<(), String> {
        let tool = self.tools.find(tool).unwrap();
        tool.validate(&input).map_err(|error| error.to_string())?;
        let plan = tool.plan(input, &self.cx).await.map_err(|error| error.to_string())?;
        let (progress, _) = tokio::sync::mpsc::channel(1);
        let cx = RunContext {
            call: "call".into(),
            cancel: CancellationToken::new(),
            progress: Progress::to(progress),
            terms: ostler_tools::host::Terms::default(),
        };
        plan.effect.run(cx).await.map(|_| ()).map_err(|error| error.to_string())
    }

    fn by_hand(&self, path: &str, new: Option<&[u8]>) {
        let path = self.dir.join(path);
        let _ = std::fs::remove_file(&path);
        if let Some(bytes) = new {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
        } else {
            // Git keeps no empty folders, and a file may come in a folder's place.
            for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.dir) {
                if std::fs::remove_dir(folder).is_err() {
                    break;
                }
            }
        }
    }

    fn compare(&mut self, path: &str, new: Option<&[u8]>) {
        self.report.compared += 1;
        let held = std::fs::read(self.dir.join(path)).ok();
        if held.as_deref() != new {
            self.report.wrong.push(format!("{path} is not as git has it"));
            self.by_hand(path, new);
        }
    }

    async fn replay(&mut self, change: &Change, old: Option<&[u8]>, new: Option<&[u8]>) {
        let path = change.path.as_str();
        // A read sees neither NULs nor more than it is allowed; both are for other tools.
        let texts = (old.map(Text::of), new.and_then(Text::of));
        let done = match texts {
            (None, Some(new)) if !new.form.is_wide => self.write(path, &new, None).await,
            (Some(Some(old)), Some(new)) if old != new => {
                if old.form == new.form && old.form.returns.is_some() && !old.visible.is_empty() {
                    match edits(&old.visible, &new.visible) {
                        Some(edits) => self.edit(path, edits).await,
                        None => self.write(path, &new, Some(&old)).await,
                    }
                } else if (old.form.is_wide, old.form.has_mark) == (new.form.is_wide, new.form.has_mark) {
                    self.write(path, &new, Some(&old)).await
                } else {
                    Err(None)
                }
            }
            (None | Some(Some(_) | None), None | Some(_)) => Err(None),
        };
        match done {
            Ok(()) => {}
            Err(reason) => {
                self.report.by_hand += 1;
                self.report.wrong.extend(reason.map(|reason| format!("{path}: {reason}")));
                self.by_hand(path, new);
            }
        }
    }

    /// Writes a file whole; one that exists is read whole first.
    async fn write(&mut self, path: &str, new: &Text, old: Option<&Text>) -> Result<(), Option<String>> {
        if let Some(old) = old {
            self.read(path, 0..old.visible.matches('\n').count() + 1).await?;
        }
        let mut content = new.visible.clone();
        if new.form.returns == Some(true) {
            content = content.replace('\n', "\r\n");
        } else if new.form.returns.is_none() {
            // Mixed line ends are given as they are; the caller compares.
            return Err(None);
        }
        if new.form.has_mark && old.is_none() {
            content.insert(0, '\u{FEFF}');
        }
        self.report.writes += 1;
        self.call("Write", json!({"file_path": path, "content": content})).await.map_err(Some)
    }

    /// Reads some lines, in pieces that fit the limits of a read.
    async fn read(&mut self, path: &str, lines: Range<usize>) -> Result<(), Option<String>> {
        let mut start = lines.start;
        while start < lines.end {
            let limit = (lines.end - start).min(200);
            self.report.reads += 1;
            let input = json!({"file_path": path, "offset": start + 1, "limit": limit});
            self.call("Read", input).await.map_err(Some)?;
            start += limit;
        }
        Ok(())
    }

    async fn edit(&mut self, path: &str, edits: Vec<Replacement>) -> Result<(), Option<String>> {
        for edit in &edits {
            self.read(path, edit.touched.clone()).await?;
        }
        self.report.replacements += edits.len();
        let step = |edit: &Replacement| json!({"old_string": edit.old, "new_string": edit.new});
        let result = if let [only] = edits.as_slice() {
            self.report.edits += 1;
            let mut input = step(only);
            input["file_path"] = json!(path);
            self.call("Edit", input).await
        } else {
            self.report.batches += 1;
            let steps: Vec<Json> = edits.iter().map(step).collect();
            self.call("MultiEdit", json!({"file_path": path, "edits": steps})).await
        };
        result.map_err(Some)
    }
}

/// A replacement, and the lines of the file before all replacements that it touches.
struct Replacement {
    old: String,
    new: String,
    touched: Range<usize>,
}

/// The replacements that lead from one text to another, each with as many lines around it as it
/// takes to be found only once.
fn edits(old: &str, new: &str) -> Option<Vec<Replacement>> {
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut current = old.to_owned();
    let mut edits = Vec::new();
    // From the end, so that the lines before are still those of the old text.
    for op in capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines).into_iter().rev() {
        let (old_range, new_range) = match op {
            DiffOp::Equal { .. } => continue,
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                (op.old_range(), op.new_range())
            }
        };
        let replacement = (0..=MAX_CONTEXT).find_map(|context| {
            let (above, below) = (context.div_ceil(2), context / 2);
            let touched = old_range.start.saturating_sub(above)..(old_range.end + below).min(old_lines.len());
            let text: String = old_lines[touched.clone()].concat();
            let is_intact = edits.last().is_none_or(|later: &Replacement| touched.end <= later.touched.start);
            if text.is_empty() || !is_intact || stands(&current, &text) != 1 {
                return None;
            }
            let head = old_lines[touched.start..old_range.start].concat();
            let tail = old_lines[old_range.end..touched.end].concat();
            let new = head + &new_lines[new_range.clone()].concat() + &tail;
            Some(Replacement { old: text, new, touched })
        })?;
        current = current.replacen(&replacement.old, &replacement.new, 1);
        edits.push(replacement);
    }
    (current == new && !edits.is_empty()).then_some(edits)
}

/// How often a text stands in another, overlaps counted.
fn stands(text: &str, wanted: &str) -> usize {
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let (mut count, mut from) = (0, 0);
    while let Some(at) = text[from..].find(wanted) {
        (count, from) = (count + 1, from + at + step);
        if count > 1 {
            break;
        }
    }
    count
}

/// Makes a repository with a history of random changes: lines added, changed, moved and removed in
/// files of several kinds, files that come and go.
pub(crate) fn synthetic(repository: &Path, commits: usize, seed: u64) {
    git(repository, &["init", "--quiet", "--initial-branch=main"]);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut files: Vec<(String, Vec<String>, Style)> = Vec::new();
    let mut stream = Vec::new();
    for commit in 0..commits {
        let message = format!("change {commit}");
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@example.com> {} +0000\ndata {}\n{message}\n",
            1_700_000_000 + commit,
            message.len()
        )
        .unwrap();
        for _ in 0..random.usize(1..4) {
            if files.len() < 5 || (files.len() < 40 && random.usize(..12) == 0) {
                let name = format!("dir{}/file{commit}-{}.txt", random.u8(..4), random.u16(..));
                let lines = (0..random.usize(1..120)).map(|_| line(&mut random)).collect();
                files.push((name, lines, Style::random(&mut random)));
                put(&mut stream, files.last().unwrap());
            } else if files.len() > 8 && random.usize(..25) == 0 {
                let (name, ..) = files.swap_remove(random.usize(..files.len()));
                writeln!(stream, "D {name}").unwrap();
            } else {
                let index = random.usize(..files.len());
                let (_, lines, style) = &mut files[index];
                for _ in 0..random.usize(1..5) {
                    disturb(lines, &mut random);
                }
                if random.usize(..30) == 0 {
                    style.has_last_newline = !style.has_last_newline;
                }
                put(&mut stream, &files[index]);
            }
        }
    }
    let mut import = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    import.stdin.take().unwrap().write_all(&stream).unwrap();
    assert!(import.wait().unwrap().success());
}

/// How the lines of a made-up file are written.
struct Style {
    encoding: Encoding,
    ending: &'static str,
    has_last_newline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    MarkedUtf8,
    Utf16,
}

impl Style {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self {
            encoding: match random.usize(..10) {
                0 => Encoding::Utf16,
                1 | 2 => Encoding::MarkedUtf8,
                _ => Encoding::Utf8,
            },
            ending: if random.usize(..4) == 0 { "\r\n" } else { "\n" },
            has_last_newline: random.usize(..5) > 0,
        }
    }
}

fn line(random: &mut fastrand::Rng) -> String {
    const WORDS: [&str; 12] =
        ["let", "x", "=", "fn", "call(a);", "}", "{", "“quoted”", "\"it's\"", "größe", "\t", "return"];
    let indent = " ".repeat(4 * random.usize(..4));
    // Many lines are the same, as in real files.
    let words: Vec<&str> = (0..random.usize(..5)).map(|_| WORDS[random.usize(..WORDS.len())]).collect();
    let trailing = if random.usize(..15) == 0 { "  " } else { "" };
    format!("{indent}{}{trailing}", words.join(" "))
}

fn disturb(lines: &mut Vec<String>, random: &mut fastrand::Rng) {
    let at = random.usize(..=lines.len());
    let until = (at + random.usize(..4)).min(lines.len());
    match random.u8(..5) {
        0 => lines.insert(at, line(random)),
        1 if lines.len() > 5 => drop(lines.drain(at..until)),
        2 if lines.len() > 5 => {
            let moved: Vec<String> = lines.drain(at..until).collect();
            let to = random.usize(..=lines.len());
            lines.splice(to..to, moved);
        }
        3 => {
            let copied: Vec<String> = lines[at..until].to_vec();
            lines.splice(at..at, copied);
        }
        _ => {
            for changed in &mut lines[at..until] {
                *changed = line(random);
            }
        }
    }
}

fn put(stream: &mut Vec<u8>, (name, lines, style): &(String, Vec<String>, Style)) {
    let mut text = lines.join(style.ending);
    if style.has_last_newline {
        text.push_str(style.ending);
    }
    let bytes: Vec<u8> = match style.encoding {
        Encoding::Utf8 => text.into_bytes(),
        Encoding::MarkedUtf8 => format!("\u{FEFF}{text}").into_bytes(),
        Encoding::Utf16 => format!("\u{FEFF}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
    };
    write!(stream, "M 644 inline {name}\ndata {}\n", bytes.len()).unwrap();
    stream.extend(bytes);
    stream.push(b'\n');
}

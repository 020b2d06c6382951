//! A Jupyter notebook read in place: every part knows where it stands in the file's text, so that
//! a change touches nothing else. Parsing is bounded in depth and never guesses at broken JSON.

use ostler_proto::Json;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::Range;

/// A notebook.
pub(super) struct Notebook<'a> {
    /// All of the file, save a byte order mark.
    pub(super) text: &'a str,
    /// The cells with the brackets around them.
    pub(super) span: Range<usize>,
    pub(super) cells: Vec<Cell<'a>>,
    /// What code cells are written in.
    pub(super) language: String,
    /// Whether the format gives every cell an id.
    pub(super) has_ids: bool,
}

/// One cell.
pub(super) struct Cell<'a> {
    /// Its own id, or its place as `cell-N`, counted from 0.
    pub(super) id: String,
    pub(super) span: Range<usize>,
    pub(super) parts: Parts<'a>,
    /// Its source, joined.
    pub(super) source: String,
}

/// The parts of a cell that are of interest, as they are written.
#[derive(Deserialize)]
pub(super) struct Parts<'a> {
    #[serde(default)]
    id: Option<String>,
    pub(super) cell_type: String,
    #[serde(borrow)]
    pub(super) source: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) outputs: Option<&'a RawValue>,
    /// `None` also when it is null.
    #[serde(borrow, default)]
    pub(super) execution_count: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    cells: &'a RawValue,
    #[serde(default)]
    metadata: Json,
    #[serde(default)]
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
}

/// Text that may be written as one string or as its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    One(String),
    Many(Vec<String>),
}

impl<'a> Notebook<'a> {
    /// Reads a notebook of format 4; the error says what is wrong with it.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let wrong = |error: serde_json::Error| error.to_string();
        let document: Document<'a> = serde_json::from_str(text).map_err(wrong)?;
        let raw_cells: Vec<&'a RawValue> = serde_json::from_str(document.cells.get()).map_err(wrong)?;
        let mut cells = Vec::with_capacity(raw_cells.len());
        for (position, raw) in raw_cells.into_iter().enumerate() {
            let in_cell = |error: serde_json::Error| format!("cell {position}: {error}");
            let parts: Parts<'a> = serde_json::from_str(raw.get()).map_err(in_cell)?;
            let source = joined(parts.source.get()).map_err(in_cell)?;
            let id = parts.id.clone().unwrap_or_else(|| format!("cell-{position}"));
            cells.push(Cell { id, span: span_of(raw.get(), text), parts, source });
        }
        let named = |pointer: &str| document.metadata.pointer(pointer).and_then(Json::as_str);
        let language = named("/language_info/name").or(named("/kernelspec/language")).unwrap_or("python");
        Ok(Self {
            text,
            span: span_of(document.cells.get(), text),
            cells,
            language: language.to_owned(),
            has_ids: (document.nbformat, document.nbformat_minor) >= (4, 5),
        })
    }

    /// The place of a cell among the others.
    pub(super) fn find(&self, id: &str) -> Result<usize, String> {
        const MANY: usize = 50;
        let by_id = self.cells.iter().position(|cell| cell.id == id);
        let by_place = || id.strip_prefix("cell-")?.parse().ok().filter(|place| *place < self.cells.len());
        by_id.or_else(by_place).ok_or_else(|| {
            let ids: Vec<&str> = self.cells.iter().map(|cell| cell.id.as_str()).take(MANY).collect();
            let more = if self.cells.len() > MANY { ", …" } else { "" };
            format!("no cell has the id {id:?}; the cells are {}{more}", ids.join(", "))
        })
    }

    /// Where a part stands in the text.
    pub(super) fn place(&self, part: &RawValue) -> Range<usize> {
        span_of(part.get(), self.text)
    }
}

/// A text that is written as one string or as its lines.
pub(super) fn joined(raw: &str) -> serde_json::Result<String> {
    Ok(match serde_json::from_str(raw)? {
        Lines::One(text) => text,
        Lines::Many(lines) => lines.concat(),
    })
}

/// Where a part that was borrowed from a text stands in it.
fn span_of(part: &str, text: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_know_their_places() {
        let text = "\u{FEFF}{\"nbformat\": 4, \"nbformat_minor\": 5, \"cells\": [ {\"cell_type\": \"code\", \
            \"id\": \"a\", \"source\": [\"x\\n\", \"y\"]},{\"cell_type\":\"raw\",\"source\":\"z\"} ], \
            \"metadata\": {\"kernelspec\": {\"language\": \"R\"}}}";
        let notebook = Notebook::parse(text).unwrap();
        assert_eq!((notebook.language.as_str(), notebook.has_ids), ("R", true));
        let [a, b] = notebook.cells.as_slice() else { panic!("two cells") };
        assert_eq!((a.id.as_str(), a.source.as_str()), ("a", "x\ny"));
        assert_eq!((b.id.as_str(), b.source.as_str()), ("cell-1", "z"));
        assert_eq!(&notebook.text[notebook.place(a.parts.source)], "[\"x\\n\", \"y\"]");
        assert!(notebook.text[notebook.span.clone()].starts_with("[ {"));
        assert_eq!(notebook.text[b.span.clone()].len(), 32);
        assert_eq!((notebook.find("a"), notebook.find("cell-1")), (Ok(0), Ok(1)));
        assert!(notebook.find("c").unwrap_err().ends_with("the cells are a, cell-1"));
    }

    #[test]
    fn hostile_json_is_an_error() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in [
            "",
            "[]",
            "{\"cells\": 1}",
            "{\"cells\": [{}]}",
            "{\"cells\": [], \"cells\": []}",
            "{\"cells\": [], \"nbformat\": 1e400}",
            "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"\\ud800\"}]}",
            &format!("{{\"cells\": [], \"metadata\": {deep}}}"),
            &format!("{{\"cells\": [{{\"cell_type\": \"code\", \"source\": {deep}}}]}}"),
        ] {
            assert!(Notebook::parse(text).is_err(), "{}", &text[..text.len().min(80)]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}|\\{\"cells\": \\[\\PC{0,40}\\]\\}") {
            let _ = Notebook::parse(&text);
        }
    }
}

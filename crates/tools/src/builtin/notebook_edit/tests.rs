//! Edits of notebooks as texts: what changes, and that nothing else does.

use super::*;
use proptest::prelude::*;

/// As Jupyter writes it.
const JUPYTER: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {"odd":   true},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "work",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout"
    }
   ],
   "source": [
    "print(1)"
   ]
  }
 ],
 "metadata": {
  "zoom": 1.10
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn input(mode: Mode, cell: Option<&str>, kind: Option<CellType>, source: &str) -> Input {
    Input {
        notebook_path: String::new(),
        new_source: source.to_owned(),
        cell_id: cell.map(str::to_owned),
        cell_type: kind,
        edit_mode: mode,
    }
}

fn edited(text: &str, input: &Input) -> String {
    let notebook = Notebook::parse(text).unwrap();
    let mut updated = text.to_owned();
    for (range, new) in edit(&notebook, input, "fresh").unwrap().splices.iter().rev() {
        updated.replace_range(range.clone(), new);
    }
    Notebook::parse(&updated).unwrap();
    updated
}

#[track_caller]
fn check(input: &Input, replacements: &[(&str, &str)]) {
    let mut expected = JUPYTER.to_owned();
    for (old, new) in replacements {
        assert_eq!(expected.matches(old).count(), 1, "{old}");
        expected = expected.replace(old, new);
    }
    assert_eq!(edited(JUPYTER, input), expected);
}

#[test]
fn a_replaced_cell_loses_its_outputs_and_nothing_else_changes() {
    check(
        &input(Mode::Replace, Some("work"), None, "a = 1\nprint(a)\n"),
        &[
            ("\"print(1)\"", "\"a = 1\\n\",\n    \"print(a)\\n\""),
            (": 7", ": null"),
            ("[\n    {\n     \"name\": \"stdout\"\n    }\n   ]", "[]"),
        ],
    );
    check(
        &input(Mode::Replace, Some("cell-0"), Some(CellType::Markdown), ""),
        &[("[\n    \"# Title\\n\",\n    \"text\"\n   ]", "[]")],
    );
}

#[test]
fn a_cell_can_become_another_type() {
    let code = "{\n   \"cell_type\": \"code\",\n   \"execution_count\": 7,\n   \"id\": \"work\",\n   \"metadata\": {},\n   \
        \"outputs\": [\n    {\n     \"name\": \"stdout\"\n    }\n   ],\n   \"source\": [\n    \"print(1)\"\n   ]\n  }";
    let text = "{\n   \"cell_type\": \"markdown\",\n   \"id\": \"work\",\n   \"metadata\": {},\n   \
        \"source\": [\n    \"words\"\n   ]\n  }";
    check(&input(Mode::Replace, Some("work"), Some(CellType::Markdown), "words"), &[(code, text)]);
    let became_code = edited(JUPYTER, &input(Mode::Replace, Some("intro"), Some(CellType::Code), "1"));
    let cell: Json = serde_json::from_str::<Json>(&became_code).unwrap()["cells"][0].clone();
    let keys: Vec<&String> = cell.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
}

#[test]
fn cells_come_and_go() {
    let new = "{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"fresh\",\n   \
        \"metadata\": {},\n   \"outputs\": [],\n   \"source\": [\n    \"x\"\n   ]\n  }";
    let insert = |cell| input(Mode::Insert, cell, None, "x");
    check(&insert(None), &[(" \"cells\": [\n  {", &format!(" \"cells\": [\n  {new},\n  {{"))]);
    check(&insert(Some("intro")), &[("text\"\n   ]\n  },", &format!("text\"\n   ]\n  }},\n  {new},"))]);
    check(&insert(Some("work")), &[("  }\n ],", &format!("  }},\n  {new}\n ],"))]);
    let without_work = edited(JUPYTER, &input(Mode::Delete, Some("work"), None, ""));
    assert!(
        without_work.contains("\"text\"\n   ]\n  }\n ],\n \"metadata\": {\n  \"zoom\": 1.10"),
        "{without_work}"
    );
    let empty = edited(&without_work, &input(Mode::Delete, Some("intro"), None, ""));
    assert!(empty.starts_with("{\n \"cells\": [],\n \"metadata\""), "{empty}");
    let again = edited(&empty, &insert(None));
    assert!(again.starts_with(&format!("{{\n \"cells\": [\n  {new}\n ],\n")), "{again}");
}

#[test]
fn the_style_of_the_file_is_kept() {
    let compact = r#"{"nbformat":4,"nbformat_minor":2,"cells":[{"cell_type":"code","source":"old"}]}"#;
    assert_eq!(
        edited(compact, &input(Mode::Replace, Some("cell-0"), None, "a\nb")),
        compact.replace("\"old\"", "\"a\\nb\"")
    );
    assert_eq!(
        edited(compact, &input(Mode::Insert, Some("cell-0"), Some(CellType::Markdown), "m")),
        compact.replace("\"old\"}", r#""old"},{"cell_type":"markdown","metadata":{},"source":"m"}"#)
    );
    let windows = JUPYTER.replace('\n', "\r\n");
    let changed = edited(&windows, &input(Mode::Insert, None, None, "x\ny"));
    assert_eq!(changed.matches('\n').count(), changed.matches("\r\n").count());
}

#[test]
fn wrong_cells_are_named() {
    let notebook = Notebook::parse(JUPYTER).unwrap();
    let error = |input: &Input| edit(&notebook, input, "fresh").unwrap_err();
    assert!(error(&input(Mode::Replace, None, None, "")).contains("cell_id"));
    assert!(error(&input(Mode::Delete, Some("no"), None, "")).ends_with("the cells are intro, work"));
}

proptest! {
    /// Any edit gives the notebook that the same edit of the parsed value gives.
    #[test]
    fn edits_of_the_text_are_edits_of_the_value(
        sources in prop::collection::vec("[a-z\\n\"\\\\é]{0,12}", 0..5),
        indent in 0usize..5,
        place in 0usize..5,
        mode in prop_oneof![Just(Mode::Replace), Just(Mode::Insert), Just(Mode::Delete)],
        new in "[a-z\\n\"\\\\€]{0,12}",
    ) {
        prop_assume!(place < sources.len() || mode == Mode::Insert);
        let cell = |source: &str| json!({
            "cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
            "source": super::source(source, "[]"),
        });
        let whole = |cells: Vec<Json>| json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4});
        let before = whole(sources.iter().map(|source| cell(source)).collect());
        let style = if indent == 0 {
            Style::Compact
        } else {
            Style::Indented { newline: "\n", unit: " ".repeat(indent) }
        };
        let text = style.write(&before, "");
        let id = (place < sources.len()).then(|| format!("cell-{place}"));
        let mut cells: Vec<Json> = sources.iter().map(|source| cell(source)).collect();
        match mode {
            Mode::Replace => cells[place] = cell(&new),
            Mode::Insert => cells.insert(id.as_ref().map_or(0, |_| place + 1), cell(&new)),
            Mode::Delete => drop(cells.remove(place)),
        }
        let updated = edited(&text, &input(mode, id.as_deref(), None, &new));
        prop_assert_eq!(&serde_json::from_str::<Json>(&updated).unwrap(), &whole(cells.clone()));
        prop_assert_eq!(updated, style.write(&whole(cells), ""), "and looks as if it was written so");
    }
}

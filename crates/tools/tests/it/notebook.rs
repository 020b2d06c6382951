//! Notebooks: `Read` of their cells and `NotebookEdit`.

use crate::{Scene, text};
use ostler_proto::{Access, Block, Json, Preview};
use serde_json::json;

const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

fn notebook() -> Json {
    json!({
        "cells": [
            {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "words"]},
            {
                "cell_type": "code", "execution_count": 3, "id": "work", "metadata": {"tags": []},
                "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
                    {"output_type": "display_data", "metadata": {},
                     "data": {"image/png": format!("{}\n{}", &DOT[..40], &DOT[40..]), "text/plain": "<Figure>"}},
                    {"output_type": "error", "ename": "ValueError", "evalue": "bad",
                     "traceback": ["\u{1b}[31mTrace\u{1b}[0m", "line 1"]},
                ],
                "source": ["print(1)\n", "print(2)"],
            },
        ],
        "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5,
    })
}

fn written(value: &Json) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    serde::Serialize::serialize(value, &mut serializer).unwrap();
    format!("{}\n", String::from_utf8(bytes).unwrap())
}

fn read(path: &str) -> Json {
    json!({"file_path": path})
}

#[tokio::test]
async fn cells_are_shown_with_what_they_printed() {
    let scene = Scene::new();
    scene.write("n.ipynb", written(&notebook()));
    let output = scene.call("Read", read("n.ipynb")).await.unwrap();
    let [Block::Text(before), Block::Image(_), Block::Text(after)] = output.content.as_slice() else {
        panic!("{output:?}")
    };
    assert_eq!(
        before,
        "<cell id=\"intro\" type=\"markdown\">\n# Title\nwords\n</cell>\n\
         <cell id=\"work\" type=\"code\">\nprint(1)\nprint(2)\n</cell>\n\
         <output of=\"work\">\n1\n2\n</output>\n<output of=\"work\">\n<Figure>\n</output>"
    );
    assert_eq!(after, "<output of=\"work\">\nValueError: bad\nTrace\nline 1\n</output>");
    assert_eq!(output.structured["type"], "notebook");
    let cells = output.structured["file"]["cells"].as_array().unwrap();
    assert_eq!(cells[0], json!({"cellType": "markdown", "source": "# Title\nwords", "cell_id": "intro"}));
    assert_eq!(cells[1]["execution_count"], 3);
    assert_eq!(cells[1]["outputs"][1]["image"]["media_type"], "image/png");
    let second = scene.call("Read", json!({"file_path": "n.ipynb", "offset": 2, "limit": 1})).await.unwrap();
    assert!(text(&second).starts_with("<cell id=\"work\""));
    let past = scene.ok("Read", json!({"file_path": "n.ipynb", "offset": 9})).await;
    assert_eq!(past, "The notebook has only 2 cells; cell 9 is past its end.");
    assert!(scene.ok("Read", read("n.ipynb")).await.contains("is unchanged"));
}

#[tokio::test]
async fn what_is_no_notebook_is_shown_as_text() {
    let scene = Scene::new();
    scene.write("broken.ipynb", "{\n<<<<<<< ours\n");
    assert_eq!(scene.ok("Read", read("broken.ipynb")).await, "1\t{\n2\t<<<<<<< ours\n3\t");
    let deep = format!("{{\"cells\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    scene.write("deep.ipynb", deep);
    assert!(scene.ok("Read", read("deep.ipynb")).await.contains("line cut at"));
    let error = scene.fails("NotebookEdit", json!({"notebook_path": "deep.ipynb", "new_source": ""})).await;
    assert!(error.contains("is no notebook"), "{error}");
}

#[tokio::test]
async fn a_cell_is_replaced_and_the_rest_keeps_its_bytes() {
    let scene = Scene::new();
    let before = written(&notebook());
    scene.write("n.ipynb", &before);
    let edit = json!({"notebook_path": "n.ipynb", "cell_id": "work", "new_source": "print(3)\n"});
    assert!(scene.fails("NotebookEdit", edit.clone()).await.contains("has not been read"));
    scene.call("Read", read("n.ipynb")).await.unwrap();
    let intent = scene.intent("NotebookEdit", edit.clone()).await;
    assert_eq!(intent.title, "Edit cell work of n.ipynb");
    assert!(
        matches!(&intent.access, Access::Write { paths } if paths[0].target == scene.dir.join("n.ipynb"))
    );
    assert!(matches!(&intent.preview, Preview::Diff(diff) if diff.contains("print(3)")), "{intent:?}");
    let output = scene.call("NotebookEdit", edit).await.unwrap();
    let mut expected = notebook();
    expected["cells"][1]["source"] = json!(["print(3)\n"]);
    expected["cells"][1]["outputs"] = json!([]);
    expected["cells"][1]["execution_count"] = json!(null);
    let after = written(&expected);
    assert_eq!(String::from_utf8(scene.bytes("n.ipynb")).unwrap(), after);
    assert_eq!(
        output.structured,
        json!({
            "new_source": "print(3)\n", "old_source": "print(1)\nprint(2)", "cell_id": "work",
            "cell_type": "code", "language": "python", "edit_mode": "replace",
            "notebook_path": scene.path("n.ipynb"), "original_file": before, "updated_file": after,
        })
    );
}

#[tokio::test]
async fn cells_are_inserted_and_deleted_in_turn() {
    let scene = Scene::new();
    scene.write("n.ipynb", written(&notebook()));
    scene.call("Read", read("n.ipynb")).await.unwrap();
    let insert = json!({
        "notebook_path": "n.ipynb", "cell_id": "intro", "new_source": "more", "cell_type": "markdown",
        "edit_mode": "insert",
    });
    let delete =
        json!({"notebook_path": "n.ipynb", "cell_id": "work", "new_source": "", "edit_mode": "delete"});
    let tool = scene.tools.find("NotebookEdit").unwrap();
    let first = tool.plan(insert, &scene.cx).await.unwrap();
    let second = tool.plan(delete, &scene.cx).await.unwrap();
    let inserted = first.effect.run(crate::quiet()).await.unwrap();
    second.effect.run(crate::quiet()).await.unwrap();
    let id = inserted.structured["cell_id"].as_str().unwrap();
    let mut expected = notebook();
    expected["cells"][1] = json!({"cell_type": "markdown", "id": id, "metadata": {}, "source": ["more"]});
    assert_eq!(String::from_utf8(scene.bytes("n.ipynb")).unwrap(), written(&expected));
}

#[tokio::test]
async fn wrong_edits_are_explained() {
    let scene = Scene::new();
    scene.write("n.ipynb", written(&notebook()));
    scene.write("n.txt", "x");
    scene.call("Read", read("n.ipynb")).await.unwrap();
    let edit = |path: &str, id: Json| json!({"notebook_path": path, "new_source": "", "cell_id": id});
    for (input, expected) in [
        (edit("n.txt", json!("work")), "is no .ipynb file"),
        (edit("n.ipynb", json!("no")), "the cells are intro, work"),
        (json!({"notebook_path": "n.ipynb", "new_source": ""}), "say which cell with cell_id"),
        (edit("none.ipynb", json!("a")), "does not exist"),
        (json!({"notebook_path": "n.ipynb", "new_source": "", "edit_mode": "append"}), "edit_mode"),
    ] {
        let error = scene.fails("NotebookEdit", input).await;
        assert!(error.contains(expected), "{error}");
    }
    scene.write("n.ipynb", written(&notebook()).replace("words", "other"));
    let error = scene.fails("NotebookEdit", edit("n.ipynb", json!("work"))).await;
    assert!(error.contains("changed on disk"), "{error}");
}

#[tokio::test]
async fn only_cells_that_were_shown_may_be_changed() {
    let scene = Scene::new();
    scene.write("n.ipynb", written(&notebook()));
    let edit = |mode: &str, cell: &str| json!({"notebook_path": "n.ipynb", "cell_id": cell, "edit_mode": mode, "new_source": "new"});
    assert!(scene.fails("NotebookEdit", edit("replace", "work")).await.contains("has not been read"));
    scene.ok("Read", json!({"file_path": "n.ipynb", "limit": 1})).await;
    let error = scene.fails("NotebookEdit", edit("replace", "work")).await;
    assert!(error.contains("cell 2 of") && error.contains("offset 2 and limit 1"), "{error}");
    scene.ok("NotebookEdit", edit("insert", "intro")).await;
    assert!(scene.fails("NotebookEdit", edit("delete", "work")).await.contains("cell 3 of"));
    scene.ok("Read", json!({"file_path": "n.ipynb", "offset": 3, "limit": 1})).await;
    scene.ok("NotebookEdit", edit("delete", "intro")).await;
    scene.ok("NotebookEdit", edit("replace", "work")).await;
    scene.ok("Bash", json!({"command": "cat n.ipynb"})).await;
    scene.ok("NotebookEdit", edit("delete", "work")).await;
    assert!(
        scene
            .fails("NotebookEdit", json!({"notebook_path": "m.ipynb", "new_source": ""}))
            .await
            .contains("n.ipynb")
    );
}

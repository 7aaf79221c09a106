//! A page without a word is no document, whatever its writer says of it.

use crate::fake::{Desk, Fake};
use choir_proto::RunStatus;
use serde_json::{Value, json};

const PROMPT: &str = "Compare herons with storks.";

/// A writer that makes one call and says that it is done.
fn scenario(call: &Value) -> String {
    let finish = |summary: &str| json!({"name": "finish", "arguments": {"summary": summary}});
    let delegate = json!({"name": "delegate", "arguments": {"role": "writer", "objective": "write it up"}});
    json!({"roles": {
        "conductor": [{"tool_calls": [delegate]}, {"tool_calls": [finish("done")]}],
        "writer": [{"tool_calls": [call]}, {"tool_calls": [finish("a lovely document")]}],
    }})
    .to_string()
}

async fn desk(call: &Value) -> (tempfile::TempDir, Desk) {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(&scenario(call))).await;
    (directory, desk)
}

fn edit(old: &str, new: &str) -> Value {
    json!({"name": "edit_document", "arguments": {"old": old, "new": new}})
}

#[tokio::test]
async fn a_blank_document_is_refused_and_its_run_has_failed() {
    for nothing in ["", "\u{200b}\n\u{a0}", "# ", "---", "<!-- -->", "```\n```"] {
        let write = json!({"name": "write_document", "arguments": {"title": "Birds", "content": nothing}});
        let calls = [Some(edit(PROMPT, nothing)), (!nothing.is_empty()).then_some(write)];
        for call in calls.into_iter().flatten() {
            let (_directory, desk) = desk(&call).await;
            let done = desk.ended(desk.accept(PROMPT).await).await;
            assert_eq!(done.status, RunStatus::Failed, "{call}: {done:?}");
            assert!(done.reason.unwrap().contains("Nothing was written."), "{call}");
            let path = format!("/api/documents/{}", done.document_id.unwrap());
            let (_, document) = desk.send("GET", &path, Value::Null).await;
            assert_eq!(document["content"], PROMPT, "{call}: the document keeps the text it had");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_was_only_moved_about_is_no_document() {
    let (_directory, desk) = desk(&edit("Compare herons with storks.", "# Compare herons with storks.\n")).await;
    let done = desk.ended(desk.accept(PROMPT).await).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
}

#[tokio::test]
async fn an_empty_page_that_is_continued_without_a_word_has_failed() {
    let (_directory, desk) = desk(&json!({"name": "read_document", "arguments": {}})).await;
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": "Birds", "content": ""})).await;
    let run = desk.accept_with(json!({"prompt": PROMPT, "document_id": made["document_id"]})).await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
    assert!(done.reason.unwrap().contains("The document is blank."));
}

#[tokio::test]
async fn a_word_a_table_and_a_figure_are_a_document() {
    for content in ["Herons wade.\n", "| a |\n|---|\n| b |\n", "```run sh x\n42\n```\n", "![](desktop/heron.png)\n"] {
        let write = json!({"name": "write_document", "arguments": {"title": "Birds", "content": content}});
        let (_directory, desk) = desk(&write).await;
        let done = desk.ended(desk.accept(PROMPT).await).await;
        assert_eq!(done.status, RunStatus::Completed, "{content}: {done:?}");
    }
}

//! What a person says to a proposal counts once, and only for what was proposed.

use crate::documents::{document, read};
use crate::fake::{Desk, Fake};
use crate::losing::EAGER;
use choir_proto::DocumentId;
use futures_util::future::join_all;
use serde_json::{Value, json};

/// A document with two proposals, and where they are decided.
async fn proposed() -> (tempfile::TempDir, Desk, DocumentId, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(EAGER)).await;
    let id = document(&desk, "first line\nmine\nlast line\n").await;
    let run = desk.accept_with(json!({"prompt": "improve it", "document_id": id.to_string()})).await;
    desk.ended(run).await;
    let now = read(&desk, id).await;
    let path = |one: &Value| format!("/api/documents/{id}/proposals/{}", one["proposal_id"].as_str().unwrap());
    let paths: Vec<_> = now["proposals"].as_array().unwrap().iter().map(path).collect();
    assert_eq!(paths.len(), 2, "{now}");
    (directory, desk, id, paths)
}

async fn decisions(desk: &Desk) -> usize {
    desk.kinds().await.iter().filter(|kind| *kind == "proposal.decided").count()
}

#[tokio::test]
async fn the_first_word_on_a_proposal_counts_however_many_come_at_once() {
    let (_directory, desk, _, paths) = proposed().await;
    let say = |path: &str, decision: &str| {
        let (desk, path, body) = (&desk, path.to_owned(), json!({"decision": decision}));
        async move { desk.send("POST", &path, body).await.0 }
    };
    let all = join_all((0..8).map(|_| say(&paths[0], "accept"))).await;
    assert_eq!(all, [200; 8], "the same word again is no error");
    assert_eq!(decisions(&desk).await, 1);
    let mut both = join_all(["accept", "reject"].map(|word| say(&paths[1], word))).await;
    both.sort_unstable();
    assert_eq!((both, decisions(&desk).await), (vec![200, 409], 2));
    assert_eq!(say(&paths[0], "reject").await, 409);
    assert_eq!(say(&format!("{}9", paths[0]), "accept").await, 404, "there is none");
}

#[tokio::test]
async fn a_proposal_whose_place_has_changed_is_shown_so_and_refused() {
    let (_directory, desk, id, paths) = proposed().await;
    let now = read(&desk, id).await;
    let text = now["content"].as_str().unwrap();
    let edit = |text: String| json!({"base_version": now["version"], "content": text});
    let wanted = edit(text.replace("mine", "MINE!"));
    assert_eq!(desk.send("PUT", &format!("/api/documents/{id}"), wanted).await.0, 200);
    let before = read(&desk, id).await;
    let outdated: Vec<_> = before["proposals"].as_array().unwrap().iter().map(|one| one["outdated"].clone()).collect();
    assert_eq!(outdated, [Value::Null, json!(true)]);
    let (status, refused) = desk.send("POST", &paths[1], json!({"decision": "accept"})).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("outdated")), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("The place has changed"), "{refused}");
    assert_eq!(read(&desk, id).await["content"], before["content"]);
    assert_eq!(decisions(&desk).await, 0);
    // What stands elsewhere is not touched by that.
    let (status, after) = desk.send("POST", &paths[0], json!({"decision": "accept"})).await;
    assert_eq!((status, &after["content"]), (200, &json!("first line, by Writer\nMINE!\nlast line\nadded\n")));
    assert_eq!(desk.send("POST", &paths[1], json!({"decision": "reject"})).await.0, 200);
}

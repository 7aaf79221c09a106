//! What is heard of mirrors: what we wrote ourselves and hear of late is nobody's edit.

use crate::fake::{Desk, Fake};
use choir_proto::DocumentId;
use choir_proto::wire::LiveFile;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Waits until the only mirror says this; its path.
async fn says(fake: &Fake, text: &str) -> String {
    let mut mirrored = fake.mirrored.subscribe();
    loop {
        mirrored.mark_unchanged();
        let found = fake
            .files
            .lock()
            .unwrap()
            .iter()
            .find(|(_, bytes)| *bytes == text.as_bytes())
            .map(|(path, _)| path.clone());
        match found {
            Some(path) => return path,
            None => mirrored.changed().await.unwrap(),
        }
    }
}

async fn put(desk: &Desk, id: DocumentId, base_version: u32, content: &str) {
    let edit = json!({"base_version": base_version, "content": content});
    let (status, answer) = desk.send("PUT", &format!("/api/documents/{id}"), edit).await;
    assert_eq!(status, 200, "{answer}");
}

/// Waits until a document says this; the names of its versions.
async fn until(desk: &Desk, id: DocumentId, text: &str) -> usize {
    let mut head = desk.computer.app.harness.journal.log().watch();
    loop {
        head.mark_unchanged();
        let (_, found) = desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await;
        if found["content"] == text {
            return desk.computer.app.harness.documents.versions(id).await.unwrap().len();
        }
        head.changed().await.unwrap();
    }
}

/// A document of the person; its mirror's path.
async fn made(desk: &Desk, fake: &Fake, title: &str, content: &str) -> (DocumentId, String) {
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": title, "content": content})).await;
    let id = made["document_id"].as_str().unwrap().parse().unwrap();
    (id, says(fake, content).await)
}

fn file(path: &str, text: &str) -> LiveFile {
    let hash = Some(choir_store::sha256(text.as_bytes()));
    LiveFile { path: path.to_owned(), hash, text: Some(text.to_owned()), task: None }
}

#[tokio::test]
async fn late_word_of_what_we_wrote_is_no_edit_and_the_same_words_by_a_person_are() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(r#"{"roles": {"conductor": [{"text": "Nobody asked."}]}}"#);
    fake.has_workspace.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let (id, path) = made(&desk, &fake, "Notes", "one\n").await;
    put(&desk, id, 1, "two\n").await;
    says(&fake, "two\n").await;
    put(&desk, id, 2, "three\n").await;
    says(&fake, "three\n").await;
    let versions = until(&desk, id, "three\n").await;

    // Word of our second writing comes after the third; then a person writes something.
    let mut mirrored = fake.mirrored.subscribe();
    fake.changed.send(file(&path, "two\n")).unwrap();
    mirrored.changed().await.unwrap();
    fake.files.lock().unwrap().insert(path.clone(), b"four\n".to_vec());
    fake.changed.send(file(&path, "four\n")).unwrap();
    assert_eq!(until(&desk, id, "four\n").await, versions + 1, "only the person's words are a version");

    // The very words that stood there once, but now by a person: theirs.
    says(&fake, "four\n").await;
    fake.files.lock().unwrap().insert(path.clone(), b"two\n".to_vec());
    fake.changed.send(file(&path, "two\n")).unwrap();
    assert_eq!(until(&desk, id, "two\n").await, versions + 2);
}

#[tokio::test]
async fn a_mirror_that_is_no_text_keeps_its_bytes_until_somebody_mends_it() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(r#"{"roles": {"conductor": [{"text": "Nobody asked."}]}}"#);
    fake.has_workspace.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let (id, path) = made(&desk, &fake, "Notes", "one\n").await;
    let (other, other_path) = made(&desk, &fake, "Other", "else\n").await;

    let latin = b"caf\xe9\n".to_vec();
    fake.files.lock().unwrap().insert(path.clone(), latin.clone());
    let hash = Some(choir_store::sha256(&latin));
    fake.changed.send(LiveFile { path: path.clone(), hash, text: None, task: None }).unwrap();
    // Files are heard of in order: when this one has been taken, the first one has been seen.
    fake.files.lock().unwrap().insert(other_path.clone(), b"more\n".to_vec());
    fake.changed.send(file(&other_path, "more\n")).unwrap();
    until(&desk, other, "more\n").await;
    let mut mirrored = fake.mirrored.subscribe();
    put(&desk, id, 1, "two\n").await;
    mirrored.changed().await.unwrap();
    assert_eq!(fake.files.lock().unwrap()[&path], latin, "nobody else has these words");

    fake.files.lock().unwrap().insert(path.clone(), "café\n".into());
    fake.changed.send(file(&path, "café\n")).unwrap();
    until(&desk, id, "twocafé\n").await;
}

/// Takes away every text that does not stand in the log itself.
fn lose_blobs(directory: &Path) -> usize {
    let mut lost = 0;
    let mut open = vec![directory.join("blobs")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                std::fs::remove_file(entry).unwrap();
                lost += 1;
            }
        }
    }
    lost
}

#[tokio::test]
async fn what_is_erased_leaves_its_mirror_although_another_document_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(r#"{"roles": {"conductor": [{"text": "Nobody asked."}]}}"#);
    fake.has_workspace.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    made(&desk, &fake, "Long", &"many words\n".repeat(50_000)).await;
    let (id, path) = made(&desk, &fake, "Plan", "hello there\n").await;
    put(&desk, id, 1, "hello there KEYPELICAN99\n").await;
    says(&fake, "hello there KEYPELICAN99\n").await;

    assert!(lose_blobs(directory.path()) > 0, "the long text is too long for the log");
    let (_, page) = desk.send("GET", "/api/events?limit=100", Value::Null).await;
    for event in page["events"].as_array().unwrap().iter().filter(|event| event.to_string().contains("KEYPELICAN99")) {
        let erase = format!("/api/events/{}/erase", event["id"].as_str().unwrap());
        let (status, erased) = desk.send("POST", &erase, Value::Null).await;
        assert_eq!(status, 200, "{erased}");
    }
    assert_eq!(says(&fake, "hello there\n").await, path);
}

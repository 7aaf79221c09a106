//! A writer's words appear while the model says them.

use crate::fake::{Desk, Fake};
use crate::peer::Peer;
use choir_computer::actor::RunCommand;
use choir_proto::document::Sketch;
use choir_proto::{DocumentId, Event, RunId, RunStatus};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CONTENT: &str =
    "# Herons\n\nHerons wade in slow water.\n\n## Food\n\nThey eat fish and frogs.\n\n## Voice\n\nThey croak.\n";

/// Pieces in which the writer's call comes.
const PIECES: usize = 12;

fn scenario(content: &str) -> String {
    json!({"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write it up"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}],
        "writer": [
            {"chunks": PIECES, "tool_calls": [{"name": "write_document", "arguments": {"title": "Herons", "content": content}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}]}})
    .to_string()
}

/// A run whose writer is answered as slowly as the test wants.
async fn slow(directory: &Path) -> (Arc<Fake>, Desk, RunId, DocumentId) {
    let fake = Fake::new(&scenario(CONTENT));
    fake.is_slow.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory, Arc::clone(&fake)).await;
    let run = desk.accept("about herons").await;
    let document = desk.run(run).await.document_id.unwrap();
    (fake, desk, run, document)
}

async fn text(desk: &Desk, document: DocumentId) -> String {
    let (status, found) = desk.send("GET", &format!("/api/documents/{document}"), Value::Null).await;
    assert_eq!(status, 200, "{found}");
    found["content"].as_str().unwrap().to_owned()
}

async fn sketches(desk: &Desk, run: RunId) -> Vec<Sketch> {
    let events = desk.events(run).await;
    let sketch = |event: &Event| match event {
        Event::DocumentUpdated(updated) => updated.sketch,
        _ => None,
    };
    events.iter().filter_map(|(_, event)| sketch(event)).collect()
}

/// Lets pieces through, and waits until they are written.
async fn say(fake: &Fake, desk: &Desk, run: RunId, pieces: usize) {
    let before = sketches(desk, run).await.len();
    let mut head = desk.computer.app.harness.journal.log().watch();
    fake.pace.add_permits(pieces);
    while sketches(desk, run).await.len() == before {
        head.changed().await.unwrap();
    }
}

/// Lets everything through that is left.
fn go_on(fake: &Fake) {
    fake.is_slow.store(false, Ordering::SeqCst);
    fake.pace.add_permits(1000);
}

#[tokio::test]
async fn a_document_grows_while_the_model_speaks_and_has_a_version_when_it_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, document) = slow(directory.path()).await;
    let named = desk.computer.app.harness.documents.versions(document).await.unwrap().len();
    say(&fake, &desk, run, PIECES / 2).await;
    let first = text(&desk, document).await;
    assert!(first.starts_with("# Herons\n\nHerons wade") && !first.contains("croak"), "{first}");
    say(&fake, &desk, run, PIECES / 2 - 2).await;
    let second = text(&desk, document).await;
    assert!(second.contains("They eat fish") && !second.contains("croak."), "{second}");
    let versions = desk.computer.app.harness.documents.versions(document).await.unwrap();
    assert_eq!(versions.len(), named, "what is half said has no name");
    assert!(!desk.kinds().await.iter().any(|kind| kind == "tool.finished"), "and is nowhere called done");
    go_on(&fake);
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    let whole = text(&desk, document).await;
    assert!(whole.starts_with(CONTENT.trim_end()), "{whole}");
    let versions = desk.computer.app.harness.documents.versions(document).await.unwrap();
    assert_eq!(versions.last().unwrap().reason, "write_document by writer");
    // Words that came before the call was made know it all the same.
    let path = format!("/api/documents/{document}/provenance?from=12&to=20");
    let (_, provenance) = desk.send("GET", &path, Value::Null).await;
    assert_eq!(provenance["pieces"][0]["tool_call"]["name"], "write_document", "{provenance}");
}

#[tokio::test]
async fn what_a_person_types_meanwhile_is_kept_and_the_answer_is_written_once() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, document) = slow(directory.path()).await;
    let mut person = Peer::open(&desk, document, 11).await;
    let mut typed = Vec::new();
    for piece in 1..=PIECES - 3 {
        say(&fake, &desk, run, if piece == 1 { 3 } else { 1 }).await;
        person.catch_up().await;
        let words = format!("<{piece}>");
        let at = match piece % 3 {
            0 => 0,
            1 => person.content().len(),
            _ => person.content().find("\n\n").unwrap_or(0),
        };
        person.type_at(at as u32, 0, &words).await;
        typed.push(words);
    }
    go_on(&fake);
    person.settled().await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    let whole = text(&desk, document).await;
    for words in &typed {
        assert_eq!(whole.matches(words.as_str()).count(), 1, "{words}: {whole}");
    }
    for sentence in ["wade in slow water", "They eat fish and frogs", "They croak"] {
        assert_eq!(whole.matches(sentence).count(), 1, "{sentence}: {whole}");
    }
}

#[tokio::test]
async fn what_a_crash_cut_off_is_taken_back_and_said_again() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, document) = slow(directory.path()).await;
    let before = text(&desk, document).await;
    say(&fake, &desk, run, PIECES / 2).await;
    let mut person = Peer::open(&desk, document, 11).await;
    person.type_at(0, 0, "Mine. ").await;
    person.settled().await;
    person.disconnect();
    desk.computer.close("test").await.unwrap();

    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    say(&fake, &desk, run, 0).await;
    assert_eq!(sketches(&desk, run).await.last(), Some(&Sketch { turn: 1, withdrawn: true }));
    assert_eq!(text(&desk, document).await, format!("Mine. {before}"), "no half sentence stays");
    go_on(&fake);
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    let whole = text(&desk, document).await;
    assert_eq!((whole.matches("Mine. ").count(), whole.matches("wade in").count()), (1, 1), "{whole}");
    assert!(whole.contains("They croak."), "{whole}");
}

#[tokio::test]
async fn a_run_that_is_stopped_in_the_middle_of_a_sentence_leaves_none() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, document) = slow(directory.path()).await;
    let before = text(&desk, document).await;
    say(&fake, &desk, run, PIECES / 2).await;
    assert_ne!(text(&desk, document).await, before);
    desk.command(run, RunCommand::Cancel).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Cancelled);
    assert_eq!(text(&desk, document).await, before);
}

#[tokio::test]
async fn a_person_who_wants_to_be_asked_first_sees_nothing_of_it_before() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, document) = slow(directory.path()).await;
    fake.asks_for.lock().unwrap().push("write_document".into());
    let before = text(&desk, document).await;
    fake.pace.add_permits(PIECES);
    fake.looked_up.notified().await;
    go_on(&fake);
    let (id, _) = fake.asked().await;
    assert_eq!((sketches(&desk, run).await, text(&desk, document).await), (Vec::new(), before));
    fake.decide(id, choir_proto::inbox::Verdict::Denied { scope: choir_proto::inbox::Reach::Once });
    desk.ended(run).await;
    assert!(!desk.kinds().await.iter().any(|kind| kind == "document.updated"), "a no is a no");
}

/// A write that was begun before the person said stop, and comes after it.
#[tokio::test]
async fn words_that_come_after_the_stop_are_only_proposed() {
    for auto_accept in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::new(&scenario(CONTENT));
        fake.is_busy.store(true, Ordering::SeqCst);
        fake.auto_accept.store(auto_accept, Ordering::SeqCst);
        let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
        let run = desk.accept("about herons").await;
        let document = desk.run(run).await.document_id.unwrap();
        let before = text(&desk, document).await;
        fake.looked_up.notified().await;
        desk.command(run, RunCommand::Cancel).await;
        fake.pace.add_permits(1);
        assert_eq!(desk.ended(run).await.status, RunStatus::Cancelled);
        let (_, found) = desk.send("GET", &format!("/api/documents/{document}"), Value::Null).await;
        assert_eq!(found["content"], before.as_str());
        assert!(found["proposals"][0]["new"].as_str().unwrap().contains("Herons wade"), "{found}");
    }
}

/// Somebody writes on below while the answer grows.
#[tokio::test]
async fn words_at_the_end_never_stand_inside_a_sentence_that_is_being_said() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&scenario(CONTENT));
    fake.is_slow.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": "Birds", "content": ""})).await;
    let document = made["document_id"].as_str().unwrap().parse().unwrap();
    let run = desk.accept_with(json!({"prompt": "about herons", "document_id": document})).await;
    let mut person = Peer::open(&desk, document, 11).await;
    for piece in 1..=PIECES - 3 {
        say(&fake, &desk, run, if piece == 1 { 3 } else { 1 }).await;
        person.catch_up().await;
        let end = u32::try_from(person.content().chars().count()).unwrap();
        person.type_at(end, 0, &format!("\nPERSON-{piece}\n")).await;
        person.settled().await;
    }
    go_on(&fake);
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    let whole = text(&desk, document).await;
    assert!(whole.contains(CONTENT.trim_end()), "the answer stands as it was said: {whole}");
    for piece in 1..=PIECES - 3 {
        assert_eq!(whole.matches(&format!("\nPERSON-{piece}\n")).count(), 1, "{whole}");
    }
}

//! Documents of which something is erased, cannot be kept, or is put away: nothing comes back, and nothing is lost.

use crate::documents::{desk_in, document, read, versions};
use crate::fake::{Desk, Fake};
use crate::peer::Peer;
use choir_computer::document::{Base, CONTENT_BYTES_MAX, DocumentError, Edit, Manner, Refused};
use choir_computer::journal::Scope;
use choir_proto::event::Actor;
use choir_proto::wire::frames::ANEW;
use choir_proto::{DocumentId, Envelope, RunId};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Every event that says it.
async fn saying(desk: &Desk, words: &str) -> Vec<Envelope> {
    let query = choir_store::Query { limit: 1000, ..Default::default() };
    let events = desk.computer.app.harness.journal.log().read(query).await.unwrap();
    events.into_iter().filter(|event| event.payload.get().contains(words)).collect()
}

/// Somebody goes, and what they wrote has a name in the log.
async fn leaves(desk: &Desk, peer: &mut Peer) {
    let mut head = desk.computer.app.harness.journal.log().watch();
    head.mark_unchanged();
    peer.disconnect();
    head.changed().await.unwrap();
}

async fn erase(desk: &Desk, words: &str) {
    for event in saying(desk, words).await {
        erase_event(desk, &event).await;
    }
}

async fn erase_event(desk: &Desk, event: &Envelope) {
    let (status, answer) = desk.send("POST", &format!("/api/events/{}/erase", event.header.id), Value::Null).await;
    assert_eq!(status, 200, "{answer}");
}

/// A document, and somebody who has words of it that will be erased.
async fn who_wrote_a_secret_and_left(desk: &Desk) -> (DocumentId, Peer) {
    let id = document(desk, "kept\n").await;
    let mut ann = Peer::open(desk, id, 11).await;
    ann.type_at(0, 0, "secret ").await;
    ann.settled().await;
    leaves(desk, &mut ann).await;
    (id, ann)
}

#[tokio::test]
async fn words_that_were_erased_do_not_come_back_with_whoever_was_away() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let (id, ann) = who_wrote_a_secret_and_left(&desk).await;
    // She is away when it happens, and comes again with everything that she has.
    erase(&desk, "secret").await;
    let left = ann.enter(&desk, id).await.map(drop).expect_err("what she has is not taken");
    assert_eq!(left.code, ANEW, "{left:?}");
    desk.computer.close("test").await.unwrap();
    let desk = desk_in(directory.path()).await;
    assert_eq!(ann.enter(&desk, id).await.map(drop).map_err(|left| left.code), Err(ANEW), "after a restart neither");
    // With nothing she is welcome.
    let mut ann = Peer::open(&desk, id, 12).await;
    assert_eq!(ann.content(), "kept\n");
    ann.type_at(0, 0, "still ").await;
    ann.settled().await;
    assert_eq!(read(&desk, id).await["content"], "still kept\n");
    assert_eq!(saying(&desk, "secret").await.len(), 0);
}

/// A program that knows only the Yjs protocol says no generation.
#[tokio::test]
async fn a_plain_program_brings_nothing_back_and_is_welcome_with_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let (id, mut ann) = who_wrote_a_secret_and_left(&desk).await;
    assert_eq!(ann.come_plainly(&desk, id).await, Ok(()), "nothing was erased yet");
    ann.disconnect();
    erase(&desk, "secret").await;
    assert_eq!(ann.come_plainly(&desk, id).await.map_err(|left| left.code), Err(ANEW), "with what she has");
    assert_eq!(ann.send_plainly(&desk, id).await.map_err(|left| left.code), Err(ANEW), "nor without a greeting");
    assert_eq!(Peer::new(12).come_plainly(&desk, id).await, Ok(()), "with nothing");
    assert_eq!(read(&desk, id).await["content"], "kept\n");
    assert_eq!(saying(&desk, "secret").await.len(), 0);
}

#[tokio::test]
async fn whoever_looks_while_something_is_erased_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let (id, other) = (document(&desk, "kept\n").await, document(&desk, "other\n").await);
    let mut ann = Peer::open(&desk, id, 11).await;
    let mut ben = Peer::open(&desk, other, 12).await;
    ann.type_at(0, 0, "secret ").await;
    ann.settled().await;
    erase(&desk, "secret").await;
    // Still on its way when she has to go.
    ann.type_at(0, 0, "more ").await;
    while ann.left.is_none() {
        ann.hear().await;
    }
    assert_eq!(ann.left.as_ref().unwrap().code, ANEW);
    ben.type_at(0, 0, "an").await;
    ben.settled().await;
    assert_eq!(read(&desk, other).await["content"], "another\n", "nobody else has to");
    assert_eq!(read(&desk, id).await["content"], "kept\n");
    assert_eq!(saying(&desk, "secret").await.len(), 0);
}

/// With each event that goes, whoever looks needs the document to stand again from those that are still there.
#[tokio::test]
async fn words_that_are_erased_event_by_event_are_not_written_once_more_for_whoever_looks() {
    for secret in ["secret ".to_owned(), "secret ".repeat(4_000)] {
        let directory = tempfile::tempdir().unwrap();
        let desk = desk_in(directory.path()).await;
        let id = document(&desk, "kept\n").await;
        let mut ann = Peer::open(&desk, id, 11).await;
        for words in [secret.as_str(), "more "] {
            ann.type_at(0, 0, words).await;
            ann.settled().await;
        }
        leaves(&desk, &mut ann).await;
        let words = of_document(&desk, id).await.split_off(2);
        assert!(words.len() >= 3, "two updates and a version: {words:?}");
        for event in words {
            let looks = Peer::open(&desk, id, 12).await;
            erase_event(&desk, &event).await;
            drop(looks);
        }
        assert_eq!(Peer::open(&desk, id, 13).await.content(), "kept\n");
        for event in of_document(&desk, id).await {
            assert!(!event.payload.get().contains("secret"), "{event:?}");
        }
        assert_eq!(files_saying(&directory.path().join("blobs"), "secret"), 0);
    }
}

/// What was typed over a text that was written down once more is not erased with the version that it came from.
#[tokio::test]
async fn words_typed_since_stay_when_what_stood_before_them_is_erased() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "kept\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    for words in ["secret ", "more "] {
        ann.type_at(0, 0, words).await;
        ann.settled().await;
    }
    leaves(&desk, &mut ann).await;
    let words = of_document(&desk, id).await.split_off(2);
    let looks = Peer::open(&desk, id, 12).await;
    erase_event(&desk, &words[0]).await;
    drop(looks);
    let mut ben = Peer::open(&desk, id, 13).await;
    assert_eq!(ben.content(), "more secret kept\n", "the version still says it");
    ben.type_at(0, 0, "no ").await;
    ben.settled().await;
    erase_event(&desk, words.last().unwrap()).await;
    assert_eq!(read(&desk, id).await["content"], "no more secret kept\n");
}

/// Every event that is about a document's text.
async fn of_document(desk: &Desk, id: DocumentId) -> Vec<Envelope> {
    let mut events = saying(desk, &id.to_string()).await;
    events.retain(|event| event.header.kind.starts_with("document."));
    events
}

fn files_saying(directory: &Path, words: &str) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    let said = entries.map(|path| match path.is_dir() {
        true => files_saying(&path, words),
        false => usize::from(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(words)),
    });
    said.sum()
}

#[tokio::test]
async fn a_document_whose_past_was_erased_goes_on_from_what_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "kept\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.type_at(0, 0, "secret ").await;
    ann.settled().await;
    ann.type_at(7, 0, "more ").await;
    ann.settled().await;
    leaves(&desk, &mut ann).await;
    erase(&desk, "secret").await;
    desk.computer.close("test").await.unwrap();
    let again = desk_in(directory.path()).await;
    let mut ben = Peer::open(&again, id, 12).await;
    assert_eq!(ben.content(), "kept\n");
    ben.type_at(0, 0, "still ").await;
    ben.settled().await;
    assert_eq!(read(&again, id).await["content"], "still kept\n");
}

/// Makes it impossible to keep anything long, also for root, until it is mended.
fn break_blobs(directory: &Path) {
    std::fs::rename(directory.join("blobs"), directory.join("blobs.away")).unwrap();
    std::fs::write(directory.join("blobs"), "no directory").unwrap();
}

fn mend_blobs(directory: &Path) {
    std::fs::remove_file(directory.join("blobs")).unwrap();
    std::fs::rename(directory.join("blobs.away"), directory.join("blobs")).unwrap();
}

#[tokio::test]
async fn a_text_that_could_not_be_kept_is_written_when_it_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "short\n").await;
    let path = format!("/api/documents/{id}");
    let long = "All work and no play makes Jack a dull boy.\n".repeat(500);
    let edit = json!({"base_version": 1, "content": long});
    break_blobs(directory.path());
    let (status, refused) = desk.send("PUT", &path, edit.clone()).await;
    assert!(status >= 500, "{status} {refused}");
    mend_blobs(directory.path());
    assert_eq!(read(&desk, id).await["content"], "short\n", "what was refused is not there");
    let (status, saved) = desk.send("PUT", &path, edit).await;
    assert_eq!((status, &saved["version"]), (200, &json!(2)));
    let now = read(&desk, id).await;
    assert!(now["content"] == json!(long) && now["version"] == json!(2), "what was acknowledged is there");
    desk.computer.close("test").await.unwrap();
    assert_eq!(read(&desk_in(directory.path()).await, id).await, now);
}

#[tokio::test]
async fn a_version_that_could_not_be_named_is_named_the_next_time() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    // Just short enough for the log, and with what is typed too long for it.
    let id = document(&desk, &"oak\n".repeat(4_000)).await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.type_at(0, 0, &"elm\n".repeat(400)).await;
    ann.settled().await;
    break_blobs(directory.path());
    ann.disconnect();
    // Whoever waits for the room after this comes after the one who tries to name the version.
    tokio::task::yield_now().await;
    let documents = &desk.computer.app.harness.documents;
    let head = documents.find(id).await.unwrap().unwrap();
    documents.text_at_work(&head).await.unwrap();
    mend_blobs(directory.path());
    assert_eq!(versions(&desk, id).await.as_array().unwrap().len(), 1, "the control: it has no name");
    let mut ben = Peer::open(&desk, id, 12).await;
    ben.settled().await;
    ben.disconnect();
    tokio::task::yield_now().await;
    documents.text_at_work(&head).await.unwrap();
    assert_eq!(versions(&desk, id).await.as_array().unwrap().len(), 2);
}

/// A person's whole text, longer than a request may be.
async fn write(desk: &Desk, id: DocumentId, base: u32, content: &str) -> Result<String, DocumentError> {
    let documents = &desk.computer.app.harness.documents;
    let (base, manner) = (Base::Version(base), Manner::Free);
    let edit = Edit { base, title: None, content, reason: "edited by a person", effect_id: None, manner };
    let change = documents.change(id, edit).await?.unwrap();
    let content = change.content.clone();
    documents.save(&Scope::of(Actor::Person), change).await?;
    Ok(content)
}

#[tokio::test]
async fn a_change_that_makes_a_text_too_long_leaves_it_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let half = "x".repeat(CONTENT_BYTES_MAX / 2);
    let id = document(&desk, "middle\n").await;
    write(&desk, id, 1, &format!("{half}\nmiddle\n")).await.unwrap();
    let refused = write(&desk, id, 1, &format!("middle\n{half}\n")).await;
    assert!(matches!(refused, Err(DocumentError::Refused(Refused::TooLong))), "{refused:?}");
    assert!(write(&desk, id, 2, "middle\n").await.unwrap() == "middle\n", "nothing of what was refused is there");
    let now = read(&desk, id).await;
    assert_eq!((&now["content"], &now["version"]), (&json!("middle\n"), &json!(3)));
    desk.computer.close("test").await.unwrap();
    assert_eq!(read(&desk_in(directory.path()).await, id).await, now);
}

const SHORT: &str = r#"{"roles": {"conductor": [{"text": "Forty-two."}]}}"#;

/// A run that is about to say a short answer, and somebody who looks at the page that was kept ready for more.
async fn about_to_answer(directory: &Path) -> (Arc<Fake>, Desk, RunId, DocumentId, Peer) {
    let fake = Fake::new(SHORT);
    fake.is_thoughtful.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory, Arc::clone(&fake)).await;
    let run = desk.accept("what is it?").await;
    let id = desk.run(run).await.document_id.unwrap();
    fake.thinks.notified().await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.settled().await;
    (fake, desk, run, id, ann)
}

#[tokio::test]
async fn nothing_is_acknowledged_in_a_page_that_was_put_away() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, id, mut ann) = about_to_answer(directory.path()).await;
    fake.pace.add_permits(1);
    assert_eq!(desk.ended(run).await.document_id, None);
    ann.type_at(0, 0, "mine ").await;
    while ann.left.is_none() && ann.acknowledged < ann.sent {
        ann.hear().await;
    }
    let left = ann.left.expect("whoever looks is told that it is gone");
    assert!(left.code == 1008 && left.reason.contains("put away"), "{left:?}");
    assert_eq!(desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_page_that_somebody_types_into_stays_when_a_short_answer_was_enough() {
    let directory = tempfile::tempdir().unwrap();
    let (fake, desk, run, id, mut ann) = about_to_answer(directory.path()).await;
    // Still in line when the run ends, or in the log already: both are words of a person.
    ann.type_at(0, 0, "mine ").await;
    fake.pace.add_permits(1);
    assert_eq!(desk.ended(run).await.document_id, Some(id));
    ann.settled().await;
    assert_eq!(read(&desk, id).await["content"], "mine what is it?");
}

/// Writes where a person wrote and where nobody did.
pub(crate) const EAGER: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "improve it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "improved"}}]}],
    "writer": [
        {"tool_calls": [{"name": "read_document", "arguments": {}}]},
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Plan", "content": "first line, by Writer\nmine, better\nlast line\nadded\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}]
}}"#;

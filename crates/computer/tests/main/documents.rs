//! Several hands in one document: browsers, programs and agents.

use crate::fake::{Desk, Fake};
use crate::losing::EAGER;
use crate::peer::Peer;
use choir_computer::journal::Scope;
use choir_proto::event::{Actor, DocumentVersioned};
use choir_proto::{DocumentId, Event, Role};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::path::Path;
use yrs::StateVector;
use yrs::sync::{Message, SyncMessage};
use yrs::updates::encoder::Encode;

const NOBODY: &str = r#"{"roles": {"conductor": [{"text": "Nobody asked."}]}}"#;

pub(crate) async fn desk_in(directory: &Path) -> Desk {
    Desk::open(directory, Fake::new(NOBODY)).await
}

pub(crate) async fn document(desk: &Desk, content: &str) -> DocumentId {
    let (status, made) = desk.send("POST", "/api/documents", json!({"title": "Notes", "content": content})).await;
    assert_eq!(status, 201, "{made}");
    made["document_id"].as_str().unwrap().parse().unwrap()
}

pub(crate) async fn read(desk: &Desk, id: DocumentId) -> Value {
    let (status, document) = desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await;
    assert_eq!(status, 200, "{document}");
    document
}

#[tokio::test]
async fn what_is_typed_is_acknowledged_read_by_everybody_and_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "one two\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    let mut ben = Peer::open(&desk, id, 12).await;
    ann.settled().await;
    assert_eq!(ann.content(), "one two\n");
    ann.type_at(0, 3, "ONE é").await;
    ben.type_at(8, 0, "three\n").await;
    ann.settled().await;
    ben.settled().await;
    let expected = "ONE é two\nthree\n";
    while ann.content() != expected || ben.content() != expected {
        ann.catch_up().await;
        ben.catch_up().await;
        tokio::task::yield_now().await;
    }
    let now = read(&desk, id).await;
    assert_eq!(now["content"], expected);
    desk.computer.close("test").await.unwrap();

    let rebuilt = choir_computer::maintain::rebuild(directory.path(), Default::default()).await.unwrap();
    assert_eq!(rebuilt.before, Some(rebuilt.after), "what an orderly end wrote down is what the log makes");
    let again = desk_in(directory.path()).await;
    assert_eq!(read(&again, id).await, now);
    let mut ann_again = Peer::open(&again, id, 13).await;
    assert_eq!(ann_again.content(), expected);
    ann_again.type_at(0, 0, "more ").await;
    ann_again.settled().await;
    assert_eq!(read(&again, id).await["content"], format!("more {expected}"));
}

#[tokio::test]
async fn a_version_is_named_when_its_author_leaves_and_says_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.type_at(0, 0, "# Trees\n").await;
    ann.settled().await;
    let typed = read(&desk, id).await["version"].as_u64().unwrap();
    let mut head = desk.computer.app.harness.journal.log().watch();
    head.mark_unchanged();
    ann.disconnect();
    head.changed().await.unwrap();
    let (_, versions) = desk.send("GET", &format!("/api/documents/{id}/versions"), Value::Null).await;
    let last = versions["versions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (last["version"].as_u64(), &last["author"], &last["reason"]),
        (Some(typed), &json!("person"), &json!("written"))
    );
    assert_eq!(read(&desk, id).await["title"], "Trees", "a heading names the document");
}

#[tokio::test]
async fn a_whole_text_against_an_unnamed_version_is_merged_without_doubling_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "a\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.type_at(1, 0, " b").await;
    ann.settled().await;
    let seen = read(&desk, id).await;
    ann.type_at(0, 0, "0 ").await;
    ann.settled().await;
    let edit = json!({"base_version": seen["version"], "content": "a b c\n"});
    let (status, merged) = desk.send("PUT", &format!("/api/documents/{id}"), edit.clone()).await;
    assert_eq!((status, &merged["content"]), (200, &json!("0 a b c\n")));
    let (_, again) = desk.send("PUT", &format!("/api/documents/{id}"), edit).await;
    assert_eq!(again["version"], merged["version"], "a retry makes no version");
    while ann.content() != "0 a b c\n" {
        ann.hear().await;
    }
    let old = format!("/api/documents/{id}/versions/{}", seen["version"]);
    assert_eq!(desk.send("GET", &old, Value::Null).await.1["content"], "a b\n", "unnamed versions can be read too");
    assert_eq!(desk.send("GET", &format!("/api/documents/{id}/versions/99"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn hostile_messages_end_the_visit_of_who_sent_them_and_nobody_elses() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "text\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    let mut eve = Peer::open(&desk, id, 12).await;
    let refused = eve.say_bytes(b"\x00\x09nonsense").await.unwrap_err();
    assert!(refused.code == 1008 && refused.reason.contains("Yjs"), "{refused:?}");
    assert!(eve.say_bytes(&[]).await.is_err() && eve.say(Message::Custom(99, vec![1])).await.is_err());

    let mut eve = Peer::open(&desk, id, 13).await;
    eve.settled().await;
    ann.type_at(0, 0, "good ").await;
    eve.send(b"garbage".to_vec()).await.unwrap();
    while eve.left.is_none() {
        eve.hear().await;
    }
    assert!(eve.left.as_ref().unwrap().reason.contains("no Yjs update"), "{:?}", eve.left);
    ann.settled().await;

    // An update that stands on one that the server never got.
    let mut eve = Peer::open(&desk, id, 14).await;
    eve.write(0, 0, "lost ");
    let second = eve.write(5, 0, "found ");
    eve.send(second).await.unwrap();
    while eve.left.is_none() {
        eve.hear().await;
    }
    assert!(eve.left.as_ref().unwrap().reason.contains("never seen"), "{:?}", eve.left);
    assert_eq!(read(&desk, id).await["content"], "good text\n");
    eve.connect(&desk, id).await;
    eve.settled().await;
    assert_eq!(read(&desk, id).await["content"], "lost found good text\n", "who comes again brings everything");
    ann.type_at(0, 0, "still ").await;
    ann.settled().await;
}

#[tokio::test]
async fn asking_for_everything_again_and_again_in_one_breath_is_answered_once() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "text\n").await;
    let documents = &desk.computer.app.harness.documents;
    let (member, mut incoming) = documents.enter(id, None).await.unwrap().unwrap().unwrap();
    incoming.recv().await.unwrap();
    let step1 = Message::Sync(SyncMessage::SyncStep1(StateVector::default())).encode_v1();
    member.take(&step1.repeat(64)).await.unwrap();
    let mut answers = 0;
    while incoming.try_recv().is_some() {
        answers += 1;
    }
    assert_eq!(answers, 1);
}

#[tokio::test]
async fn a_long_paste_and_many_updates_open_from_a_kept_state() {
    let directory = tempfile::tempdir().unwrap();
    let desk = desk_in(directory.path()).await;
    let id = document(&desk, "").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    let long = "All work and no play makes Jack a dull boy.\n".repeat(1000);
    ann.type_at(0, 0, &long).await;
    ann.settled().await;
    ann.type_at(3, 0, " the").await;
    ann.settled().await;
    let expected = ann.content();
    desk.computer.close("test").await.unwrap();
    let again = desk_in(directory.path()).await;
    assert_eq!(read(&again, id).await["content"], expected.as_str());
    assert!(again.kinds().await.contains(&"document.compacted".to_owned()));
    let ben = Peer::open(&again, id, 12).await;
    assert_eq!(ben.content(), expected);
    assert!(!ben.state().is_empty());
}

#[tokio::test]
async fn an_agent_asks_before_it_changes_a_persons_words_and_the_person_decides_place_by_place() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(EAGER)).await;
    let id = document(&desk, "first line\nmine\nlast line\n").await;
    let body = json!({"prompt": "improve it", "document_id": id.to_string()});
    let (_, accepted) = desk.send("POST", "/api/runs", body).await;
    let run = desk.ended(accepted["run_id"].as_str().unwrap().parse().unwrap()).await;
    let asked = run.tasks.iter().filter_map(|task| task.summary.as_deref()).find(|said| said.contains("2 places"));
    assert!(asked.is_some(), "{:?}", run.tasks);
    let now = read(&desk, id).await;
    assert_eq!(now["content"], "first line\nmine\nlast line\nadded\n", "beside the person's words it is free");
    let proposals = now["proposals"].as_array().unwrap();
    let wanted: Vec<_> = proposals
        .iter()
        .map(|proposal| (proposal["old"].as_str().unwrap(), proposal["new"].as_str().unwrap()))
        .collect();
    assert_eq!(wanted.len(), 2, "{wanted:?}");
    let path =
        |index: usize| format!("/api/documents/{id}/proposals/{}", proposals[index]["proposal_id"].as_str().unwrap());
    let (status, after) = desk.send("POST", &path(0), json!({"decision": "accept"})).await;
    assert_eq!((status, &after["content"]), (200, &json!("first line, by Writer\nmine\nlast line\nadded\n")));
    let (_, after) = desk.send("POST", &path(1), json!({"decision": "reject"})).await;
    assert_eq!(
        (after["content"].as_str(), after["proposals"].as_array().map(Vec::len)),
        (Some("first line, by Writer\nmine\nlast line\nadded\n"), Some(0))
    );
    assert_eq!(desk.send("POST", &path(1), json!({"decision": "accept"})).await.0, 409, "decided is decided");
    assert_eq!(desk.send("POST", &path(0), json!({"decision": "maybe"})).await.0, 400);

    // A no can be taken back, once; a yes is undone by the versions.
    let reopen = |index: usize| format!("{}/reopen", path(index));
    assert_eq!(desk.send("POST", &reopen(0), Value::Null).await.0, 404, "it was accepted");
    let (status, after) = desk.send("POST", &reopen(1), Value::Null).await;
    assert_eq!((status, &after["proposals"]), (200, &json!([proposals[1]])));
    assert_eq!(desk.send("POST", &reopen(1), Value::Null).await.0, 404, "it waits already");
    let (_, after) = desk.send("POST", &path(1), json!({"decision": "accept"})).await;
    assert_eq!(after["content"], "first line, by Writer\nmine, better\nlast line\nadded\n");
}

pub(crate) async fn versions(desk: &Desk, id: DocumentId) -> Value {
    desk.send("GET", &format!("/api/documents/{id}/versions"), Value::Null).await.1["versions"].clone()
}

/// Goes on with what it wrote last, and reads nothing before.
const GOES_ON: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "go on"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}],
    "writer": [
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Notes", "content": "a\nb\nc\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}]
}}"#;

#[tokio::test]
async fn what_a_person_typed_is_their_version_when_an_agent_only_proposes_something() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(OVER)).await;
    let id = document(&desk, "alpha\nbeta\ngamma\n").await;
    let mut ann = Peer::open(&desk, id, 11).await;
    ann.type_at(17, 0, "delta\nepsilon\n").await;
    ann.settled().await;
    // She is still there: nobody has given what she typed a name.
    let run = desk.accept_with(json!({"prompt": "improve it", "document_id": id.to_string()})).await;
    desk.ended(run).await;
    let listed = versions(&desk, id).await;
    let authors: Vec<_> = listed.as_array().unwrap().iter().map(|version| version["author"].clone()).collect();
    assert_eq!(authors, ["person", "person"], "{listed}");
    assert_eq!(read(&desk, id).await["proposals"].as_array().map(Vec::len), Some(2));
}

/// A version as it stands in the log.
fn version(document_id: DocumentId, version: u32, content: &str) -> Event {
    let versioned = DocumentVersioned {
        document_id,
        version,
        title: "Notes".into(),
        content_hash: choir_store::sha256(content.as_bytes()),
        content: Some(content.into()),
        size: content.len() as u64,
        reason: "one of many".into(),
    };
    versioned.into()
}

#[tokio::test]
async fn the_newest_of_very_many_versions_is_what_an_agent_goes_on_from() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(GOES_ON)).await;
    let id = document(&desk, "a\n").await;
    let journal = &desk.computer.app.harness.journal;
    let many = (2..=1_001).map(|number| version(id, number, "a\n")).collect();
    journal.append(&Scope::of(Actor::Person), many).await.unwrap();
    journal.append(&Scope::of(Actor::Agent(Role::Writer)), vec![version(id, 1_002, "a\nb\n")]).await.unwrap();
    let listed = versions(&desk, id).await;
    let numbers = listed.as_array().unwrap().iter().map(|version| version["version"].as_u64().unwrap());
    assert_eq!(numbers.collect::<Vec<_>>(), (3..=1_002).collect::<Vec<_>>(), "the newest are listed, oldest first");
    let list =
        async |query: &str| desk.send("GET", &format!("/api/documents/{id}/versions{query}"), Value::Null).await.1;
    assert_eq!(list("").await["next"], 3, "and where the older ones begin");
    let older = list("?before=3").await;
    assert_eq!((older["versions"].as_array().map(Vec::len), &older["next"]), (Some(2), &Value::Null), "{older}");
    assert_eq!(list("?before=3&limit=1").await["versions"][0]["version"], 2);
    let body = json!({"prompt": "go on", "document_id": id.to_string()});
    let run = desk.accept_with(body).await;
    desk.ended(run).await;
    assert_eq!(read(&desk, id).await["content"], "a\nb\nc\n", "no line stands twice");
}

/// Touches nothing but a person's words, and would have another title.
const OVER: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "improve it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "improved"}}]}],
    "writer": [
        {"tool_calls": [{"name": "read_document", "arguments": {}}]},
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Report", "content": "ALPHA\nbeta\ngamma\ndelta\nEPSILON\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}]
}}"#;

#[tokio::test]
async fn what_two_runs_propose_for_one_version_stands_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(OVER)).await;
    let id = document(&desk, "alpha\nbeta\ngamma\ndelta\nepsilon\n").await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let body = json!({"prompt": "improve it", "document_id": id.to_string()});
        let (_, accepted) = desk.send("POST", "/api/runs", body).await;
        desk.ended(accepted["run_id"].as_str().unwrap().parse().unwrap()).await;
        runs.push(accepted["run_id"].clone());
    }
    let proposals = read(&desk, id).await["proposals"].as_array().unwrap().clone();
    let of = |run: &Value| proposals.iter().filter(|proposal| proposal["run_id"] == *run).count();
    assert_eq!((of(&runs[0]), of(&runs[1])), (2, 2), "{proposals:?}");
    let versions: std::collections::BTreeSet<_> = proposals.iter().map(|one| one["version"].as_u64()).collect();
    assert_eq!(versions.len(), 1, "the control: it is one version: {proposals:?}");
    let first = proposals.iter().find(|proposal| proposal["run_id"] == runs[0]).unwrap();
    let path = format!("/api/documents/{id}/proposals/{}", first["proposal_id"].as_str().unwrap());
    let (_, after) = desk.send("POST", &path, json!({"decision": "reject"})).await;
    assert_eq!(after["proposals"].as_array().map(Vec::len), Some(3), "one word decides about one: {after}");
}

#[tokio::test]
async fn an_agent_rewrites_neither_a_persons_versions_nor_their_title() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(OVER)).await;
    let id = document(&desk, "alpha\nbeta\ngamma\ndelta\nepsilon\n").await;
    let before = versions(&desk, id).await;
    let body = json!({"prompt": "improve it", "document_id": id.to_string()});
    let (_, accepted) = desk.send("POST", "/api/runs", body).await;
    desk.ended(accepted["run_id"].as_str().unwrap().parse().unwrap()).await;
    let now = read(&desk, id).await;
    assert_eq!((now["proposals"].as_array().map(Vec::len), &now["version"]), (Some(2), &json!(1)), "{now}");
    assert_eq!(versions(&desk, id).await, before, "version 1 is still the person's");
    assert_eq!(now["title"], "Notes");

    // The person's own heading names it, and says so in its own version.
    let edit = json!({"base_version": 1, "content": "# Letters\nalpha\nbeta\ngamma\ndelta\nepsilon\n"});
    let (_, renamed) = desk.send("PUT", &format!("/api/documents/{id}"), edit).await;
    assert_eq!(renamed["title"], "Letters");
}

#[tokio::test]
async fn a_document_that_nobody_named_is_named_by_whoever_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(OVER)).await;
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": "Untitled", "content": "alpha\n"})).await;
    let id: DocumentId = made["document_id"].as_str().unwrap().parse().unwrap();
    let body = json!({"prompt": "improve it", "document_id": id.to_string()});
    let (_, accepted) = desk.send("POST", "/api/runs", body).await;
    desk.ended(accepted["run_id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(read(&desk, id).await["title"], "Report");
    assert_eq!(versions(&desk, id).await[0]["author"], "person");
}

#[tokio::test]
async fn what_is_saved_is_answered_as_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(EAGER)).await;
    let id = document(&desk, "first line\nmine\nlast line\n").await;
    let body = json!({"prompt": "improve it", "document_id": id.to_string()});
    let (_, accepted) = desk.send("POST", "/api/runs", body).await;
    desk.ended(accepted["run_id"].as_str().unwrap().parse().unwrap()).await;
    let seen = read(&desk, id).await;
    let figure = "```run cat x\n1\n```\nShe said “nobody ever said this”.\n";
    let content = format!("{}{figure}", seen["content"].as_str().unwrap());
    let edit = json!({"base_version": seen["version"], "content": content});
    let (_, saved) = desk.send("PUT", &format!("/api/documents/{id}"), edit).await;
    let count = |field: &str| saved[field].as_array().map(Vec::len);
    assert_eq!((count("proposals"), count("figures"), count("unsupported")), (Some(2), Some(1), Some(1)), "{saved}");
    assert_eq!(saved, read(&desk, id).await);
}

/// Small, seeded and good enough to shuffle with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Documents that live in one computer, so that a thousand of them need few computers.
const DOCUMENTS: u64 = 50;

/// Computers at the same time.
const COMPUTERS: u64 = 5;

/// Lives of each computer.
const LIVES: usize = 3;

/// Two people at one document, and a program that saves whole texts.
struct Case {
    seed: u64,
    dice: Dice,
    id: DocumentId,
    people: [Peer; 2],
    /// Every word that anybody wrote.
    words: Vec<String>,
}

impl Case {
    async fn open(desk: &Desk, seed: u64) -> Self {
        let id = document(desk, "base\n").await;
        let people = [Peer::open(desk, id, 100).await, Peer::open(desk, id, 200).await];
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        Self { seed, dice, id, people, words: Vec::new() }
    }

    /// They type, drop out and come back, and the program saves what it has seen with a word of its own.
    async fn play(&mut self, desk: &Desk) {
        for _ in 0..5 {
            let who = self.dice.roll(2) as usize;
            let word = format!("<{}.{}>", self.seed, self.words.len());
            match self.dice.roll(7) {
                0..=4 => {
                    let content = self.people[who].content();
                    let between = |at: &usize| *at == 0 || *at == content.len() || content.as_bytes()[at - 1] == b'>';
                    let places: Vec<usize> = (0..=content.len()).filter(between).collect();
                    let at = places[self.dice.roll(places.len() as u64) as usize];
                    self.people[who].type_at(at as u32, 0, &word).await;
                    self.words.push(word);
                }
                5 => {
                    self.people[who].disconnect();
                    self.people[who].connect(desk, self.id).await;
                }
                _ => {
                    let seen = read(desk, self.id).await;
                    let content = format!("{}{word}", seen["content"].as_str().unwrap());
                    let edit = json!({"base_version": seen["version"], "content": content});
                    assert_eq!(desk.send("PUT", &format!("/api/documents/{}", self.id), edit).await.0, 200);
                    self.words.push(word);
                }
            }
            self.people[who].catch_up().await;
        }
    }

    fn leave(&mut self) {
        self.people.iter_mut().for_each(Peer::disconnect);
    }

    async fn come_back(&mut self, desk: &Desk) {
        for person in &mut self.people {
            person.connect(desk, self.id).await;
        }
    }

    async fn check(&mut self, desk: &Desk) {
        for person in &mut self.people {
            person.settled().await;
        }
        let content = read(desk, self.id).await["content"].as_str().unwrap().to_owned();
        for word in &self.words {
            assert_eq!(content.matches(word.as_str()).count(), 1, "seed {}: {word} in {content}", self.seed);
        }
        self.leave();
        self.come_back(desk).await;
        assert!(self.people.iter().all(|person| person.content() == content), "seed {}", self.seed);
    }
}

/// One computer with its documents, through all of its lives.
async fn play(batch: u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut desk = desk_in(directory.path()).await;
    let seeds = batch * DOCUMENTS..(batch + 1) * DOCUMENTS;
    let mut cases = join_all(seeds.map(|seed| Case::open(&desk, seed))).await;
    for life in 1..=LIVES {
        join_all(cases.iter_mut().map(|case| case.play(&desk))).await;
        if life < LIVES {
            // Whatever was not acknowledged is still with whoever wrote it.
            cases.iter_mut().for_each(Case::leave);
            desk.computer.close("test").await.unwrap();
            desk = desk_in(directory.path()).await;
            join_all(cases.iter_mut().map(|case| case.come_back(&desk))).await;
        }
    }
    join_all(cases.iter_mut().map(|case| case.check(&desk))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_keystroke_is_lost_or_doubled_in_a_thousand_interleavings() {
    // Several computers at once: most of their time is spent waiting for the next commit.
    for group in 0..1000 / DOCUMENTS / COMPUTERS {
        let batches = (group * COMPUTERS..(group + 1) * COMPUTERS).map(|batch| tokio::spawn(play(batch)));
        for played in join_all(batches).await {
            played.unwrap();
        }
    }
}

//! What people do with agents, from one prompt to ten, and what goes wrong with plans, results and sources.

use crate::fake::{Desk, Fake};
use crate::peer::Peer;
use choir_computer::actor::RunCommand;
use choir_core::effect;
use choir_core::replay::replay;
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::task::TaskStatus;
use choir_proto::{DocumentId, Event, Role, RunId, RunStatus, Seq};
use choir_store::Query;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn desk(scenario: &str) -> (tempfile::TempDir, Arc<Fake>, Desk) {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(scenario);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    (directory, fake, desk)
}

async fn content(desk: &Desk, id: DocumentId) -> String {
    let (status, document) = desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await;
    assert_eq!(status, 200, "{document}");
    document["content"].as_str().unwrap().to_owned()
}

/// Each writes what it was asked.
const ECHO: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "look at {{prompt}}"}},
                        {"name": "delegate", "arguments": {"role": "writer", "objective": "write {{prompt}}"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done: {{prompt}}"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "look"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "seen"}}]}],
    "writer": [
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Echo", "content": "It says: {{prompt}}\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}]
}}"#;

#[tokio::test]
async fn ten_prompts_at_once_are_ten_runs_that_know_nothing_of_each_other() {
    let (_directory, _, desk) = desk(ECHO).await;
    let runs = join_all((0..10).map(|number| {
        let desk = &desk;
        async move { desk.accept(&format!("prompt number {number}.")).await }
    }))
    .await;
    let done = join_all(runs.iter().map(|run| desk.ended(*run))).await;
    let mut documents = std::collections::BTreeSet::new();
    for (number, run) in done.iter().enumerate() {
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
        assert_eq!(run.tasks.len(), 3, "{:?}", run.tasks);
        let id = run.document_id.unwrap();
        assert!(documents.insert(id), "two runs write one document");
        let text = content(&desk, id).await;
        assert!(text.contains(&format!("prompt number {number}.")), "run {number}: {text}");
        // The receipt's parts add up to the whole.
        let (_, trace) = desk.send("GET", &format!("/api/runs/{}/trace", run.run_id), Value::Null).await;
        assert!(trace["spans"].as_array().is_some_and(|spans| !spans.is_empty()), "{trace}");
        let called: u64 = desk.events(run.run_id).await.iter().fold(0, |sum, (_, event)| match event {
            Event::ModelCalled(called) => sum + called.usage.tokens(),
            _ => sum,
        });
        assert_eq!(run.usage.tokens(), called);
    }
}

#[tokio::test]
async fn a_writer_that_wrote_nothing_has_failed_whatever_it_says() {
    let refused = r#"{"name": "write_document", "arguments": {"title": "", "content": ""}}"#;
    for calls in ["", refused] {
        let scenario = format!(
            r#"{{"roles": {{
                "conductor": [
                    {{"tool_calls": [{{"name": "delegate", "arguments": {{"role": "writer", "objective": "write"}}}}]}},
                    {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "ok"}}}}]}}],
                "writer": [
                    {{"tool_calls": [{calls}{comma}{{"name": "finish", "arguments": {{"summary": "a lovely document"}}}}]}},
                    {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "a lovely document"}}}}]}}]
            }}}}"#,
            comma = if calls.is_empty() { "" } else { "," },
        );
        let (_directory, _, desk) = desk(&scenario).await;
        let run = desk.accept("Write it up.").await;
        let done = desk.ended(run).await;
        assert_eq!(done.status, RunStatus::Failed, "{done:?}");
        assert!(done.reason.unwrap().contains("Nothing was written."));
    }
}

#[tokio::test]
async fn a_worker_that_ends_with_a_question_is_asked_again_with_its_answer() {
    let scenario = r#"{"turns": [
        {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "paint it"}}]}},
        {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "paint it blue; you had asked: {{last_result}}"}}]}},
        {"when": {"role": "conductor", "turn": 3}, "answer": {"tool_calls": [
            {"name": "answer", "arguments": {"text": "{{last_result}}"}}, {"name": "finish", "arguments": {"summary": "painted"}}]}},
        {"when": {"role": "terminal", "turn": 1, "prompt_contains": "blue"}, "answer": {"tool_calls": [
            {"name": "finish", "arguments": {"summary": "It is blue."}}]}},
        {"when": {"role": "terminal", "turn": 1}, "answer": {"tool_calls": [
            {"name": "finish", "arguments": {"summary": "Which colour?", "status": "needs_input"}}]}}
    ]}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let run = desk.accept("paint the fence").await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::Completed, "{done:?}");
    let statuses: Vec<_> = done.tasks.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Ok, TaskStatus::NeedsInput, TaskStatus::Ok], "{:?}", done.tasks);
    assert!(done.answer.is_some_and(|answer| answer.contains("It is blue.")));
    let told = desk.events(run).await.into_iter().any(|(_, event)| {
        matches!(event, Event::TaskRequested(asked) if asked.request.instruction.contains("Which colour?"))
    });
    assert!(told, "the question comes back with its answer");
}

/// A worker asks with its tool. `SAYS` is what the conductor says to that.
const ASKS: &str = r#"{"turns": [
    {"when": {"role": "conductor", "prompt_contains": "waits for your answer"}, "answer": {"tool_calls": [SAYS]}},
    {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
        {"name": "delegate", "arguments": {"role": "terminal", "objective": "paint it"}}]}},
    {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [
        {"name": "answer", "arguments": {"text": "{{last_result.summary}}"}}, {"name": "finish", "arguments": {"summary": "painted"}}]}},
    {"when": {"role": "terminal", "turn": 1}, "answer": {"tool_calls": [
        {"name": "request", "arguments": {"kind": "KIND", "question": "Which colour?"}}]}},
    {"when": {"role": "terminal", "turn": 2}, "answer": {"tool_calls": [
        {"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}}
]}"#;

const BLUE: &str = r#"{"name": "answer", "arguments": {"text": "Blue."}}"#;

#[tokio::test]
async fn a_worker_asks_and_the_conductor_answers_by_the_request_s_name() {
    let scenario = ASKS.replace("SAYS", BLUE).replace("KIND", "blocked");
    let (_directory, fake, desk) = desk(&scenario).await;
    let run = desk.accept("paint the fence").await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::Completed, "{done:?}");
    let events = desk.events(run).await;
    let asked = events.iter().find_map(|(_, event)| match event {
        Event::ToolStarted(started) if started.name == "request" => Some(effect::question(&started.effect_id)),
        _ => None,
    });
    let told = format!("The Conductor answers request {}: Blue.", asked.unwrap());
    assert_eq!(done.answer.as_deref(), Some(told.as_str()));
    assert!(fake.inbox.borrow().is_empty(), "the person was asked what the conductor knew");
    let aside = done.tasks.iter().find(|task| task.role == Some(Role::Conductor) && task.parent.is_some()).unwrap();
    assert!(aside.objective.contains("<data>\nWhich colour?\n</data>"), "{}", aside.objective);
    assert_eq!((aside.status, aside.summary.as_deref()), (TaskStatus::Ok, Some("Blue.")));
    replay(&events, |_| false).unwrap();
}

#[tokio::test]
async fn what_a_conductor_does_not_know_or_may_not_say_is_put_to_the_person() {
    let does_not_know = r#"{"name": "finish", "arguments": {"summary": "I do not know.", "status": "needs_input"}}"#;
    let does_something_else = r#"{"name": "delegate", "arguments": {"role": "terminal", "objective": "ask around"}}"#;
    for (says, kind) in [(does_not_know, "blocked"), (does_something_else, "conflict"), (BLUE, "approval")] {
        let (_directory, fake, desk) = desk(&ASKS.replace("SAYS", says).replace("KIND", kind)).await;
        let run = desk.accept("paint the fence").await;
        let (id, ask) = fake.asked().await;
        assert_eq!(ask.matter, Matter::Question { question: "Which colour?".into(), answers: Vec::new() });
        fake.decide(id, Verdict::Answered { text: "red".into() });
        let done = desk.ended(run).await;
        assert_eq!(done.answer.as_deref(), Some("The person answers: red"), "{kind}");
        assert_eq!(done.tasks.iter().filter(|task| task.role == Some(Role::Terminal)).count(), 1, "{kind}");
    }
}

#[tokio::test]
async fn yesterdays_document_is_continued_and_nothing_of_it_is_lost() {
    let scenario = r#"{"turns": [
        {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "writer", "objective": "{{prompt}}"}}]}},
        {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}},
        {"when": {"role": "writer", "turn": 1, "prompt_contains": "today"}, "answer": {"tool_calls": [{"name": "read_document", "arguments": {}}]}},
        {"when": {"role": "writer", "turn": 2, "prompt_contains": "today"}, "answer": {"tool_calls": [
            {"name": "edit_document", "arguments": {"old": "Second.\n", "new": "Second.\n\nThird.\n"}}]}},
        {"when": {"role": "writer", "turn": 3, "prompt_contains": "today"}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "continued"}}]}},
        {"when": {"role": "writer", "turn": 1}, "answer": {"tool_calls": [
            {"name": "write_document", "arguments": {"title": "Days", "content": "First.\n\nSecond.\n"}}]}},
        {"when": {"role": "writer", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "begun"}}]}}
    ]}"#;
    let (directory, fake, desk) = desk(scenario).await;
    let first = desk.ended(desk.accept("begin the diary").await).await;
    let id = first.document_id.unwrap();
    assert_eq!(content(&desk, id).await, "First.\n\nSecond.\n");
    desk.computer.close("night").await.unwrap();
    let desk = Desk::open(directory.path(), fake).await;
    let edit = json!({"base_version": 2, "content": "First, by me.\n\nSecond.\n"});
    assert_eq!(desk.send("PUT", &format!("/api/documents/{id}"), edit).await.0, 200);
    let run = desk.accept_with(json!({"prompt": "go on today", "document_id": id})).await;
    let second = desk.ended(run).await;
    assert_eq!((second.status, second.document_id), (RunStatus::Completed, Some(id)), "{second:?}");
    assert_eq!(content(&desk, id).await, "First, by me.\n\nSecond.\n\nThird.\n");
}

/// Reads, and then writes a text that has nothing of what anybody else wrote.
const REWRITE: &str = r##"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "rewrite it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "rewritten"}}]}],
    "writer": [
        {"tool_calls": [{"name": "read_document", "arguments": {}}]},
        {"chunks": 12, "tool_calls": [{"name": "write_document", "arguments": {"title": "New", "content": "# New\n\nOther words entirely.\n"}}]},
        {"chunks": 12, "tool_calls": [{"name": "write_document", "arguments": {"title": "New", "content": "# New\n\nOther words again, and more.\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "rewritten"}}]}]
}}"##;

/// Interleavings in one computer, and computers.
const DOCUMENTS: u64 = 100;
const COMPUTERS: u64 = 10;

/// Pieces of a slow answer that come with a word of the person, at most; and all that anybody can wait for.
const PIECES: usize = 11;
const PIECES_MAX: usize = 100_000;

/// How fast a slow model speaks while nobody types.
const PIECE_EVERY: Duration = Duration::from_millis(30);

/// Somebody who types while an agent rewrites the same document.
struct Typist {
    seed: u64,
    document: DocumentId,
    run: RunId,
    person: Peer,
    dice: u64,
    words: Vec<String>,
}

impl Typist {
    async fn begin(desk: &Desk, seed: u64) -> Self {
        let body = json!({"title": "Notes", "content": "base\n"});
        let (_, made) = desk.send("POST", "/api/documents", body).await;
        let document: DocumentId = made["document_id"].as_str().unwrap().parse().unwrap();
        let person = Peer::open(desk, document, 100 + seed).await;
        let run = desk.accept_with(json!({"prompt": "rewrite it", "document_id": document})).await;
        Self { seed, document, run, person, dice: seed.wrapping_mul(6_364_136_223_846_793_005) | 1, words: Vec::new() }
    }

    /// Types two words, at the beginning, at the end, or where the last word ended; some pieces of answers come with them.
    async fn type_on(&mut self, fake: &Fake) {
        for _ in 0..2 {
            let dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.dice = dice;
            for _ in 0..(dice >> 33) % 40 {
                tokio::task::yield_now().await;
            }
            self.person.catch_up().await;
            let (word, text) = (format!("<{}.{}>", self.seed, self.words.len()), self.person.content());
            let at = match (dice >> 40) % 3 {
                0 => 0,
                1 => text.len() as u32,
                _ => text.rfind('>').map_or(0, |at| at as u32 + 1),
            };
            fake.pace.add_permits((dice >> 45) as usize % (PIECES + 1));
            self.person.type_at(at, 0, &word).await;
            self.words.push(word);
        }
        self.person.settled().await;
    }

    /// Every word is there, once.
    async fn check(self, desk: &Desk) {
        let Self { seed, .. } = self;
        let done = desk.ended(self.run).await;
        assert_eq!(done.status, RunStatus::Completed, "seed {seed}: {done:?}");
        let text = content(desk, self.document).await;
        for word in self.words {
            assert_eq!(text.matches(&word).count(), 1, "seed {seed}: {word} in {text}");
        }
    }
}

async fn count(desk: &Desk, kind: &str) -> u64 {
    let query = Query { kind: Some(kind.to_owned()), limit: 1000, ..Query::default() };
    desk.computer.app.harness.journal.log().read(query).await.unwrap().len() as u64
}

/// How often words were in a document before all of them were said.
async fn sketches(desk: &Desk) -> u64 {
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        let kind = Some("document.updated".to_owned());
        let query = Query { after, kind, limit: 1000, ..Query::default() };
        let page = desk.computer.app.harness.journal.log().read(query).await.unwrap();
        let Some(last) = page.last() else { return count };
        after = last.header.seq;
        count += page.iter().filter(|event| event.payload.get().contains("\"sketch\":{")).count() as u64;
    }
}

async fn type_during_rewrites(computer: u64) {
    let (_directory, fake, desk) = desk(REWRITE).await;
    // In every other one the model speaks slowly, and its words are in the document before it has said them all.
    let is_slow = computer % 2 == 1;
    fake.is_slow.store(is_slow, Ordering::SeqCst);
    let seeds = computer * DOCUMENTS..(computer + 1) * DOCUMENTS;
    let mut typists = join_all(seeds.map(|seed| Typist::begin(&desk, seed))).await;
    let mut beat = tokio::time::interval(PIECE_EVERY);
    // A crowd is accepted before its work begins, and what a slow model may say would wait for it in one heap.
    while is_slow && count(&desk, "task.requested").await < 2 * DOCUMENTS {
        beat.tick().await;
    }
    join_all(typists.iter_mut().map(|typist| typist.type_on(&fake))).await;
    // As many as there are: on a machine that others use, most answers may be whole before a first look at them.
    while is_slow && sketches(&desk).await < DOCUMENTS / 4 && count(&desk, "run.ended").await < DOCUMENTS {
        beat.tick().await;
        // Few enough that an answer takes longer than the first of its words take into the document, also on a quick machine.
        fake.pace.add_permits((DOCUMENTS as usize / 4).saturating_sub(fake.pace.available_permits()));
    }
    join_all(typists.iter_mut().map(|typist| typist.type_on(&fake))).await;
    fake.pace.add_permits(PIECES_MAX);
    join_all(typists.into_iter().map(|typist| typist.check(&desk))).await;
    assert!(!is_slow || sketches(&desk).await > 0, "nobody typed into words that were still being said");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_keystroke_is_lost_while_an_agent_rewrites_in_a_thousand_interleavings() {
    // Several computers at once: most of their time is spent waiting for the next commit.
    let played = (0..COMPUTERS).map(|computer| tokio::spawn(type_during_rewrites(computer)));
    for played in join_all(played).await {
        played.unwrap();
    }
}

#[tokio::test]
async fn a_plan_that_names_nobody_who_exists_is_not_done() {
    let scenario = r#"{"roles": {"conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "wizard", "objective": "enchant it"}}]},
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "conductor", "objective": "conduct it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "all done"}}]}]}}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let done = desk.ended(desk.accept("do it").await).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
    assert!(done.reason.is_some_and(|reason| reason.contains("one conductor")), "the reason is told");
    assert_eq!(done.answer, None);
}

#[tokio::test]
async fn agents_that_delegate_in_circles_come_to_an_end() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "round"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "all done"}}]}],
        "writer": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "and round"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}", "status": "failed"}}]}]
    }}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let done = desk.ended(desk.accept("go round").await).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
    assert!(done.tasks.len() <= 7, "{} agents", done.tasks.len());
    assert!(done.reason.is_some_and(|reason| reason.contains("no deeper")), "the reason is told");
}

#[tokio::test]
async fn empty_results_are_no_results() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write"}}]},
            {"tool_calls": [{"name": "answer", "arguments": {"text": ""}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "  "}}]},
            {"text": " "}],
        "writer": [
            {"tool_calls": [{"name": "write_document", "arguments": {"title": "Empty", "content": ""}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": ""}}]},
            {"text": " "}]
    }}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let done = desk.ended(desk.accept("say something").await).await;
    assert_eq!((done.status, done.answer), (RunStatus::Failed, None));
    assert!(done.reason.is_some_and(|reason| !reason.trim().is_empty()), "the reason is told");
    assert_eq!(content(&desk, done.document_id.unwrap()).await, "say something", "no document is blank");
}

#[tokio::test]
async fn what_arrives_after_a_stop_changes_nothing() {
    let scenario = r#"{"roles": {
        "conductor": [{"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "wait"}}]},
                      {"tool_calls": [{"name": "finish", "arguments": {"summary": "all done"}}]}],
        "terminal": [{"tool_calls": [{"name": "bash", "arguments": {"command": "wait"}}]},
                     {"tool_calls": [{"name": "finish", "arguments": {"summary": "all done"}}]}]}}"#;
    let (_directory, fake, desk) = desk(scenario).await;
    let run = desk.accept("wait").await;
    while fake.effects.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    desk.command(run, RunCommand::Cancel).await;
    let done = desk.ended(run).await;
    let after = desk.events(run).await.len();
    assert_eq!(done.status, RunStatus::Cancelled);
    for path in ["pause", "resume", "cancel"] {
        let (status, answer) = desk.send("POST", &format!("/api/runs/{run}/{path}"), Value::Null).await;
        assert_eq!(status, 409, "{path}: {answer}");
    }
    assert_eq!(desk.send("POST", &format!("/api/runs/{run}/steer"), json!({"text": "more"})).await.0, 409);
    assert_eq!(desk.events(run).await.len(), after, "nothing follows the end");
}

#[tokio::test]
async fn odd_documents_and_ancient_versions_are_answered_with_a_reason() {
    let (_directory, _, desk) = desk(ECHO).await;
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": "T", "content": "one two three\n"})).await;
    let path = format!("/api/documents/{}", made["document_id"].as_str().unwrap());
    for number in 2..40 {
        let edit = json!({"base_version": number - 1, "content": format!("one two three {number}\n")});
        assert_eq!(desk.send("PUT", &path, edit).await.0, 200);
    }
    // Against the very first version: merged, and nothing of what came since is lost.
    let (status, merged) = desk.send("PUT", &path, json!({"base_version": 1, "content": "zero one two three\n"})).await;
    assert_eq!(status, 200, "{merged}");
    let text = merged["content"].as_str().unwrap();
    assert!(text.contains("zero") && text.contains("39"), "{text}");
    for (edit, code) in [
        (json!({"base_version": 0, "content": "x"}), "no_such_version"),
        (json!({"base_version": 4000, "content": "x"}), "no_such_version"),
    ] {
        let (status, refused) = desk.send("PUT", &path, edit).await;
        assert!((400..500).contains(&status), "{refused}");
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(!refused["error"]["hint"].as_str().unwrap().is_empty());
    }
    let huge = json!({"base_version": 1, "content": "x".repeat(21 << 20)});
    let (status, refused) = desk.send("PUT", &path, huge).await;
    assert!((400..500).contains(&status) && refused["error"]["hint"].is_string(), "{status} {refused}");
    // Binary in a text is text that says so, or refused; it never breaks the document.
    let (status, _) = desk.send("PUT", &path, json!({"base_version": 1, "content": "\u{0}\u{1}\u{fffd}"})).await;
    assert!(matches!(status, 200 | 400), "{status}");
    assert_eq!(desk.send("GET", &path, Value::Null).await.0, 200);
}

#[tokio::test]
async fn sources_that_vanished_are_named_and_nothing_is_quoted_from_them() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "researcher", "objective": "quote it"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "quoted"}}]}],
        "researcher": [
            {"tool_calls": [{"name": "cite", "arguments": {"source": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "quote": "words"}},
                            {"name": "cite", "arguments": {"source": "nowhere", "quote": "words"}},
                            {"name": "fetch_url", "arguments": {"url": "http://gone.example/"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{results}}", "status": "failed"}}]}]
    }}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let done = desk.ended(desk.accept("quote the source").await).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
    let reason = done.reason.unwrap();
    assert!(reason.contains("There is no source") && reason.contains("nowhere"), "{reason}");
    let cited = desk.events(done.run_id).await.into_iter().any(|(_, event)| matches!(event, Event::CitationMade(_)));
    assert!(!cited);
}

/// Answers a question, and changes first what it may and then what it may not.
const SELECTED: &str = r#"{"turns": [
    {"when": {"role": "conductor", "turn": 1, "prompt_contains": "change it"}, "answer": {"tool_calls": [
        {"name": "delegate", "arguments": {"role": "writer", "objective": "change the selected part"}}]}},
    {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}},
    {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
        {"name": "answer", "arguments": {"text": "It means: {{prompt}}"}}, {"name": "finish", "arguments": {"summary": "answered"}}]}},
    {"when": {"role": "writer", "turn": 1}, "answer": {"tool_calls": [
        {"name": "write_document", "arguments": {"title": "Mine", "content": "all mine now"}},
        {"name": "edit_document", "arguments": {"old": "Three.", "new": "Four."}},
        {"name": "edit_document", "arguments": {"old": "Two.", "new": "Two and a half."}}]}},
    {"when": {"role": "writer", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{results}}"}}]}}
]}"#;

#[tokio::test]
async fn a_selected_part_is_asked_about_or_changed_in_the_margin_and_nothing_else_is() {
    let (_directory, _, desk) = desk(SELECTED).await;
    let text = "One.\n\nTwo.\n\nThree.\n";
    let (_, made) = desk.send("POST", "/api/documents", json!({"title": "Numbers", "content": text})).await;
    let id = made["document_id"].as_str().unwrap().to_owned();
    let body = |prompt: &str, action: &str, from: u64, to: u64| json!({"prompt": prompt, "document_id": id, "selection": {"from": from, "to": to, "action": action}});
    let asked = desk.ended(desk.accept_with(body("what is this?", "ask", 6, 10)).await).await;
    assert_eq!(asked.status, RunStatus::Completed, "{asked:?}");
    let changed = desk.ended(desk.accept_with(body("change it", "change", 6, 10)).await).await;
    assert_eq!(changed.status, RunStatus::Completed, "{changed:?}");
    let (_, document) = desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await;
    assert_eq!(document["content"], text, "nothing changes before the person says so");
    let proposals = document["proposals"].as_array().unwrap();
    assert_eq!(proposals.len(), 1, "{document}");
    assert!(proposals[0]["new"].as_str().unwrap().contains("and a half"), "{document}");
    let threads = document["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2, "{document}");
    let answered = &threads[1];
    assert_eq!((&answered["action"], &answered["quote"]), (&json!("ask"), &json!("Two.")));
    assert_eq!(answered["at"], json!({"from": 6, "to": 10}));
    assert!(answered["answer"].as_str().unwrap().contains("what is this?"), "{document}");
    for (from, to) in [(5, 5), (9, 2), (900, 901)] {
        let (status, refused) = desk.send("POST", "/api/runs", body("x", "ask", from, to)).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("bad_selection")), "{refused}");
    }
}

#[tokio::test]
async fn what_a_person_accepts_beforehand_is_not_asked_about() {
    let (_directory, fake, desk) = desk(REWRITE).await;
    let rewritten = async || {
        let body = json!({"title": "Notes", "content": "my own words\n"});
        let (_, made) = desk.send("POST", "/api/documents", body).await;
        let run = desk.accept_with(json!({"prompt": "rewrite it", "document_id": made["document_id"]})).await;
        desk.ended(run).await;
        let path = format!("/api/documents/{}", made["document_id"].as_str().unwrap());
        desk.send("GET", &path, Value::Null).await.1
    };
    let asked = rewritten().await;
    assert!(asked["content"].as_str().unwrap().contains("my own words"), "{asked}");
    assert_ne!(asked["proposals"], json!([]));
    fake.auto_accept.store(true, Ordering::SeqCst);
    let accepted = rewritten().await;
    assert_eq!(accepted["content"], "# New\n\nOther words again, and more.\n");
    assert_eq!(accepted["proposals"], json!([]));
}

#[tokio::test]
async fn words_are_no_work_where_every_delegation_was_refused() {
    let scenario = r#"{"roles": {"conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "poet", "objective": "mend it"}}]},
        {"tool_calls": [{"name": "answer", "arguments": {"text": "It is all done and tested."}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}]}}"#;
    let (_directory, _, desk) = desk(scenario).await;
    let done = desk.ended(desk.accept("mend it").await).await;
    assert_eq!(done.status, RunStatus::Failed, "{done:?}");
    assert_eq!(done.answer.as_deref(), Some("It is all done and tested."), "the answer is kept");
    assert!(done.reason.unwrap().starts_with("Nothing came of what was delegated."));
}

#[tokio::test]
async fn a_document_that_is_named_is_the_one_that_is_meant() {
    let scenario = r#"{"roles": {
        "conductor": [
            {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "change it"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}],
        "writer": [
            {"tool_calls": [{"name": "read_document", "arguments": {"document_id": "OTHER"}},
                            {"name": "edit_document", "arguments": {"document_id": "OTHER", "old": "same", "new": "changed"}}]},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{results}}"}}]}]}}"#;
    let directory = tempfile::tempdir().unwrap();
    let content = json!({"title": "Other", "content": "the same words\n"});
    let desk = Desk::open(directory.path(), Fake::new(ECHO)).await;
    let (_, other) = desk.send("POST", "/api/documents", content.clone()).await;
    let (_, own) = desk.send("POST", "/api/documents", json!({"title": "Own", "content": "same, but mine\n"})).await;
    desk.computer.close("test").await.unwrap();
    let (other, own) = (other["document_id"].as_str().unwrap(), own["document_id"].as_str().unwrap());
    let desk = Desk::open(directory.path(), Fake::new(&scenario.replace("OTHER", other))).await;
    let done = desk.ended(desk.accept_with(json!({"prompt": "change it", "document_id": own})).await).await;
    let told =
        done.tasks.iter().find_map(|task| task.summary.clone().filter(|_| task.role == Some(Role::Writer))).unwrap();
    assert!(told.contains("the same words"), "what is named is read: {told}");
    assert!(told.contains("stays as it is"), "{told}");
    for (id, text) in [(other, "the same words\n"), (own, "same, but mine\n")] {
        let (_, document) = desk.send("GET", &format!("/api/documents/{id}"), Value::Null).await;
        assert_eq!((&document["content"], &document["proposals"]), (&json!(text), &json!([])));
    }
}

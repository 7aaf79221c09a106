//! What once took the whole computer away: it must take away at most itself.

use crate::fake::{Desk, Fake};
use choir_computer::actor::{Places, RunCommand};
use choir_proto::{Event, RunId, RunStatus, Seq};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ANSWER: &str = r#"{"roles": {"conductor": [{"text": "Forty-two."}]}}"#;

async fn desk() -> (tempfile::TempDir, Arc<Fake>, Desk) {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(ANSWER);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    (directory, fake, desk)
}

/// The computer is whole: it takes a prompt and answers it.
async fn assert_works(desk: &Desk) {
    let run = desk.accept("what is it?").await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    let (status, tree) = desk.send("GET", "/api/supervision", Value::Null).await;
    assert_eq!(status, 200, "{tree}");
}

#[tokio::test]
async fn a_task_that_waits_for_a_model_is_no_run_at_the_next_start() {
    let (directory, fake, desk) = desk().await;
    fake.has_model.store(false, Ordering::SeqCst);
    let (status, made) = desk.send("POST", "/api/tasks", json!({"kind": "run", "instruction": "x"})).await;
    assert_eq!(status, 202, "{made}");
    while !desk.kinds().await.iter().any(|kind| kind == "run.blocked") {
        tokio::task::yield_now().await;
    }
    desk.computer.close("test").await.unwrap();
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    fake.has_model.store(true, Ordering::SeqCst);
    desk.send("POST", "/internal/models", json!({"available": true})).await;
    assert_works(&desk).await;
    assert!(!desk.kinds().await.iter().any(|kind| kind == "actor.restarted"), "nothing failed");
}

#[tokio::test]
async fn a_run_whose_prompt_was_erased_is_not_picked_up() {
    let (directory, fake, desk) = desk().await;
    fake.has_model.store(false, Ordering::SeqCst);
    let run = desk.accept("my key is sk-canary").await;
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    let (_, page) = desk.send("GET", "/api/events?kind=run.accepted", Value::Null).await;
    let accepted = page["events"][0]["id"].as_str().unwrap().to_owned();
    let (status, erased) = desk.send("POST", &format!("/api/events/{accepted}/erase"), Value::Null).await;
    assert_eq!(status, 200, "{erased}");
    // Whoever has the words in mind is not asked any more, and does not tell them to the next model.
    assert_eq!(desk.kinds().await.iter().filter(|kind| *kind == "run.ended").count(), 1);
    let (status, again) = desk.send("POST", &format!("/api/events/{accepted}/erase"), Value::Null).await;
    assert_eq!((status, &again["seq"]), (200, &erased["seq"]), "twice is once");
    desk.computer.close("test").await.unwrap();

    fake.has_model.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_works(&desk).await;
    assert!(!desk.kinds().await.iter().any(|kind| kind == "actor.restarted"), "nothing failed");
    let (_, page) = desk.send("GET", "/api/events?kind=payload.erased", Value::Null).await;
    let tombstone = page["events"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.send("POST", &format!("/api/events/{tombstone}/erase"), Value::Null).await.0, 409);
}

#[tokio::test]
async fn a_task_of_its_own_whose_request_is_erased_ends_and_asks_no_model_again() {
    let (directory, fake, desk) = desk().await;
    *fake.silent.lock().unwrap() = Some("canary".to_owned());
    let wish = json!({"kind": "run", "instruction": "my key is sk-canary"});
    assert_eq!(desk.send("POST", "/api/tasks", wish).await.0, 202);
    while fake.model_calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let (_, page) = desk.send("GET", "/api/events?kind=task.requested", Value::Null).await;
    let requested = page["events"][0]["id"].as_str().unwrap().to_owned();
    let (status, erased) = desk.send("POST", &format!("/api/events/{requested}/erase"), Value::Null).await;
    assert_eq!(status, 200, "{erased}");
    let (_, page) = desk.send("GET", "/api/events?kind=task.finished", Value::Null).await;
    let statuses: Vec<&Value> =
        page["events"].as_array().unwrap().iter().map(|event| &event["payload"]["result"]["status"]).collect();
    assert_eq!(statuses, ["cancelled"], "{page}");
    let (status, again) = desk.send("POST", &format!("/api/events/{requested}/erase"), Value::Null).await;
    assert_eq!((status, &again["seq"]), (200, &erased["seq"]), "twice is once");
    desk.computer.close("test").await.unwrap();

    // Nor is it picked up by the next start.
    *fake.silent.lock().unwrap() = None;
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_works(&desk).await;
    assert_eq!(fake.model_calls.load(Ordering::SeqCst), 2, "one before, and one to see that it works");
    assert_eq!(desk.kinds().await.iter().filter(|kind| *kind == "task.finished").count(), 2);
}

/// Erasing takes words away, not that something has ended: nothing of it is done again, and no model hears of it.
#[tokio::test]
async fn what_has_ended_stays_so_whatever_of_it_is_erased() {
    let (directory, fake, desk) = desk().await;
    let run = desk.accept("what is it?").await;
    desk.ended(run).await;
    let task = desk.send("POST", "/api/tasks", json!({"kind": "run", "instruction": "y"})).await.1["task_id"].clone();
    let task = task.as_str().unwrap().to_owned();
    let task_route = format!("/api/tasks/{task}");
    while desk.send("GET", &task_route, Value::Null).await.1["status"] == "running" {
        tokio::task::yield_now().await;
    }
    let asked = fake.model_calls.load(Ordering::SeqCst);
    let of_both = async |desk: &Desk| {
        let mut events = Vec::new();
        for of in [run.to_string(), task.clone()] {
            let (_, page) = desk.send("GET", &format!("/api/events?run={of}"), Value::Null).await;
            events.extend(
                page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()),
            );
        }
        events
    };
    let events = of_both(&desk).await;
    // The acceptance stays: without it there is no run to look at.
    let (_, page) = desk.send("GET", "/api/events?kind=run.accepted", Value::Null).await;
    for event in events.iter().filter(|event| page["events"][0]["id"] != event.as_str()) {
        let (status, erased) = desk.send("POST", &format!("/api/events/{event}/erase"), Value::Null).await;
        assert_eq!(status, 200, "{erased}");
    }
    let assert_over = async |desk: &Desk| {
        let run = desk.send("GET", &format!("/api/runs/{run}"), Value::Null).await.1;
        assert_eq!(run["status"], "unknown", "{run}");
        assert_eq!(desk.send("GET", &task_route, Value::Null).await.1["status"], "unknown");
    };
    assert_over(&desk).await;
    desk.computer.close("test").await.unwrap();

    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_over(&desk).await;
    assert_works(&desk).await;
    assert_eq!(fake.model_calls.load(Ordering::SeqCst), asked + 1, "only to see that it works");
    assert_eq!(of_both(&desk).await, events, "nothing was added to what has ended");
}

/// A bug is restarted a few times, with growing pauses, and then given up; the log names it, and nobody else suffers.
#[tokio::test]
async fn an_agent_that_panics_again_and_again_is_given_up_with_its_cause() {
    let (_directory, fake, desk) = desk().await;
    fake.panics.store(true, Ordering::SeqCst);
    let run = desk.accept("meet a bug").await;
    let ended = desk.ended(run).await;
    let reason = ended.reason.unwrap_or_default();
    assert!(ended.status == RunStatus::Failed && reason.contains("a bug for a test"), "{reason}");
    let events = desk.events(run).await;
    let told: Vec<(u32, &str)> = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::ActorRestarted(restarted) => Some((restarted.restarts, restarted.reason.as_str())),
            Event::ActorEscalated(escalated) => Some((0, escalated.reason.as_str())),
            _ => None,
        })
        .collect();
    let cause = "it panicked: a bug for a test";
    assert_eq!(told, [(1, cause), (2, cause), (3, cause), (4, cause), (5, cause), (0, cause)]);
    assert_eq!(fake.model_calls.load(Ordering::SeqCst), 6, "no hot loop");
    fake.panics.store(false, Ordering::SeqCst);
    assert_works(&desk).await;
}

/// Pages are cut by their size as well as by their number, and nothing between two of them is skipped.
#[tokio::test]
async fn pages_of_large_events_skip_none() {
    let (_directory, fake, desk) = desk().await;
    fake.has_model.store(false, Ordering::SeqCst);
    for _ in 0..40 {
        desk.accept(&"x".repeat(250_000)).await;
    }
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let (_, page) = desk.send("GET", &format!("/api/events?after={after}&limit=1000"), Value::Null).await;
        seen.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        after = page["next"].as_u64().unwrap();
        if after >= page["head"].as_u64().unwrap() {
            break;
        }
    }
    assert!(seen.iter().copied().eq(1..=seen.len() as u64) && seen.len() as u64 >= after, "{} of {after}", seen.len());
}

#[tokio::test]
async fn a_stop_that_was_acknowledged_is_remembered() {
    let (directory, fake, desk) = desk().await;
    fake.has_model.store(false, Ordering::SeqCst);
    let run = desk.accept("wait").await;
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    let before = desk.computer.app.harness.journal.log().head().seq;
    desk.command(run, RunCommand::Cancel).await;
    let log = desk.computer.app.harness.journal.log().clone();
    let said = log.read(choir_store::Query { after: before, limit: 1, ..Default::default() }).await.unwrap();
    assert_eq!((said[0].header.seq, &*said[0].header.kind), (Seq(before.0 + 1), "cancel.requested"));
    drop(log);
    desk.computer.close("test").await.unwrap();
    let desk = Desk::open(directory.path(), fake).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn what_points_nowhere_or_is_not_asked_for_is_refused() {
    let (_directory, _, desk) = desk().await;
    let run = |context: Value| json!({"prompt": "x", "context": [context]});
    for body in [
        run(json!({"path": "../../etc/passwd"})),
        run(json!({"path": "/etc/passwd"})),
        run(json!({"url": "file:///etc/passwd"})),
        json!(["hello"]),
    ] {
        assert_eq!(desk.send("POST", "/api/runs", body.clone()).await.0, 400, "{body}");
    }
    let run = desk.accept("what is it?").await;
    assert_eq!(desk.send("POST", &format!("/api/runs/{run}/pause"), json!({"nonsense": 1})).await.0, 400);
    assert_eq!(desk.send("POST", &format!("/api/runs/{run}/steer"), json!({"text": " "})).await.0, 400);
    for question in [
        "events?limit=0",
        "events?run=nobody",
        "runs?limit=0",
        "runs?before=nobody",
        "documents?limit=0",
        "documents?before=%00",
        "search?q=a&limit=0",
    ] {
        let (status, refused) = desk.send("GET", &format!("/api/{question}"), Value::Null).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("bad_field")), "{question}");
    }
    let (status, page) = desk.send("GET", &format!("/api/runs?limit=1&before={run}"), Value::Null).await;
    assert_eq!((status, &page["runs"]), (200, &json!([])), "a page begins after the run that it names");
    assert_eq!(desk.send("POST", "/api/tasks", json!({"kind": "run", "instruction": " "})).await.0, 400);
    let title = "x".repeat(2_000);
    assert_eq!(desk.send("POST", "/api/documents", json!({"title": title, "content": ""})).await.0, 400);
}

/// A provider that fails again and again is waited for; the person sees why, and their word is enough to ask it once more.
#[tokio::test]
async fn a_model_that_fails_for_long_parks_the_run_and_a_word_brings_it_on() {
    let error = r#"{"class": "overloaded", "message": "the provider is overloaded", "retry_after_ms": 0, "times": 7}"#;
    let scenario = format!(
        r#"{{"roles": {{"conductor": [
            {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "done"}}}}], "error": {error}}}]}}}}"#
    );
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(&scenario)).await;
    let run = desk.accept("be patient").await;
    let waits = desk.until(run, |run| run.status == RunStatus::Blocked || run.status.is_ending()).await;
    let reason = waits.reason.unwrap_or_default();
    assert!(waits.status == RunStatus::Blocked && reason.contains("the provider is overloaded"), "{reason}");
    let failed = async || desk.kinds().await.iter().filter(|kind| *kind == "model.failed").count();
    assert_eq!(failed().await, 6);
    desk.command(run, RunCommand::Resume).await;
    let mut head = desk.computer.app.harness.journal.log().watch();
    while failed().await < 7 {
        head.changed().await.unwrap();
    }
    desk.command(run, RunCommand::Resume).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
}

/// The person pauses while nobody has found out yet that there is no model.
#[tokio::test]
async fn a_run_that_is_paused_stays_paused_where_there_is_no_model() {
    let error = r#"{"class": "no_model", "message": "no model is configured"}"#;
    let scenario = format!(r#"{{"roles": {{"conductor": [{{"error": {error}}}]}}}}"#);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&scenario);
    fake.is_thoughtful.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept("be patient").await;
    fake.thinks.notified().await;
    desk.command(run, RunCommand::Pause).await;
    fake.pace.add_permits(1);
    // It is asked again at the person's word, and not before.
    tokio::task::yield_now().await;
    desk.command(run, RunCommand::Resume).await;
    fake.pace.add_permits(1);
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    let said = desk.events(run).await.into_iter().map(|(header, _)| header.kind.into_owned());
    let said: Vec<_> = said.filter(|kind| kind.starts_with("run.")).collect();
    assert_eq!(said, ["run.accepted", "run.started", "run.paused", "run.resumed", "run.blocked"]);
}

/// Who is told to wait for a minute and a half waits no longer than until the person, or a new key, says that it is over.
#[tokio::test]
async fn a_word_of_the_person_or_a_new_model_ends_the_wait_for_another_attempt() {
    let error = r#"{"class": "rate_limit", "message": "slow down", "retry_after_ms": 90000, "times": 2}"#;
    let scenario = format!(
        r#"{{"roles": {{"conductor": [
            {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "done"}}}}], "error": {error}}}]}}}}"#
    );
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&scenario);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept("be patient").await;
    let mut head = desk.computer.app.harness.journal.log().watch();
    let mut failed = async |times: usize| {
        while desk.kinds().await.iter().filter(|kind| *kind == "model.failed").count() < times {
            head.changed().await.unwrap();
        }
    };
    failed(1).await;
    desk.command(run, RunCommand::Resume).await;
    failed(2).await;
    desk.send("POST", "/internal/models", json!({"available": true})).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    assert_eq!(*fake.insisted.lock().unwrap(), [false, true, false], "control hears that the person wants it asked");
}

#[tokio::test]
async fn servers_of_tools_that_say_nothing_take_no_more_than_the_time_that_there_is() {
    let scenario = r#"{"roles": {
        "conductor": [{"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "look"}}]}],
        "terminal": [{"tool_calls": [{"name": "finish", "arguments": {"summary": "seen"}}]}]}}"#;
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(scenario);
    fake.silent_servers.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), fake).await;
    let run = desk.accept_with(json!({"prompt": "be quick", "budget": {"time_s": 1.0}})).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::OutOfTime);
}

/// Whoever gave their run its time wants an end by then, also where a provider is to blame. Where there is no model at all, only
/// the person can help, and has all the time they need.
#[tokio::test]
async fn a_run_that_is_parked_ends_with_the_time_that_it_was_given() {
    let error = r#"{"class": "overloaded", "message": "the provider is overloaded", "retry_after_ms": 0}"#;
    let scenario = format!(r#"{{"roles": {{"conductor": [{{"error": {error}}}]}}}}"#);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&scenario);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept_with(json!({"prompt": "be quick", "budget": {"time_s": 1.0}})).await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::OutOfTime, "{done:?}");
    let reason = done.reason.unwrap_or_default();
    assert!(reason.contains("time of 1 s") && reason.contains("the provider is overloaded"), "{reason}");
    assert!(desk.kinds().await.iter().any(|kind| kind == "run.blocked"), "it was parked before");
}

fn worker(calls: &[Value]) -> String {
    let finish = json!({"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]});
    let steps = calls.iter().map(|call| json!({"tool_calls": [call]}));
    json!({"roles": {"terminal": steps.chain([finish]).collect::<Vec<_>>()}}).to_string()
}

async fn task(desk: &Desk, instruction: &str) -> Value {
    let (status, asked) = desk.send("POST", "/api/tasks", json!({"kind": "edit", "instruction": instruction})).await;
    assert_eq!(status, 202, "{asked}");
    let path = format!("/api/tasks/{}", asked["task_id"].as_str().unwrap());
    let mut head = desk.computer.app.harness.journal.log().watch();
    loop {
        head.mark_unchanged();
        let (_, result) = desk.send("GET", &path, Value::Null).await;
        if result["status"] != "running" {
            return result;
        }
        head.changed().await.unwrap();
    }
}

#[tokio::test]
async fn a_file_is_read_in_a_new_sandbox_when_the_old_one_has_died() {
    let calls = [
        json!({"name": "bash", "arguments": {"command": "kill the sandbox"}}),
        json!({"name": "read_file", "arguments": {"path": "a.txt"}}),
    ];
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&worker(&calls));
    fake.files.lock().unwrap().insert("a.txt".into(), b"still here".to_vec());
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_eq!(task(&desk, "look").await["status"], "ok");
    let query = choir_store::Query { limit: 1000, ..Default::default() };
    let events = desk.computer.app.harness.journal.log().read(query).await.unwrap();
    let read = events.iter().filter_map(|event| match event.event() {
        Ok(Event::ToolFinished(done)) => Some(done.content),
        _ => None,
    });
    assert!(read.into_iter().any(|content| content == "still here"));
}

#[tokio::test]
async fn a_task_of_which_a_call_is_unknown_says_so() {
    let call = json!({"name": "bash", "arguments": {"command": "vanish"}});
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(&worker(&[call]))).await;
    let result = task(&desk, "vanish").await;
    let summary = result["summary"].as_str().unwrap();
    assert!(summary.starts_with("done Nobody knows how one of its calls ended"), "{result}");
}

/// The runs that have an actor.
async fn at_work(desk: &Desk) -> Vec<RunId> {
    let (_, tree) = desk.send("GET", "/api/supervision", Value::Null).await;
    let names = tree["actors"].as_array().unwrap().iter().map(|actor| actor["name"].as_str().unwrap());
    names.filter_map(|name| name.strip_prefix("Run ")?.parse().ok()).collect()
}

#[tokio::test]
async fn who_finds_no_place_stands_in_line_and_nobody_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(ANSWER);
    *fake.silent.lock().unwrap() = Some("canary".to_owned());
    let desk = Desk::open_with(directory.path(), Arc::clone(&fake), Places(2)).await;
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(desk.accept(&format!("canary {number}")).await);
    }
    let until_called = async |times: u64| {
        while fake.model_calls.load(Ordering::SeqCst) < times {
            tokio::task::yield_now().await;
        }
    };
    until_called(2).await;
    let first = at_work(&desk).await;
    assert_eq!(first.len(), 2);
    // A place that becomes free is taken by somebody else, and only that one.
    desk.command(first[0], RunCommand::Cancel).await;
    until_called(3).await;
    let second = at_work(&desk).await;
    assert_eq!(second.len(), 2);
    // Whoever is spoken to does not have to wait in line.
    let waits = runs.iter().find(|run| !first.contains(run) && !second.contains(run)).unwrap();
    desk.command(*waits, RunCommand::Cancel).await;
    assert_eq!(desk.ended(*waits).await.status, RunStatus::Cancelled);
    let cancelled = [first[0], *waits];
    desk.computer.close("test").await.unwrap();

    *fake.silent.lock().unwrap() = None;
    let desk = Desk::open_with(directory.path(), Arc::clone(&fake), Places(1)).await;
    for run in runs.iter().filter(|run| !cancelled.contains(run)) {
        assert_eq!(desk.ended(*run).await.status, RunStatus::Completed);
    }
    assert_works(&desk).await;
}

/// Whoever looks into the trash does not turn pages of nothing, and a list is as full as there is something to fill it with.
#[tokio::test]
async fn pages_are_filled_over_what_is_not_wanted() {
    let (_directory, _fake, desk) = desk().await;
    let mut runs = Vec::new();
    for _ in 0..6 {
        let run = desk.accept("what is it?").await;
        desk.ended(run).await;
        runs.push(run.to_string());
    }
    for run in [&runs[0], &runs[4], &runs[5]] {
        assert_eq!(desk.send("POST", &format!("/api/runs/{run}/trash"), Value::Null).await.0, 200);
    }
    let page = async |query: &str| {
        let (status, page) = desk.send("GET", &format!("/api/runs?{query}"), Value::Null).await;
        assert_eq!(status, 200, "{page}");
        let ids = page["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(page("limit=2").await.0, [&*runs[3], &runs[2]], "what is in the trash takes no room");
    let (first, next) = page("removed=true&limit=2").await;
    assert_eq!(first, [&*runs[5], &runs[4]]);
    let (rest, next) = page(&format!("removed=true&limit=2&before={}", next.unwrap())).await;
    assert_eq!((rest, next), (vec![runs[0].clone()], None));
}

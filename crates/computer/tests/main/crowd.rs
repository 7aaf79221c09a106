//! Many workers at once, and models that say nothing: nobody waits unseen, and nothing grows without end.

use crate::fake::{Desk, Fake};
use choir_computer::actor::RunCommand;
use choir_core::agent::{WORKERS_AT_ONCE_MAX, WORKERS_MAX};
use choir_proto::event::ToolOutcome;
use choir_proto::inbox::{Reach, Verdict};
use choir_proto::task::TaskStatus;
use choir_proto::{Event, Role, Run, RunStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A conductor that asks so many of one role at once, again and again, and then ends.
fn crowd(role: &str, objective: &str, each: &[usize]) -> String {
    let delegate = format!(r#"{{"name": "delegate", "arguments": {{"role": "{role}", "objective": "{objective}"}}}}"#);
    let answers: Vec<String> = each
        .iter()
        .map(|count| format!(r#"{{"tool_calls": [{}]}}"#, vec![delegate.as_str(); *count].join(", ")))
        .collect();
    let finish = r#"{"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}"#;
    format!(r#"{{"roles": {{"conductor": [{}, {finish}], "{role}": [{finish}]}}}}"#, answers.join(", "))
}

fn in_line(run: &Run) -> usize {
    run.tasks.iter().filter(|task| task.waits.as_ref().is_some_and(|waits| waits.contains("in line"))).count()
}

#[tokio::test]
async fn so_many_work_at_once_and_the_others_wait_in_line_where_they_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&crowd("researcher", "read", &[WORKERS_AT_ONCE_MAX + 3]));
    fake.is_slow.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let id = desk.accept("all at once").await;
    let crowded = desk.until(id, |run| in_line(run) == 3).await;
    assert!(crowded.reason.as_ref().is_some_and(|reason| reason.contains("in line")), "{:?}", crowded.reason);
    assert_eq!(crowded.status, RunStatus::Running);
    fake.pace.add_permits(10_000);
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Completed, "{done:?}");
    assert_eq!(done.tasks.len(), WORKERS_AT_ONCE_MAX + 4);
    assert!(done.tasks.iter().all(|task| task.status == TaskStatus::Ok && task.waits.is_none()), "{:?}", done.tasks);
}

#[tokio::test]
async fn who_waits_in_line_is_stopped_with_the_others_and_asks_no_model() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&crowd("researcher", "hold", &[WORKERS_AT_ONCE_MAX + 2]));
    *fake.silent.lock().unwrap() = Some("hold".to_owned());
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let id = desk.accept("all at once").await;
    desk.until(id, |run| in_line(run) == 2).await;
    desk.command(id, RunCommand::Cancel).await;
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Cancelled, "{done:?}");
    assert!(done.tasks.iter().all(|task| task.status == TaskStatus::Cancelled), "{:?}", done.tasks);
    assert!(fake.model_calls.load(Ordering::SeqCst) <= 1 + WORKERS_AT_ONCE_MAX as u64);
}

/// A conductor that asks so many terminals, each of which needs a yes, and somebody of another role besides.
fn askers(count: usize, others: &str, other_count: usize) -> String {
    let delegate =
        |role: &str| format!(r#"{{"name": "delegate", "arguments": {{"role": "{role}", "objective": "work"}}}}"#);
    let calls = [vec![delegate("terminal"); count], vec![delegate(others); other_count]].concat().join(", ");
    let finish = r#"{"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}"#;
    let ask = r#"{"tool_calls": [{"name": "request", "arguments": {"kind": "approval", "question": "May I go on?"}}]}"#;
    format!(
        r#"{{"roles": {{"conductor": [{{"tool_calls": [{calls}]}}, {finish}], "terminal": [{ask}, {finish}],
            "{others}": [{finish}]}}}}"#
    )
}

fn yes() -> Verdict {
    Verdict::Approved { scope: Reach::Once }
}

fn ended_well(run: &Run, role: Role) -> usize {
    run.tasks.iter().filter(|task| task.role == Some(role) && task.status == TaskStatus::Ok).count()
}

#[tokio::test]
async fn who_waits_for_the_person_stands_aside_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&askers(WORKERS_AT_ONCE_MAX, "researcher", 1));
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let id = desk.accept("all at once").await;
    desk.until(id, |run| ended_well(run, Role::Researcher) == 1).await;
    for _ in 0..WORKERS_AT_ONCE_MAX {
        let (question, _) = fake.asked().await;
        fake.decide(question, yes());
    }
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Completed, "{done:?}");
    assert_eq!(ended_well(&done, Role::Terminal), WORKERS_AT_ONCE_MAX, "{:?}", done.tasks);
}

#[tokio::test]
async fn who_comes_back_from_the_person_stands_in_line_and_can_be_stopped_there() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&askers(1, "writer", WORKERS_AT_ONCE_MAX));
    fake.is_slow.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let id = desk.accept("all at once").await;
    let (question, _) = fake.asked().await;
    // Its place is taken before it has its answer.
    while fake.model_calls.load(Ordering::SeqCst) < 2 + WORKERS_AT_ONCE_MAX as u64 {
        tokio::task::yield_now().await;
    }
    fake.decide(question, yes());
    desk.until(id, |run| in_line(run) == 1).await;
    desk.command(id, RunCommand::Cancel).await;
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Cancelled, "{done:?}");
    assert!(done.tasks.iter().all(|task| task.status == TaskStatus::Cancelled), "{:?}", done.tasks);
    assert_eq!(fake.model_calls.load(Ordering::SeqCst), 2 + WORKERS_AT_ONCE_MAX as u64, "nobody is asked any more");
}

#[tokio::test]
async fn a_run_has_so_many_workers_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let over = 10;
    let half = WORKERS_MAX as usize / 2;
    let fake = Fake::new(&crowd("researcher", "look", &[half, half, over]));
    let desk = Desk::open(directory.path(), fake).await;
    let id = desk.accept_with(serde_json::json!({"prompt": "everybody", "budget": {"steps": 10_000}})).await;
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Completed, "{:?}", done.reason);
    assert_eq!(done.tasks.len(), 1 + WORKERS_MAX as usize, "the others were never asked");
    let past = choir_computer::harness::Past::read(desk.computer.app.harness.journal.log(), id).await.unwrap();
    let is_refused = |event: &Event| matches!(event, Event::ToolFinished(tool) if tool.outcome == ToolOutcome::Refused);
    assert_eq!(past.events().filter(|(_, event)| is_refused(event)).count(), over);
}

#[tokio::test]
async fn a_model_that_says_nothing_is_named_within_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(r#"{"roles": {"conductor": [{"text": "never"}]}}"#);
    *fake.silent.lock().unwrap() = Some("hush".to_owned());
    let desk = Desk::open(directory.path(), fake).await;
    let id = desk.accept("hush").await;
    let waits = desk.until(id, |run| run.reason.is_some()).await;
    let words = "waiting for fake/silent: no word for 3 s, attempt 1 of 3";
    assert_eq!((waits.status, waits.reason.as_deref()), (RunStatus::Running, Some(words)));
    assert_eq!(waits.tasks[0].waits.as_deref(), Some(words));
    desk.command(id, RunCommand::Cancel).await;
    let done = desk.ended(id).await;
    assert_eq!((done.status, done.tasks[0].waits.as_deref()), (RunStatus::Cancelled, None));
}

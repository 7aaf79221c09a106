//! A conductor is told of every result as it comes, while others are still at work.

use crate::fake::{Desk, Fake};
use choir_computer::actor::RunCommand;
use choir_proto::model::{LATE_RESULT, STILL_AT_WORK};
use choir_proto::{Event, RunId, RunStatus};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The writer is slow and the terminal is not; after the terminal's result there is more to do.
const EARLY: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write"}},
                        {"name": "delegate", "arguments": {"role": "terminal", "objective": "look"}}]},
        {"early": true, "tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "look again"}}]},
        {"early": true, "tool_calls": [{"name": "finish", "arguments": {"summary": "too early"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{results}}"}}]}],
    "writer": [{"tool_calls": [{"name": "finish", "arguments": {"summary": "it is written"}}]}],
    "terminal": [{"tool_calls": [{"name": "finish", "arguments": {"summary": "it is seen"}}]}]}}"#;

/// What the conductor did, in the order of the log.
async fn steps(desk: &Desk, run: RunId) -> Vec<String> {
    let events = desk.events(run).await;
    let conductor = events.iter().find_map(|(header, event)| match event {
        Event::TaskRequested(asked) if asked.parent.is_none() => header.task,
        _ => None,
    });
    let step = |event: &Event| match event {
        Event::ModelCalled(called) => Some(format!("asked {}", called.turn)),
        Event::ToolStarted(started) => Some(format!("begins {}.{}", started.turn, started.index)),
        Event::ToolFinished(finished) => Some(format!("hears {}", finished.call_id)),
        _ => None,
    };
    events.iter().filter(|(header, _)| header.task == conductor).filter_map(|(_, event)| step(event)).collect()
}

/// Waits until the conductor has come so far.
async fn until(desk: &Desk, run: RunId, step: &str) {
    let mut head = desk.computer.app.harness.journal.log().watch();
    while !steps(desk, run).await.iter().any(|done| done == step) {
        head.changed().await.unwrap();
    }
}

const BEFORE: [&str; 9] = [
    "asked 1",
    "begins 1.0",
    "begins 1.1",
    "hears call_1_1",
    "asked 2",
    "begins 2.0",
    "hears call_2_0",
    "asked 3",
    "begins 3.0",
];

/// A run whose conductor has heard of everybody but the writer, who is still at work.
async fn while_the_writer_is_slow(directory: &Path, fake: &Arc<Fake>) -> (Desk, RunId) {
    fake.is_slow.store(true, Ordering::SeqCst);
    let desk = Desk::open(directory, Arc::clone(fake)).await;
    let run = desk.accept("look and write").await;
    until(&desk, run, "asked 4").await;
    (desk, run)
}

#[tokio::test]
async fn a_conductor_decides_again_after_every_result_and_ends_after_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(EARLY);
    let (desk, run) = while_the_writer_is_slow(directory.path(), &fake).await;
    let before = steps(&desk, run).await;
    assert_eq!(before[..9], BEFORE, "while the writer was at work");
    assert_eq!(before[9..], ["hears call_3_0", "asked 4"], "and its end is waited for");
    fake.is_slow.store(false, Ordering::SeqCst);
    fake.pace.add_permits(1000);
    let done = desk.ended(run).await;
    assert_eq!(steps(&desk, run).await[11..], ["hears call_1_0", "asked 5", "begins 5.0", "hears call_4_0"]);
    let reason = done.reason.unwrap();
    assert_eq!((done.status, reason.matches("it is seen").count()), (RunStatus::Completed, 2), "{reason}");
    assert!(reason.contains("it is written") && reason.contains("Others are still at work"), "{reason}");
    assert!(!reason.contains(STILL_AT_WORK) && !reason.contains(LATE_RESULT), "{reason}");
}

#[tokio::test]
async fn a_crash_while_some_are_still_at_work_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(EARLY);
    let (desk, run) = while_the_writer_is_slow(directory.path(), &fake).await;
    desk.computer.close("test").await.unwrap();
    fake.is_slow.store(false, Ordering::SeqCst);

    let desk = Desk::open(directory.path(), fake).await;
    let done = desk.ended(run).await;
    assert_eq!(done.status, RunStatus::Completed);
    let steps = steps(&desk, run).await;
    assert_eq!(steps[11..], ["hears call_1_0", "asked 5", "begins 5.0", "hears call_4_0"]);
    assert_eq!(done.tasks.len(), 4, "nobody was asked twice: {:?}", done.tasks);
    let events = desk.events(run).await;
    choir_core::replay::replay(&events, |_| false).unwrap();
}

/// The terminal is at work until somebody stops it.
const STEERED: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "wait"}}]},
        {"early": true, "tool_calls": [{"name": "answer", "arguments": {"text": "{{last_message}}"}}]}],
    "terminal": [{"tool_calls": [{"name": "bash", "arguments": {"command": "wait"}}]}]}}"#;

#[tokio::test]
async fn a_conductor_hears_the_person_while_others_are_at_work() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(STEERED);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept("wait for ever").await;
    while fake.effects.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    desk.command(run, RunCommand::Steer("not so long".into())).await;
    let told = desk.until(run, |run| run.answer.is_some()).await;
    assert_eq!((told.status, told.answer.as_deref()), (RunStatus::Running, Some("The person says: not so long")));
    desk.command(run, RunCommand::Steer("stop soon".into())).await;
    until(&desk, run, "asked 4").await;
    desk.command(run, RunCommand::Cancel).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Cancelled);
    assert_eq!(fake.effects.lock().unwrap().len(), 1, "nothing was begun twice");
    choir_core::replay::replay(&desk.events(run).await, |_| false).unwrap();
}

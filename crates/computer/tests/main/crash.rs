//! Killed after every event: the run still ends, and nothing was done twice.

use crate::fake::{Desk, Fake};
use crate::runs::DOCUMENT;
use choir_proto::{RunId, RunStatus, Seq};
use std::path::Path;
use std::sync::Arc;

/// One life of the process: everything in it ends when the runtime is dropped, in the middle of whatever it did.
fn life<T>(body: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let value = runtime.block_on(body());
    runtime.shutdown_background();
    value
}

async fn crash_at(directory: &Path, fake: Arc<Fake>, index: u64) -> RunId {
    let desk = Desk::open(directory, fake).await;
    let run = desk.accept("count the fruit").await;
    let mut head = desk.computer.app.harness.journal.log().watch();
    head.wait_for(|head| head.seq >= Seq(index)).await.unwrap();
    run
}

#[test]
fn a_run_survives_a_crash_after_every_event() {
    let whole = tempfile::tempdir().unwrap();
    let (events, first) = life(async || {
        let desk = Desk::open(whole.path(), Fake::new(DOCUMENT)).await;
        let run = desk.accept("count the fruit").await;
        let done = desk.ended(run).await;
        assert_eq!(done.status, RunStatus::Completed);
        (desk.kinds().await.len() as u64, done)
    });
    assert!(events > 30, "the run is long enough to be worth killing: {events}");
    for index in first.seq.0 + 2..events {
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::new(DOCUMENT);
        let run = life(async || crash_at(directory.path(), Arc::clone(&fake), index).await);
        life(async || {
            let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
            let done = desk.ended(run).await;
            assert_eq!(done.status, RunStatus::Completed, "killed after event {index}: {done:?}");
            assert_eq!(done.tasks.len(), first.tasks.len(), "killed after event {index}");
            let kinds = desk.kinds().await;
            let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
            assert_eq!(count("tool.started"), count("tool.finished"), "killed after event {index}");
            assert_eq!((count("run.ended"), count("document.versioned")), (1, 2), "killed after event {index}");
        });
        let effects = fake.effects.lock().unwrap();
        assert_eq!(effects.len(), 4, "killed after event {index}: an effect is missing");
        assert!(
            effects.values().all(|times| *times == 1),
            "killed after event {index}: an effect was repeated: {effects:?}"
        );
    }
}

#[test]
fn a_run_cancelled_after_every_event_ends_with_everything_it_had_going() {
    let whole = tempfile::tempdir().unwrap();
    let events = life(async || {
        let desk = Desk::open(whole.path(), Fake::new(DOCUMENT)).await;
        desk.ended(desk.accept("count the fruit").await).await;
        desk.kinds().await.len() as u64
    });
    for index in 3..events {
        life(async || {
            let directory = tempfile::tempdir().unwrap();
            let desk = Desk::open(directory.path(), Fake::new(DOCUMENT)).await;
            let run = desk.accept("count the fruit").await;
            let mut head = desk.computer.app.harness.journal.log().watch();
            head.wait_for(|head| head.seq >= Seq(index)).await.unwrap();
            // It may have ended in the same moment.
            let (status, answer) = desk.send("POST", &format!("/api/runs/{run}/cancel"), serde_json::Value::Null).await;
            assert!(matches!(status, 202 | 409), "cancelled after event {index}: {answer}");
            let done = desk.ended(run).await;
            assert!(matches!(done.status, RunStatus::Cancelled | RunStatus::Completed), "{index}: {done:?}");
            let going = done.tasks.iter().filter(|task| task.status == choir_proto::TaskStatus::Running).count();
            assert_eq!(going, 0, "cancelled after event {index}: {:?}", done.tasks);
            let kinds = desk.kinds().await;
            let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
            assert_eq!(count("tool.started"), count("tool.finished"), "cancelled after event {index}");
        });
    }
}

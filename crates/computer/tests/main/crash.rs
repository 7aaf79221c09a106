//! Killed after every event: the run still ends, and nothing was done twice.

use crate::fake::{Desk, Fake};
use crate::runs::DOCUMENT;
use choir_computer::journal::Scope;
use choir_proto::event::{Actor, CancelRequested};
use choir_proto::{Run, RunId, RunStatus, Seq, TaskStatus};
use std::collections::BTreeMap;
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

/// How many events there are when nothing comes between.
fn events_of_a_whole_run() -> u64 {
    let directory = tempfile::tempdir().unwrap();
    life(async || {
        let desk = Desk::open(directory.path(), Fake::new(DOCUMENT)).await;
        desk.ended(desk.accept("count the fruit").await).await;
        desk.kinds().await.len() as u64
    })
}

/// No agent of a cancelled run is at work, and every call that was begun has an ending.
async fn assert_nothing_is_left(desk: &Desk, done: &Run, index: u64) {
    let going = done.tasks.iter().filter(|task| task.status == TaskStatus::Running).count();
    assert_eq!(going, 0, "cancelled after event {index}: {:?}", done.tasks);
    let kinds = desk.kinds().await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!(count("tool.started"), count("tool.finished"), "cancelled after event {index}: {kinds:?}");
}

#[test]
fn a_run_cancelled_after_every_event_ends_with_everything_it_had_going() {
    for index in 3..events_of_a_whole_run() {
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
            assert_nothing_is_left(&desk, &done, index).await;
        });
    }
}

/// The person's word reaches the log and nobody hears it before everything is dropped: the next life has to end what the last
/// one had going, down to the agents of its agents.
#[test]
fn a_run_cancelled_and_killed_after_every_event_forgets_no_call() {
    for index in 3..events_of_a_whole_run() {
        let directory = in_memory();
        let fake = Fake::new(DOCUMENT);
        let run = life(async || {
            let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
            let run = desk.accept("count the fruit").await;
            let journal = &desk.computer.app.harness.journal;
            journal.log().watch().wait_for(|head| head.seq >= Seq(index)).await.unwrap();
            let cancel = CancelRequested {}.into();
            journal.append(&Scope::of(Actor::Person).run(run), vec![cancel]).await.unwrap();
            run
        });
        life(async || {
            let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
            let done = desk.ended(run).await;
            assert_nothing_is_left(&desk, &done, index).await;
        });
    }
}

/// The file that some steps put a word into, one after the other: a word that stands twice was put there twice.
const LIST: &str = "list";

/// One worker with twenty steps, each of which leaves a mark.
fn twenty_steps() -> String {
    let call = |name: &str, arguments: serde_json::Value| serde_json::json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let steps = (1..=20).map(|step| match step % 2 {
        0 => call("bash", serde_json::json!({"command": format!("step {step}")})),
        _ => call("edit_file", serde_json::json!({"path": LIST, "old": "end", "new": format!("{step} end")})),
    });
    let end = call("finish", serde_json::json!({"summary": "done"}));
    let terminal: Vec<_> = steps.chain([end.clone()]).collect();
    let delegate = call("delegate", serde_json::json!({"role": "terminal", "objective": "make the steps"}));
    serde_json::json!({"roles": {"conductor": [delegate, end], "terminal": terminal}}).to_string()
}

/// No power is cut here: what is written need not reach a disk, and many lives count.
fn in_memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// When a life ends.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Right after an event.
    After(u64),
    /// While so many effects have begun, and the end of the last one is not in the log.
    Within(usize),
}

/// Whether what was started is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Kept,
    Lost,
}

async fn crash_within(directory: &Path, fake: Arc<Fake>, effects: usize) -> RunId {
    let desk = Desk::open(directory, Arc::clone(&fake)).await;
    let run = desk.accept("count the fruit").await;
    while fake.effects.lock().unwrap().len() < effects {
        tokio::task::yield_now().await;
    }
    run
}

/// A world in which the steps can be made.
fn before_the_steps() -> Arc<Fake> {
    let fake = Fake::new(&twenty_steps());
    fake.files.lock().unwrap().insert(LIST.to_owned(), b"end".to_vec());
    fake
}

/// What the file says when every step that edits it was made once.
fn listed() -> String {
    (1..=20).step_by(2).map(|step| format!("{step} ")).chain(["end".to_owned()]).collect()
}

/// Kills the run of twenty steps at a moment; how often each effect was begun in the end, and what the file says.
fn twenty_steps_killed(moment: Moment, memory: Memory) -> (BTreeMap<String, u64>, String) {
    let directory = in_memory();
    let fake = before_the_steps();
    fake.forgets.store(memory == Memory::Lost, std::sync::atomic::Ordering::SeqCst);
    let run = life(async || match moment {
        Moment::After(index) => crash_at(directory.path(), Arc::clone(&fake), index).await,
        Moment::Within(effects) => crash_within(directory.path(), Arc::clone(&fake), effects).await,
    });
    life(async || {
        let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
        let done = desk.ended(run).await;
        assert_eq!(done.status, RunStatus::Completed, "killed at {moment:?}: {done:?}");
    });
    let list = String::from_utf8(fake.files.lock().unwrap()[LIST].clone()).unwrap();
    (fake.effects.lock().unwrap().clone(), list)
}

#[test]
fn twenty_steps_survive_a_crash_after_every_event_and_without_the_record_they_do_not() {
    let whole = in_memory();
    let (first, events) = life(async || {
        let desk = Desk::open(whole.path(), before_the_steps()).await;
        let done = desk.ended(desk.accept("count the fruit").await).await;
        (done.seq.0, desk.kinds().await.len() as u64)
    });
    assert!(events > 65, "{events}");
    for moment in (first + 2..events).map(Moment::After).chain((1..=20).map(Moment::Within)) {
        let (effects, list) = twenty_steps_killed(moment, Memory::Kept);
        assert_eq!(effects.len(), 20, "killed at {moment:?}: a step is missing");
        assert!(effects.values().all(|times| *times == 1), "killed at {moment:?}: {effects:?}");
        assert_eq!(list, listed(), "killed at {moment:?}");
    }
    let (effects, _) = twenty_steps_killed(Moment::Within(7), Memory::Lost);
    assert!(effects.values().any(|times| *times > 1), "without a record, something is done twice and is seen");
}

//! What only a person can decide: the run waits for it, also over a restart, and goes on.

use crate::fake::{Desk, Fake};
use choir_computer::actor::RunCommand;
use choir_proto::inbox::{Matter, Reach, Verdict};
use choir_proto::task::TaskStatus;
use choir_proto::{Role, RunStatus};
use std::sync::Arc;

const ASKS: &str = r#"{"roles": {"conductor": [
    {"tool_calls": [{"name": "finish", "arguments": {"summary": "Which year?", "status": "needs_input"}}]},
    {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_message}}"}}]}]}}"#;

const WORKER: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "work"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result.summary}}"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "request", "arguments": {"kind": "blocked", "question": "Which branch?", "deadline_s": SECONDS}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}]}}"#;

const BASH: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "work"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result.summary}}"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "rm -rf build"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "{{last_result}}"}}]}]}}"#;

async fn desk(scenario: &str) -> (tempfile::TempDir, Arc<Fake>, Desk) {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(scenario);
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    (directory, fake, desk)
}

fn says(text: &str) -> Verdict {
    Verdict::Answered { text: text.into() }
}

#[tokio::test]
async fn a_question_blocks_the_run_over_a_restart_and_its_answer_lets_it_go_on() {
    let (directory, fake, desk) = desk(ASKS).await;
    let run = desk.accept("what happened then?").await;
    let blocked = desk.until(run, |run| run.status == RunStatus::Blocked).await;
    assert_eq!(blocked.reason.as_deref(), Some("waiting for you: Which year?"));
    let (id, _) = fake.asked().await;
    desk.computer.close("test").await.unwrap();

    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_eq!(fake.asked().await.0, id, "nobody is asked twice");
    assert_eq!(desk.run(run).await.status, RunStatus::Blocked);
    fake.decide(id, says("1984"));
    let done = desk.ended(run).await;
    assert_eq!((done.status, done.reason.as_deref()), (RunStatus::Completed, Some("The person answers: 1984")));
    let kinds = desk.kinds().await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("inbox.asked"), count("inbox.decided")), (1, 1), "{kinds:?}");
    assert_eq!((count("run.blocked"), count("run.started")), (1, 2), "{kinds:?}");
}

/// A computer outlives control by a moment, and must not take that for an answer.
#[tokio::test]
async fn who_waits_for_the_person_when_control_is_killed_still_waits_after_it() {
    for (scenario, said, end) in [
        (ASKS.to_owned(), says("1984"), "The person answers: 1984"),
        (WORKER.replace("SECONDS", "600"), says("main"), "The person answers: main"),
        (BASH.to_owned(), Verdict::Denied { scope: Reach::Once }, "The person does not allow this."),
    ] {
        let (directory, fake, desk) = desk(&scenario).await;
        fake.asks_for.lock().unwrap().push("bash".to_owned());
        let run = desk.accept("what happened then?").await;
        desk.until(run, |run| run.status == RunStatus::Blocked).await;
        let (id, _) = fake.asked().await;
        fake.is_gone.send_replace(true);
        // Whatever is written because of that is written before this.
        desk.accept("another").await;
        assert_eq!(desk.run(run).await.status, RunStatus::Blocked, "{end}");
        desk.computer.close("test").await.unwrap();

        fake.is_gone.send_replace(false);
        let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
        assert_eq!(desk.run(run).await.status, RunStatus::Blocked, "{end}");
        fake.decide(id, said);
        let done = desk.ended(run).await;
        assert_eq!((done.status, done.reason.as_deref()), (RunStatus::Completed, Some(end)));
    }
}

#[tokio::test]
async fn go_on_answers_no_question() {
    let (_directory, fake, desk) = desk(ASKS).await;
    let run = desk.accept("what happened then?").await;
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    let (id, _) = fake.asked().await;
    desk.command(run, RunCommand::Pause).await;
    desk.command(run, RunCommand::Resume).await;
    let still = desk.run(run).await;
    assert_eq!((still.status, still.reason.as_deref()), (RunStatus::Blocked, Some("waiting for you: Which year?")));
    fake.decide(id, says("1984"));
    assert_eq!(desk.ended(run).await.reason.as_deref(), Some("The person answers: 1984"));
}

/// The word is heard and nothing is made of it before the person lets the run go on, also over a restart.
#[tokio::test]
async fn a_run_that_is_paused_while_it_asks_does_nothing_with_the_answer_until_it_is_resumed() {
    for is_restarted in [false, true] {
        let (directory, fake, mut desk) = desk(BASH).await;
        fake.asks_for.lock().unwrap().push("bash".to_owned());
        let run = desk.accept("work").await;
        desk.until(run, |run| run.status == RunStatus::Blocked).await;
        let (id, _) = fake.asked().await;
        desk.command(run, RunCommand::Pause).await;
        assert_eq!(desk.run(run).await.status, RunStatus::Paused);
        fake.decide(id, Verdict::Approved { scope: Reach::Once });
        while !desk.kinds().await.iter().any(|kind| kind == "inbox.decided") {
            tokio::task::yield_now().await;
        }
        if is_restarted {
            desk.computer.close("test").await.unwrap();
            desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
        }
        // Whatever is written because of that is written before this.
        let another = desk.accept("another").await;
        desk.until(another, |run| run.status == RunStatus::Blocked).await;
        desk.command(another, RunCommand::Cancel).await;
        desk.ended(another).await;
        assert_eq!(desk.run(run).await.status, RunStatus::Paused);
        assert!(fake.effects.lock().unwrap().is_empty(), "nothing was done");
        desk.command(run, RunCommand::Resume).await;
        assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
        assert_eq!(fake.effects.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_given_while_the_computer_was_down_is_heard() {
    let (directory, fake, desk) = desk(ASKS).await;
    let run = desk.accept("what happened then?").await;
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    let (id, _) = fake.asked().await;
    desk.computer.close("test").await.unwrap();
    fake.decide(id, says("1984"));
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_eq!(desk.ended(run).await.reason.as_deref(), Some("The person answers: 1984"));
    assert_eq!(desk.kinds().await.iter().filter(|kind| *kind == "inbox.decided").count(), 1);
}

#[tokio::test]
async fn a_stopped_run_takes_its_question_back() {
    let (_directory, fake, desk) = desk(ASKS).await;
    let run = desk.accept("what happened then?").await;
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    fake.asked().await;
    desk.command(run, RunCommand::Cancel).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::Cancelled);
    assert!(fake.inbox.borrow().is_empty(), "nobody is asked what nobody needs to know");
}

#[tokio::test]
async fn a_worker_s_request_is_answered_or_times_out_where_everybody_sees_it() {
    let (_directory, fake, desk) = desk(&WORKER.replace("SECONDS", "60")).await;
    let run = desk.accept("work").await;
    let waiting = desk.until(run, |run| run.status == RunStatus::Blocked).await;
    assert_eq!(waiting.reason.as_deref(), Some("waiting for you: Which branch?"));
    let worker = waiting.tasks.iter().find(|task| task.role == Some(Role::Terminal)).unwrap().task_id;
    let (_, task) = desk.send("GET", &format!("/api/tasks/{worker}"), serde_json::Value::Null).await;
    assert_eq!((task["status"].as_str(), task["questions"][0].as_str()), (Some("needs_input"), Some("Which branch?")));
    fake.decide(fake.asked().await.0, says("main"));
    let done = desk.ended(run).await;
    assert_eq!((done.status, done.reason.as_deref()), (RunStatus::Completed, Some("The person answers: main")));
    let workers = done.tasks.iter().filter(|task| task.role == Some(Role::Terminal));
    assert!(workers.into_iter().all(|task| task.status == TaskStatus::Ok), "{:?}", done.tasks);
}

#[tokio::test]
async fn a_request_that_nobody_answers_expires() {
    let wants_a_yes = WORKER.replace("SECONDS", "0.001").replace("blocked", "approval");
    let (_directory, fake, desk) = desk(&wants_a_yes).await;
    let run = desk.accept("work").await;
    let done = desk.ended(run).await;
    assert_eq!(done.reason.as_deref(), Some("Nobody answered within 0.001 s."));
    assert!(fake.inbox.borrow().is_empty());
    assert!(desk.kinds().await.iter().any(|kind| kind == "inbox.decided"));
}

#[tokio::test]
async fn a_conductor_that_says_nothing_in_time_leaves_a_trace() {
    let (_directory, fake, desk) = desk(&WORKER.replace("SECONDS", "0.05")).await;
    *fake.silent.lock().unwrap() = Some("waits for your answer".into());
    let run = desk.accept("work").await;
    let done = desk.ended(run).await;
    assert_eq!(done.reason.as_deref(), Some("Nobody answered within 0.05 s."));
    let aside = done.tasks.iter().find(|task| task.role == Some(Role::Conductor) && task.parent.is_some()).unwrap();
    assert_eq!((aside.status, aside.summary.as_deref()), (TaskStatus::OutOfTime, Some("No answer came in time.")));
}

#[tokio::test]
async fn a_tool_that_needs_a_yes_is_not_used_before_it() {
    let (_directory, fake, desk) = desk(BASH).await;
    fake.asks_for.lock().unwrap().push("bash".into());
    let run = desk.accept("tidy up").await;
    let (id, ask) = fake.asked().await;
    let call = Matter::Call { tool: "bash".into(), subject: "rm -rf build".into(), definition: None };
    assert_eq!(ask.matter, call, "exactly what would run is shown");
    desk.until(run, |run| run.status == RunStatus::Blocked).await;
    assert!(fake.effects.lock().unwrap().is_empty());
    fake.decide(id, Verdict::Approved { scope: Reach::Once });
    assert_eq!(desk.ended(run).await.status, RunStatus::Completed);
    assert_eq!(fake.effects.lock().unwrap().len(), 1);

    let run = desk.accept("tidy up").await;
    fake.decide(fake.asked().await.0, Verdict::Denied { scope: Reach::Once });
    let done = desk.ended(run).await;
    assert_eq!(done.reason.as_deref(), Some("The person does not allow this."));
    assert_eq!(fake.effects.lock().unwrap().len(), 1, "what was denied did not happen");
}

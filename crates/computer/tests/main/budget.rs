//! Budgets are walls around a whole run, each with its own ending, and receipts add up.

use crate::fake::{Desk, Fake};
use choir_proto::model::{Paid, Usage};
use choir_proto::task::TaskStatus;
use choir_proto::{RunStatus, Usd};
use std::sync::Arc;

/// Every answer costs the same; `conductor` sends two workers at once, and each of those takes five steps.
fn shared() -> String {
    let usage = r#""usage": {"input_tokens": 9000, "output_tokens": 1000, "usd": 0.01}"#;
    let bash =
        |n: u32| format!(r#"{{"tool_calls": [{{"name": "bash", "arguments": {{"command": "{n}"}}}}], {usage}}}"#);
    let steps: Vec<String> = (1..=4).map(bash).collect();
    let delegate = r#"{"name": "delegate", "arguments": {"role": "terminal", "objective": "work"}}"#;
    let finish = format!(r#"{{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "done"}}}}], {usage}}}"#);
    format!(
        r#"{{"roles": {{"conductor": [{{"tool_calls": [{delegate}, {delegate}], {usage}}}, {finish}],
            "terminal": [{}, {finish}]}}}}"#,
        steps.join(", ")
    )
}

async fn run(budget: serde_json::Value) -> (Arc<Fake>, choir_proto::Run) {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&shared());
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept_with(serde_json::json!({"prompt": "work", "budget": budget})).await;
    let done = desk.ended(run).await;
    for task in &done.tasks {
        let (_, task) = desk.send("GET", &format!("/api/tasks/{}", task.task_id), serde_json::Value::Null).await;
        assert!(task["usage"]["tokens"].as_u64().unwrap() <= done.usage.tokens(), "{task}");
    }
    (fake, done)
}

#[tokio::test]
async fn each_wall_stands_around_the_whole_tree_and_has_its_own_ending() {
    for (budget, status) in [
        (serde_json::json!({"steps": 7}), RunStatus::OutOfSteps),
        (serde_json::json!({"tokens": 70_000}), RunStatus::OutOfBudget),
        (serde_json::json!({"usd": 0.07}), RunStatus::OutOfBudget),
    ] {
        let (_, done) = run(budget.clone()).await;
        assert_eq!(done.status, status, "{budget}: {done:?}");
        // Two may ask in the same moment; the wall is checked before each.
        let calls = done.usage.tokens() / 10_000;
        assert!((7..=8).contains(&calls), "{budget}: {calls} calls");
    }
    let (_, done) = run(serde_json::json!({"tokens": 70_100})).await;
    assert_eq!(done.usage.tokens(), 70_000, "a hundred are not enough for a question: {done:?}");
    let (fake, done) = run(serde_json::json!({"tokens": 50})).await;
    assert_eq!((done.status, done.usage.tokens()), (RunStatus::OutOfBudget, 0), "{done:?}");
    assert_eq!(fake.model_calls.load(std::sync::atomic::Ordering::SeqCst), 0, "nobody is asked");
    let (_, done) = run(serde_json::json!({"time_s": 0.0})).await;
    assert_eq!((done.status, done.usage.tokens()), (RunStatus::OutOfTime, 0), "nothing is spent behind a wall");
}

/// A worker's question is too long for what is left, and the conductor's is not.
#[tokio::test]
async fn a_wall_that_stops_a_worker_ends_the_run_whatever_its_conductor_says() {
    let usage = r#""usage": {"input_tokens": 9000, "output_tokens": 1000}"#;
    let words = "word ".repeat(8_000);
    for status in ["ok", "failed"] {
        let scenario = format!(
            r#"{{"roles": {{
            "conductor": [
                {{"tool_calls": [{{"name": "delegate", "arguments": {{"role": "terminal", "objective": "work"}}}}], {usage}}},
                {{"tool_calls": [{{"name": "finish", "arguments": {{"summary": "All is well.", "status": "{status}"}}}}], {usage}}}],
            "terminal": [{{"text": "{words}", "tool_calls": [{{"name": "bash", "arguments": {{"command": "1"}}}}], {usage}}}]}}}}"#
        );
        let directory = tempfile::tempdir().unwrap();
        let desk = Desk::open(directory.path(), Fake::new(&scenario)).await;
        let run = desk.accept_with(serde_json::json!({"prompt": "work", "budget": {"tokens": 25_000}})).await;
        let done = desk.ended(run).await;
        assert_eq!((done.status, done.tasks[1].status), (RunStatus::OutOfBudget, TaskStatus::OutOfBudget), "{done:?}");
        let reason = done.reason.unwrap();
        assert!(reason.contains("5000 of 25000 tokens are left") && reason.ends_with("All is well."), "{reason}");
    }
}

/// Whoever keeps the money cuts the answer that would cost more than is left.
#[tokio::test]
async fn an_answer_that_the_money_cut_short_ends_the_run_out_of_budget() {
    let scenario = r#"{"roles": {"conductor": [
        {"text": "And so it", "stop": "budget", "usage": {"output_tokens": 10, "usd": 0.05}}
    ]}}"#;
    let directory = tempfile::tempdir().unwrap();
    let desk = Desk::open(directory.path(), Fake::new(scenario)).await;
    let run = desk.accept_with(serde_json::json!({"prompt": "work", "budget": {"usd": 0.0501}})).await;
    let done = desk.ended(run).await;
    assert_eq!((done.status, done.usage.usd), (RunStatus::OutOfBudget, Usd(50_000)), "{done:?}");
}

/// What the receipt counts is what the walls count.
#[tokio::test]
async fn answers_that_break_off_use_up_the_budget_too() {
    let error = r#"{"class": "garbage", "message": "nonsense", "retry_after_ms": 0}"#;
    let scenario = format!(r#"{{"roles": {{"conductor": [{{"error": {error}}}]}}}}"#);
    for budget in [serde_json::json!({"tokens": 8_000}), serde_json::json!({"usd": 0.025})] {
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::new(&scenario);
        let took = Usage { input_tokens: 100, output_tokens: 2_900, usd: Usd(10_000), ..Usage::default() };
        *fake.took.lock().unwrap() = took;
        let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
        let run = desk.accept_with(serde_json::json!({"prompt": "work", "budget": budget})).await;
        let paid = Paid { tokens: 9_000, usd: Usd(30_000), output_tokens: 0 };
        *fake.paid.lock().unwrap() = Some(paid);
        let done = desk.ended(run).await;
        assert_eq!(done.status, RunStatus::OutOfBudget, "{budget}: {done:?}");
        assert_eq!(fake.model_calls.load(std::sync::atomic::Ordering::SeqCst), 3, "{budget}");
        let read = (done.usage.input_tokens, done.usage.output_tokens, done.usage.usd, done.usage.usd_guessed);
        assert_eq!(read, (300, 8_700, Usd(30_000), Usd(30_000)), "what was written is not said to be read");
    }
}

/// Control knows what was under way when it was killed; the log cannot.
#[tokio::test]
async fn what_was_paid_for_before_a_crash_and_no_event_tells_of_uses_up_the_budget_too() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&shared());
    *fake.silent.lock().unwrap() = Some("work".to_owned());
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let run = desk.accept_with(serde_json::json!({"prompt": "work", "budget": {"tokens": 50_000}})).await;
    while fake.model_calls.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    desk.computer.close("test").await.unwrap();
    *fake.paid.lock().unwrap() = Some(Paid { tokens: 50_000, ..Paid::default() });
    *fake.silent.lock().unwrap() = None;
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    assert_eq!(desk.ended(run).await.status, RunStatus::OutOfBudget);
    assert_eq!(fake.model_calls.load(std::sync::atomic::Ordering::SeqCst), 1, "nobody is asked again");
}

#[tokio::test]
async fn a_receipt_adds_up() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&shared());
    let desk = Desk::open(directory.path(), fake).await;
    let id = desk.accept("work").await;
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::Completed);
    assert_eq!(
        done.usage,
        Usage { input_tokens: 108_000, output_tokens: 12_000, usd: Usd(120_000), ..Usage::default() }
    );
    let mut sum = (0, 0.0);
    for task in &done.tasks {
        assert_eq!(task.status, TaskStatus::Ok);
        let (_, task) = desk.send("GET", &format!("/api/tasks/{}", task.task_id), serde_json::Value::Null).await;
        sum.0 += task["usage"]["tokens"].as_u64().unwrap();
        sum.1 += task["usage"]["usd"].as_f64().unwrap();
    }
    assert_eq!((sum.0, (sum.1 * 1e6).round() as u64), (done.usage.tokens(), done.usage.usd.0));
}

#[tokio::test]
async fn what_was_spent_before_a_restart_still_counts() {
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::new(&shared().replace("\"command\": \"3\"", "\"command\": \"wait\""));
    let desk = Desk::open(directory.path(), Arc::clone(&fake)).await;
    let id = desk.accept_with(serde_json::json!({"prompt": "work", "budget": {"steps": 8}})).await;
    let before = desk.until(id, |run| run.usage.tokens() == 70_000).await;
    assert_eq!(before.status, RunStatus::Running);
    while fake.effects.lock().unwrap().len() < 6 {
        tokio::task::yield_now().await;
    }
    desk.computer.close("test").await.unwrap();
    let desk = Desk::open(directory.path(), fake).await;
    let done = desk.ended(id).await;
    assert_eq!(done.status, RunStatus::OutOfSteps, "{done:?}");
    assert!((8..=9).contains(&(done.usage.tokens() / 10_000)), "{:?}", done.usage);
}

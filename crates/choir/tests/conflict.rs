//! Where a person and a task changed the same, the person says what stays, and nothing of either is lost.

use crate::support::Instance;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A worker that needs a yes for its command: until then somebody else can change what it is about to change.
const ONE_WORKER: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "change a"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "All done."}}]}
    ],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo theirs > a; echo new > b"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made"}}]}
    ]
}}"#;

const NO_MODEL: &str = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;

const ASKS: &str = "[tools]\nbash = \"ask\"\n";

/// Two who change one file, the second over the base of the first.
fn in_conflict(instance: &Instance) -> String {
    let commands = |commands: &[&str], base: &Value| json!({"kind": "run", "instruction": "a test", "commands": commands, "egress": {"allow": []}, "base_ref": base});
    let first = instance.task(&commands(&["echo base > a"], &json!("head")));
    let base = first["result_tree"].clone();
    instance.task(&commands(&["echo mine > a"], &json!("head")));
    instance.begin_task(&commands(&["echo theirs > a; echo new > b"], &base))
}

fn asked(instance: &Instance, task: &str, times: usize) -> Value {
    let seen = std::cell::Cell::new(0);
    let event = instance.follow(|event| {
        let is_it = event["kind"] == "inbox.asked" && event["task"] == task && event["payload"]["ask"] == "question";
        seen.set(seen.get() + usize::from(is_it));
        is_it && seen.get() == times
    });
    event["payload"].clone()
}

fn answer(instance: &Instance, asked: &Value, text: &str) {
    let path = format!("POST /api/inbox/{}", asked["inbox_id"].as_str().unwrap());
    let (status, said) =
        instance.api(&path, &json!({"decision": "answer", "hash": asked["hash"], "scope": "once", "text": text}));
    assert_eq!(status, 200, "{said}");
}

fn finished(instance: &Instance, task: &str) -> Value {
    instance.follow(|event| event["kind"] == "task.finished" && event["task"] == task);
    instance.api(&format!("GET /api/tasks/{task}"), &Value::Null).1
}

fn live(instance: &Instance, name: &str) -> Option<String> {
    std::fs::read_to_string(instance.workspace().join(name)).ok()
}

#[test]
fn a_task_waits_for_the_word_of_the_person_and_does_it() {
    for (word, a, beside, left) in [
        ("Keep mine, please.", "mine\n", None, json!(["a"])),
        ("theirs", "theirs\n", None, json!([])),
        ("leave both", "mine\n", Some("theirs\n"), json!(["a"])),
    ] {
        let instance = Instance::start(NO_MODEL);
        let task = in_conflict(&instance);
        let question = asked(&instance, &task, 1);
        assert!(question["question"].as_str().unwrap().contains("somebody else changed a."), "{question}");
        let (_, waits) = instance.api(&format!("GET /api/tasks/{task}"), &Value::Null);
        assert_eq!((&waits["status"], &waits["conflicts"]), (&json!("needs_input"), &json!(["a"])), "{waits}");
        assert_eq!((live(&instance, "a"), live(&instance, "b")), (Some("mine\n".into()), Some("new\n".into())));

        answer(&instance, &question, word);
        let ended = finished(&instance, &task);
        assert_eq!((&ended["status"], &ended["conflicts"]), (&json!("ok"), &left), "{word}: {ended}");
        assert_eq!(live(&instance, "a").as_deref(), Some(a), "{word}");
        assert_eq!(live(&instance, "a.theirs").as_deref(), beside, "{word}");

        let (status, undone) = instance.api(&format!("POST /api/tasks/{task}/undo"), &Value::Null);
        assert_eq!((status, &undone["conflicts"]), (200, &json!([])), "{word}: {undone}");
        assert_eq!(live(&instance, "a").as_deref(), Some("mine\n"), "{word}: what gave way is back");
        assert_eq!((live(&instance, "a.theirs"), live(&instance, "b")), (None, None), "{word}");
        instance.api(&format!("POST /api/tasks/{task}/undo"), &Value::Null);
        assert_eq!(live(&instance, "a").as_deref(), Some(a), "{word}: and the undo is undone");
    }
}

#[test]
fn an_answer_that_says_nothing_is_asked_for_again_and_a_stop_is_heard() {
    let instance = Instance::start(NO_MODEL);
    let task = in_conflict(&instance);
    answer(&instance, &asked(&instance, &task, 1), "mine or theirs, I do not know");
    let again = asked(&instance, &task, 2);
    assert!(again["question"].as_str().unwrap().starts_with("It is not settled yet"), "{again}");
    assert_eq!(instance.api(&format!("POST /api/tasks/{task}/cancel"), &Value::Null).0, 202);
    let ended = finished(&instance, &task);
    assert_eq!((&ended["status"], &ended["conflicts"]), (&json!("cancelled"), &json!(["a"])), "{ended}");
    assert_eq!(live(&instance, "a").as_deref(), Some("mine\n"));
    assert_eq!(instance.api("GET /api/inbox", &Value::Null).1["inbox"], json!([]), "nobody is asked any more");
}

#[test]
fn a_run_is_blocked_by_a_conflict_over_a_crash_and_then_goes_on() {
    let mut instance = Instance::start_with(ONE_WORKER, ASKS);
    std::fs::write(instance.workspace().join("a"), "base\n").unwrap();
    let (_, accepted) = instance.api("POST /api/runs", &json!({"prompt": "change a"}));
    let run = accepted["run_id"].as_str().unwrap().to_owned();
    let call = instance.follow(|event| event["kind"] == "inbox.asked" && event["payload"]["ask"] == "tool");
    std::fs::write(instance.workspace().join("a"), "mine\n").unwrap();
    instance.decide("approve", "once");
    let task = call["task"].as_str().unwrap().to_owned();
    let question = asked(&instance, &task, 1);
    let blocked = |instance: &Instance| {
        let (_, run) = instance.api(&format!("GET /api/runs/{run}"), &Value::Null);
        (run["status"].clone(), run["reason"].as_str().unwrap_or_default().contains("somebody else changed a."))
    };
    let is_blocked = |event: &Value| {
        let message = event["payload"]["message"].as_str().unwrap_or_default();
        event["kind"] == "run.blocked" && message.contains("somebody else changed a.")
    };
    instance.follow(is_blocked);
    assert_eq!(blocked(&instance), (json!("blocked"), true));

    rustix::process::kill_process(instance.pid(), Signal::KILL).unwrap();
    instance.wait();
    let directory = std::mem::replace(&mut instance.directory, tempfile::tempdir().unwrap());
    let instance = Instance::start_on(directory);
    assert_eq!(blocked(&instance), (json!("blocked"), true), "and after it");
    let (_, inbox) = instance.api("GET /api/inbox", &Value::Null);
    assert_eq!((inbox["inbox"][0]["id"].clone(), &inbox["inbox"][1]), (question["inbox_id"].clone(), &Value::Null));
    answer(&instance, &question, "theirs");
    let ended = instance.follow(|event| event["kind"] == "run.ended" && event["run"] == run.as_str());
    assert_eq!(ended["payload"]["status"], "completed", "{ended}");
    assert_eq!((live(&instance, "a"), live(&instance, "b")), (Some("theirs\n".into()), Some("new\n".into())));
    let asked = instance
        .events()
        .into_iter()
        .filter(|event| event["kind"] == "inbox.asked" && event["payload"]["inbox_id"] == question["inbox_id"]);
    assert_eq!(asked.count(), 1, "asked once");
    assert_eq!(instance.choir(&["undo", &run]).status.code(), Some(0));
    assert_eq!((live(&instance, "a"), live(&instance, "b")), (Some("mine\n".into()), None));
}

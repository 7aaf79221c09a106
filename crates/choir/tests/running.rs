//! A whole instance: a prompt, its answer, its log, and an orderly end.

use crate::support::{Instance, choir, stderr, stdout};

const SCENARIO: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "make a file"}}]},
        {"tool_calls": [{"name": "answer", "arguments": {"text": "It says hello."}},
                        {"name": "finish", "arguments": {"summary": "done"}}]}
    ],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo hello > hello.txt"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made"}}]}
    ]
}}"#;

#[test]
fn a_prompt_is_worked_on_in_a_sandbox_and_answered() {
    let instance = Instance::start(SCENARIO);
    let run = instance.choir(&["run", "make a file that says hello"]);
    assert_eq!((run.status.code(), stdout(&run).trim()), (Some(0), "It says hello."), "{}", stderr(&run));

    let events = instance.choir(&["events", "--json"]);
    let seqs: Vec<u64> = stdout(&events)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(stdout(&events).contains("hello.txt"));

    let (status, rest, directory) = instance.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "ready is said once, and a stop is not an error");
    let again = Instance::start_on(directory);
    let after = stdout(&again.choir(&["events", "--json"]));
    assert!(after.lines().count() > seqs.len(), "everything is still there");
}

#[test]
fn a_run_that_does_not_end_well_has_its_own_exit_status() {
    let scenario = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;
    let run = Instance::start(scenario).choir(&["run", "anything", "--json"]);
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    let last: serde_json::Value = serde_json::from_str(stdout(&run).lines().last().unwrap()).unwrap();
    assert_eq!(last["status"], "failed", "{last}");
}

#[test]
fn a_second_instance_on_the_same_data_is_refused() {
    let first = Instance::start(SCENARIO);
    let second = choir(first.directory.path()).args(["up", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!((second.status.code(), stdout(&second).as_str()), (Some(1), ""));
    assert!(stderr(&second).contains("already runs"), "{}", stderr(&second));
    assert!(first.choir(&["events"]).status.success());
}

#[test]
fn a_fresh_sign_in_address_is_printed_while_it_runs() {
    let instance = Instance::start(SCENARIO);
    let printed = stdout(&instance.choir(&["token", "sign-in"]));
    let base = instance.url.split("?token=").next().unwrap();
    assert!(printed.starts_with(base) && printed.trim() != instance.url, "{printed}");
}

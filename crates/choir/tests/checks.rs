//! Nobody passes an examination that they wrote.

use crate::support::Instance;
use serde_json::json;

const SCENARIO: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "make the check pass"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "all checks pass"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo exit 0 > check.sh"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "all checks pass"}}]}]
}}"#;

#[test]
fn a_worker_that_weakens_its_check_is_not_verified_by_it() {
    let instance = Instance::start(SCENARIO);
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("run"));
    let put =
        instance.http("PUT /api/files?path=check.sh", &format!("{bearer}content-type: text/plain\r\n"), "exit 1\n");
    assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    let body =
        json!({"prompt": "make it pass", "verify": {"mode": "commands", "commands": ["sh check.sh"]}}).to_string();
    let accepted = instance.http("POST /api/runs", &format!("{bearer}content-type: application/json\r\n"), &body);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let finished = instance.follow(|event| event["kind"] == "task.finished" && event["actor"] == "terminal");
    let verify = &finished["payload"]["result"]["verify"];
    // The check that was there before the worker is the one that runs.
    assert_eq!((&verify["status"], &verify["checks_changed"]), (&json!("fail"), &json!(["check.sh"])), "{finished}");
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "failed", "{ended}");
}

/// Does the work, and adds to the script that checks it.
const WORKER: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "make it right"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made right"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo right > product; echo '# more' >> check.sh"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made right"}}]}]
}}"#;

#[test]
fn a_person_accepts_what_became_of_the_checks_and_the_run_is_verified() {
    let instance = Instance::start(WORKER);
    for (path, content) in [("check.sh", "grep -q right product\n"), ("product", "wrong\n")] {
        let bearer = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("run"));
        let put = instance.http(&format!("PUT /api/files?path={path}"), &bearer, content);
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    }
    let asked = json!({"prompt": "mend", "verify": {"mode": "commands", "commands": ["sh check.sh"]}});
    let (status, accepted) = instance.api("POST /api/runs", &asked);
    assert_eq!(status, 202, "{accepted}");
    let run = format!("/api/runs/{}", accepted["run_id"].as_str().unwrap());
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "completed", "{ended}");
    let standing = || instance.api(&format!("GET {run}"), &json!(null)).1;
    let before = standing();
    let worker = before["tasks"].as_array().unwrap().iter().find(|task| task["role"] == "terminal").unwrap().clone();
    assert_eq!(worker["checks_changed"], json!(["check.sh"]), "{before}");
    assert!(worker["summary"].as_str().unwrap().contains("touched its checks: check.sh"), "{worker}");
    let accept = format!("POST /api/tasks/{}/accept", worker["task_id"].as_str().unwrap());
    let (status, said) = instance.api(&accept, &json!({}));
    assert_eq!(status, 200, "{said}");
    let after = standing();
    assert_eq!(after["status"], "verified", "{after}");
    let task = instance.api(&format!("GET /api/tasks/{}", worker["task_id"].as_str().unwrap()), &json!(null)).1;
    assert_eq!(task["verify"]["accepted"], true, "{task}");
    let (status, again) = instance.api(&accept, &json!({}));
    assert_eq!((status, &again["error"]["code"]), (409, &json!("nothing_to_accept")), "{again}");
}

#[test]
fn workers_at_once_that_pass_alone_and_fail_together_are_not_verified() {
    let scenario = r#"{"turns": [
        {"when": {"role": "conductor", "turn": 1}, "answer": {"tool_calls": [
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "write one"}},
            {"name": "delegate", "arguments": {"role": "terminal", "objective": "write two"}}]}},
        {"when": {"role": "conductor", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}},
        {"when": {"role": "conductor", "turn": 3}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}},
        {"when": {"role": "terminal", "turn": 1, "prompt_contains": "write one"}, "answer": {"tool_calls": [
            {"name": "bash", "arguments": {"command": "echo 1 > one"}}]}},
        {"when": {"role": "terminal", "turn": 1, "prompt_contains": "write two"}, "answer": {"tool_calls": [
            {"name": "bash", "arguments": {"command": "echo 2 > two"}}]}},
        {"when": {"role": "terminal", "turn": 2}, "answer": {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}}]}"#;
    let instance = Instance::start(scenario);
    let check = "test ! -e one || test ! -e two";
    let asked = json!({"prompt": "write", "verify": {"mode": "commands", "commands": [check]}});
    assert_eq!(instance.api("POST /api/runs", &asked).0, 202);
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    let (status, said) = (&ended["payload"]["status"], ended["payload"]["summary"].as_str().unwrap());
    // Where one began after the other had ended, its own check has failed.
    let in_turn = *status == "failed" && said.contains("ended with exit code 1");
    assert!(in_turn || *status == "completed" && said.contains("not together"), "{ended}");
}

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

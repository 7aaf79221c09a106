//! A workspace that is too large for several tasks at once.

use crate::support::Instance;
use serde_json::{Value, json};

const NO_MODEL: &str = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;

fn commands(commands: &[&str]) -> Value {
    json!({"kind": "run", "instruction": "a test", "commands": commands, "egress": {"allow": []}})
}

#[test]
fn tasks_in_a_large_workspace_run_one_at_a_time_and_say_so() {
    let instance = Instance::start(NO_MODEL);
    // Holes, which count like everything else and take no room.
    for name in ["a", "b", "c"] {
        std::fs::File::create(instance.workspace().join(name)).unwrap().set_len(700 << 20).unwrap();
    }
    // Each would see the other's trace while both run, and takes what it sees home.
    let act = "cp seen mine 2>/dev/null; echo x >> seen; sleep 0.2";
    let tasks: Vec<String> = (0..3).map(|_| instance.begin_task(&commands(&[act]))).collect();
    for task in &tasks {
        instance.follow(|event| event["kind"] == "task.finished" && event["task"] == task.as_str());
        let (_, result) = instance.api(&format!("GET /api/tasks/{task}"), &Value::Null);
        assert_eq!((&result["status"], &result["conflicts"]), (&json!("ok"), &json!([])), "{result}");
        assert!(result["summary"].as_str().unwrap().contains("one at a time"), "{result}");
    }
    let seen = std::fs::read_to_string(instance.workspace().join("seen")).unwrap();
    assert_eq!(seen, "x\nx\nx\n", "each began with what the one before had left");
    let started = instance.follow(|event| event["kind"] == "task.started");
    assert_eq!(started["payload"]["alone"], true);
}

//! The contract of a task, field by field, as a program outside relies on it.

use crate::support::Instance;
use serde_json::{Value, json};

const NO_MODEL: &str = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;

fn task(commands: &[&str], more: Value) -> Value {
    let mut request = json!({"kind": "run", "instruction": "a test", "commands": commands, "egress": {"allow": []}});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

#[test]
fn a_result_carries_what_is_wanted_and_the_log_everything() {
    let instance = Instance::start(NO_MODEL);
    let act = &["echo said; echo complained >&2; echo new > file"];
    let check = json!({"mode": "commands", "commands": ["echo checked"]});
    let everything = instance.task(&task(act, json!({"verify": check})));
    assert!(everything["diff"]["content"].as_str().unwrap().contains("+new"), "{everything}");
    assert_eq!(everything["files_changed"], json!([{"path": "file", "change": "added"}]));
    assert_eq!(everything["commands"][0]["stdout"], "said\n");
    assert_eq!(everything["verify"]["commands"][0]["stdout"], "checked\n");

    let nothing = json!({"diff": false, "logs": false, "files_changed": false});
    let act = &["echo said; echo complained >&2; echo newer > file"];
    let little = instance.task(&task(act, json!({"verify": check, "return": nothing})));
    assert_eq!((&little["status"], &little["verify"]["status"]), (&json!("ok"), &json!("pass")), "{little}");
    assert_eq!((little.get("diff"), &little["files_changed"]), (None, &json!([])), "{little}");
    for command in [&little["commands"][0], &little["verify"]["commands"][0]] {
        assert_eq!(
            (&command["exit_code"], &command["stdout"], &command["stderr"]),
            (&json!(0), &json!(""), &json!(""))
        );
    }
    // What is not told is known all the same, and can be taken back.
    let id = little["task_id"].as_str().unwrap();
    let (_, listed) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
    assert!(listed["changes"][0]["diff"]["content"].as_str().unwrap().contains("+newer"), "{listed}");
    let (status, said) = instance.api("POST /api/tasks", &task(&["true"], json!({"return": {"artifacts": true}})));
    assert_eq!((status, &said["error"]["code"]), (501, &json!("not_available")), "{said}");
    let only_logs = instance.task(&task(&["echo said"], json!({"return": {"diff": false}})));
    assert_eq!((only_logs.get("diff"), &only_logs["commands"][0]["stdout"]), (None, &json!("said\n")), "{only_logs}");
}

#[test]
fn a_task_begins_with_the_tree_that_it_names() {
    let instance = Instance::start(NO_MODEL);
    let first = instance.task(&task(&["echo 1 > a"], json!({})));
    let (before, tree) = (first["base_tree"].as_str().unwrap(), first["result_tree"].as_str().unwrap());
    std::fs::write(instance.workspace().join("a"), "2\n").unwrap();

    let later = instance.task(&task(&["cat a; cp a b"], json!({"base_ref": tree})));
    assert_eq!((&later["status"], &later["base_tree"]), (&json!("ok"), &json!(tree)), "{later}");
    assert_eq!(later["commands"][0]["stdout"], "1\n");
    let live = |name: &str| std::fs::read_to_string(instance.workspace().join(name)).unwrap();
    assert_eq!(
        (live("a"), live("b")),
        ("2\n".to_owned(), "1\n".to_owned()),
        "what it changed came home, and nothing else"
    );

    let met = instance.begin_task(&task(&["echo 3 > a; echo c > c"], json!({"base_ref": tree})));
    instance.follow(|event| event["kind"] == "task.conflicted" && event["task"] == met.as_str());
    let (_, conflict) = instance.api(&format!("GET /api/tasks/{met}"), &Value::Null);
    assert_eq!((&conflict["status"], &conflict["conflicts"]), (&json!("needs_input"), &json!(["a"])), "{conflict}");
    assert_eq!((live("a"), live("c")), ("2\n".to_owned(), "c\n".to_owned()));
    let earliest = instance.task(&task(&["ls -A"], json!({"base_ref": before})));
    assert_eq!(earliest["commands"][0]["stdout"], "", "{earliest}");
    let head = instance.task(&task(&["cat a"], json!({"base_ref": "head"})));
    assert_eq!(head["commands"][0]["stdout"], "2\n", "{head}");

    for unknown in ["nonsense", "", "HEAD", &"0".repeat(64), &"a".repeat(63)] {
        let (status, said) = instance.api("POST /api/tasks", &task(&["true"], json!({"base_ref": unknown})));
        assert_eq!((status, &said["error"]["code"]), (400, &json!("unknown_base")), "{unknown}: {said}");
    }
}

#[test]
fn a_stop_that_was_acknowledged_keeps_the_changes_out_also_while_they_are_checked() {
    let instance = Instance::start(NO_MODEL);
    let stop = |id: &str| instance.api(&format!("POST /api/tasks/{id}/cancel"), &Value::Null).0;
    let ended = |id: &str| {
        instance.follow(|event| event["kind"] == "task.finished" && event["task"] == id);
        instance.api(&format!("GET /api/tasks/{id}"), &Value::Null).1
    };
    let checked = json!({"verify": {"mode": "commands", "commands": ["sleep 600"]}});
    let id = instance.begin_task(&task(&["echo x > checked"], checked));
    instance.follow(|event| event["kind"] == "verify.started" && event["task"] == id.as_str());
    assert_eq!(stop(&id), 202);
    let result = ended(&id);
    assert_eq!(result["status"], "cancelled", "{result}");
    assert!(!instance.workspace().join("checked").exists());

    // What a stopped command said is what it said, with nothing of ours in it.
    let id = instance.begin_task(&task(&["echo said; echo warned >&2; sleep 600"], json!({})));
    instance.follow(|event| event["kind"] == "tool.started" && event["task"] == id.as_str());
    assert_eq!(stop(&id), 202);
    let result = ended(&id);
    let stderr = result["commands"][0]["stderr"].as_str().unwrap();
    assert!(["", "warned\n"].contains(&stderr), "{result}");

    // Where it is too late that is said; there is no third way.
    let id = instance.begin_task(&task(&["mkdir d; for n in $(seq 2000); do echo $n > d/$n; done"], json!({})));
    instance.follow(|event| event["kind"] == "tool.finished" && event["task"] == id.as_str());
    let wanted = match stop(&id) {
        202 => ("cancelled", false),
        409 => ("ok", true),
        other => panic!("{other}"),
    };
    let result = ended(&id);
    assert_eq!((result["status"].as_str().unwrap(), instance.workspace().join("d").exists()), wanted, "{result}");
}

#[test]
fn all_that_a_command_said_is_in_its_log() {
    let instance = Instance::start(NO_MODEL);
    let result = instance.task(&task(&["seq 1 3000000; echo THE-END >&2", "true"], json!({})));
    assert_eq!(result["commands"][0]["truncated"], true);
    let log = |number: usize| {
        let hash = result["commands"][number]["log"].as_str().unwrap();
        let headers = format!("authorization: Bearer {}\r\n", instance.token("read"));
        let answer = instance.http(&format!("GET /api/blobs/{hash}"), &headers, "");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let said = log(0);
    assert!(said.len() > 20_000_000 && said.contains("\n3000000\n") && said.contains("THE-END"), "{}", said.len());
    assert_eq!(log(1), "", "one that said nothing has a log too");
}

#[test]
fn whoever_only_looks_changes_nothing_and_says_so() {
    let instance = Instance::start(NO_MODEL);
    let result = instance.task(&json!({"kind": "inspect", "instruction": "a test", "commands": ["echo x > seen"]}));
    assert_eq!(result["status"], "ok", "{result}");
    assert!(result["summary"].as_str().unwrap().contains("only to look"), "{result}");
    let id = result["task_id"].as_str().unwrap();
    let (_, changes) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
    assert_eq!(changes["changes"][0]["state"], "kept_out", "{changes}");
    assert_eq!(instance.api(&format!("POST /api/tasks/{id}/undo"), &Value::Null).0, 409);
    assert!(!instance.workspace().join("seen").exists());
}

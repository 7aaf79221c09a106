//! Results are checked in a fresh sandbox by commands that their worker did not run, by the real binary.

use crate::support::{Instance, ends_within, watch};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A conductor with one worker that says all is well.
const SCENARIO: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "make it",
            "verify": {"mode": "commands", "commands": ["true"]}}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "all tests pass"}}]}
    ],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo right > file"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "all tests pass"}}]}
    ]
}}"#;

fn task(commands: &[&str], checks: &[&str]) -> Value {
    json!({"kind": "run", "instruction": "a test", "commands": commands, "egress": {"allow": []},
        "verify": {"mode": "commands", "commands": checks}})
}

fn put(instance: &Instance, path: &str, content: &str) {
    let token = instance.token("admin");
    let answer = instance.http(
        &format!("PUT /api/files?path={path}"),
        &format!("authorization: Bearer {token}\r\ncontent-type: application/octet-stream\r\n"),
        content,
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_result_that_passes_is_merged_and_says_who_chose_the_checks() {
    let instance = Instance::start(SCENARIO);
    put(&instance, ".gitignore", "ignored\n/cache/\n");
    put(&instance, "ignored", "before\n");
    let work = "echo right > file; echo mine > ignored; mkdir cache target; echo x > cache/x; echo x > target/x; \
        echo x > ~/left; echo x > /tmp/left; mkdir -p bin; printf '#!/bin/sh\\nexit 0\\n' > bin/grep; chmod +x bin/grep; \
        echo 'PATH=/work/bin:$PATH' > ~/.profile; (sleep 1000 & )";
    let checks = [
        "grep -q right file",
        "grep -q before ignored",
        "test ! -e cache && test ! -e target && test ! -e ~/left && test ! -e /tmp/left",
        "case $PATH in *work*) exit 1;; esac; pgrep sleep; test $? = 1",
    ];
    let result = instance.task(&task(&[work], &checks));
    assert_eq!((&result["status"], &result["verify"]["status"]), (&json!("ok"), &json!("pass")), "{result}");
    assert_eq!((&result["verify"]["source"], &result["verify"]["mode"]), (&json!("person"), &json!("commands")));
    assert_eq!(result["verify"]["commands"].as_array().unwrap().len(), checks.len());
    assert_eq!(std::fs::read_to_string(instance.workspace().join("file")).unwrap(), "right\n");
    assert_eq!(std::fs::read_to_string(instance.workspace().join("ignored")).unwrap(), "mine\n");
    let finished = instance.follow(|event| event["kind"] == "verify.finished");
    assert_eq!(finished["payload"]["result_tree"], result["result_tree"], "what was checked is what was merged");
}

#[test]
fn what_no_tree_can_hold_is_named_and_everything_else_arrives() {
    let instance = Instance::start(SCENARIO);
    let work = "echo here > file; mkdir d; mkfifo d/pipe; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(sock), Listen => 1)'";
    let result = instance.task(&task(&[work], &["true"]));
    assert_eq!(result["status"], "ok", "{result}");
    assert_eq!(result["left_out"], json!({"count": 2, "paths": ["d/pipe", "sock"]}), "{result}");
    let said = result["summary"].as_str().unwrap();
    assert!(said.contains("Left out") && said.contains("d/pipe, sock."), "{said}");
    assert!(instance.workspace().join("file").exists() && !instance.workspace().join("sock").exists());
    let plain = instance.task(&task(&["echo more >> file"], &["true"]));
    assert!(plain["left_out"].is_null() && !plain["summary"].as_str().unwrap().contains("Left out"), "{plain}");
}

/// Nobody knows is said only where nobody does.
#[test]
fn a_command_that_ran_out_of_time_or_never_began_is_said_to_have() {
    let instance = Instance::start(SCENARIO);
    let ended = |commands: &[&str]| {
        let budget = json!({"time_s": 1.0});
        let result = instance.task(&json!({"kind": "run", "instruction": "x", "commands": commands, "budget": budget}));
        (result["status"].as_str().unwrap().to_owned(), result["summary"].as_str().unwrap().to_owned())
    };
    let (status, said) = ended(&["sleep 600"]);
    assert!(status == "out_of_time" && said.contains("its time was over"), "{status}: {said}");
    let (status, said) = ended(&["sleep 0.7", "sleep 0.7"]);
    assert!(status == "out_of_time" && said.contains("its time was over"), "the time of all of them: {status}: {said}");
    let (status, said) = ended(&["truncate -s 100G big"]);
    assert!(status == "failed" && said.contains("limit on the size of one file"), "{status}: {said}");
    let (status, said) = ended(&["true\u{0}"]);
    assert!(status == "failed" && said.contains("exit code 126"), "{status}: {said}");
}

/// The time of a task is the time of its checks too.
#[test]
fn checks_end_with_the_time_of_their_task() {
    let instance = Instance::start(SCENARIO);
    let checked = |work: &str, check: &str, time_s: f64| {
        let mut request = task(&[work], &[check]);
        request["budget"] = json!({"time_s": time_s});
        instance.task(&request)
    };
    let slow = checked("echo slow > file", "sleep 600", 3.0);
    assert_eq!((&slow["status"], &slow["verify"]["timed_out"]), (&json!("out_of_time"), &json!(true)), "{slow}");
    let said = slow["summary"].as_str().unwrap();
    assert!(said.contains("before it was checked") && said.contains("Nothing was merged"), "{said}");
    assert!(slow["usage"]["time_s"].as_f64().unwrap() >= 2.9, "checking takes time too: {slow}");
    assert!(!instance.workspace().join("file").exists());
    let took_ms = slow["verify"]["commands"][0]["duration_ms"].as_u64().unwrap();
    assert!(took_ms < 5_000, "what was left of three seconds: {took_ms} ms");
    let quick = checked("echo quick > file", "true", 600.0);
    assert_eq!((&quick["status"], &quick["verify"]["status"]), (&json!("ok"), &json!("pass")), "{quick}");
}

/// Each of these says that it is done, and none of it is.
const LIES: [(&str, &str, &str); 6] = [
    ("says so", "echo wrong > file; echo 'all tests passed'", "grep -q right file"),
    ("corrects itself later", "echo wrong > file; (sleep 0.3; echo right > file) & ", "sleep 1; grep -q right file"),
    (
        "daemonises and corrects itself",
        "echo wrong > file; setsid sh -c 'while :; do echo right > /work/file; sleep 0.1; echo wrong > /work/file; done' \
         > /dev/null 2>&1 < /dev/null & sleep 0.05; echo wrong > file; kill %1 2>/dev/null; rm file; mkdir file",
        "grep -q right file",
    ),
    (
        "kills its verifier",
        "echo 'kill -9 $PPID; kill -9 -1; kill -9 1' > check.sh",
        "sh check.sh && grep -q right file",
    ),
    (
        "speaks for its verifier",
        "printf 'for f in /proc/1/fd/* /proc/$PPID/fd/*; do echo exited > $f; done 2>/dev/null; exit 1\\n' > check.sh",
        "sh check.sh",
    ),
    (
        "brings its own tools",
        "mkdir -p bin; printf '#!/bin/sh\\nexit 0\\n' > bin/grep; cp bin/grep grep; chmod +x bin/grep grep; \
         echo 'export PATH=/work/bin:/work:$PATH' | tee ~/.profile ~/.bashrc > .envrc; echo wrong > file",
        "grep -q right file",
    ),
];

#[test]
fn a_worker_that_lies_never_passes_and_nothing_of_it_is_merged() {
    let instance = Instance::start(SCENARIO);
    for (what, work, check) in LIES {
        let result = instance.task(&task(&[work], &[check]));
        assert_eq!(
            (&result["status"], &result["verify"]["status"]),
            (&json!("failed"), &json!("fail")),
            "{what}: {result}"
        );
        assert_ne!(result["verify"]["commands"][0]["exit_code"], 0, "{what}");
        assert!(result["result_tree"].is_string() && result["merged_tree"].is_null(), "{what}: {result}");
        assert_eq!(std::fs::read_dir(instance.workspace()).unwrap().count(), 0, "{what}");
    }
}

#[test]
fn what_was_not_checked_is_not_claimed() {
    let instance = Instance::start(SCENARIO);
    for verify in [json!({"mode": "none"}), json!({"mode": "commands"}), json!({"mode": "smoke"})] {
        let request = json!({"kind": "run", "instruction": "a test", "commands": ["true"], "verify": verify});
        let result = instance.task(&request);
        assert_eq!((&result["status"], &result["verify"]["status"]), (&json!("ok"), &json!("unknown")), "{result}");
    }
    let failed = instance.task(&task(&["exit 4"], &["true"]));
    assert_eq!((&failed["status"], &failed["verify"]["status"]), (&json!("failed"), &json!("unknown")), "{failed}");
}

#[test]
fn a_run_is_verified_or_failed_by_what_the_person_chose() {
    let run = |check: &str| {
        let instance = Instance::start(SCENARIO);
        let verify = json!({"mode": "commands", "commands": [check]});
        let (status, accepted) = instance.api("POST /api/runs", &json!({"prompt": "make it", "verify": verify}));
        assert_eq!(status, 202, "{accepted}");
        instance.follow(|event| event["kind"] == "run.ended" && event["run"] == accepted["run_id"]);
        let id = accepted["run_id"].as_str().unwrap();
        let (_, run) = instance.api(&format!("GET /api/runs/{id}"), &Value::Null);
        (run["status"].as_str().unwrap().to_owned(), instance.workspace().join("file").exists())
    };
    assert_eq!(run("grep -q right file"), ("verified".to_owned(), true));
    assert_eq!(run("grep -q left file"), ("failed".to_owned(), false));
}

#[test]
fn checks_that_a_model_chose_do_not_verify_a_run() {
    let instance = Instance::start(SCENARIO);
    assert_eq!(instance.choir(&["run", "make it"]).status.code(), Some(0));
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "completed");
    let checked = instance.follow(|event| event["kind"] == "verify.finished");
    assert_eq!(checked["payload"]["result"]["source"], "agent");
}

/// A check that a kill cut off is begun anew, in another sandbox.
#[test]
fn a_check_survives_a_kill_in_the_middle() {
    let instance = Instance::start(SCENARIO);
    let id = instance
        .begin_task(&task(&["echo right > file"], &["test ! -e trace && touch trace && sleep 0.5", "grep right file"]));
    instance.follow(|event| event["kind"] == "verify.started");
    let computer = instance.computer();
    let ended = watch(computer);
    rustix::process::kill_process(computer, Signal::KILL).unwrap();
    assert!(ends_within(&ended, 10));
    instance.follow(|event| event["kind"] == "task.finished");
    let (_, result) = instance.api(&format!("GET /api/tasks/{id}"), &Value::Null);
    assert_eq!((&result["status"], &result["verify"]["status"]), (&json!("ok"), &json!("pass")), "{result}");
    assert_eq!(std::fs::read_to_string(instance.workspace().join("file")).unwrap(), "right\n");
    let finished = instance.follow(|event| event["kind"] == "verify.finished");
    assert_eq!(finished["payload"]["attempt"], 2);
}

/// A check that an agent wrote is a command that an agent wants run.
#[test]
fn a_check_that_a_model_chose_needs_the_word_that_every_command_of_it_needs() {
    for (word, status, code) in [("approve", "pass", json!(0)), ("deny", "unknown", Value::Null)] {
        let instance = Instance::start_with(SCENARIO, "[tools]\nbash = \"ask\"\n");
        let (status_code, accepted) = instance.api("POST /api/runs", &json!({"prompt": "make it"}));
        assert_eq!(status_code, 202, "{accepted}");
        let asked = instance.decide("approve", "once");
        assert_eq!(asked["subject"], "echo right > file", "{asked}");
        let asked = instance.decide(word, "once");
        assert_eq!(asked["subject"], "true", "{asked}");
        let checked = instance.follow(|event| event["kind"] == "verify.finished");
        let result = &checked["payload"]["result"];
        assert_eq!((&result["status"], &result["commands"][0]["exit_code"]), (&json!(status), &code), "{result}");
    }
}

//! A whole instance: a prompt, its answer, its log, and an orderly end.

use crate::support::{Instance, choir, stderr, stdout};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

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
fn a_receipt_holds_what_a_scenario_says_that_its_answers_cost() {
    let instance = Instance::start(
        r#"{"roles": {"conductor": [
            {"tool_calls": [{"name": "answer", "arguments": {"text": "hm"}}], "usage": {"input_tokens": 7, "usd": 0.0012}},
            {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}], "usage": {"usd": 0.0003}}]}}"#,
    );
    let (_, accepted) = instance.api("POST /api/runs", &serde_json::json!({"prompt": "what does it cost?"}));
    instance.follow(|event| event["kind"] == "run.ended");
    let run = format!("GET /api/runs/{}", accepted["run_id"].as_str().unwrap());
    let (_, run) = instance.api(&run, &serde_json::Value::Null);
    assert_eq!((&run["usage"]["usd"], &run["usage"]["input_tokens"]), (&0.0015.into(), &7.into()), "{run}");
}

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

    let id = stdout(&events).lines().find_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        (event["kind"] == "run.accepted").then(|| event["run"].as_str().unwrap().to_owned())
    });
    let trace = instance.choir(&["trace", &id.unwrap()]);
    let tree = stdout(&trace);
    let last = tree.lines().find(|line| line.contains("bash")).unwrap_or_else(|| panic!("{tree}{}", stderr(&trace)));
    assert!(tree.starts_with("make a file that says hello") && last.contains("└─ ") && last.ends_with("ok"), "{tree}");

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

#[test]
fn following_goes_on_over_a_restart() {
    let instance = Instance::start(SCENARIO);
    let mut follower = choir(instance.directory.path());
    let mut follower = follower.args(["events", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    let mut seen = vec![next(), next()];
    let (_, _, directory) = instance.stop();
    let again = Instance::start_on(directory);
    while !seen.iter().any(|event| event["kind"] == "computer.started" && event["seq"].as_u64() > Some(2)) {
        seen.push(next());
    }
    let seqs: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no gap and no duplicate");
    follower.kill().unwrap();
    follower.wait().unwrap();
    drop(again);
}

#[test]
fn a_file_of_events_is_continued_and_a_torn_line_is_written_again() {
    let instance = Instance::start(SCENARIO);
    let file = instance.directory.path().join("events.jsonl");
    let to = file.to_str().unwrap();
    instance.choir(&["events", "--to", to]);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    stdout(&instance.choir(&["run", "What is six times seven?"]));
    instance.choir(&["events", "--to", to]);
    let text = std::fs::read_to_string(&file).unwrap();
    let seqs: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(text.len() > whole.len() && text.as_bytes().starts_with(&whole));
}

#[test]
fn whoever_is_refused_the_log_leaves_no_file_and_changes_none() {
    let directory = tempfile::tempdir().unwrap();
    let (new, torn) = (directory.path().join("new.jsonl"), directory.path().join("torn.jsonl"));
    std::fs::write(&torn, "{\"seq\":").unwrap();
    let refused = |command: &dyn Fn(&[&str]) -> std::process::Output| {
        for file in [&new, &torn] {
            let answer = command(&["events", "--to", file.to_str().unwrap()]);
            assert!(!answer.status.success(), "{}", stderr(&answer));
        }
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&torn).unwrap(), "{\"seq\":");
    };
    refused(&|arguments| choir(directory.path()).args(arguments).output().unwrap());
    let instance = Instance::start(SCENARIO);
    let url = format!("http://{}", instance.authority());
    refused(&|arguments| {
        let mut command = choir(directory.path());
        command.env("CHOIR_URL", &url).env("CHOIR_TOKEN", "choir_forged").args(arguments).output().unwrap()
    });
}

#[test]
fn a_token_is_listed_and_revoked_while_the_instance_runs() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("read");
    let bearer = format!("authorization: Bearer {token}\r\n");
    assert!(
        instance.http("GET /api/runs", &bearer, "").starts_with("HTTP/1.1 200"),
        "made while it runs, it works at once"
    );
    let listed: serde_json::Value =
        serde_json::from_str(&stdout(&instance.choir(&["token", "list", "--json"]))).unwrap();
    let id =
        listed["tokens"].as_array().unwrap().iter().find(|token| token["scope"] == "read").unwrap()["token_id"].clone();
    let revoked = instance.choir(&["token", "revoke", id.as_str().unwrap()]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    assert!(instance.http("GET /api/runs", &bearer, "").starts_with("HTTP/1.1 401"));
    let again = instance.choir(&["token", "revoke", id.as_str().unwrap()]);
    assert!(!again.status.success() && stderr(&again).contains("token list"), "{}", stderr(&again));
}

#[test]
fn a_relative_data_directory_has_sandboxes_too() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = choir(Path::new("here"));
    command.current_dir(parent.path()).args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line}");
    let data = parent.path().join("here");
    let token = stdout(&choir(&data).args(["token", "create"]).output().unwrap());
    let authority = line.trim().strip_prefix("ready http://").unwrap().split('/').next().unwrap();
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    let head = format!("host: {authority}\r\nauthorization: Bearer {}\r\nconnection: close\r\n", token.trim());
    write!(stream, "PUT /api/files?path=a.txt HTTP/1.1\r\n{head}content-length: 2\r\n\r\nhi").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(
        std::fs::read(
            std::fs::read_dir(data.join("computers")).unwrap().next().unwrap().unwrap().path().join("workspace/a.txt")
        )
        .unwrap(),
        b"hi"
    );
}

#[test]
fn positions_and_budgets_that_make_no_sense_are_answered_as_such() {
    let instance = Instance::start(SCENARIO);
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("run"));
    for after in ["9223372036854775808", "18446744073709551615"] {
        let answer = instance.http(&format!("GET /api/events?after={after}"), &bearer, "");
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("beyond_head"), "{answer}");
    }
    for how in [["events", "--after", "1000000"].as_slice(), &["events", "--follow", "--after", "1000000"]] {
        let refused = instance.choir(how);
        assert!(!refused.status.success() && stderr(&refused).contains("The log ends at"), "{}", stderr(&refused));
    }
    for limit in ["-1", "NaN", "99999999999999999999999"] {
        let answer = instance.http(&format!("GET /api/events?limit={limit}"), &bearer, "");
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("limit") && answer.contains("hint"), "{answer}");
    }
    let body = r#"{"prompt":"x","budget":{"time_s":-5}}"#;
    let answer = instance.http("POST /api/runs", &bearer, body);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("budget.time_s"), "{answer}");
    let unknown = instance.http("POST /api/runs", &bearer, r#"{"prompt":"x","bogus":1}"#);
    assert!(unknown.starts_with("HTTP/1.1 400") && unknown.contains("`bogus`"), "{unknown}");
}

#[test]
fn a_run_that_waits_longer_than_its_time_is_given_up() {
    let instance = Instance::start_on(tempfile::tempdir().unwrap());
    let given_up = instance.choir(&["run", "anything", "--timeout", "1", "--json"]);
    assert_eq!(given_up.status.code(), Some(4), "{}", stderr(&given_up));
    assert!(stderr(&given_up).contains("after 1 s"), "{}", stderr(&given_up));
    let last: serde_json::Value = serde_json::from_str(stdout(&given_up).lines().last().unwrap()).unwrap();
    assert_eq!(last["prompt"], "anything", "{last}");
}

#[test]
fn a_run_that_is_followed_outlives_its_instance() {
    let instance = Instance::start(SCENARIO);
    // Waits for a yes, so that it is at work for as long as the test wants.
    let mut follower = choir(instance.directory.path());
    follower.args(["run", "make a file", "--plan-first"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    let mut told = BufReader::new(follower.stderr.take().unwrap()).lines().map(Result::unwrap);
    let run = told.next().unwrap();
    let id = run.strip_prefix("run ").unwrap_or_else(|| panic!("{run}")).to_owned();
    assert!(told.any(|line| line.contains("- [ ] terminal: make a file")), "the plan is shown");
    let (_, _, directory) = instance.stop();
    assert!(told.any(|line| line.contains("the connection is lost")));
    let again = Instance::start_on(directory);
    assert_eq!(again.api(&format!("POST /api/runs/{id}/resume"), &serde_json::json!({})).0, 202);
    let told: Vec<_> = told.collect();
    assert!(told.iter().any(|line| line == "terminal ok: made"), "{told:?}");
    let (status, mut said) = (follower.wait().unwrap(), String::new());
    follower.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((status.code(), said.trim()), (Some(0), "It says hello."), "{told:?}");
}

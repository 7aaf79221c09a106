//! A workspace that is too large for several tasks at once.

use crate::support::Instance;
use serde_json::{Value, json};
use std::io::{Read, Write};

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

/// The most memory that a process has ever had, in KiB.
/// The kernel counts for each processor and adds up now and then: a peak may even be a little lower when asked again.
fn peak_kib(pid: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Begins to put a file of so many bytes.
fn begin_upload(instance: &Instance, path: &str, size: usize) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(instance.authority()).unwrap();
    let (host, token) = (instance.authority(), instance.token("admin"));
    let head = format!("PUT /api/files?path={path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n");
    write!(stream, "{head}connection: close\r\ncontent-length: {size}\r\n\r\n").unwrap();
    stream
}

#[test]
fn a_large_upload_passes_through_control_without_being_held() {
    const PART: usize = 1 << 20;
    const PARTS: usize = 64;
    let instance = Instance::start(NO_MODEL);
    // The keeper stands before anything is measured.
    assert_eq!(instance.api("PUT /api/files?path=small", &json!(1)).0, 200);
    let before = peak_kib(instance.pid());
    let mut stream = begin_upload(&instance, "big", PART * PARTS);
    let part = vec![b'x'; PART];
    (0..PARTS).for_each(|_| stream.write_all(&part).unwrap());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let grown = peak_kib(instance.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "control grew by {grown} KiB over a file of {PARTS} MiB");
    let written = std::fs::metadata(instance.workspace().join("big")).unwrap().len();
    assert_eq!(written, (PART * PARTS) as u64);

    // One that breaks off in the middle changes nothing and leaves nothing behind.
    let mut broken = begin_upload(&instance, "big", PART * PARTS);
    broken.write_all(&part).unwrap();
    until(&instance, |names| names.len() == 3);
    drop(broken);
    until(&instance, |names| names == ["big", "small"]);
    assert_eq!(std::fs::metadata(instance.workspace().join("big")).unwrap().len(), written);
}

/// Waits until the workspace holds what is wanted.
fn until(instance: &Instance, wanted: impl Fn(&[String]) -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(instance.workspace()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        if wanted(&names) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{names:?}");
        std::thread::yield_now();
    }
}

/// What a task made of large files is had as a whole, while control and the computer hold no more than a part of it.
#[test]
fn the_whole_difference_of_a_task_is_applied_to_the_same_tree() {
    let instance = Instance::start(NO_MODEL);
    let size = 90 << 20;
    let before: Vec<u8> = (0..size).map(|at: usize| (at / 3 % 251) as u8).collect();
    std::fs::write(instance.workspace().join("big"), before).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(instance.workspace().join("big"), elsewhere.path().join("big")).unwrap();
    let result = instance.task(&commands(&["printf new >> big; echo small > small"]));
    assert_eq!(result["status"], "ok", "{}", result["summary"]);
    let content = result["diff"]["content"].as_str().unwrap();
    assert!(content.starts_with("This difference is not whole.") && content.len() < 2000, "{content:.300}");
    let whole = result["diff"]["whole"].as_str().unwrap();
    assert!(content.contains(whole), "{whole}");

    let processes = [instance.pid(), instance.computer()];
    let peaks = processes.map(peak_kib);
    let mut stream = std::net::TcpStream::connect(instance.authority()).unwrap();
    let (host, token) = (instance.authority(), instance.token("read"));
    write!(stream, "GET {whole} HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    for (process, before) in processes.into_iter().zip(peaks) {
        let grown = peak_kib(process).saturating_sub(before);
        assert!(grown < 16 << 10, "it grew by {grown} KiB over a difference of {} bytes", answer.len());
    }
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert!(answer.starts_with(b"HTTP/1.0 200 ") && answer.len() - body > size, "{}", answer.len());
    std::fs::write(elsewhere.path().join("patch"), &answer[body..]).unwrap();
    let git =
        std::process::Command::new("git").args(["apply", "patch"]).current_dir(elsewhere.path()).output().unwrap();
    assert!(git.status.success(), "{git:?}");
    for name in ["big", "small"] {
        let (made, live) = (elsewhere.path().join(name), instance.workspace().join(name));
        assert!(std::fs::read(made).unwrap() == std::fs::read(live).unwrap(), "{name} differs");
    }
    for (query, status) in [("from=x&to=y", 400), ("from=", 400), (&*format!("from={0}&to={0}", "0".repeat(64)), 404)] {
        assert_eq!(instance.api(&format!("GET /api/trees/diff?{query}"), &Value::Null).0, status, "{query}");
    }
}

#[test]
fn an_artifact_that_is_too_large_is_refused_like_every_other_body() {
    let instance = Instance::start(NO_MODEL);
    let headers = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("admin"));
    let answer = instance.http("POST /api/artifacts", &headers, &"x".repeat((64 << 20) + 1));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"), "{answer}");
}

/// Longer than what control reads whole, and than what a socket used to take.
const LONG_BYTES: usize = 20 << 20;

/// Adds an event of that length to a computer that is not running.
fn append_long(directory: &std::path::Path) {
    use choir_proto::event::{Actor, NewEvent, RunSteered};
    let event = RunSteered { text: "x".repeat(LONG_BYTES) }.into();
    let (id, at) = ("01890a5d-ac96-774b-bcce-b302099a8052".parse().unwrap(), choir_proto::Timestamp(0));
    let event = NewEvent { id, at, actor: Actor::Person, run: None, task: None, cause: None, event };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = choir_store::Log::open(directory).unwrap();
        log.append(vec![event], choir_store::Expect::Any).await.unwrap();
        log.close().await;
    });
}

#[test]
fn a_long_event_goes_through_the_stream_of_whoever_catches_up() {
    use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest, protocol::WebSocketConfig};
    let instance = Instance::start(NO_MODEL);
    let computer = instance.workspace().parent().unwrap().to_owned();
    let (_, _, directory) = instance.stop();
    append_long(&computer);
    let instance = Instance::start_on(directory);
    let head = instance.events().last().unwrap()["seq"].as_u64().unwrap();

    let mut request = format!("ws://{}/api/stream?after=0", instance.authority()).into_client_request().unwrap();
    let token = instance.token("read");
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let stream = std::net::TcpStream::connect(instance.authority()).unwrap();
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let (mut socket, _) = tungstenite::client::client_with_config(request, stream, Some(config)).unwrap();
    let mut lengths = Vec::new();
    while (lengths.len() as u64) < head {
        if let tungstenite::Message::Text(line) = socket.read().unwrap() {
            lengths.push(line.len());
        }
    }
    assert!(lengths.iter().any(|length| *length > LONG_BYTES), "{lengths:?}");
}

#[test]
fn much_output_of_many_commands_is_in_their_logs_and_not_in_one_event() {
    let instance = Instance::start(NO_MODEL);
    let much = ["head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2"; 40];
    let result = instance.task(&commands(&much));
    assert_eq!(result["status"], "ok", "{}", result["summary"]);
    let shown = |command: &Value| command["stdout"].as_str().unwrap().len() + command["stderr"].as_str().unwrap().len();
    let results = result["commands"].as_array().unwrap();
    assert_eq!(results.iter().map(shown).sum::<usize>(), 1 << 20);
    assert_eq!((&results[0]["truncated"], &results[39]["truncated"]), (&json!(false), &json!(true)));
    let log = results[39]["log"].as_str().unwrap();
    let answer = instance.http(
        &format!("GET /api/blobs/{log}"),
        &format!("authorization: Bearer {}\r\n", instance.token("read")),
        "",
    );
    let (_, kept) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(kept.len(), 2 * 65536, "the log has all of it");
}

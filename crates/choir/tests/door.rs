//! The owner's door: the command line reaches the instance that holds the data, and nobody else.

use crate::support::{Instance, choir, stderr, stdout};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

const SCENARIO: &str = r#"{"roles": {"conductor": [{"tool_calls": [
    {"name": "answer", "arguments": {"text": "yes"}}, {"name": "finish", "arguments": {"summary": "done"}}]}]}}"#;

#[test]
fn what_a_killed_instance_left_behind_is_not_believed() {
    let mut instance = Instance::start(SCENARIO);
    instance.token("read");
    let events = stdout(&instance.choir(&["events", "--json"]));
    let first: serde_json::Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    let address = instance.authority().to_owned();
    rustix::process::kill_process(instance.pid(), rustix::process::Signal::KILL).unwrap();
    instance.wait();
    let thief = TcpListener::bind(&address).unwrap();
    thief.set_nonblocking(true).unwrap();

    let at_rest = instance.choir(&["events", "--json"]);
    assert!(at_rest.status.success() && stdout(&at_rest).starts_with(&events), "{}", stderr(&at_rest));
    let refused = instance.choir(&["run", "say yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("choir up"), "{}", stderr(&refused));
    let listed = stdout(&instance.choir(&["token", "list"]));
    let revoked = instance.choir(&["token", "revoke", listed.split_whitespace().next().unwrap()]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    let erased = instance.choir(&["erase", first["id"].as_str().unwrap()]);
    assert!(erased.status.success(), "{}", stderr(&erased));
    let listed = stdout(&instance.choir(&["events"]));
    assert!(listed.lines().next().unwrap().ends_with("  erased"), "{listed}");
    let sign_in = instance.choir(&["token", "sign-in"]);
    assert_eq!((sign_in.status.code(), stdout(&sign_in).as_str()), (Some(1), ""));
    assert_eq!(thief.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody came to whoever listens there");
}

#[test]
fn the_command_line_needs_no_token_and_leaves_none() {
    let instance = Instance::start(SCENARIO);
    for arguments in [&["run", "say yes"][..], &["events"], &["events", "--json"]] {
        let done = instance.choir(arguments);
        assert!(done.status.success(), "{}", stderr(&done));
    }
    assert_eq!(stdout(&instance.choir(&["token", "list"])), "");
    let narrow = choir(instance.directory.path())
        .env("CHOIR_TOKEN", instance.token("read"))
        .args(["run", "say yes"])
        .output()
        .unwrap();
    assert!(!narrow.status.success() && stderr(&narrow).contains("scope"), "a token that is shown is what counts");
}

#[test]
fn a_directory_with_a_long_name_has_a_door() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("l".repeat(200));
    let mut child =
        Killed(choir(&data).args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap());
    child.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let events = choir(&data).args(["events"]).output().unwrap();
    assert!(events.status.success() && stdout(&events).contains("computer.started"), "{}", stderr(&events));
}

#[test]
fn many_connections_do_not_lock_the_owner_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -Sn 100 && ulimit -Hn 400 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_choir")]);
    shell.args(["up", "--listen", "127.0.0.1:0"]).env("CHOIR_DATA", directory.path()).stdout(Stdio::piped());
    let mut child = Killed(shell.spawn().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.0.stdout.take().unwrap()), &mut line).unwrap();
    let address = line.trim().strip_prefix("ready http://").unwrap().split('/').next().unwrap();
    // More than there is room for, and more than the soft limit was.
    let idle: Vec<TcpStream> = (0..250).map(|_| TcpStream::connect(address).unwrap()).collect();
    // One that is closed without a word may see a reset.
    let mut late = TcpStream::connect(address).unwrap();
    write!(late, "GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok();
    let mut answer = String::new();
    late.read_to_string(&mut answer).ok();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let events = choir(directory.path()).args(["events"]).output().unwrap();
    assert!(events.status.success(), "{}", stderr(&events));
    assert_eq!(idle.len(), 250);
}

/// A process that does not outlive its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

//! A `choir` to call, and one that runs.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tempfile::TempDir;

/// A call of the binary on a data directory, with none of the tester's own settings.
pub(crate) fn choir(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_choir"));
    for variable in ["CHOIR_LISTEN", "CHOIR_CONFIG", "CHOIR_URL", "CHOIR_TOKEN", "CHOIR_LOG", "CHOIR_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command.env("CHOIR_DATA", data).stdin(Stdio::null());
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A running instance; killed with its owner.
pub(crate) struct Instance {
    pub(crate) directory: TempDir,
    pub(crate) url: String,
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Instance {
    /// Starts on an empty directory, with a scenario for a model.
    pub(crate) fn start(scenario: &str) -> Self {
        Self::start_on(scripted(scenario))
    }

    /// Starts with a scenario and more configuration.
    pub(crate) fn start_with(scenario: &str, config: &str) -> Self {
        Self::start_with_environment(scenario, config, &[])
    }

    /// The same, with variables.
    pub(crate) fn start_with_environment(scenario: &str, config: &str, variables: &[(&str, &str)]) -> Self {
        let directory = scripted(scenario);
        let path = directory.path().join("choir.toml");
        let whole = std::fs::read_to_string(&path).unwrap() + config;
        std::fs::write(&path, whole).unwrap();
        let mut command = choir(directory.path());
        command.envs(variables.iter().copied());
        Self::start_by(command, directory)
    }

    pub(crate) fn start_on(directory: TempDir) -> Self {
        Self::start_by(choir(directory.path()), directory)
    }

    /// Starts with a log of everything in a file.
    pub(crate) fn start_traced(scenario: &str, log: std::fs::File) -> Self {
        let directory = scripted(scenario);
        let mut command = choir(directory.path());
        command.env("CHOIR_LOG", "trace").stderr(log);
        Self::start_by(command, directory)
    }

    /// Starts with its log in a pipe.
    pub(crate) fn start_piped(scenario: &str) -> (Self, BufReader<std::process::ChildStderr>) {
        let directory = scripted(scenario);
        let mut command = choir(directory.path());
        command.stderr(Stdio::piped());
        let mut instance = Self::start_by(command, directory);
        let log = BufReader::new(instance.child.stderr.take().unwrap());
        (instance, log)
    }

    /// Starts through a program that calls it, on an empty directory.
    pub(crate) fn start_within(mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        command.env("CHOIR_DATA", directory.path()).stdin(Stdio::null());
        Self::start_by(command, directory)
    }

    pub(crate) fn start_by(mut command: Command, directory: TempDir) -> Self {
        let mut child = command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line:?}")).trim().to_owned();
        Self { directory, url, child, stdout }
    }

    pub(crate) fn choir(&self, arguments: &[&str]) -> Output {
        choir(self.directory.path()).args(arguments).output().unwrap()
    }

    /// The address alone, as HOST:PORT.
    pub(crate) fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    /// A fresh token.
    pub(crate) fn token(&self, scope: &str) -> String {
        stdout(&self.choir(&["token", "create", "--scope", scope])).trim().to_owned()
    }

    /// One request; the answer as it came.
    pub(crate) fn http(&self, line: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        let head = format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}", self.authority());
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// One request of a program; status and answer.
    pub(crate) fn api(&self, line: &str, body: &Value) -> (u16, Value) {
        let token = stdout(&self.choir(&["token", "create", "--scope", "admin"])).trim().to_owned();
        let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.http(line, &headers, &body);
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Gives a task and waits for its result.
    pub(crate) fn task(&self, request: &Value) -> Value {
        let id = self.begin_task(request);
        self.follow(|event| event["kind"] == "task.finished" && event["task"] == id.as_str());
        self.api(&format!("GET /api/tasks/{id}"), &Value::Null).1
    }

    /// Gives a task; its id.
    pub(crate) fn begin_task(&self, request: &Value) -> String {
        let (status, accepted) = self.api("POST /api/tasks", request);
        assert_eq!(status, 202, "{accepted}");
        accepted["task_id"].as_str().unwrap().to_owned()
    }

    /// Reads the log from its beginning until an event is the wanted one.
    pub(crate) fn follow(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut follower = choir(self.directory.path());
        let mut follower = follower.args(["events", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
        let found = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).find(|event| wanted(event));
        follower.kill().unwrap();
        follower.wait().unwrap();
        found.expect("the log goes on until it is followed no longer")
    }

    /// Every event so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = stdout(&self.choir(&["events", "--json"]));
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for a question and decides it; the question.
    pub(crate) fn decide(&self, decision: &str, scope: &str) -> Value {
        let decided: Vec<Value> = self.events().into_iter().filter(|event| event["kind"] == "inbox.decided").collect();
        let is_open = |event: &Value| {
            event["kind"] == "inbox.asked"
                && !decided.iter().any(|done| done["payload"]["inbox_id"] == event["payload"]["inbox_id"])
        };
        let found = self.follow(|event| is_open(event) || event["kind"] == "task.finished");
        assert_eq!(found["kind"], "inbox.asked", "it ended without a question: {found}");
        let asked = found["payload"].clone();
        let id = asked["inbox_id"].as_str().unwrap();
        let body = serde_json::json!({"decision": decision, "scope": scope, "hash": asked["hash"]});
        let (status, answer) = self.api(&format!("POST /api/inbox/{id}"), &body);
        assert!(status < 300, "{answer}");
        // What is decided is in the log before anybody asks for the next one.
        self.follow(|event| event["kind"] == "inbox.decided" && event["payload"]["inbox_id"] == id);
        asked
    }

    /// The live workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        let computers = std::fs::read_dir(self.directory.path().join("computers")).unwrap();
        let ids: Vec<_> = computers.map(|entry| entry.unwrap().path()).collect();
        ids[0].join("workspace")
    }

    /// Waits for its end, which somebody else has caused.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process of the computer.
    pub(crate) fn computer(&self) -> Pid {
        children(self.pid()).into_iter().find(|pid| command_line(*pid).contains("computer")).expect("a computer")
    }

    /// Ends it in order; its status, and whatever it printed after the first line.
    pub(crate) fn stop(mut self) -> (ExitStatus, String, TempDir) {
        rustix::process::kill_process(self.pid(), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        (status, rest, directory)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A data directory whose model plays a scenario.
fn scripted(scenario: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("scenario.json"), scenario).unwrap();
    let config = "[providers.tour]\nkind = \"scripted\"\nscript = \"scenario.json\"\n";
    std::fs::write(directory.path().join("choir.toml"), config).unwrap();
    directory
}

fn children(parent: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())).unwrap();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).ok());
    let text: String = lists.collect();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

fn command_line(pid: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Something that ends when a process does.
pub(crate) fn watch(pid: Pid) -> rustix::fd::OwnedFd {
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Whether a watched process ends within so many seconds.
pub(crate) fn ends_within(process: &rustix::fd::OwnedFd, seconds: i64) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&limit)).unwrap() == 1
}

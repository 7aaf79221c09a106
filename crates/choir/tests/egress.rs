//! The way out of a task, from `POST /api/tasks` to the events: what is named is reached, and no other spelling of
//! anything is.

use crate::support::Instance;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Hosts as somebody would write them who wants another one to be read. `{port}` is the port of a server on this machine
/// that the person allowed by one spelling.
const SPELLINGS: [&str; 31] = [
    "127.1:{port}",
    "127.0.1:{port}",
    "2130706433:{port}",
    "0x7f000001:{port}",
    "0x7f.0.0.1:{port}",
    "0177.0.0.1:{port}",
    "017700000001:{port}",
    "127.0.0.1.:{port}",
    "127.0.0.1%00:{port}",
    "127.0.0.01:{port}",
    "localhost:{port}",
    "LOCALHOST:{port}",
    "localhost.:{port}",
    "localhost.localdomain:{port}",
    "0.0.0.0:{port}",
    "0:{port}",
    "[::1]:{port}",
    "[::]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[::ffff:7f00:1]:{port}",
    "[0:0:0:0:0:ffff:127.0.0.1]:{port}",
    "127.0.0.1:0{port}",
    "127.0.0.1:+{port}",
    "user@127.0.0.1:{port}",
    "user:pass@127.0.0.1:{port}",
    "127.0.0.1:{port}@example.org:443",
    "example.org:443@127.0.0.1:{port}",
    "%31%32%37.0.0.1:{port}",
    "127.0.0.1#:{port}",
    "xn--127-0-0-1:{port}",
    "http://127.0.0.1:{port}/",
];

/// Where secrets of machines are told, private networks, and names that look like allowed ones.
const OTHERS: [&str; 18] = [
    "169.254.169.254:80",
    "169.254.170.2:80",
    "[fd00:ec2::254]:80",
    "[fe80::1]:80",
    "100.100.100.200:80",
    "metadata.google.internal:80",
    "metadata:80",
    "10.0.0.1:443",
    "172.16.0.1:443",
    "192.168.0.1:443",
    "100.64.0.1:443",
    "224.0.0.1:443",
    "255.255.255.255:443",
    "crates.io:80",
    "evilcrates.io:443",
    "index.crates.io.example.org:443",
    "example.org:443",
    "8.8.8.8:53",
];

/// Ways that do not ask at all; each must end without a connection.
const UNASKED: [(&str, &str); 9] = [
    ("tcp to the allowed server", "exec 4<>/dev/tcp/127.0.0.1/{port}"),
    ("tcp to elsewhere", "exec 4<>/dev/tcp/169.254.169.254/80"),
    ("tcp over ipv6", "exec 4<>/dev/tcp/::1/{port}"),
    ("a name server by udp", "exec 4<>/dev/udp/8.8.8.8/53 && echo x >&4"),
    ("a name server by tcp", "exec 4<>/dev/tcp/8.8.8.8/53"),
    ("a name", "timeout 5 getent hosts example.org"),
    ("no proxy for anything", "no_proxy='*' NO_PROXY='*' timeout 5 curl -sS http://127.0.0.1:{port}/"),
    ("another proxy", "https_proxy=http://127.0.0.1:{port} timeout 5 curl -sS https://example.org/"),
    (
        "a redirecting resolver",
        "timeout 5 curl -sS --resolve crates.io:443:127.0.0.1 --noproxy '*' https://crates.io:443/",
    ),
];

/// A function for the shell inside: asks the way out, and prints the status.
const ASK: &str = r#"ask() { exec 3<>"/dev/tcp/127.0.0.1/${https_proxy##*:}" || { echo none; return; }
    printf '%s HTTP/1.1\r\nhost: x\r\n\r\n' "$1" >&3; IFS= read -r -t 20 line <&3; exec 3>&-; set -- $line; echo "${2:-none}"; }"#;

/// A server that counts who comes.
struct Canary {
    port: u16,
    visits: Arc<AtomicU32>,
}

fn canary() -> Canary {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, visits) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
    let counted = visits.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            stream.write_all(b"secret\n").ok();
        }
    });
    Canary { port, visits }
}

fn instance(port: u16) -> Instance {
    let directory = tempfile::tempdir().unwrap();
    let config = format!("[egress]\nceiling = [\"127.0.0.1:{port}\", \"git\", \"registries\"]\n");
    std::fs::write(directory.path().join("choir.toml"), config).unwrap();
    Instance::start_on(directory)
}

/// Runs lines of bash in a task of its own; what they print, and the task's id.
fn run(instance: &Instance, lines: &[String], allow: Option<&[&str]>) -> (Vec<String>, String) {
    let script = format!("{ASK}\n{}", lines.join("\n"));
    let command = format!("bash -c '{}'", script.replace('\'', r"'\''"));
    let mut request = json!({"kind": "run", "instruction": "reach out", "commands": [command]});
    if let Some(allow) = allow {
        request["egress"] = json!({ "allow": allow });
    }
    let result = instance.task(&request);
    let said = result["commands"][0]["stdout"].as_str().unwrap_or_else(|| panic!("{result}"));
    (said.lines().map(str::to_owned).collect(), result["task_id"].as_str().unwrap().to_owned())
}

/// What the log says about a task's attempts, by kind and host, once it has heard of one that was denied. They are told in
/// their order, but nobody waits for that.
fn attempts_until(instance: &Instance, task: &str, host: &str) -> BTreeSet<(String, String)> {
    let last = |event: &Value| event["kind"] == "egress.denied" && event["payload"]["host"] == host;
    instance.follow(|event| event["task"] == task && last(event));
    let (_, page) = instance.api("GET /api/events?limit=1000", &Value::Null);
    let events = page["events"].as_array().unwrap().iter().filter(|event| event["task"] == task);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = events.filter(|event| text(&event["kind"]).starts_with("egress."));
    attempts.map(|event| (text(&event["kind"]), text(&event["payload"]["host"]))).collect()
}

#[test]
fn only_what_is_named_is_reached_however_it_is_spelt() {
    let canary = canary();
    let instance = instance(canary.port);
    let allowed = format!("127.0.0.1:{}", canary.port);
    let spell = |text: &&str| text.replace("{port}", &canary.port.to_string());
    let asked: Vec<String> = SPELLINGS.iter().chain(&OTHERS).map(spell).collect();
    let mut lines = vec![format!("ask 'CONNECT {allowed}'")];
    lines.extend(asked.iter().map(|host| format!("ask 'CONNECT {host}'")));
    let plain =
        ["http://{}/", "http://169.254.169.254/latest/meta-data/", "http://broker/github.com/a/b/git-receive-pack"];
    lines.extend(plain.iter().map(|url| format!("ask 'GET {}'", url.replace("{}", &allowed))));
    lines.push("ask 'BREW pot'".into());
    let (said, task) = run(&instance, &lines, Some(&[&allowed, "registries"]));
    assert_eq!(said.len(), lines.len(), "{said:?}");
    assert_eq!(said[0], "200", "the control: what is allowed is reached");
    for (line, status) in lines.iter().zip(&said).skip(1) {
        assert!(status == "403" || status == "400", "{line}: {status}");
    }
    assert_eq!(canary.visits.load(Ordering::SeqCst), 1, "nobody came but who was allowed to");

    let attempts = attempts_until(&instance, &task, "broker");
    let denied = attempts.iter().filter(|(kind, _)| kind == "egress.denied").count();
    assert!(attempts.contains(&("egress.allowed".into(), "127.0.0.1".into())), "{attempts:?}");
    assert!(attempts.contains(&("egress.denied".into(), "169.254.169.254".into())), "{attempts:?}");
    // Some spell the same host twice; every other one is told by itself.
    assert!(denied >= asked.len() * 3 / 4, "{denied} of {}: {attempts:?}", asked.len());
}

#[test]
fn a_task_that_cannot_be_is_refused_with_a_reason_and_the_log_knows() {
    let instance = instance(1);
    let asked = |more: Value| {
        let mut request = json!({"kind": "run", "instruction": "x", "commands": ["true"]});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        instance.api("POST /api/tasks", &request)
    };
    for wish in ["*", "example.org", "everything", "0.0.0.0/0", "user@example.org:443"] {
        let (status, said) = asked(json!({"egress": {"allow": ["registries", wish]}}));
        assert_eq!((status, &said["error"]["code"]), (400, &json!("impossible_egress")), "{wish}: {said}");
        assert!(said["error"]["message"].as_str().unwrap().contains(wish), "{said}");
    }
    let (status, said) = asked(json!({"allowed_tools": ["sing"]}));
    assert_eq!((status, &said["error"]["code"]), (400, &json!("unknown_tool")), "{said}");
    let refused = |event: &Value| event["kind"] == "request.refused";
    let told = instance.follow(refused);
    assert_eq!(
        (&told["payload"]["reason"], &told["payload"]["path"]),
        (&json!("impossible_task"), &json!("/api/tasks"))
    );
    let (status, _) = asked(json!({"egress": {"allow": ["registries", "127.0.0.1:1"]}}));
    assert_eq!(status, 202, "the control: what can be is taken on");
}

#[test]
fn who_does_not_ask_reaches_nothing() {
    let canary = canary();
    let instance = instance(canary.port);
    let allowed = format!("127.0.0.1:{}", canary.port);
    let attempt = |(name, act): &(&str, &str)| {
        let act = act.replace("{port}", &canary.port.to_string());
        // A program that is not there (127) has not tried.
        format!(
            "( {act} ) > /tmp/said 2>/dev/null; status=$?; grep -q secret /tmp/said && status=0
            case $status in 0) echo 'leak: {name}';; 127) echo 'not tried: {name}';; *) echo sealed;; esac"
        )
    };
    let lines: Vec<String> = UNASKED.iter().map(attempt).collect();
    let (said, _) = run(&instance, &lines, Some(&[&allowed]));
    assert!(said.len() == lines.len() && said.iter().all(|line| line == "sealed"), "{said:?}");
    assert_eq!(canary.visits.load(Ordering::SeqCst), 0);
}

#[test]
fn what_one_task_may_is_nothing_to_the_next() {
    let canary = canary();
    let instance = instance(canary.port);
    let allowed = format!("127.0.0.1:{}", canary.port);
    let connect = [format!("ask 'CONNECT {allowed}'")];
    assert_eq!(run(&instance, &connect, Some(&[&allowed])).0, ["200"]);
    let (said, task) = run(&instance, &connect, None);
    assert_eq!(said, ["403"], "the default profiles do not hold what the task before was allowed");
    attempts_until(&instance, &task, "127.0.0.1");
    let none =
        ["echo \"proxy=$https_proxy\"".to_owned(), format!("https_proxy=http://x:3128; ask 'CONNECT {allowed}'")];
    let (said, _) = run(&instance, &none, Some(&[]));
    assert_eq!(said, ["proxy=", "none"], "an empty list is no network at all");
    assert_eq!(canary.visits.load(Ordering::SeqCst), 1);
}

/// A line as git writes it: its length first.
fn packet(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// All of a request before its body.
fn head_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A place of repositories that shows them to whoever brings the right credential, and repeats a wrong one. Answers with its
/// address and with every first line that it was asked.
fn repositories(authorization: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<String>>>::default());
    let told = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head = head_of(&mut stream);
            told.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
            let shown = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
            let name = "1234567890123456789012345678901234567890";
            let (status, body) = match (shown == authorization, head.contains("/closed/")) {
                (true, false) => {
                    let refs =
                        packet(&format!("{name} HEAD\0agent=test\n")) + &packet(&format!("{name} refs/heads/main\n"));
                    ("200 OK", format!("{}0000{refs}0000", packet("# service=git-upload-pack\n")))
                }
                _ => ("403 Forbidden", format!("you said {shown}")),
            };
            let kind = "application/x-git-upload-pack-advertisement";
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n"
            );
            write!(stream, "{head}\r\n{body}").ok();
        }
    });
    (address, asked)
}

/// What opens a place of repositories is attached outside: the task fetches, and finds it nowhere.
#[test]
fn a_credential_is_attached_outside_of_the_sandbox() {
    let token = "canary-0123456789abcdef-4711";
    // `me:` and the token, in base 64.
    let pair = "bWU6Y2FuYXJ5LTAxMjM0NTY3ODlhYmNkZWYtNDcxMQ==";
    let (address, asked) = repositories(format!("Basic {pair}"));
    let config = format!(
        "[broker.acme]\nurl = \"http://{address}/acme/\"\ntoken_env = \"ACME_TOKEN\"\nuser = \"me\"\n\
         [broker.none]\nurl = \"http://{address}/none/\"\ntoken_env = \"NO_SUCH_TOKEN\"\n"
    );
    let instance = Instance::start_with_environment(
        r#"{"roles": {"conductor": [{"text": "hm"}]}}"#,
        &config,
        &[("ACME_TOKEN", token)],
    );
    let whole = |line: &str| {
        let request = format!("{line} HTTP/1.1\\r\\nhost: broker\\r\\nconnection: close\\r\\n\\r\\n");
        format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"{request}\" >&3; cat <&3'")
    };
    let commands = [
        format!("git ls-remote http://{address}/acme/r"),
        whole("GET http://broker/acme/closed/r/info/refs?service=git-upload-pack"),
        format!("git ls-remote http://{address}/none/r || true"),
        whole("POST http://broker/acme/r/git-receive-pack"),
        "env; cat /proc/1/environ || true".to_owned(),
    ];
    let result = instance.task(&json!({"kind": "run", "instruction": "fetch", "commands": commands}));
    assert_eq!(result["status"], "ok", "{result}");
    let said = |at: usize| result["commands"][at]["stdout"].as_str().unwrap();
    assert!(said(0).contains("refs/heads/main"), "{result}");
    let refused = |at: usize| said(at).strip_prefix("HTTP/1.1 403 ").and_then(|rest| rest.split("\r\n\r\n").nth(1));
    assert_eq!(refused(1), Some(""), "what a refusal says may repeat what was shown: {result}");
    let missing = result["commands"][2]["stderr"].as_str().unwrap();
    assert!(missing.contains("403"), "{missing}");
    assert!(refused(3).is_some_and(|said| said.contains("only fetching is allowed")), "{result}");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "the one that is open, the one that is closed: {asked:?}");
    let everything = format!("{result} {:?}", instance.events());
    assert!(!everything.contains(token) && !everything.contains(pair), "{everything}");
    let host = address.split(':').next().unwrap();
    let allowed = |event: &Value| event["kind"] == "egress.allowed" && event["payload"]["host"] == host;
    assert_eq!(instance.follow(allowed)["payload"]["rule"], "git");
}

/// Whoever may reach a host by its name is not led to the broker, which would not let it through.
#[test]
fn git_is_led_to_the_broker_only_where_that_is_open() {
    let instance = instance(1);
    let settings = |allow: &[&str]| {
        let (said, _) = run(&instance, &["env | grep -c ^GIT_CONFIG_ || true".to_owned()], Some(allow));
        said[0].clone()
    };
    assert_eq!(settings(&["127.0.0.1:1"]), "0");
    assert_eq!(settings(&["git"]), "9");
}

/// As programs ask by themselves: they find the way in their variables, and send http:// to it whole.
#[test]
fn a_host_that_speaks_plain_http_is_reached_by_the_usual_programs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let asked = head_of(&mut stream).lines().next().unwrap_or_default().to_owned();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{asked}", asked.len()).ok();
        }
    });
    let instance = instance(port);
    let allowed = format!("127.0.0.1:{port}");
    let python = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let lines = [
        format!("curl -sS http://{allowed}/curl?x=1; echo"),
        format!("python3 -c '{python}' http://{allowed}/python"),
        "curl -sS -o /dev/null -w '%{http_code}\n' http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("curl -sS -o /dev/null -w '%{{http_code}}\n' -H 'Host: other.example' http://{allowed}/"),
    ];
    let (said, task) = run(&instance, &lines, Some(&[&allowed]));
    assert_eq!(said, ["GET /curl?x=1 HTTP/1.1", "GET /python HTTP/1.1", "403", "403"]);
    let attempts = attempts_until(&instance, &task, "127.0.0.1");
    assert!(attempts.contains(&("egress.allowed".into(), "127.0.0.1".into())), "{attempts:?}");
    assert!(attempts.contains(&("egress.denied".into(), "169.254.169.254".into())), "{attempts:?}");
}

//! The way out of a task, from `POST /api/tasks` to the events: what is named is reached, and no other spelling of
//! anything is.

use crate::support::Instance;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
        format!("( {act} ) > /tmp/said 2>/dev/null; grep -q secret /tmp/said && echo 'leak: {name}' || echo sealed")
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

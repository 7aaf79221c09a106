//! The way out: what a task may reach, what it may not, and that both are known.

use crate::sandboxes::{ask, asked, at, contains, exec};
use crate::support::World;
use crate::support::computer::FakeComputer;
use choir_control::config::{Config, Egress};
use choir_proto::inbox::{AskKind, Waits};
use choir_proto::wire::{AssociateFinished, AssociateStarted};
use http::{Method, StatusCode};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

/// A server that answers every line with itself.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.ok();
            });
        }
    });
    address
}

async fn world(ceiling: &[&str]) -> World {
    let ceiling = ceiling.iter().map(ToString::to_string).collect();
    World::with(Config { egress: Egress { ceiling }, ..Config::default() }, FakeComputer::default()).await
}

async fn start(world: &World, allow: &[&str]) -> AssociateStarted {
    let body = serde_json::json!({ "egress": { "allow": allow } }).to_string();
    asked(world, Method::PUT, &at(""), body).await
}

async fn decide(world: &World, question: &Waits, word: &str, scope: &str) {
    let path = format!("/api/inbox/{}", question.id);
    let body = serde_json::json!({"decision": word, "hash": question.hash, "scope": scope}).to_string();
    let answer = world.browser().await.json(Method::POST, &path, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.value());
}

#[tokio::test]
async fn what_a_person_allows_is_reached_without_asking_again() {
    let address = echo().await;
    let world = world(&[]).await;
    let waits = start(&world, &[&address]).await.waits;
    decide(&world, &waits[0], "approve", "always").await;
    assert!(start(&world, &[&address]).await.waits.is_empty());
    let (line, _) = connect(&world, &format!("CONNECT {address}")).await;
    assert!(line.contains("200"), "{line}");
}

#[tokio::test]
async fn a_lowered_ceiling_reaches_the_ways_out_that_are_open() {
    let address = echo().await;
    let world = world(&[&address]).await;
    start(&world, &[&address]).await;
    let asks = format!("CONNECT {address}");
    assert!(connect(&world, &asks).await.0.contains("200"));
    let browser = world.browser().await;
    let settings = async |ceiling: &[&str]| {
        let change = serde_json::json!({ "egress": { "ceiling": ceiling } }).to_string();
        let answer = browser.json(Method::PUT, "/api/settings", change).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.value());
    };
    settings(&[]).await;
    assert!(connect(&world, &asks).await.0.contains("403"), "no longer");
    settings(&[&address]).await;
    assert!(connect(&world, &asks).await.0.contains("200"), "again");
}

fn socket(world: &World) -> Option<PathBuf> {
    let mut sockets = std::fs::read_dir(world.directory.path().join("control/egress")).unwrap();
    sockets.next().map(|socket| socket.unwrap().path())
}

/// Asks as a program inside would; the first line of the answer.
async fn connect(world: &World, request: &str) -> (String, UnixStream) {
    let mut stream = UnixStream::connect(socket(world).unwrap()).await.unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap().lines().next().unwrap().to_owned(), stream)
}

#[tokio::test]
async fn an_allowed_host_is_reached_recorded_and_let_go_with_the_task() {
    let address = echo().await;
    let world = world(&[&address]).await;
    start(&world, &[&address]).await;
    let (line, mut stream) = connect(&world, &format!("CONNECT {address}")).await;
    assert!(line.contains("200"), "{line}");
    stream.write_all(b"hello\n").await.unwrap();
    let mut back = [0; 6];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello\n");
    world.computer.told_that("/internal/record", |body| contains(body, b"egress.allowed")).await;

    assert_eq!(ask(&world, Method::DELETE, &at(""), "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(stream.read(&mut back).await.unwrap_or(0), 0, "a connection of a task ends with the task");
    assert_eq!(socket(&world), None);
}

#[tokio::test]
async fn everything_else_is_refused_and_recorded() {
    let (address, other) = (echo().await, echo().await);
    let world = world(&[&address, "localhost:1", "registries"]).await;
    start(&world, &[&address, "registries"]).await;
    let port = address.rsplit_once(':').unwrap().1;
    let attempts = [
        format!("CONNECT {other}"),
        format!("CONNECT localhost:{port}"),
        format!("CONNECT 127.1:{port}"),
        format!("CONNECT 2130706433:{port}"),
        format!("CONNECT [::ffff:127.0.0.1]:{port}"),
        format!("CONNECT user@127.0.0.1:{port}"),
        "CONNECT 169.254.169.254:80".into(),
        "CONNECT evil.crates.io:443".into(),
        format!("GET http://{address}/"),
        "GET http://broker/github.com/a/b/info/refs?service=git-upload-pack".into(),
    ];
    for attempt in attempts {
        let (line, _) = connect(&world, &attempt).await;
        assert!(line.contains("403") || line.contains("400"), "{attempt}: {line}");
    }
    let denied = |body: &[u8]| {
        contains(body, b"egress.denied") && contains(body, other.as_bytes().split(|b| *b == b':').next().unwrap())
    };
    world.computer.told_that("/internal/record", denied).await;
    let finished: AssociateFinished = asked(&world, Method::POST, &at("/finish"), r#"{"merge":true}"#).await;
    for refused in [other.as_str(), "169.254.169.254:80", "evil.crates.io:443"] {
        assert!(finished.refused.iter().any(|found| found == refused), "{refused}: {:?}", finished.refused);
    }
}

#[tokio::test]
async fn a_wish_that_nobody_could_allow_starts_no_sandbox() {
    let world = world(&["git"]).await;
    for wish in ["*", "no port", "everything", "0.0.0.0/0"] {
        let body = serde_json::json!({ "egress": { "allow": ["git", wish] } }).to_string();
        let (status, said) = ask(&world, Method::PUT, &at(""), body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wish}");
        assert!(contains(&said, b"impossible_egress") && contains(&said, wish.as_bytes()), "{wish}");
    }
    assert_eq!(socket(&world), None);
    assert!(start(&world, &["git"]).await.base_tree.is_some(), "the control: what can be is begun");
}

#[tokio::test]
async fn a_wish_above_the_ceiling_is_recorded_and_gives_no_way_out() {
    let world = world(&["git"]).await;
    let waits = start(&world, &["example.org:443"]).await.waits;
    let [question] = &waits[..] else { panic!("one question: {waits:?}") };
    assert_eq!((question.kind, question.subject.as_str()), (AskKind::Egress, "example.org:443"));
    assert_eq!(ask(&world, Method::POST, &at("/exec"), "{}").await.0, StatusCode::BAD_REQUEST);
    let again = start(&world, &["example.org:443"]).await.waits;
    assert_eq!(again, waits, "it is asked once");
    decide(&world, question, "deny", "once").await;
    assert!(start(&world, &["example.org:443"]).await.waits.is_empty());
    assert_eq!(socket(&world), None);
    let apart = |body: &[u8]| contains(body, br#""example.org""#) && contains(body, b"443") && contains(body, b"above");
    world.computer.told_that("/internal/record", apart).await;
    let (said, _) = exec(&world, "e1", "echo \"proxy=$https_proxy\"").await;
    assert_eq!(said, "proxy=\n");
    let finished: AssociateFinished = asked(&world, Method::POST, &at("/finish"), r#"{"merge":true}"#).await;
    assert_eq!(finished.refused, ["example.org:443"], "its result says what it went without");
}

#[tokio::test]
async fn a_program_inside_gets_out_through_the_proxy_alone() {
    let address = echo().await;
    let world = world(&[&address]).await;
    start(&world, &[&address]).await;
    let (host, port) = address.rsplit_once(':').unwrap();
    let ask = format!(
        "exec 3<>/dev/tcp/127.0.0.1/${{https_proxy##*:}}; printf 'CONNECT {address} HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n' >&3; \
         head -n 1 <&3 | tr -d '\\r'; (exec 4<>/dev/tcp/{host}/{port}) 2>/dev/null && echo leak || echo sealed"
    );
    let (said, _) = exec(&world, "e1", &format!("bash -c '{}'", ask.replace('\'', "'\\''"))).await;
    assert_eq!(said, "HTTP/1.1 200 OK\nsealed\n");
}

//! Too much, too often, too large.

use crate::support::World;
use crate::support::http::Client;
use choir_control::db::Scope;
use choir_control::http::{Front, JSON_BYTES_MAX, serve};
use choir_control::stop::{Stopper, stop};
use http::{Method, StatusCode};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

#[tokio::test]
async fn strangers_are_slowed_down_and_the_owner_is_not() {
    let world = World::start().await;
    let browser = world.browser().await;
    let mut answers = Vec::new();
    for guess in 0..330 {
        // Forwarding headers do not make another peer of anybody.
        let client = world.client().header("x-forwarded-for", format!("10.0.{}.{}", guess / 256, guess % 256));
        answers.push(client.header("authorization", format!("Bearer {guess}")).get("/api/settings").await);
    }
    let slowed = answers.iter().find(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS).expect("a limit");
    assert_eq!(slowed.code(), "too_many_requests");
    assert!(slowed.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::OK, "the owner is not locked out");
    let path = format!("/?token={}", world.fresh_sign_in().await.expose());
    assert_eq!(world.client().get(&path).await.status, StatusCode::SEE_OTHER, "a right token is not a guess");
}

/// Whoever looks at what can be done without a token hears the same of every operation.
#[tokio::test]
async fn a_walk_over_the_whole_api_without_a_token_is_not_slowed_down() {
    let world = World::start().await;
    let described: serde_json::Value = serde_json::from_str(include_str!("../generated/openapi.json")).unwrap();
    let paths = described["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/api/"));
    let operations =
        paths.flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |method| (method, path)));
    let operations: Vec<_> = operations.filter(|(method, _)| *method != "parameters").collect();
    assert!(operations.len() > 60, "{operations:?}");
    for (method, path) in operations {
        let method: Method = method.to_uppercase().parse().unwrap();
        let path = path.replace(['{', '}'], "");
        let status = world.client().json(method.clone(), &path, "{}").await.status;
        assert!(status != StatusCode::TOO_MANY_REQUESTS && status.is_client_error(), "{method} {path}: {status}");
    }
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let world = World::start().await;
    let browser = world.browser().await;
    let fits = vec![b' '; JSON_BYTES_MAX];
    assert_eq!(browser.json(Method::POST, "/api/echo", fits).await.status, StatusCode::OK);
    let large = vec![b' '; JSON_BYTES_MAX + 1];
    for path in ["/api/echo", "/api/settings"] {
        let method = if path == "/api/echo" { Method::POST } else { Method::PUT };
        let answer = browser.json(method, path, large.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "too_large"), "{path}");
    }
}

/// A simple client sends everything before it listens; what it is told must not be lost over that.
#[tokio::test]
async fn who_sends_far_too_much_still_hears_why_it_was_refused() {
    let world = World::start().await;
    let token = world.client_with(Scope::Admin).await;
    let body = vec![b'x'; 32 << 20];
    for (proof, code, status) in [(token.head(), "too_large", 413), (world.client().head(), "not_signed_in", 401)] {
        let framed = format!("content-length: {}\r\n\r\n", body.len());
        let head = format!("POST /api/echo HTTP/1.1\r\ncontent-type: application/json\r\n{proof}{framed}");
        let answer = token.raw(&[head.as_bytes(), &body].concat()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && refusal(&answer) == code, "{answer}");
    }
}

#[tokio::test]
async fn large_heads_are_refused() {
    let world = World::start().await;
    let answer = world.client().header("x-large", "x".repeat(64 << 10)).get("/health").await;
    let said = (answer.status, answer.code());
    assert_eq!(said, (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large".into()));
}

#[tokio::test]
async fn an_address_that_is_too_long_is_refused_as_such() {
    let world = World::start().await;
    for length in [20 << 10, 64 << 10, 1 << 20] {
        let long = format!("GET /health?{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(length));
        let answer = world.client().raw(long.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 414 ") && refusal(&answer) == "uri_too_long", "{length}: {answer}");
    }
}

#[tokio::test]
async fn chunks_that_are_none_are_said_to_be_so() {
    let world = World::start().await;
    let client = world.client_with(Scope::Admin).await;
    for path in ["PUT /api/settings", "POST /api/echo", "PUT /api/files?path=a"] {
        let head = format!("{path} HTTP/1.1\r\n{}content-type: application/json\r\n", client.head());
        let body = "transfer-encoding: chunked\r\nconnection: close\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n";
        let answer = client.raw(format!("{head}{body}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("chunks of the body"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_an_array_is_told_what_is_wanted() {
    let world = World::start().await;
    let browser = world.client_with(Scope::Admin).await;
    for (method, path) in [(Method::POST, "/api/runs"), (Method::POST, "/api/echo"), (Method::PUT, "/api/settings")] {
        let answer = browser.json(method, path, br#" ["one", null]"#.to_vec()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(answer.value()["error"]["message"].as_str().unwrap().contains("takes an object"), "{path}");
    }
}

#[tokio::test]
async fn an_account_that_asks_too_often_waits_and_others_do_not() {
    let world = World::with_account_burst(3).await;
    let eager = world.client_with(Scope::Read).await;
    for _ in 0..3 {
        assert_eq!(eager.get("/api/echo").await.status, StatusCode::OK);
    }
    let slowed = eager.get("/api/echo").await;
    assert_eq!((slowed.status, slowed.code().as_str()), (StatusCode::TOO_MANY_REQUESTS, "too_many_requests"));
    assert_eq!(eager.upgrade("/api/stream?after=0").await.err(), Some(StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(world.client_with(Scope::Read).await.get("/api/echo").await.status, StatusCode::OK);
}

/// A front without anything behind it.
async fn front(connections_max: usize) -> (SocketAddr, Stopper, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = UnixListener::bind(directory.path().join("door")).unwrap();
    let (stopper, stop) = stop();
    let router = axum::Router::new().route("/", axum::routing::get(async || "served"));
    tokio::spawn(serve(Front { listener, door: Some(door), router, connections_max, stop }));
    (address, stopper, directory)
}

#[tokio::test]
async fn without_room_one_is_told_at_once_and_the_owner_gets_in() {
    // One in eight is for those who are told.
    let (address, _stopper, directory) = front(16).await;
    let mut idle = Vec::new();
    for _ in 0..14 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        idle.push(stream);
    }
    let refused = Client::new(address).get("/").await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "no_room"));
    let mut owner = tokio::net::UnixStream::connect(directory.path().join("door")).await.unwrap();
    owner.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    owner.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("served"), "{answer}");
}

/// Half a request, and what is heard of it in a minute. Time that stands still goes on to the next timer as soon as nobody has
/// anything to do, also while bytes are on their way: the server's must be the only one.
async fn drip(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let (begun, mut answer) = (tokio::time::Instant::now(), Vec::new());
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(60), "it is held for more than a minute");
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_cut_off_with_a_word() {
    let (address, _stopper, _directory) = front(16).await;
    let answer = drip(address, b"GET / HTTP/1.1\r\nhost:").await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && refusal(&answer) == "too_slow", "{answer}");
    assert_eq!(drip(address, b"").await, "", "who said nothing is told nothing");
    let idle = drip(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(idle.ends_with("served"), "an idle connection is closed without a word: {idle}");
}

/// The code of the refusal that an answer ends with.
fn refusal(answer: &str) -> String {
    let body = answer.rsplit_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}")).1;
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    let error = &value["error"];
    assert!(!error["message"].as_str().unwrap().is_empty() && !error["hint"].as_str().unwrap().is_empty(), "{answer}");
    error["code"].as_str().unwrap().to_owned()
}

/// On a new connection and on one that was used, alone or right behind another request.
#[tokio::test]
async fn what_is_no_request_is_refused_in_the_one_shape() {
    let (address, _stopper, _directory) = front(16).await;
    let good = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let many: String = (0..100).map(|number| format!("x-{number}: y\r\n")).collect();
    let cases = [
        ("nonsense\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET /\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET / HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET /\u{7f} HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400, "bad_request"),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned(), 400, "bad_request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET / HTTP/1.1\r\nhost: x\r\nbroken\r\n\r\n".to_owned(), 400, "bad_request"),
        ("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n".to_owned(), 400, "bad_request"),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), 431, "head_too_large"),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000)), 414, "uri_too_long"),
    ];
    for (bytes, status, code) in cases {
        for before in [0, 1, 3] {
            let answer = Client::new(address).raw(format!("{}{bytes}", good.repeat(before)).as_bytes()).await;
            assert_eq!(answer.matches("served").count(), before, "{bytes:?}: {answer}");
            let last = answer.rfind("HTTP/1.1 ").unwrap_or_else(|| panic!("{bytes:?}: {answer:?}"));
            assert!(answer[last..].starts_with(&format!("HTTP/1.1 {status} ")), "{bytes:?}: {answer}");
            assert_eq!(refusal(&answer), code, "{bytes:?}");
        }
    }
}

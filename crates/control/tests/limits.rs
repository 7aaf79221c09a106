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
    for guess in 0..60 {
        // Forwarding headers do not make another peer of anybody.
        let client = world.client().header("x-forwarded-for", format!("10.0.0.{guess}"));
        answers.push(client.header("authorization", format!("Bearer {guess}")).get("/api/settings").await);
    }
    let slowed = answers.iter().find(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS).expect("a limit");
    assert_eq!(slowed.code(), "too_many_requests");
    assert!(slowed.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(browser.get("/api/settings").await.status, StatusCode::OK, "the owner is not locked out");
    let path = format!("/?token={}", world.fresh_sign_in().await.expose());
    assert_eq!(world.client().get(&path).await.status, StatusCode::SEE_OTHER, "a right token is not a guess");
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

#[tokio::test]
async fn large_heads_are_refused() {
    let world = World::start().await;
    let answer = world.client().header("x-large", "x".repeat(64 << 10)).get("/health").await;
    assert_eq!(answer.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
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

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_cut_off() {
    let (address, _stopper, _directory) = front(16).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "it is held for more than a minute");
}

//! What is wrong is refused with its name, in one shape, and nothing else happens.

use crate::support::World;
use choir_control::db::Scope;
use futures_util::SinkExt;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn the_field_that_is_wrong_is_named_by_its_path() {
    let world = World::start().await;
    let browser = world.browser().await;
    for (body, named, code) in [
        (r#"{"budget":{"usd_per_run":"many"}}"#, "`budget.usd_per_run`", "bad_field"),
        (r#"{"budget":{"usd_per_run":"many"}}"#, "expected a number", "bad_field"),
        (r#"{"budget":7}"#, "expected an object", "bad_field"),
        (r#"{"models":{"roles":{"writer":7}}}"#, "`models.roles", "bad_field"),
        (r#"{"models":{"roles":{"poet":"a/b"}}}"#, "poet", "bad_field"),
        (r#"{"egress":{"ceiling":["git",5]}}"#, "`egress.ceiling[1]`", "bad_field"),
        (r#"{"egress":{"ceiling":[],"floor":[]}}"#, "unknown field `floor`", "bad_field"),
        (r#"{} {}"#, "trailing", "bad_json"),
        (r#"{"budget""#, "not what this request takes: EOF", "bad_json"),
        (r#"{"budget": {nope}"#, "takes at `budget`: key", "bad_json"),
        ("[]", "an array", "bad_field"),
        ("null", "The body is `null`", "bad_field"),
        ("7", "a number", "bad_field"),
        ("nothing", "expected", "bad_json"),
        ("", "EOF", "bad_json"),
    ] {
        let answer = browser.json(Method::PUT, "/api/settings", body).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, code), "{body}");
        let message = answer.value()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(named), "{body}: {message}");
    }
}

#[tokio::test]
async fn queries_and_ids_that_make_no_sense_are_refused_in_the_one_shape() {
    let world = World::start().await;
    let browser = world.browser().await;
    for path in [
        "/api/stream?after=-1",
        "/api/stream?after=NaN",
        "/api/stream?after=99999999999999999999",
        "/api/stream?from=1",
        "/api/files?path=a&path=b",
        "/api/files/list?paht=a",
        "/api/plain",
    ] {
        let answer = browser.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, "bad_field"), "{path}");
    }
    assert!(browser.get("/api/stream?from=1").await.value()["error"]["message"].as_str().unwrap().contains("`from`"));
    for path in ["/api/terminals/nope", "/api/terminals/%ff", "/api/terminals/..", "/api/terminals/%00"] {
        let answer = browser.send(Method::DELETE, path, Default::default()).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"), "{path}");
    }
    let answer = browser.json(Method::PUT, "/api/providers/%ff", "{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_arrives() {
    let world = World::start().await;
    let token = world.client_with(Scope::Admin).await;
    for (method, path) in [("PUT", "/api/settings"), ("POST", "/api/echo"), ("PUT", "/api/files?path=a")] {
        let head =
            format!("{method} {path} HTTP/1.1\r\ncontent-length: 9999999999\r\ncontent-type: application/json\r\n");
        let answer = token.raw(format!("{head}{}connection: close\r\n\r\n", token.head()).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn an_upgrade_whose_key_is_none_is_refused() {
    let world = World::start().await;
    let client = world.client_with(Scope::Read).await;
    for (key, status) in
        [("AAAAAAAAAAAAAAAAAAAAAA==", 101), ("x", 400), ("", 400), ("AAAAAAAAAAAAAAAAAAAAAAAAAAAA", 400)]
    {
        let head =
            "GET /api/stream HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
        let head = format!("{head}sec-websocket-key: {key}\r\n{}\r\n", client.head());
        let mut stream = TcpStream::connect(world.control.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes(), "{key}");
    }
}

#[tokio::test]
async fn a_frame_that_is_too_long_or_broken_is_answered_with_its_code() {
    let world = World::start().await;
    let client = world.client_with(Scope::Read).await;
    let mut long = client.upgrade("/api/stream?after=0").await.unwrap();
    // The server may be gone before the last byte has left.
    long.0.send(Message::Text("x".repeat(8 << 10).into())).await.ok();
    assert_eq!(long.next().await.unwrap_err().code, 1009);

    let mut garbled = client.upgrade("/api/stream?after=0").await.unwrap();
    {
        use tokio::io::AsyncWriteExt;
        let stream = garbled.0.get_mut();
        stream.write_all(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff]).await.unwrap();
    }
    assert_eq!(garbled.next().await.unwrap_err().code, 1007);

    let mut unmasked = client.upgrade("/api/stream?after=0").await.unwrap();
    {
        use tokio::io::AsyncWriteExt;
        unmasked.0.get_mut().write_all(&[0x81, 0x02, b'h', b'i']).await.unwrap();
    }
    assert_eq!(unmasked.next().await.unwrap_err().code, 1002);
}

#[tokio::test]
async fn two_requests_in_one_are_never_taken_for_two() {
    let world = World::start().await;
    let client = world.client_with(Scope::Run).await;
    let hidden = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", world.control.address);
    for framing in [
        "content-length: 2\r\ncontent-length: 40",
        "content-length: +2",
        "content-length: -2",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding : chunked",
        "content-length: 5\r\ntransfer-encoding: chunked",
        "content-length: 2\r\n x: folded",
    ] {
        let head = format!("POST /api/echo HTTP/1.1\r\n{}{framing}\r\n\r\n", client.head());
        let answer = client.raw(format!("{head}0\r\n\r\n{hidden}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{framing}: {answer}");
        assert!(!answer.contains("components"), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn packed_bodies_are_refused() {
    let world = World::start().await;
    let admin = world.client_with(Scope::Admin).await;
    for (method, path) in
        [(Method::POST, "/api/echo"), (Method::PUT, "/api/settings"), (Method::PUT, "/api/files?path=a")]
    {
        for encoding in ["gzip", "identity, br", "zstd"] {
            let answer = admin.header("content-encoding", encoding).json(method.clone(), path, "{}").await;
            let said = (answer.status, answer.code());
            assert_eq!(said, (StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoded".into()), "{path} {encoding}");
        }
    }
    assert_eq!(admin.header("content-encoding", "identity").json(Method::POST, "/api/echo", "{}").await.status, 200);
}

#[tokio::test]
async fn a_model_that_nobody_offers_is_named() {
    let world = World::start().await;
    let admin = world.client_with(Scope::Admin).await;
    let added = admin.json(Method::PUT, "/api/providers/openai", r#"{"key":"sk-test"}"#).await;
    assert_eq!(added.status, StatusCode::NO_CONTENT);
    for (method, path, body, named) in [
        (Method::PUT, "/api/settings", r#"{"models":{"default":"nope/x"}}"#, "`models.default` is `nope/x`"),
        (Method::PUT, "/api/settings", r#"{"models":{"default":"openai"}}"#, "`models.default` is `openai`"),
        (Method::PUT, "/api/settings", r#"{"models":{"roles":{"writer":"no/x"}}}"#, "`models.roles.writer` is `no/x`"),
        (Method::POST, "/api/runs", r#"{"prompt":"a","model":"nope/x"}"#, "`model` is `nope/x`"),
        (Method::POST, "/api/runs", r#"{"prompt":"a","model":""}"#, "`model` is ``"),
    ] {
        let answer = admin.json(method, path, body).await;
        let message = answer.value()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == StatusCode::BAD_REQUEST && message.contains(named), "{body}: {message}");
    }
    let good = admin.json(Method::PUT, "/api/settings", r#"{"models":{"default":"openai/gpt"}}"#).await;
    assert_eq!(good.status, StatusCode::OK);
    let cleared = admin.json(Method::PUT, "/api/settings", r#"{"models":{"default":""}}"#).await;
    assert_eq!(cleared.status, StatusCode::OK);
}

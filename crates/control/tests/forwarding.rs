//! What passes between a browser and a computer, and what stays behind.

use crate::support::World;
use crate::support::computer::FakeComputer;
use choir_control::db::Scope;
use http::{Method, StatusCode};

#[tokio::test]
async fn the_computer_learns_who_asks_and_nothing_that_proves_it() {
    let world = World::start().await;
    let browser = world.browser().await.header("x-choir-actor", "control").header("x-forwarded-for", "1.2.3.4");
    let value = browser.json(Method::POST, "/api/echo", r#"{"a":1}"#).await.value();
    assert_eq!(
        (value["actor"].as_str(), value["method"].as_str(), value["bytes"].as_u64()),
        (Some("person"), Some("POST"), Some(7))
    );
    let headers: Vec<&str> = value["headers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for secret in ["cookie", "authorization", "x-forwarded-for", "host", "origin"] {
        assert!(!headers.contains(&secret), "{headers:?}");
    }
}

#[tokio::test]
async fn a_computer_cannot_set_cookies_on_our_origin() {
    let world = World::start().await;
    let answer = world.browser().await.get("/api/echo").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!((answer.header("set-cookie"), answer.header("clear-site-data")), ("", ""));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn what_the_computer_does_not_know_is_not_found() {
    let world = World::start().await;
    assert_eq!(world.browser().await.get("/api/unknown").await.status, StatusCode::NOT_FOUND);
    let internal = world.browser().await.get("/internal/health").await;
    assert_eq!(internal.status, StatusCode::NOT_FOUND, "the inside is not reachable from outside");
}

#[tokio::test]
async fn health_shows_the_parts_and_the_computer_cannot_paint_over_ours() {
    let world = World::start().await;
    let health = world.client().get("/health").await;
    let value = health.value();
    assert_eq!((health.status, value["status"].as_str()), (StatusCode::OK, Some("ok")), "{value}");
    assert_eq!(value["components"]["control"]["status"], "ok");
    assert_eq!(value["components"]["log"]["status"], "ok");
    assert_eq!(value["components"]["models"]["status"], "off");
}

#[tokio::test]
async fn a_computer_that_dies_is_started_again_and_the_stream_goes_on() {
    let world = World::with(Default::default(), FakeComputer::with_events(3)).await;
    let client = world.client_with(Scope::Run).await;
    let mut socket = client.upgrade("/api/stream?after=0").await.unwrap();
    assert_eq!(socket.events(3).await, [1, 2, 3]);
    world.computer.die();
    world.computer.append(2);
    assert_eq!(socket.events(2).await, [4, 5], "nothing was lost between two lives");
    assert_eq!(client.get("/api/echo").await.status, StatusCode::OK);
    let health = world.client().get("/health").await.value();
    assert!(health["components"]["computer"]["detail"].as_str().unwrap().contains("restarted 1"), "{health}");
}

/// It is longer than what is read whole, live, by whoever catches up, and when control looks whether it is still there.
#[tokio::test]
async fn a_long_event_reaches_every_reader_and_a_computer_that_ends_with_it_is_started_again() {
    const LONG: usize = 20 << 20;
    let world = World::with(Default::default(), FakeComputer::with_events(2)).await;
    let client = world.client_with(Scope::Run).await;
    let mut live = client.upgrade("/api/stream?after=2").await.unwrap();
    world.computer.append_of(LONG);
    assert_eq!(live.events(1).await, [3]);
    world.computer.die();
    world.computer.append(1);
    assert_eq!(live.events(1).await, [4], "the signed event was found again");
    let mut late = client.upgrade("/api/stream?after=0").await.unwrap();
    assert_eq!(late.events(4).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn the_computer_is_told_to_stop_before_control_ends() {
    let world = World::start().await;
    let computer = world.computer.clone();
    world.control.stop().await;
    computer.told("/internal/shutdown").await;
}

#[tokio::test]
async fn the_description_names_controls_routes() {
    let world = World::start().await;
    let value = world.browser().await.get("/api/openapi.json").await.value();
    for path in ["/health", "/api/settings", "/api/providers/{name}", "/api/stream", "/api/session"] {
        assert!(value["paths"][path].is_object(), "{path}");
    }
}

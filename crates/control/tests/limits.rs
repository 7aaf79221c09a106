//! Too much, too often, too large.

use crate::support::World;
use choir_control::http::JSON_BYTES_MAX;
use http::{Method, StatusCode};

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

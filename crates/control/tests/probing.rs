//! Whether a provider answers, as a person is told who asks.

use crate::support::World;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};

const KEY: &str = "sk-good-0123456789abcdef0123";

/// A provider of which the list is open to everybody, or is not there at all. The right key is needed for questions alone.
async fn provider(has_list: bool) -> String {
    let answer = async move |request: Request| -> Response {
        let is_known = request.headers().get("authorization").is_some_and(|key| key == &format!("Bearer {KEY}"));
        match (request.uri().path(), has_list, is_known) {
            ("/v1/models", true, _) => r#"{"data":[{"id":"tiny"}]}"#.into_response(),
            ("/v1/models", false, _) => StatusCode::NOT_FOUND.into_response(),
            (_, _, true) => "data: [DONE]\n\n".into_response(),
            (_, _, false) => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    url
}

#[tokio::test]
async fn a_test_tells_a_wrong_key_from_a_right_one_with_a_list_and_without() {
    for has_list in [true, false] {
        let url = provider(has_list).await;
        let world = World::start().await;
        let browser = world.browser().await;
        for (key, is_right) in [("sk-wrong-0123456789abcdef012", false), (KEY, true)] {
            let body = format!(r#"{{"kind":"openai","base_url":"{url}","key":"{key}"}}"#);
            browser.json(Method::PUT, "/api/providers/mine", body).await;
            let tested = browser.send(Method::POST, "/api/providers/mine/test", Default::default()).await.value();
            assert_eq!(tested["ok"], is_right, "with a list: {has_list}: {tested}");
            assert!(!tested.to_string().contains(key), "{tested}");
        }
    }
}

#[tokio::test]
async fn settings_can_be_put_back_as_they_were_read_and_what_is_only_shown_not_otherwise() {
    let world = World::start().await;
    let browser = world.browser().await;
    let mut read = browser.get("/api/settings").await.value();
    let put = async |settings: &serde_json::Value| {
        let answer = browser.json(Method::PUT, "/api/settings", settings.to_string()).await;
        (answer.status, answer.value())
    };
    assert_eq!(put(&read).await, (StatusCode::OK, read.clone()));
    read["models"]["available"] = true.into();
    let (status, refused) = put(&read).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(refused["error"]["message"].as_str().unwrap().contains("`models.available`"), "{refused}");
}

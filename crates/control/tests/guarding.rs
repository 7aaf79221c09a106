//! Other sites, other names, other methods.

use crate::sandboxes::contains;
use crate::support::World;
use choir_control::db::Refusals;
use http::{Method, StatusCode};

#[tokio::test]
async fn a_foreign_host_is_refused_everywhere() {
    let world = World::start().await;
    let browser = world.browser().await;
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
        let client = browser.header("host", host);
        for path in ["/", "/health", "/api/settings", "/control.css"] {
            let answer = client.get(path).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (StatusCode::MISDIRECTED_REQUEST, "wrong_host"),
                "{path}"
            );
        }
        assert_eq!(client.upgrade("/api/stream?after=0").await.err(), Some(StatusCode::MISDIRECTED_REQUEST));
    }
    let port = world.control.address.port();
    assert_eq!(browser.header("host", format!("localhost:{port}")).get("/health").await.status, StatusCode::OK);
}

#[tokio::test]
async fn another_site_with_the_victims_cookie_gets_nothing() {
    let world = World::start().await;
    let browser = world.browser().await;
    let ours = format!("http://{}", world.control.address);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", &ours.replace("http", "https")] {
        let foreign = browser.header("origin", origin);
        assert_eq!(foreign.upgrade("/api/stream?after=0").await.err(), Some(StatusCode::FORBIDDEN), "{origin}");
        let answer = foreign.json(Method::POST, "/api/echo", "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "foreign_origin"), "{origin}");
    }
    let same = browser.header("origin", ours).header("sec-fetch-site", "same-origin");
    assert!(same.upgrade("/api/stream?after=0").await.is_ok());
    assert_eq!(same.json(Method::POST, "/api/echo", "{}").await.status, StatusCode::OK);
}

/// What the log was told of refused requests.
async fn told_of(world: &World, reason: &str) {
    let (kind, reason) = (br#""request.refused""#, format!(r#""{reason}""#));
    world
        .computer
        .told_that("/internal/record", |body| contains(body, kind) && contains(body, reason.as_bytes()))
        .await;
}

#[tokio::test]
async fn whoever_is_refused_is_noted_here_and_in_the_log_without_filling_either() {
    let world = World::start().await;
    let browser = world.browser().await;
    let foreign = browser.header("origin", "http://evil.example");
    assert_eq!(foreign.upgrade("/api/terminals/1?token=secret").await.err(), Some(StatusCode::FORBIDDEN));
    told_of(&world, "foreign_origin").await;
    assert_eq!(browser.header("host", "evil.example").get("/api/runs").await.status, StatusCode::MISDIRECTED_REQUEST);
    told_of(&world, "wrong_host").await;
    let absent = "/api/terminals/01890a5d-ac96-774b-bcce-b302099a8052";
    assert_eq!(browser.send(Method::DELETE, absent, Default::default()).await.status, StatusCode::NOT_FOUND);
    told_of(&world, "unknown_id").await;
    for number in 0..100 {
        foreign.header("origin", format!("http://{number}.example")).get("/api/runs").await;
    }
    let told = world.computer.all_told();
    let records = told.iter().filter(|(path, body)| path == "/internal/record" && contains(body, b"request.refused"));
    assert_eq!(records.clone().count(), 3, "one of each kind");
    assert!(!records.into_iter().any(|(_, body)| contains(body, b"secret")), "what was asked is not quoted");
    let db = world.db();
    assert_eq!(db.refusals().await.unwrap(), Refusals { told: 3, count: 3 });
    world.control.stop().await;
    assert_eq!(db.refusals().await.unwrap(), Refusals { told: 4, count: 103 }, "the rest is told in the end");
}

#[tokio::test]
async fn simple_content_types_are_no_json() {
    let world = World::start().await;
    let browser = world.browser().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        for path in ["/api/echo", "/api/settings"] {
            let method = if path == "/api/echo" { Method::POST } else { Method::PUT };
            let answer = browser.header("content-type", kind).send(method, path, "{}".into()).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json"),
                "{kind}"
            );
        }
    }
    assert_eq!(
        browser.send(Method::POST, "/api/echo", Default::default()).await.status,
        StatusCode::OK,
        "no body, no type"
    );
}

#[tokio::test]
async fn pages_and_answers_carry_their_policies() {
    let world = World::start().await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    let policy = page.header("content-security-policy");
    for part in ["default-src 'self'", "object-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"), "{policy}");
    assert!(!policy.contains("http") && !policy.contains('*'), "nothing is loaded from elsewhere: {policy}");
    let api = browser.get("/api/echo").await;
    assert!(api.header("content-security-policy").contains("sandbox"));
    for answer in [page, api, world.client().get("/").await, world.client().get("/api/settings").await] {
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        // The desktop's own page holds nothing of anybody's and may be kept, but never shown without asking first.
        assert!(["no-store", "no-cache"].contains(&answer.header("cache-control")));
    }
    for private in [browser.get("/api/echo").await, world.client().get("/api/settings").await] {
        assert_eq!(private.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn every_refusal_has_the_same_shape() {
    let world = World::start().await;
    let browser = world.browser().await;
    let missing = browser.get("/nothing").await;
    assert_eq!((missing.status, missing.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    let method = browser.json(Method::POST, "/api/settings", "{}").await;
    assert_eq!((method.status, method.code().as_str()), (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"));
    let method = browser.json(Method::POST, "/health", "{}").await;
    assert_eq!((method.status, method.code().as_str()), (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"));
    let field = browser.json(Method::PUT, "/api/settings", r#"{"budgett":{}}"#).await;
    assert_eq!(field.status, StatusCode::BAD_REQUEST);
    assert!(field.value()["error"]["message"].as_str().unwrap().contains("budgett"));
    let broken = browser.json(Method::PUT, "/api/settings", "{").await;
    assert_eq!((broken.status, broken.code().as_str()), (StatusCode::BAD_REQUEST, "bad_json"));
    let query = browser.get("/api/stream?after=x").await;
    assert_eq!((query.status, query.code().as_str()), (StatusCode::BAD_REQUEST, "bad_field"));
}

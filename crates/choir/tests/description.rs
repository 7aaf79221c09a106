//! The whole description of the API, as the product serves it, does not change silently.

use crate::support::Instance;
use std::path::Path;

/// Set it to write the file anew after a change that was meant.
const RENEW: &str = "CHOIR_RENEW";

fn served() -> serde_json::Value {
    let instance = Instance::start(r#"{"roles": {"conductor": [{"text": "hm"}]}}"#);
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("read"));
    let answer = instance.http("GET /api/openapi.json", &bearer, "");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_description_is_what_is_checked_in() {
    let served = served();
    let text = format!("{served:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control/generated/openapi.json");
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, &text).expect("the checked-in file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "openapi.json differs. If that is meant: {RENEW}=1 cargo test -p choir description");

    let paths = served["paths"].as_object().unwrap();
    for path in [
        "/health",
        "/api/runs",
        "/api/runs/{id}/steer",
        "/api/tasks",
        "/api/events",
        "/api/stream",
        "/api/documents/{id}",
        "/api/files",
        "/api/terminals/{id}",
        "/api/inbox/{id}",
        "/api/settings",
        "/api/supervision",
        "/api/blobs/{hash}",
        "/api/schemas/{name}",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    // Every reference leads somewhere.
    let schemas = served["components"]["schemas"].as_object().unwrap();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "the schema `{name}` is missing");
    }
    // What changes something says what it takes.
    for (path, item) in paths {
        for method in ["put", "post"] {
            let takes_nothing = ["/cancel", "/pause", "/resume", "/test", "/erase", "/undo", "/checkpoints"];
            if item[method].is_object() && !takes_nothing.iter().any(|end| path.ends_with(end)) {
                assert!(item[method]["requestBody"].is_object(), "{method} {path} does not say what it takes");
            }
        }
    }
}

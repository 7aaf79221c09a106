//! Two computers: what one has, the other does not even know of.

use crate::support::Instance;
use serde_json::{Value, json};

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "hm"}]}}"#;

/// An answer without what is different in every answer.
fn said(instance: &Instance, bearer: &str, line: &str) -> String {
    let answer = instance.http(line, bearer, "");
    answer.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_only_another_computer_has_is_like_what_nobody_has() {
    let (ours, theirs) = (Instance::start(SCENARIO), Instance::start(SCENARIO));
    let bearer = |instance: &Instance| {
        format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", instance.token("admin"))
    };
    let (our_bearer, their_bearer) = (bearer(&ours), bearer(&theirs));
    let uploaded =
        theirs.http("POST /api/artifacts", &their_bearer.replace("application/json", "text/plain"), "only theirs");
    let artifact: Value = serde_json::from_str(uploaded.split_once("\r\n\r\n").unwrap().1).unwrap();
    let (_, document) = theirs.api("POST /api/documents", &json!({"title": "Theirs", "content": "private"}));
    let (_, run) = theirs.api("POST /api/runs", &json!({"prompt": "theirs"}));
    let hash = theirs.follow(|event| event["kind"] == "artifact.imported")["payload"]["content_hash"].clone();
    let things = [
        ("/api/blobs/", hash.as_str().unwrap(), "0".repeat(64)),
        ("/api/artifacts/", artifact["artifact_id"].as_str().unwrap(), "01890a5d-ac96-774b-bcce-b302099a8052".into()),
        ("/api/documents/", document["document_id"].as_str().unwrap(), "01890a5d-ac96-774b-bcce-b302099a8052".into()),
        ("/api/runs/", run["run_id"].as_str().unwrap(), "01890a5d-ac96-774b-bcce-b302099a8052".into()),
    ];
    for (route, theirs_alone, nobodys) in things {
        let known = theirs.http(&format!("GET {route}{theirs_alone}"), &their_bearer, "");
        assert!(known.starts_with("HTTP/1.1 200"), "{route}: {known}");
        for method in ["GET", "HEAD", "DELETE", "PUT", "POST"] {
            let foreign = said(&ours, &our_bearer, &format!("{method} {route}{theirs_alone}"));
            let unknown = said(&ours, &our_bearer, &format!("{method} {route}{nobodys}"));
            assert_eq!(foreign, unknown, "{method} {route}");
            assert!(foreign.starts_with("HTTP/1.1 4"), "{method} {route}: {foreign}");
        }
    }
    let noted = ours.follow(|event| event["kind"] == "request.refused");
    assert_eq!((&noted["payload"]["reason"], &noted["actor"]), (&json!("unknown_id"), &json!("control")));
    // Neither does their proof open our door.
    let answer = ours.http("GET /api/runs", &their_bearer, "");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

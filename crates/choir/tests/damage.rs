//! A computer whose disk has a bad spot.

use crate::support::{Instance, choir, stderr};
use serde_json::json;
use std::path::Path;

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "Nothing to do."}]}}"#;

const PAGE_BYTES: usize = 8192;

/// Overwrites the first page in which these words stand.
fn damage_page_with(file: &Path, words: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(words.len()).position(|window| window == words.as_bytes()).unwrap();
    bytes[at / PAGE_BYTES * PAGE_BYTES..][..PAGE_BYTES].fill(0xad);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn one_bad_page_takes_away_what_is_in_it_and_nothing_else() {
    let instance = Instance::start(SCENARIO);
    for number in 0..40 {
        let document = json!({"title": format!("Page {number}"), "content": format!("words-{number} ").repeat(60)});
        assert_eq!(instance.api("POST /api/documents", &document).0, 201);
    }
    let (_, _, data) = instance.stop();
    let computer = std::fs::read_dir(data.path().join("computers")).unwrap().next().unwrap().unwrap().path();
    damage_page_with(&computer.join("log.sqlite"), "words-15 ");
    let index = std::fs::read(computer.join("index.sqlite")).unwrap();
    let rebuilt = choir(data.path()).arg("rebuild").output().unwrap();
    assert!(!rebuilt.status.success() && stderr(&rebuilt).contains("cannot be read"), "{}", stderr(&rebuilt));
    assert_eq!(std::fs::read(computer.join("index.sqlite")).unwrap(), index, "it knows more than the log does now");
    // Nothing derived is left, as after an erasure.
    for name in ["index.sqlite", "views.sqlite", "search.sqlite"] {
        std::fs::remove_file(computer.join(name)).unwrap();
    }

    let instance = Instance::start_on(data);
    assert_eq!(instance.api("POST /api/documents", &json!({"title": "After it"})).0, 201);
    let documents = instance.api("GET /api/documents?limit=100", &json!(null)).1["documents"].as_array().unwrap().len();
    assert!((30..41).contains(&documents), "{documents}");
    let log = instance.api("GET /health", &json!(null)).1["components"]["log"].clone();
    assert!(log["status"] == "degraded" && log["detail"].as_str().unwrap().contains("cannot be read"), "{log}");

    let (mut after, mut holes) = (0, Vec::new());
    loop {
        let (status, page) = instance.api(&format!("GET /api/events?after={after}&limit=20"), &json!(null));
        if status == 500 {
            assert_eq!(page["error"]["code"], "damaged", "{page}");
            let hint = page["error"]["hint"].as_str().unwrap().strip_prefix("Go on with after=").unwrap().to_owned();
            let beyond = hint.split(';').next().unwrap().parse().unwrap();
            holes.push((after + 1, beyond));
            after = beyond;
            continue;
        }
        let places: Vec<u64> =
            page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        if places.is_empty() {
            break;
        }
        assert!(places.iter().copied().eq(after + 1..=after + places.len() as u64), "{after}: {places:?}");
        after = *places.last().unwrap();
    }
    assert_eq!(holes.len(), 1, "{holes:?}");
    let (status, _, _) = instance.stop();
    assert!(status.success());
}

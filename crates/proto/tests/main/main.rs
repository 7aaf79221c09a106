//! What is promised to the outside does not change silently: the descriptions are checked in and compared.
#![cfg(feature = "schema")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod golden;

use choir_proto::schema;
use choir_proto::task::{TaskRequest, TaskResult};
use std::path::Path;

/// Set it to write the files anew after a change that was meant.
const RENEW: &str = "CHOIR_RENEW";

#[test]
fn descriptions_are_what_is_checked_in() {
    let pretty = |value: &serde_json::Value| format!("{value:#}\n");
    let generated = [
        ("task_request.json", pretty(&schema::standalone::<TaskRequest>())),
        ("task_result.json", pretty(&schema::standalone::<TaskResult>())),
        ("events.json", pretty(&schema::events())),
        ("types.ts", schema::typescript(&schema::api())),
    ];
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    for (name, text) in generated {
        let path = directory.join(name);
        if std::env::var_os(RENEW).is_some() {
            std::fs::write(&path, &text).expect("the checked-in files can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{name} differs from the types. If that is meant: {RENEW}=1 cargo test -p choir-proto --features schema"
        );
    }
}

#[test]
fn a_request_of_the_contract_is_understood_and_an_unknown_field_is_named() {
    let request = r#"{ "kind": "edit", "instruction": "x", "acceptance_criteria": ["a"], "base_ref": "head", "commands": ["true"],
        "git_action": {"action": "checkpoint", "target": "t", "message": "m"}, "allowed_tools": ["bash"],
        "egress": {"allow": ["registries", "example.org:443"]}, "verify": {"mode": "commands", "commands": ["cargo test"]},
        "budget": {"time_s": 300, "steps": 50, "tokens": 200000, "usd": 1.0},
        "return": {"diff": true, "logs": true, "files_changed": true, "artifacts": false} }"#;
    assert!(serde_json::from_str::<TaskRequest>(request).is_ok());
    let error =
        serde_json::from_str::<TaskRequest>(r#"{"kind": "run", "instruction": "x", "sudo": true}"#).unwrap_err();
    assert!(error.to_string().contains("`sudo`"), "{error}");
}

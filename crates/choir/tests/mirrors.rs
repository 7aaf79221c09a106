//! Documents are files too: what a person writes there becomes a version, what a task's merge brings a proposal.

use crate::support::Instance;
use serde_json::{Value, json};
use std::path::PathBuf;

const SCENARIO: &str = r##"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write it"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}],
    "writer": [
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Heron or Wren", "content": "# Heron or Wren\n\nHeron.\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}]
}}"##;

/// Waits for an event, and for the mirror to say something about it.
fn written(instance: &Instance) -> (String, PathBuf) {
    assert_eq!(instance.choir(&["run", "Which bird?"]).status.code(), Some(0));
    let (_, documents) = instance.api("GET /api/documents", &Value::Null);
    let id = documents["documents"][0]["document_id"].as_str().unwrap().to_owned();
    (id, appears(instance, "Heron.\n"))
}

/// The mirror, as soon as it says something.
pub(crate) fn appears(instance: &Instance, words: &str) -> PathBuf {
    let directory = instance.workspace().join("documents");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::time::Instant::now() < deadline {
        for entry in std::fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            // One that is being written has no name of its own yet.
            let is_mirror = path.extension().is_some_and(|extension| extension == "md");
            if is_mirror && std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with(words)) {
                return path;
            }
        }
        std::thread::yield_now();
    }
    panic!("no mirror says {words:?}");
}

#[test]
fn a_person_edits_a_mirror_and_the_document_has_a_version() {
    let instance = Instance::start(SCENARIO);
    let (id, mirror) = written(&instance);
    assert!(mirror.file_name().unwrap().to_str().unwrap().starts_with("heron-or-wren-"), "{mirror:?}");
    std::fs::write(&mirror, "# Heron or Wren\n\nHeron.\n\nBut wrens sing.\n").unwrap();
    let version = instance
        .follow(|event| event["kind"] == "document.versioned" && event["payload"]["reason"] == "edited as a file");
    assert_eq!(version["actor"], "person");
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"], "# Heron or Wren\n\nHeron.\n\nBut wrens sing.\n");
    assert_eq!(document["proposals"], json!([]));
    // The other way: what is said to the document stands in the file.
    let edit = json!({"base_version": document["version"], "content": "# Heron or Wren\n\nNeither.\n"});
    assert_eq!(instance.api(&format!("PUT /api/documents/{id}"), &edit).0, 200);
    appears(&instance, "Neither.\n");
}

#[test]
fn a_task_that_changes_a_mirror_proposes() {
    let instance = Instance::start(SCENARIO);
    let (id, mirror) = written(&instance);
    let name = mirror.file_name().unwrap().to_str().unwrap();
    let work = format!("sed -i 's/Heron[.]/Wren, surely./' documents/{name}");
    let task = json!({"kind": "run", "instruction": "a test", "commands": [work], "egress": {"allow": []}});
    let result = instance.task(&task);
    assert_eq!(result["status"], "ok", "{result}");
    let made = instance.follow(|event| event["kind"] == "proposal.made");
    assert_eq!((&made["actor"], &made["task"]), (&json!("terminal"), &result["task_id"]), "{made}");
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"], "# Heron or Wren\n\nHeron.\n", "nobody has said yes");
    appears(&instance, "Heron.\n");
    let proposal = document["proposals"][0]["proposal_id"].as_str().unwrap_or_else(|| panic!("{document}"));
    let path = format!("POST /api/documents/{id}/proposals/{proposal}");
    let (status, accepted) = instance.api(&path, &json!({"decision": "accept"}));
    assert_eq!((status, &accepted["content"]), (200, &json!("# Heron or Wren\n\nWren, surely.\n")), "{accepted}");
    appears(&instance, "Wren, surely.\n");
}

#[test]
fn what_was_written_while_nobody_looked_is_kept() {
    let instance = Instance::start(SCENARIO);
    let (id, mirror) = written(&instance);
    let (_, _, directory) = instance.stop();
    std::fs::write(&mirror, "# Heron or Wren\n\nHeron, by night.\n").unwrap();
    let instance = Instance::start_on(directory);
    instance.follow(|event| event["kind"] == "document.versioned" && event["payload"]["reason"] == "edited as a file");
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"], "# Heron or Wren\n\nHeron, by night.\n");
}

const SECRET: &str = "KEYPELICAN99";

/// A document of the person, with a secret in its second version and nowhere else.
fn with_secret(instance: &Instance) -> (String, PathBuf) {
    let (status, made) = instance.api("POST /api/documents", &json!({"title": "plan", "content": "hello there\n"}));
    assert!(status < 300, "{made}");
    let id = made["document_id"].as_str().unwrap().to_owned();
    appears(instance, "hello there\n");
    let edit = json!({"base_version": 1, "content": format!("hello there {SECRET}\n")});
    assert_eq!(instance.api(&format!("PUT /api/documents/{id}"), &edit).0, 200);
    (id, appears(instance, &format!("{SECRET}\n")))
}

/// Erases every event that holds the secret, whether or not the instance runs; how many.
fn erase(data: &std::path::Path, events: &[Value]) -> usize {
    let found: Vec<&Value> = events.iter().filter(|event| event.to_string().contains(SECRET)).collect();
    for event in &found {
        let erased = crate::support::choir(data).args(["erase", event["id"].as_str().unwrap()]).output().unwrap();
        assert!(erased.status.success(), "{}", crate::support::stderr(&erased));
    }
    found.len()
}

fn nowhere(instance: &Instance) {
    let events = instance.events();
    let left: Vec<&Value> = events.iter().filter(|event| event.to_string().contains(SECRET)).collect();
    assert_eq!(left, [&Value::Null; 0], "it came back into the log");
    for entry in std::fs::read_dir(instance.workspace().join("documents")).into_iter().flatten() {
        let path = entry.unwrap().path();
        assert!(!std::fs::read_to_string(&path).unwrap().contains(SECRET), "{path:?} still says it");
    }
}

#[test]
fn what_is_erased_leaves_its_mirror_at_once() {
    let instance = Instance::start(SCENARIO);
    let (id, mirror) = with_secret(&instance);
    assert!(erase(instance.directory.path(), &instance.events()) >= 2);
    assert_eq!(appears(&instance, "hello there\n"), mirror);
    // Nor does it live on in the replica that the next change is made to.
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    let edit = json!({"base_version": document["version"], "content": "hello there, you\n"});
    let (status, edited) = instance.api(&format!("PUT /api/documents/{id}"), &edit);
    assert_eq!((status, &edited["content"]), (200, &json!("hello there, you\n")), "{edited}");
    appears(&instance, "hello there, you\n");
    nowhere(&instance);
}

#[test]
fn what_is_erased_while_stopped_does_not_come_back_from_its_mirror() {
    let instance = Instance::start(SCENARIO);
    let (id, _) = with_secret(&instance);
    let events = instance.events();
    let (_, _, directory) = instance.stop();
    assert!(erase(directory.path(), &events) >= 2);
    let instance = Instance::start_on(directory);
    appears(&instance, "hello there\n");
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"], "hello there\n");
    nowhere(&instance);
    // What somebody wrote there is kept all the same.
    let mirror = appears(&instance, "hello there\n");
    let (_, _, directory) = instance.stop();
    std::fs::write(mirror, "hello there, by night\n").unwrap();
    let instance = Instance::start_on(directory);
    instance.follow(|event| event["kind"] == "document.versioned" && event["payload"]["reason"] == "edited as a file");
}

#[test]
fn a_document_that_is_erased_as_a_whole_takes_its_mirror_along() {
    let instance = Instance::start(SCENARIO);
    let body = json!({"title": SECRET, "content": format!("{SECRET}\n")});
    assert!(instance.api("POST /api/documents", &body).0 < 300);
    let mirror = appears(&instance, &format!("{SECRET}\n"));
    let events = instance.events();
    let (_, _, directory) = instance.stop();
    assert!(erase(directory.path(), &events) >= 2);
    let _instance = Instance::start_on(directory);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while mirror.exists() {
        assert!(std::time::Instant::now() < deadline, "{mirror:?} is still there");
        std::thread::yield_now();
    }
}

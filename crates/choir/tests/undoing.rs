//! What tasks changed in the workspace is taken back as one change, by the real binary and its real keeper.

use crate::support::{Instance, ends_within, stderr, stdout, watch};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

const NO_MODEL: &str = r#"{"roles": {"conductor": [{"error": {"class": "bad_request", "message": "no"}}]}}"#;

/// A run of two tasks, the second over what the first left.
const TWO_TASKS: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "first"}}]},
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "second"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}
    ],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo more >> file; test -e new && mv new newer || echo x > new"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "made"}}]}
    ]
}}"#;

#[test]
fn a_runs_changes_are_taken_back_as_one() {
    let instance = Instance::start(TWO_TASKS);
    let workspace = instance.workspace();
    std::fs::write(workspace.join("file"), "mine\n").unwrap();
    let before = look(&workspace);
    let run = instance.choir(&["run", "change the file twice"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let after = look(&workspace);
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "mine\nmore\nmore\n");
    assert!(workspace.join("newer").exists() && !workspace.join("new").exists());

    let accepted = instance.follow(|event| event["kind"] == "run.accepted");
    let id = accepted["run"].as_str().unwrap();
    let (_, listed) = instance.api(&format!("GET /api/runs/{id}/changes"), &Value::Null);
    let changes = listed["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "one of each task: {listed}");
    assert!(changes.iter().all(|change| change["task_id"].is_string() && change["base_tree"] != change["result_tree"]));
    assert_eq!(instance.choir(&["undo", id]).status.code(), Some(0));
    assert_eq!(look(&workspace), before);
    assert_eq!(instance.choir(&["undo", id]).status.code(), Some(0));
    assert_eq!(look(&workspace), after);
}

fn commands(commands: &[&str]) -> Value {
    json!({"kind": "run", "instruction": "a test", "commands": commands, "egress": {"allow": []}})
}

/// Everything beneath a directory: kind, permissions and content of each path.
fn look(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, at: &Path, seen: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let mode = meta.permissions().mode() & 0o777;
            let what = if meta.is_symlink() {
                format!("link {:?}", std::fs::read_link(&path).unwrap())
            } else if meta.is_dir() {
                walk(root, &path, seen);
                format!("directory {mode:o}")
            } else {
                format!("file {mode:o} {:?}", std::fs::read(&path).unwrap())
            };
            seen.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), what);
        }
    }
    let mut seen = BTreeMap::new();
    walk(root, root, &mut seen);
    seen
}

fn fill(workspace: &Path) {
    let write = |name: &str, content: &[u8]| {
        let path = workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    write("text", b"one\ntwo\n");
    write("binary", &[0, 255, 1, 254].repeat(1000));
    write("gone/deep/file", b"gone");
    write("old-name", b"renamed");
    write("tool", b"#!/bin/sh\n");
    write("turns", b"a file");
    std::fs::create_dir_all(workspace.join("empty/inner")).unwrap();
    symlink("text", workspace.join("link")).unwrap();
    give(workspace, &std::fs::metadata(workspace).unwrap());
}

/// Started by root, a computer's sandboxes are somebody else, whose files these must be.
fn give(at: &Path, owner: &Metadata) {
    lchown(at, Some(owner.uid()), Some(owner.gid())).unwrap();
    if at.symlink_metadata().unwrap().is_dir() {
        std::fs::read_dir(at).unwrap().for_each(|entry| give(&entry.unwrap().path(), owner));
    }
}

const EVERYTHING: &str = "echo three >> text; printf '\\000\\377x' > binary; rm -r gone; mv old-name new-name; chmod 755 tool; \
    rm turns; mkdir turns; echo in > turns/inside; rmdir empty/inner; mkdir -p made/empty; ln -sfn binary link; ln -s /nowhere out";

#[test]
fn a_tasks_changes_are_taken_back_and_done_again() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    fill(&workspace);
    let before = look(&workspace);
    let result = instance.task(&commands(&[EVERYTHING]));
    assert_eq!(result["status"], "ok", "{result}");
    let after = look(&workspace);
    assert_ne!(before, after);

    let id = result["task_id"].as_str().unwrap();
    let (_, listed) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
    assert_eq!((&listed["changes"][0]["state"], &listed["changes"][1]), (&json!("merged"), &Value::Null), "{listed}");
    let diff = listed["changes"][0]["diff"]["content"].as_str().unwrap();
    assert!(diff.contains("diff --git a/text b/text") && diff.contains("GIT binary patch"), "{diff}");

    let (status, undone) = instance.api(&format!("POST /api/tasks/{id}/undo"), &Value::Null);
    assert_eq!((status, &undone["conflicts"]), (200, &json!([])), "{undone}");
    assert_eq!(look(&workspace), before);
    let (_, listed) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
    assert_eq!((&listed["changes"][0]["state"], &listed["changes"][1]["state"]), (&json!("undone"), &json!("merged")));

    let again = instance.choir(&["undo", id]);
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));
    assert_eq!(look(&workspace), after, "the undo is undone");

    let started = instance.follow(|event| event["kind"] == "undo.started");
    let finished = instance.follow(|event| event["kind"] == "undo.finished");
    assert_eq!(started["payload"]["undoes"][0]["base_tree"], result["base_tree"]);
    assert_eq!(finished["payload"]["base_tree"], undone["base_tree"]);
    assert_ne!(finished["payload"]["result_tree"], finished["payload"]["base_tree"]);
}

/// What nothing names gives its room back, and everything that can be taken back still can.
#[test]
fn room_is_given_back_and_an_old_task_is_still_taken_back() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    fill(&workspace);
    let before = look(&workspace);
    let result = instance.task(&commands(&[EVERYTHING]));
    let after = look(&workspace);
    let id = result["task_id"].as_str().unwrap();
    // Seen by the keeper while it takes back and does again, and by nobody else.
    let scratch = "scratch ".repeat(10_000);
    std::fs::write(workspace.join("scratch"), &scratch).unwrap();
    assert_eq!(instance.choir(&["undo", id]).status.code(), Some(0));
    std::fs::remove_file(workspace.join("scratch")).unwrap();
    assert_eq!(instance.choir(&["undo", id]).status.code(), Some(0));
    assert_eq!(look(&workspace), after);
    let content = choir_store::sha256(scratch.as_bytes()).to_string();
    let shard = workspace.parent().unwrap().join("snapshots/objects").join(&content[..2]);
    let is_kept = || {
        std::fs::read_dir(&shard).unwrap().any(|one| one.unwrap().file_name().to_string_lossy().starts_with(&content))
    };
    assert!(is_kept(), "the control: it was there to be removed");
    let running = instance.choir(&["rebuild"]);
    assert!(!running.status.success() && is_kept(), "not while an instance runs");

    let (_, _, directory) = instance.stop();
    let rebuild = || -> Value {
        let rebuilt = crate::support::choir(directory.path()).args(["rebuild", "--json"]).output().unwrap();
        assert!(rebuilt.status.success(), "{}", stderr(&rebuilt));
        serde_json::from_slice(&rebuilt.stdout).unwrap()
    };
    let room = rebuild();
    assert!(room["trees"]["trees"].as_u64() >= Some(1) && room["trees"]["contents"].as_u64() >= Some(1), "{room}");
    assert!(room["trees"]["bytes"].as_u64() >= Some(80_000) && !is_kept(), "{room}");
    assert_eq!(rebuild()["trees"], json!({"trees": 0, "contents": 0, "bytes": 0}), "there is nothing more");

    let instance = Instance::start_on(directory);
    assert_eq!(look(&instance.workspace()), after);
    assert_eq!(instance.choir(&["undo", id]).status.code(), Some(0));
    assert_eq!(look(&instance.workspace()), before);
    let more = instance.task(&commands(&["cat text; echo more >> text"]));
    assert_eq!(more["status"], "ok", "{more}");
    assert_eq!(instance.choir(&["undo", more["task_id"].as_str().unwrap()]).status.code(), Some(0));
    assert_eq!(look(&instance.workspace()), before);
}

#[test]
fn what_the_person_deleted_meanwhile_is_not_said_to_be_taken_back() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    let result = instance.task(&commands(&["echo x > added; echo y > other"]));
    std::fs::remove_file(workspace.join("added")).unwrap();
    let undone = instance.choir(&["undo", result["task_id"].as_str().unwrap()]);
    assert_eq!(undone.status.code(), Some(0), "{}", stderr(&undone));
    let said = stdout(&undone);
    assert_eq!(said, "1 file taken back, 1 file was so already.\n  other\n  so already: added\n");
    let finished = instance.follow(|event| event["kind"] == "undo.finished");
    assert_eq!(finished["payload"]["already"], json!(["added"]), "{finished}");
    // Nor is it brought back: only what the undo took comes again.
    let again = instance.choir(&["undo", result["task_id"].as_str().unwrap()]);
    assert_eq!((again.status.code(), stdout(&again)), (Some(0), "1 file brought back.\n  other\n".to_owned()));
    assert!(workspace.join("other").exists() && !workspace.join("added").exists());

    let result = instance.task(&commands(&["echo x > alone"]));
    std::fs::remove_file(workspace.join("alone")).unwrap();
    let (_, undone) =
        instance.api(&format!("POST /api/tasks/{}/undo", result["task_id"].as_str().unwrap()), &Value::Null);
    assert_eq!(undone["summary"], "Nothing taken back, 1 file was so already.", "{undone}");
}

#[test]
fn what_changed_since_is_kept_and_named() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    fill(&workspace);
    let result = instance.task(&commands(&[EVERYTHING]));
    std::fs::write(workspace.join("text"), "mine").unwrap();
    std::fs::write(workspace.join("made/mine"), "mine").unwrap();
    let id = result["task_id"].as_str().unwrap();
    let left = instance.choir(&["undo", id, "--json"]);
    assert_eq!(left.status.code(), Some(3));
    let undone: Value = serde_json::from_slice(&left.stdout).unwrap();
    assert_eq!(undone["conflicts"], json!(["made", "text"]), "{undone}");
    assert_eq!(std::fs::read_to_string(workspace.join("text")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(workspace.join("made/mine")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(workspace.join("old-name")).unwrap(), "renamed");
    assert!(!workspace.join("made/empty").exists());
}

#[test]
fn an_undo_by_name_happens_once_and_nothing_merged_is_nothing_to_undo() {
    let instance = Instance::start(NO_MODEL);
    let result = instance.task(&commands(&["echo new > file"]));
    let undo = format!("POST /api/tasks/{}/undo", result["task_id"].as_str().unwrap());
    let name = json!({"undo_id": "01890a5d-ac96-774b-bcce-b302099a8059"});
    let first = instance.api(&undo, &name);
    assert_eq!((first.0, instance.workspace().join("file").exists()), (200, false), "{first:?}");
    assert_eq!(instance.api(&undo, &name), first);
    assert!(!instance.workspace().join("file").exists(), "asked again by name, nothing more happens");
    let other = instance.task(&commands(&["true"]));
    let (status, _) = instance.api(&format!("POST /api/tasks/{}/undo", other["task_id"].as_str().unwrap()), &name);
    assert_eq!(status, 409);

    let failed = instance.task(&commands(&["echo x > other; exit 3"]));
    let id = failed["task_id"].as_str().unwrap();
    let (status, refused) = instance.api(&format!("POST /api/tasks/{id}/undo"), &Value::Null);
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("nothing_to_undo")));
    let (_, listed) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
    assert_eq!(listed["changes"][0]["state"], "kept_out", "{listed}");
    assert_eq!(instance.api("POST /api/runs/01890a5d-ac96-774b-bcce-b302099a8059/undo", &Value::Null).0, 404);
    let (status, refused) = instance.api(&undo, &json!({"colour": 1}));
    assert!(status == 400 && refused.to_string().contains("colour"), "{refused}");
}

#[test]
fn one_file_is_taken_back_alone_and_brought_back() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    std::fs::write(workspace.join("logo"), b"\0old").unwrap();
    let result = instance.task(&commands(&["printf '\\000new' > logo; echo x > other"]));
    let id = result["task_id"].as_str().unwrap();
    let undo = |path: &str| instance.api(&format!("POST /api/tasks/{id}/undo"), &json!({"path": path}));
    let turned = || {
        let (_, listed) = instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null);
        let changes = listed["changes"].as_array().unwrap().clone();
        assert_eq!((changes.len(), &changes[0]["state"]), (1, &json!("merged")), "{listed}");
        changes[0]["turned"].clone()
    };
    let logo = || std::fs::read(workspace.join("logo")).unwrap();
    assert_eq!((undo("logo").0, logo(), turned()), (200, b"\0old".to_vec(), json!(["logo"])));
    assert!(workspace.join("other").exists());
    assert_eq!((undo("logo").0, logo(), turned()), (200, b"\0new".to_vec(), Value::Null));
    let (status, refused) = undo("elsewhere");
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("nothing_to_undo")));

    // What somebody wrote since stays, and is named.
    std::fs::write(workspace.join("logo"), b"mine").unwrap();
    let (status, undone) = undo("logo");
    assert_eq!((status, &undone["conflicts"], logo()), (200, &json!(["logo"]), b"mine".to_vec()), "{undone}");
    assert_eq!(turned(), Value::Null);
}

/// Killed at once after the intent is in the log, the next start finishes what was begun.
#[test]
fn an_undo_survives_a_kill_in_the_middle() {
    let instance = Instance::start(NO_MODEL);
    let workspace = instance.workspace();
    let result = instance.task(&commands(&["for n in $(seq 300); do echo $n > file-$n; done"]));
    assert_eq!(std::fs::read_dir(&workspace).unwrap().count(), 300);
    let undo = format!("POST /api/tasks/{}/undo", result["task_id"].as_str().unwrap());
    std::thread::scope(|scope| {
        // Whoever asks hears nothing; the log goes on all the same.
        scope.spawn(|| std::panic::catch_unwind(|| instance.api(&undo, &Value::Null)).ok());
        instance.follow(|event| event["kind"] == "undo.started");
        let computer = instance.computer();
        let ended = watch(computer);
        rustix::process::kill_process(computer, Signal::KILL).unwrap();
        assert!(ends_within(&ended, 10));
    });
    let finished = instance.follow(|event| event["kind"] == "undo.finished");
    assert_eq!((&finished["payload"]["outcome"], &finished["payload"]["conflicts"]), (&json!("ok"), &json!([])));
    assert_eq!(finished["payload"]["files_changed"].as_array().unwrap().len(), 300);
    assert_eq!(std::fs::read_dir(&workspace).unwrap().count(), 0);
}

#[test]
fn what_is_held_for_review_waits_outside_until_it_is_brought_in() {
    let instance = Instance::start(TWO_TASKS);
    let workspace = instance.workspace();
    std::fs::write(workspace.join("file"), "mine\n").unwrap();
    let before = look(&workspace);
    assert_eq!(instance.api("PUT /api/settings", &json!({"changes": {"hold": true}})).0, 200);
    let held = instance.task(&commands(&["echo held >> file", "echo new > new"]));
    assert_eq!((&held["status"], &held["held"]), (&"ok".into(), &true.into()), "{held}");
    assert_eq!(look(&workspace), before, "nothing arrives unseen");

    let id = held["task_id"].as_str().unwrap();
    let changes = || instance.api(&format!("GET /api/tasks/{id}/changes"), &Value::Null).1["changes"].clone();
    assert_eq!(changes()[0]["state"], "held");
    // Another task comes and goes, and the person goes on; what is held is still there to be brought in.
    instance.api("PUT /api/settings", &json!({"changes": {"hold": false}}));
    instance.task(&commands(&["echo other > other"]));
    let (status, merged) = instance.api(&format!("POST /api/tasks/{id}/merge"), &json!({}));
    assert_eq!((status, &merged["summary"]), (200, &"2 files brought in.".into()), "{merged}");
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "mine\nheld\n");
    assert_eq!(changes()[0]["state"], "merged");
    assert_eq!(instance.api(&format!("POST /api/tasks/{id}/merge"), &json!({})).0, 409, "nothing is held any more");

    assert_eq!(instance.api(&format!("POST /api/tasks/{id}/undo"), &json!({})).0, 200);
    assert_eq!(std::fs::read_to_string(workspace.join("file")).unwrap(), "mine\n");
    assert_eq!(changes()[0]["state"], "held");
    assert!(workspace.join("other").exists(), "what others made stays");
}

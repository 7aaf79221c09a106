//! Tasks, files and terminals in real sandboxes.

use crate::support::World;
use axum::body::Body;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use choir_proto::task::ChangeKind;
use choir_proto::wire::{AssociateFinished, AssociateStarted, Edited, EffectRecord, ExecFrame, Mirrored};
use choir_proto::{InboxId, RunId, TaskId, task};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

const TASK: [u8; 16] = [7; 16];

pub(crate) async fn ask(
    world: &World,
    method: Method,
    path: &str,
    body: impl Into<Body>,
) -> (StatusCode, bytes::Bytes) {
    let request = http::Request::builder().method(method).uri(format!("http://control{path}"));
    let response = world.computer.ask(request.body(body.into()).unwrap()).await;
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

pub(crate) async fn asked<T: DeserializeOwned>(world: &World, method: Method, path: &str, body: impl Into<Body>) -> T {
    let (status, body) = ask(world, method, path, body).await;
    assert!(status.is_success(), "{status}: {body:?}");
    serde_json::from_slice(&body).unwrap()
}

pub(crate) fn at(rest: &str) -> String {
    format!("/associates/{}{rest}", TaskId::from(TASK))
}

pub(crate) async fn exec(world: &World, effect: &str, command: &str) -> (String, ExecFrame) {
    let body = serde_json::json!({ "effect_id": effect, "command": command, "timeout_ms": 20_000 }).to_string();
    let (status, body) = ask(world, Method::POST, &at("/exec"), body).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut frames: Vec<ExecFrame> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    let last = frames.pop().unwrap();
    let output = frames.iter().map(|frame| match frame {
        ExecFrame::Output { data, .. } => String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap(),
        other => panic!("{other:?}"),
    });
    (output.collect(), last)
}

fn code(frame: &ExecFrame) -> Option<i32> {
    match frame {
        ExecFrame::Exit(exit) => exit.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_task_changes_the_workspace_only_by_being_merged() {
    let world = World::start().await;
    let browser = world.browser().await;
    assert_eq!(browser.send(Method::PUT, "/api/files?path=notes/a.txt", "one\n".into()).await.status, StatusCode::OK);

    let started: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    assert!(started.base_tree.is_some());
    let (said, end) = exec(&world, "e1", "cat notes/a.txt && echo two >> notes/a.txt && echo new > b.txt").await;
    assert_eq!((said.as_str(), code(&end)), ("one\n", Some(0)));
    assert_eq!(browser.get("/api/files?path=notes/a.txt").await.body, "one\n", "the live file is untouched");
    assert_eq!(ask(&world, Method::GET, &at("/files?path=notes/a.txt"), "").await.1, "one\ntwo\n");
    assert_eq!(ask(&world, Method::GET, &at("/files/list?path=."), "").await.1, "b.txt\nnotes/\n");

    let finished: AssociateFinished = asked(&world, Method::POST, &at("/finish"), r#"{"merge":true}"#).await;
    let changed: Vec<(&str, ChangeKind)> =
        finished.files_changed.iter().map(|task::FileChange { path, change }| (path.as_str(), *change)).collect();
    assert_eq!(changed, [("b.txt", ChangeKind::Added), ("notes/a.txt", ChangeKind::Modified)]);
    assert!(finished.diff.contains("+two") && finished.conflicts.is_empty());
    assert_ne!(finished.result_tree, started.base_tree);
    assert_eq!(browser.get("/api/files?path=notes/a.txt").await.body, "one\ntwo\n");
}

/// What the person had made the same before is theirs; but the second half of a merge that was cut off counts the first.
#[tokio::test]
async fn only_what_a_merge_brought_is_said_to_be_merged() {
    let world = World::start().await;
    let browser = world.browser().await;
    for is_cut_off in [false, true] {
        let started: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
        let name = format!("made-{is_cut_off}");
        exec(&world, &name, &format!("echo same > {name}")).await;
        browser.send(Method::PUT, &format!("/api/files?path={name}"), "same\n".into()).await;
        if is_cut_off {
            world.db().finish_task(TaskId::from(TASK), "begun".into()).await.unwrap();
        }
        let finished: AssociateFinished = asked(&world, Method::POST, &at("/finish"), r#"{"merge":true}"#).await;
        assert_ne!(finished.result_tree, started.base_tree);
        let expected = if is_cut_off { finished.result_tree } else { started.base_tree };
        assert_eq!(finished.merged_tree, expected, "cut off: {is_cut_off}");
        assert!(ask(&world, Method::DELETE, &at("/finished"), "").await.0.is_success());
    }
}

#[tokio::test]
async fn an_effect_is_on_record_and_never_runs_twice() {
    let world = World::start().await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    let absent: EffectRecord = asked(&world, Method::GET, "/effects/e1", "").await;
    assert_eq!(absent, EffectRecord::Absent);
    let (_, end) = exec(&world, "e1", "exit 3").await;
    assert_eq!(code(&end), Some(3));
    let (_, again) = exec(&world, "e1", "exit 3").await;
    assert!(matches!(again, ExecFrame::Failed { .. }), "{again:?}");
    let known: EffectRecord = asked(&world, Method::GET, "/effects/e1", "").await;
    assert!(matches!(known, EffectRecord::Exited(exit) if exit.code == Some(3)));
}

async fn edit(world: &World, effect: &str, old: &str, new: &str) -> Edited {
    let call =
        serde_json::json!({"tool": "edit_file", "inbox_id": InboxId::from([1; 16]), "run": RunId::from([2; 16])});
    let arguments = serde_json::json!({"path": "a.txt", "old": old, "new": new});
    let body = serde_json::json!({"effect_id": effect, "arguments": arguments, "call": call}).to_string();
    asked(world, Method::POST, &at("/edit"), body).await
}

/// Takes the ends of edits out of the record, as a crash right before they were written would.
fn forget_ends(data: &Path) {
    let computer = std::fs::read_dir(data.join("control/effects")).unwrap().next().unwrap().unwrap();
    let record = computer.path().join("effects.jsonl");
    let lines = std::fs::read_to_string(&record).unwrap();
    let begun: String = lines.lines().filter(|line| !line.contains("exited")).map(|line| format!("{line}\n")).collect();
    std::fs::write(record, begun).unwrap();
}

#[tokio::test]
async fn an_edit_that_a_crash_cut_off_is_recognised_and_made_once() {
    let world = World::start().await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    exec(&world, "e0", "printf end > a.txt").await;
    assert_eq!(edit(&world, "made", "end", "1 end").await, Edited::Done);
    assert_eq!(edit(&world, "made", "end", "1 end").await, Edited::Done, "asked again, it is told");
    assert!(matches!(edit(&world, "absent", "nowhere", "x").await, Edited::Failed { .. }));

    let world = world.again_after(forget_ends).await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    assert_eq!(edit(&world, "made", "end", "1 end").await, Edited::Done);
    assert_eq!(ask(&world, Method::GET, &at("/files?path=a.txt"), "").await.1, "1 end", "made before the crash");

    exec(&world, "e1", "printf end > a.txt").await;
    let world = world.again_after(forget_ends).await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    assert_eq!(edit(&world, "made", "end", "1 end").await, Edited::Done);
    assert_eq!(ask(&world, Method::GET, &at("/files?path=a.txt"), "").await.1, "1 end", "made after the crash");

    exec(&world, "e2", "printf 'the end' > a.txt").await;
    let world = world.again_after(forget_ends).await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    assert_eq!(edit(&world, "made", "end", "1 end").await, Edited::Unknown, "nobody can know");
    assert_eq!(ask(&world, Method::GET, &at("/files?path=a.txt"), "").await.1, "the end");
}

#[tokio::test]
async fn a_task_without_an_associate_is_told_so() {
    let world = World::start().await;
    let body = r#"{"effect_id":"e","command":"true","timeout_ms":1}"#;
    assert_eq!(ask(&world, Method::POST, &at("/exec"), body).await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&world, Method::POST, &at("/finish"), r#"{"merge":true}"#).await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&world, Method::DELETE, &at(""), "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(ask(&world, Method::PUT, "/associates/none", "{}").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_killed_task_leaves_nothing() {
    let world = World::start().await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    exec(&world, "e1", "echo x > x.txt").await;
    assert_eq!(ask(&world, Method::DELETE, &at(""), "").await.0, StatusCode::NO_CONTENT);
    let list = world.browser().await.get("/api/files/list").await.value();
    assert_eq!(list["files"].as_array().unwrap().len(), 0, "{list}");
}

#[tokio::test]
async fn files_are_written_listed_moved_and_removed_and_the_log_is_told() {
    let world = World::start().await;
    let browser = world.browser().await;
    let put = browser.send(Method::PUT, "/api/files?path=a.bin", bytes::Bytes::from(vec![0xff; 3_000_000])).await;
    assert_eq!((put.status, put.value()["seq"].as_u64()), (StatusCode::OK, Some(1)));
    let told = String::from_utf8(world.computer.told("/internal/record").await.to_vec()).unwrap();
    assert!(told.contains("file.changed") && told.contains("a.bin") && told.contains("added"), "{told}");
    let read = browser.get("/api/files?path=a.bin").await;
    assert_eq!((read.body.len(), read.header("content-disposition")), (3_000_000, "attachment"));
    let moved = browser.json(Method::POST, "/api/files/move", r#"{"from":"a.bin","to":"b.bin"}"#).await;
    assert_eq!(moved.status, StatusCode::OK, "{:?}", moved.body);
    let list = browser.get("/api/files/list?path=").await.value();
    assert_eq!((list["files"][0]["name"].as_str(), list["files"][0]["kind"].as_str()), (Some("b.bin"), Some("file")));
    browser.send(Method::PUT, "/api/files?path=other", bytes::Bytes::from_static(b"precious")).await;
    let folder = browser.send(Method::PUT, "/api/files?kind=directory&path=m", "".into()).await;
    assert_eq!(folder.status, StatusCode::OK);
    let into_itself = browser.json(Method::POST, "/api/files/move", r#"{"from":"m","to":"m/new/deep/m"}"#).await;
    assert_eq!(into_itself.status, StatusCode::BAD_REQUEST);
    let inside = browser.get("/api/files/list?path=m").await;
    assert_eq!(inside.value()["files"], serde_json::json!([]), "what is refused changes nothing");
    browser.send(Method::DELETE, "/api/files?path=m", "".into()).await;
    let over = browser.json(Method::POST, "/api/files/move", r#"{"from":"b.bin","to":"other"}"#).await;
    assert_eq!((over.status, over.code().as_str()), (StatusCode::CONFLICT, "exists"));
    assert_eq!(browser.get("/api/files?path=other").await.body, "precious");
    for no_text in ["%ff", "%c0%ae%c0%ae/x"] {
        let put = browser.send(Method::PUT, &format!("/api/files?path={no_text}"), Default::default()).await;
        assert_eq!((put.status, put.code().as_str()), (StatusCode::BAD_REQUEST, "bad_path"), "{no_text}");
    }
    assert_eq!(browser.send(Method::DELETE, "/api/files?path=b.bin", Default::default()).await.status, StatusCode::OK);
    let gone = browser.get("/api/files?path=b.bin").await;
    assert_eq!((gone.status, gone.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
}

#[tokio::test]
async fn a_folder_with_more_names_than_fit_is_listed_page_by_page() {
    const NAMES: usize = 10_500;
    let world = World::start().await;
    let browser = world.browser().await;
    let computer = std::fs::read_dir(world.directory.path().join("computers")).unwrap().next().unwrap().unwrap().path();
    let folder = computer.join("workspace/many");
    browser.send(Method::PUT, "/api/files?kind=directory&path=many", Default::default()).await;
    for number in 0..NAMES {
        std::fs::write(folder.join(format!("{number:05}")), "").unwrap();
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = browser.get(&format!("/api/files/list?path=many{after}")).await.value();
        let names = page["files"].as_array().unwrap().iter();
        seen.extend(names.map(|file| file["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..NAMES).map(|number| format!("{number:05}")).collect::<Vec<_>>());
    assert!(!after.is_empty(), "one page does not hold them");
}

/// Everything that a path from inside must never touch: what lies around the workspace, without what control itself writes.
fn surroundings(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if name.contains("sqlite") || ["workspace", "snapshots", "outputs", "effects"].contains(&name.as_str()) {
                continue;
            }
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => open.push(path.clone()),
                kind if kind.is_file() => {
                    found.push((path.clone(), std::fs::read(&path).ok()));
                    continue;
                }
                _ => {}
            }
            found.push((path, None));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn paths_that_lead_outside_are_refused() {
    let world = World::start().await;
    let browser = world.browser().await;
    let _: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":null}"#).await;
    let computer = std::fs::read_dir(world.directory.path().join("computers")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(computer.join("canary"), "untouched").unwrap();
    std::fs::create_dir(computer.join("workspace-evil")).unwrap();
    browser.send(Method::PUT, "/api/files?path=a.txt", "a".into()).await;
    let before = surroundings(world.directory.path());
    let (long, longer) = ("x".repeat(256), "x/".repeat(2100));
    let outside = [
        "..",
        "../x",
        "../canary",
        "../workspace-evil/x",
        "/etc/passwd",
        "a/../../x",
        "%2e%2e/x",
        "a%00b",
        "..%2fx",
        "%2Fetc%2Fpasswd",
        "./../x",
        "a/./../../x",
        "//etc/passwd",
        "/workspace-evil/x",
        "a//b",
        "/proc/self/root",
        &long,
        &longer,
    ];
    for path in outside {
        for (method, route) in [
            (Method::GET, "/api/files?path="),
            (Method::PUT, "/api/files?path="),
            (Method::PUT, "/api/files?kind=directory&path="),
            (Method::PUT, "/api/files?kind=link&path="),
            (Method::DELETE, "/api/files?path="),
            (Method::GET, "/api/files/list?path="),
        ] {
            let answer = browser.send(method.clone(), &format!("{route}{path}"), "x".into()).await;
            let said = (answer.status, answer.code());
            assert_eq!(said, (StatusCode::BAD_REQUEST, "bad_path".into()), "{method} {route}{path}");
        }
        let meant = path.replace("%2e", ".").replace("%2f", "/").replace("%2F", "/").replace("%00", "\0");
        for (from, to) in [("a.txt", meant.as_str()), (&meant, "b.txt")] {
            let wish = serde_json::json!({ "from": from, "to": to }).to_string();
            let answer = browser.json(Method::POST, "/api/files/move", wish).await;
            assert_eq!((answer.status, answer.code()), (StatusCode::BAD_REQUEST, "bad_path".into()), "{from} to {to}");
        }
        for (method, route) in
            [(Method::GET, "/files?path="), (Method::PUT, "/files?path="), (Method::GET, "/files/list?path=")]
        {
            let (status, _) = ask(&world, method.clone(), &at(&format!("{route}{path}")), "x").await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{method} of a task: {route}{path}");
        }
    }
    // Signs that are something elsewhere are names here, and stay inside.
    for (path, name) in [("..%5C..%5Cx", "..\\..\\x"), ("%EF%BC%8E%EF%BC%8E%EF%BC%8Fx", "．．／x"), ("C:%5Cx", "C:\\x")]
    {
        let answer = browser.send(Method::PUT, &format!("/api/files?path={path}"), "x".into()).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(computer.join("workspace").join(name).is_file(), "{path}");
    }
    std::os::unix::fs::symlink("/etc", computer.join("workspace/out")).unwrap();
    std::os::unix::fs::symlink("../workspace-evil", computer.join("workspace/near")).unwrap();
    for path in ["out/passwd", "out/new", "near/new", "near/new/newer"] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let answer = browser.send(method.clone(), &format!("/api/files?path={path}"), Default::default()).await;
            assert!(answer.status.is_client_error(), "{method} {path}: {}", answer.status);
        }
    }
    assert_eq!(surroundings(world.directory.path()), before, "nothing around the workspace was touched");
}

#[tokio::test]
async fn a_mirror_is_not_written_over_what_is_no_file_and_the_next_one_is() {
    let world = World::start().await;
    let browser = world.browser().await;
    browser.send(Method::PUT, "/api/files?kind=directory&path=documents/folder.md", Default::default()).await;
    let computer = std::fs::read_dir(world.directory.path().join("computers")).unwrap().next().unwrap().unwrap().path();
    let documents = computer.join("workspace/documents");
    std::os::unix::fs::symlink("/etc/hostname", documents.join("out.md")).unwrap();
    std::os::unix::fs::symlink("round.md", documents.join("round.md")).unwrap();
    // No bytes are needed to be longer than any document.
    std::fs::File::create(documents.join("long.md")).unwrap().set_len(21 << 20).unwrap();
    for (name, written) in [("folder", false), ("out", false), ("round", false), ("long", false), ("plain", true)] {
        for text in [Some("words\n"), None] {
            let mirror = serde_json::json!({ "path": format!("documents/{name}.md"), "text": text, "over": null });
            let mirrored: Mirrored = asked(&world, Method::PUT, "/workspace/mirror", mirror.to_string()).await;
            // What was just written is not known to whoever takes it away without a hash, and stays.
            assert_eq!(mirrored.written, written && text.is_some(), "{name} {text:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(documents.join("plain.md")).unwrap(), "words\n");
    assert!(documents.join("folder.md").is_dir() && documents.join("out.md").is_symlink());
}

#[tokio::test]
async fn a_terminal_echoes_survives_its_viewer_and_is_told_to_the_log() {
    use futures_util::SinkExt;
    use tokio_tungstenite::tungstenite::Message;
    let world = World::start().await;
    let browser = world.browser().await;
    let opened = browser.json(Method::POST, "/api/terminals", r#"{"cols":80,"rows":24}"#).await.value();
    let id = opened["terminal_id"].as_str().unwrap().to_owned();
    world.computer.told_that("/internal/record", |body| contains(body, b"terminal.opened")).await;
    let path = format!("/api/terminals/{id}");
    let mut first = browser.upgrade(&path).await.unwrap();
    first.0.send(Message::text(r#"{"resize":{"cols":100,"rows":30}}"#)).await.unwrap();
    first.0.send(Message::binary(&b"echo mar''ker-one\n"[..])).await.unwrap();
    first.shows(b"marker-one").await;
    for nonsense in ["garbage", "{}", r#"{"resize":{"cols":0,"rows":24}}"#] {
        let mut confused = browser.upgrade(&path).await.unwrap();
        confused.0.send(Message::text(nonsense)).await.unwrap();
        let said = confused.end().await;
        assert!(said.contains("a text frame is"), "{nonsense}: {said}");
    }
    drop(first);

    let mut second = browser.upgrade(&path).await.unwrap();
    second.shows(b"marker-one").await;
    second.0.send(Message::binary(&b"stty size; exit 5\n"[..])).await.unwrap();
    second.shows(b"30 100").await;
    assert_eq!(second.end().await, "ended with 5");
    world
        .computer
        .told_that("/internal/record", |body| contains(body, b"terminal.closed") && contains(body, b":5"))
        .await;
    assert_eq!(browser.upgrade(&path).await.err(), Some(StatusCode::NOT_FOUND));
    assert_eq!(browser.get("/api/terminals").await.value()["terminals"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn a_closed_terminal_ends() {
    let world = World::start().await;
    let browser = world.browser().await;
    let bad = browser.json(Method::POST, "/api/terminals", r#"{"cols":0,"rows":24}"#).await;
    assert_eq!((bad.status, bad.code().as_str()), (StatusCode::BAD_REQUEST, "bad_field"));
    let opened = browser.json(Method::POST, "/api/terminals", r#"{"cols":80,"rows":24}"#).await.value();
    let path = format!("/api/terminals/{}", opened["terminal_id"].as_str().unwrap());
    assert_eq!(browser.send(Method::DELETE, &path, Default::default()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(browser.send(Method::DELETE, &path, Default::default()).await.status, StatusCode::NOT_FOUND);
}

pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

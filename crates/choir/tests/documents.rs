//! A document over a real WebSocket, through control, by the protocol that browsers speak.

use crate::support::Instance;
use serde_json::{Value, json};
use std::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Frame, WebSocket};
use yrs::encoding::read::Read;
use yrs::sync::{Message, SyncMessage};
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Doc, GetString, ReadTxn, StateVector, Text, Transact, Update};

const SCENARIO: &str = r#"{"roles": {"conductor": [{"text": "Nobody asked."}]}}"#;

/// The message that says how many updates are in the log.
const ACKNOWLEDGED: u8 = 100;
/// The message that says which generation is spoken of.
const GENERATION: u8 = 101;

fn open(instance: &Instance, token: &str, id: &str) -> Result<WebSocket<TcpStream>, u16> {
    open_as(instance, token, &format!("{id}/sync"))
}

fn open_as(instance: &Instance, token: &str, visit: &str) -> Result<WebSocket<TcpStream>, u16> {
    let url = format!("ws://{}/api/documents/{visit}", instance.authority());
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let stream = TcpStream::connect(instance.authority()).unwrap();
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

fn say(socket: &mut WebSocket<TcpStream>, message: Message) {
    socket.send(Frame::Binary(message.encode_v1().into())).unwrap();
}

/// Reads until the server has said something that is wanted.
fn hear<T>(socket: &mut WebSocket<TcpStream>, wanted: impl Fn(Message) -> Option<T>) -> T {
    loop {
        let Frame::Binary(bytes) = socket.read().unwrap() else { continue };
        if let Some(found) = wanted(Message::decode_v1(&bytes).unwrap()) {
            return found;
        }
    }
}

fn document(instance: &Instance, token: &str, content: &str) -> String {
    let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n");
    let body = serde_json::json!({"title": "Notes", "content": content}).to_string();
    let answer = instance.http("POST /api/documents", &headers, &body);
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    body["document_id"].as_str().unwrap().to_owned()
}

/// Hears all that the server has.
fn learn(socket: &mut WebSocket<TcpStream>, doc: &Doc) {
    say(socket, Message::Sync(SyncMessage::SyncStep1(StateVector::default())));
    let state = hear(socket, |message| match message {
        Message::Sync(SyncMessage::SyncStep2(update)) => Some(update),
        _ => None,
    });
    doc.transact_mut().apply_update(Update::decode_v1(&state).unwrap()).unwrap();
}

/// How the server ends a visit.
fn goodbye(socket: &mut WebSocket<TcpStream>) -> tungstenite::protocol::CloseFrame {
    loop {
        match socket.read() {
            Ok(Frame::Close(Some(frame))) => return frame,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_document_longer_than_any_message_of_a_browser_is_opened() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "");
    let half = "A line of a very long document.\n".repeat(150_000);
    for author in [77, 78] {
        types(&mut open(&instance, &token, &id).unwrap(), &Doc::with_client_id(author), &half);
    }
    let doc = Doc::with_client_id(79);
    let text = doc.get_or_insert_text("content");
    learn(&mut open(&instance, &token, &id).unwrap(), &doc);
    assert!(text.get_string(&doc.transact()) == half.repeat(2));
}

#[test]
fn who_was_away_while_something_was_erased_is_told_to_begin_anew() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "");
    let doc = Doc::with_client_id(77);
    let mut socket = open_as(&instance, &token, &format!("{id}/sync?generation=0")).unwrap();
    let generation: u64 = hear(&mut socket, |message| match message {
        Message::Custom(GENERATION, said) => yrs::encoding::read::Cursor::new(&said).read_var().ok(),
        _ => None,
    });
    types(&mut socket, &doc, "a secret\n");
    drop(socket);
    let typed = instance.events().into_iter().find(|event| event["kind"] == "document.updated").unwrap();
    let erased = instance.choir(&["erase", typed["id"].as_str().unwrap()]);
    assert!(erased.status.success(), "{}", crate::support::stderr(&erased));
    let mut away = open_as(&instance, &token, &format!("{id}/sync?generation={generation}")).unwrap();
    assert_eq!(u16::from(goodbye(&mut away).code), 4001);
}

#[test]
fn a_browser_types_and_its_words_are_in_the_log_when_it_hears_so() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "one\n");
    let mut socket = open(&instance, &token, &id).unwrap();
    let doc = Doc::with_client_id(77);
    let text = doc.get_or_insert_text("content");
    learn(&mut socket, &doc);
    assert_eq!(text.get_string(&doc.transact()), "one\n");
    text.insert(&mut doc.transact_mut(), 4, "two\n");
    let update = doc.transact().encode_state_as_update_v1(&StateVector::default());
    say(&mut socket, Message::Sync(SyncMessage::Update(update)));
    hear(&mut socket, |message| matches!(message, Message::Custom(ACKNOWLEDGED, _)).then_some(()));
    let read = |instance: &Instance| {
        instance.http(&format!("GET /api/documents/{id}"), &format!("authorization: Bearer {token}\r\n"), "")
    };
    assert!(read(&instance).contains(r#"one\ntwo\n"#));

    socket.send(Frame::Binary(vec![0, 9, 9].into())).unwrap();
    let goodbye = goodbye(&mut socket);
    assert_eq!((u16::from(goodbye.code), goodbye.reason.contains("Yjs")), (1008, true), "{goodbye:?}");
    let (_, _, directory) = instance.stop();
    let again = Instance::start_on(directory);
    assert!(read(&again).contains(r#"one\ntwo\n"#), "what was acknowledged is there after a restart");
}

/// Types words at the end and waits until they are in the log.
fn types(socket: &mut WebSocket<TcpStream>, doc: &Doc, words: &str) {
    let text = doc.get_or_insert_text("content");
    let end = text.get_string(&doc.transact()).len() as u32;
    text.insert(&mut doc.transact_mut(), end, words);
    let update = doc.transact().encode_state_as_update_v1(&StateVector::default());
    say(socket, Message::Sync(SyncMessage::Update(update)));
    hear(socket, |message| matches!(message, Message::Custom(ACKNOWLEDGED, _)).then_some(()));
}

#[test]
fn a_flood_of_single_letters_is_taken_whole() {
    const LETTERS: u64 = 20_000;
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "");
    let mut socket = open(&instance, &token, &id).unwrap();
    let doc = Doc::with_client_id(77);
    let text = doc.get_or_insert_text("content");
    for place in 0..LETTERS {
        let mut typing = doc.transact_mut();
        text.insert(&mut typing, place as u32, "x");
        let update = typing.encode_update_v1();
        drop(typing);
        let frame = Message::Sync(SyncMessage::Update(update)).encode_v1();
        // All of them are on their way before the first is read.
        socket.write(Frame::Binary(frame.into())).unwrap();
    }
    socket.flush().unwrap();
    hear(&mut socket, |message| match message {
        Message::Custom(ACKNOWLEDGED, counted) => yrs::encoding::read::Cursor::new(&counted)
            .read_var::<u64>()
            .is_ok_and(|count| count == LETTERS)
            .then_some(()),
        _ => None,
    });
    let (_, document) = instance.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"].as_str().unwrap().len() as u64, LETTERS);
}

#[test]
fn a_mirror_that_was_left_behind_takes_no_words_back() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "");
    let mut socket = open(&instance, &token, &id).unwrap();
    let doc = Doc::with_client_id(77);
    types(&mut socket, &doc, "one\n");
    types(&mut socket, &doc, "two\n");
    drop(socket);
    let mirror = crate::mirrors::appears(&instance, "two\n");
    let (_, _, directory) = instance.stop();
    // As a process leaves it that is killed between two words: this text never had a name.
    std::fs::write(&mirror, "one\n").unwrap();
    let again = Instance::start_on(directory);
    crate::mirrors::appears(&again, "one\ntwo\n");
    let (_, document) = again.api(&format!("GET /api/documents/{id}"), &Value::Null);
    assert_eq!(document["content"], "one\ntwo\n");
    assert!(again.events().iter().all(|event| event["payload"]["reason"] != "edited as a file"));
}

#[test]
fn only_those_who_may_write_come_to_a_document_and_only_to_one_that_is_there() {
    let instance = Instance::start(SCENARIO);
    let token = instance.token("run");
    let id = document(&instance, &token, "one\n");
    assert_eq!(open(&instance, &instance.token("read"), &id).err(), Some(403));
    assert_eq!(open(&instance, "nonsense", &id).err(), Some(401));
    assert_eq!(open(&instance, &token, "01890a5d-ac96-774b-bcce-b302099a8052").err(), Some(404));
    let headers = format!("authorization: Bearer {token}\r\norigin: http://evil.example\r\nupgrade: websocket\r\n");
    assert!(instance.http(&format!("GET /api/documents/{id}/sync"), &headers, "").starts_with("HTTP/1.1 403"));
}

/// Commands that stand elsewhere, scripts that read files by themselves, and what nobody can know.
const FIGURES: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "count"}}]},
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "cd projects/f && sort data.csv"}},
                        {"name": "bash", "arguments": {"command": "sh projects/f/first.sh"}},
                        {"name": "bash", "arguments": {"command": "echo seven"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "counted"}}]}],
    "writer": [
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Numbers", "content": "```run cd projects/f && sort data.csv\n1\n2\n```\n\n```run sh projects/f/first.sh\n2\n```\n\n```run echo seven\nseven\n```\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}]
}}"#;

#[test]
fn a_figure_knows_what_its_command_read_or_says_that_it_does_not() {
    let instance = Instance::start(FIGURES);
    let put = |path: &str, content: &str| {
        let bearer = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("run"));
        let put = instance.http(&format!("PUT /api/files?path={path}"), &bearer, content);
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    };
    put("projects/f/data.csv", "2\n1\n");
    put("projects/f/first.sh", "head -n 1 projects/f/data.csv\n");
    let (_, accepted) = instance.api("POST /api/runs", &json!({"prompt": "count"}));
    let ended = instance.follow(|event| event["kind"] == "run.ended");
    assert_eq!(ended["payload"]["status"], "completed", "{ended}");
    let run = instance.api(&format!("GET /api/runs/{}", accepted["run_id"].as_str().unwrap()), &Value::Null).1;
    let document = format!("GET /api/documents/{}", run["document_id"].as_str().unwrap());
    let figures = || instance.api(&document, &Value::Null).1["figures"].as_array().unwrap().clone();
    let before = figures();
    assert_eq!(
        [&before[0]["status"], &before[1]["status"], &before[2]["status"]],
        ["fresh", "fresh", "unknown"],
        "{before:?}"
    );
    assert!(before[2]["because"].as_str().unwrap().contains("not known which files"), "{before:?}");
    put("projects/f/data.csv", "3\n1\n");
    let stale = |command: &str| {
        let figure = |event: &Value| event["payload"]["figure"].clone();
        instance.follow(|event| {
            event["kind"] == "figure.changed"
                && figure(event)["status"] == "stale"
                && figure(event)["command"] == command
        });
    };
    stale("cd projects/f && sort data.csv");
    stale("sh projects/f/first.sh");
}

const FIGURE: &str = r#"{"roles": {
    "conductor": [
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "terminal", "objective": "count"}}]},
        {"tool_calls": [{"name": "delegate", "arguments": {"role": "writer", "objective": "write"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}],
    "terminal": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo seven"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "counted"}}]}],
    "writer": [
        {"tool_calls": [{"name": "write_document", "arguments": {"title": "Numbers", "content": "```run echo seven\nseven\n```\n"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "written"}}]}]
}}"#;

/// A figure's command is an agent's: where the person wants to be asked about those, making it again asks; where they want none of
/// them, it says so.
#[test]
fn a_figure_is_made_again_after_the_word_that_every_command_of_an_agent_needs() {
    let instance = Instance::start_with(FIGURE, "[tools]\nbash = \"ask\"\n");
    let (_, accepted) = instance.api("POST /api/runs", &json!({"prompt": "count"}));
    assert_eq!(instance.decide("approve", "once")["subject"], "echo seven");
    instance.follow(|event| event["kind"] == "run.ended");
    let run = instance.api(&format!("GET /api/runs/{}", accepted["run_id"].as_str().unwrap()), &Value::Null).1;
    let document = run["document_id"].as_str().unwrap();
    let figure = instance.api(&format!("GET /api/documents/{document}"), &Value::Null).1["figures"][0].clone();
    let rerun = format!("POST /api/documents/{document}/figures/{}/rerun", figure["figure_id"].as_str().unwrap());
    let made = |word: Option<&str>| {
        let (status, task) = instance.api(&rerun, &json!({}));
        assert_eq!(status, 202, "{task}");
        if let Some(word) = word {
            let is_next = |event: &Value| ["inbox.asked", "task.finished"].map(Value::from).contains(&event["kind"]);
            let found = instance.follow(|event| event["task"] == task["task_id"] && is_next(event));
            let asked = &found["payload"];
            assert_eq!((&found["kind"], &asked["subject"]), (&json!("inbox.asked"), &json!("echo seven")), "{found}");
            let decision = json!({"decision": word, "scope": "once", "hash": asked["hash"]});
            let decide = format!("POST /api/inbox/{}", asked["inbox_id"].as_str().unwrap());
            assert!(instance.api(&decide, &decision).0 < 300);
        }
        let ended = instance.follow(|event| event["kind"] == "task.finished" && event["task"] == task["task_id"]);
        let changed = instance.follow(|event| {
            let figure = &event["payload"]["figure"];
            event["kind"] == "figure.changed" && figure["task_id"] == task["task_id"] && figure["status"] != "running"
        });
        (ended["payload"]["result"].clone(), changed["payload"]["figure"].clone())
    };
    let (result, figure) = made(Some("approve"));
    assert_eq!((&result["status"], &result["commands"][0]["stdout"]), (&json!("ok"), &json!("seven\n")), "{result}");
    assert_ne!(figure["status"], "failed", "{figure}");
    let (result, figure) = made(Some("deny"));
    assert_eq!((&result["status"], &figure["status"]), (&json!("failed"), &json!("failed")), "{result}");
    assert!(figure["because"].as_str().unwrap().contains("The person does not allow this"), "{figure}");
    let (status, settings) = instance.api("PUT /api/settings", &json!({"tools": {"bash": "deny"}}));
    assert_eq!(status, 200, "{settings}");
    let (result, figure) = made(None);
    assert_eq!((&result["status"], &figure["status"]), (&json!("failed"), &json!("failed")), "{result}");
    assert!(figure["because"].as_str().unwrap().contains("does not allow"), "{figure}");
}

/// A pipe whose first command found nothing ends as well as any other.
#[test]
fn a_figure_whose_source_is_gone_stays_as_it_was_and_says_so() {
    const SORTED: &str = "sort notes/q.csv | head -3";
    let scenario = FIGURE.replace("echo seven\\nseven", &format!("{SORTED}\\n1\\n2")).replace("echo seven", SORTED);
    let instance = Instance::start(&scenario);
    let bearer = format!("authorization: Bearer {}\r\ncontent-type: text/plain\r\n", instance.token("run"));
    let file = |method: &str, content: &str| {
        let answer = instance.http(&format!("{method} /api/files?path=notes/q.csv"), &bearer, content);
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    };
    file("PUT", "2\n1\n");
    let (_, accepted) = instance.api("POST /api/runs", &json!({"prompt": "count"}));
    instance.follow(|event| event["kind"] == "run.ended");
    let run = instance.api(&format!("GET /api/runs/{}", accepted["run_id"].as_str().unwrap()), &Value::Null).1;
    let id = run["document_id"].as_str().unwrap();
    let document = || instance.api(&format!("GET /api/documents/{id}"), &Value::Null).1;
    let fresh = document();
    assert_eq!(fresh["figures"][0]["status"], "fresh", "{fresh}");
    let becomes = |status: &str| {
        instance.follow(|event| event["kind"] == "figure.changed" && event["payload"]["figure"]["status"] == status)
    };
    file("DELETE", "");
    becomes("stale");
    let figure = fresh["figures"][0]["figure_id"].as_str().unwrap();
    assert_eq!(instance.api(&format!("POST /api/documents/{id}/figures/{figure}/rerun"), &json!({})).0, 202);
    let changed = instance.follow(|event| {
        let status = &event["payload"]["figure"]["status"];
        event["kind"] == "figure.changed" && ["failed", "unknown"].map(Value::from).contains(status)
    });
    assert_eq!(changed["payload"]["figure"]["because"], "notes/q.csv is gone", "{changed}");
    let now = document();
    assert_eq!(now["content"], fresh["content"], "the figure stays");
    assert_eq!(now["figures"][0]["status"], "failed", "{now}");
    assert_eq!(now["figures"][0]["inputs"], fresh["figures"][0]["inputs"], "and knows what it was made from");
}

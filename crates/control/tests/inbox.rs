//! What waits for a person's word, and what their word is bound to.

use crate::sandboxes::{ask, asked, at};
use crate::support::World;
use crate::support::computer::FakeComputer;
use choir_control::config::Config;
use choir_control::db::{Approval, Outcome, Scope};
use choir_control::inbox::{Policy, Tools};
use choir_core::discover::discover;
use choir_proto::inbox::{AskKind, Asked, Reach, Verdict};
use choir_proto::task::{Side, VerifyMode};
use choir_proto::wire::{AssociateStarted, TreeFile};
use choir_proto::{Hash, InboxId, RunId, TaskId, Timestamp};
use http::{Method, StatusCode};
use uuid::Uuid;

fn question(number: u8, task: Option<TaskId>, entry: &str) -> Approval {
    let (id, kind) = (InboxId::from([number; 16]), AskKind::Egress);
    let (entry, hash, asked) = (entry.to_owned(), Hash([number; 32]), Timestamp(number.into()));
    Approval {
        id,
        kind,
        run: None,
        task,
        entry,
        question: "May it?".into(),
        hash,
        answers: Vec::new(),
        asked,
        decided: None,
    }
}

fn word(decision: &str, hash: Hash, scope: &str) -> String {
    format!(r#"{{"decision":"{decision}","hash":"{hash}","scope":"{scope}"}}"#)
}

#[tokio::test]
async fn a_decision_is_bound_to_what_was_shown_and_counts_once() {
    let world = World::start().await;
    let browser = world.browser().await;
    world.db().ask(question(1, None, "example.org:443")).await.unwrap();
    let item = browser.get("/api/inbox").await.value()["inbox"][0].clone();
    assert_eq!((item["kind"].as_str(), item["subject"].as_str()), (Some("egress"), Some("example.org:443")), "{item}");
    let path = format!("/api/inbox/{}", item["id"].as_str().unwrap());

    let other = browser.json(Method::POST, &path, word("approve", Hash([9; 32]), "always")).await;
    assert_eq!((other.status, other.code().as_str()), (StatusCode::CONFLICT, "hash_differs"));
    assert!(world.db().entries(None, None).await.unwrap().is_empty(), "a mismatch voids it");

    let denied = browser.json(Method::POST, &path, word("deny", Hash([1; 32]), "always")).await;
    assert_eq!((denied.status, denied.value()["decision"].as_str()), (StatusCode::OK, Some("deny")));
    let late = browser.json(Method::POST, &path, word("approve", Hash([1; 32]), "always")).await;
    assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "decided"));
    assert_eq!(world.db().entries(None, None).await.unwrap(), [("example.org:443".to_owned(), false)]);
    assert_eq!(browser.get("/api/inbox").await.value()["inbox"], serde_json::json!([]));
}

#[tokio::test]
async fn an_approval_reaches_as_far_as_it_says() {
    let world = World::start().await;
    let db = world.db();
    let (one, two) = (TaskId::from([1; 16]), TaskId::from([2; 16]));
    let run = RunId::from([3; 16]);
    for (number, run, entry, scope) in [
        (1, None, "a.example:443", Reach::Once),
        (2, None, "b.example:443", Reach::Always),
        (3, Some(run), "c.example:443", Reach::Run),
    ] {
        db.ask(Approval { run, ..question(number, Some(one), entry) }).await.unwrap();
        let id = InboxId::from([number; 16]);
        let outcome = db.decide(id, Hash([number; 32]), Verdict::Approved { scope }, Timestamp(9)).await;
        assert!(matches!(outcome.unwrap(), Outcome::Kept(_)));
    }
    let allowed = async |task, run| {
        let entries = db.entries(task, run).await.unwrap();
        entries.into_iter().filter(|(_, allowed)| *allowed).map(|(entry, _)| entry).collect::<Vec<_>>()
    };
    assert_eq!(allowed(Some(one), None).await, ["a.example:443", "b.example:443"]);
    assert_eq!(allowed(Some(two), None).await, ["b.example:443"]);
    assert_eq!(allowed(Some(two), Some(run)).await, ["b.example:443", "c.example:443"]);
    assert_eq!(allowed(None, None).await, ["b.example:443"]);
}

#[tokio::test]
async fn a_question_is_asked_once_and_there_are_never_too_many() {
    let world = World::start().await;
    let db = world.db();
    db.ask(question(1, None, "a.example:443")).await.unwrap();
    db.ask(Approval { id: InboxId::from([2; 16]), ..question(1, None, "a.example:443") }).await.unwrap();
    assert_eq!(db.waiting().await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_an_admin_decides_and_nonsense_is_refused() {
    let world = World::start().await;
    world.db().ask(question(1, None, "example.org:443")).await.unwrap();
    let path = format!("/api/inbox/{}", Uuid::from_bytes([1; 16]));
    let good = word("approve", Hash([1; 32]), "always");
    for scope in [Scope::Read, Scope::Run] {
        let answer = world.client_with(scope).await.json(Method::POST, &path, good.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "wrong_scope"));
    }
    let admin = world.client_with(Scope::Admin).await;
    for (body, named) in [
        (word("perhaps", Hash([1; 32]), "once"), "perhaps"),
        (word("approve", Hash([1; 32]), "forever"), "forever"),
        (word("answer", Hash([1; 32]), "once"), "text"),
        (word("approve", Hash([1; 32]), "run"), "run"),
        (r#"{"decision":"approve","hash":"short","scope":"once"}"#.to_owned(), "hash"),
        (r#"{"decision":"approve","hashh":"x","scope":"once"}"#.to_owned(), "hashh"),
    ] {
        let answer = admin.json(Method::POST, &path, body.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.value()["error"]["message"].as_str().unwrap().contains(named), "{body}: {}", answer.value());
    }
    for id in ["nope", "00000000-0000-0000-0000-000000000000"] {
        let answer = admin.json(Method::POST, &format!("/api/inbox/{id}"), good.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"), "{id}");
    }
    assert_eq!(admin.json(Method::POST, &path, good).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.sqlite");
    let old = rusqlite::Connection::open(&path).unwrap();
    let tables = "CREATE TABLE approvals (id BLOB PRIMARY KEY, run BLOB, hash BLOB NOT NULL, decision TEXT NOT NULL,
        scope TEXT NOT NULL, at INTEGER NOT NULL) STRICT; PRAGMA user_version = 1;";
    old.execute_batch(tables).unwrap();
    drop(old);
    let db = choir_control::db::Db::open(&path).unwrap();
    db.ask(question(1, None, "example.org:443")).await.unwrap();
    assert_eq!(db.waiting().await.unwrap(), [question(1, None, "example.org:443")]);
}

fn questioned(tool: &str, subject: &str, run: u8) -> String {
    let (run, task) = (RunId::from([run; 16]), TaskId::from([7; 16]));
    serde_json::json!({"run": run, "task": task, "matter": "call", "tool": tool, "subject": subject}).to_string()
}

async fn asking(policy: Policy) -> World {
    let tools = Tools(["bash", "write_file"].map(|tool| (tool.to_owned(), policy)).into());
    World::with(Config { tools, ..Config::default() }, FakeComputer::default()).await
}

async fn put(world: &World, id: u8, body: String) -> Asked {
    asked(world, Method::PUT, &format!("/inbox/{}", InboxId::from([id; 16])), body).await
}

fn decided(asked: &Asked) -> Option<bool> {
    match asked {
        Asked::Decided { verdict: Verdict::Approved { .. } } => Some(true),
        Asked::Decided { verdict: Verdict::Denied { .. } } => Some(false),
        _ => None,
    }
}

#[tokio::test]
async fn each_policy_decides_a_call_and_the_person_the_rest() {
    for (policy, expected) in [(Policy::Auto, Some(true)), (Policy::Deny, Some(false)), (Policy::Ask, None)] {
        let world = asking(policy).await;
        assert_eq!(decided(&put(&world, 1, questioned("bash", "make", 1)).await), expected, "{policy:?}");
        assert_eq!(decided(&put(&world, 2, questioned("read_file", "{}", 1)).await), Some(true));
        assert_eq!(decided(&put(&world, 3, questioned("mcp__x__y", "{}", 1)).await), None, "from elsewhere");
        let names = serde_json::json!(["bash", "mcp__x__y", "read_file"]).to_string();
        let free: Vec<String> = asked(&world, Method::POST, "/tools/free", names).await;
        let expected: &[&str] = if policy == Policy::Auto { &["bash", "read_file"] } else { &["read_file"] };
        assert_eq!(free, expected, "{policy:?}: nobody has to be asked about these");
    }
}

#[tokio::test]
async fn a_yes_holds_for_the_same_call_as_far_as_it_reaches() {
    let world = asking(Policy::Ask).await;
    let admin = world.client_with(Scope::Admin).await;
    for (id, scope) in [(1, "once"), (2, "run"), (3, "always")] {
        let command = format!("make {scope}");
        let Asked::Waits(waits) = put(&world, id, questioned("bash", &command, 1)).await else { panic!("it waits") };
        assert_eq!((waits.kind, waits.subject.as_str()), (AskKind::Tool, command.as_str()));
        let verdict = async {
            let path = format!("/inbox/{}", waits.id);
            asked::<Verdict>(&world, Method::GET, &path, "").await
        };
        let path = format!("/api/inbox/{}", waits.id);
        let decide = admin.json(Method::POST, &path, word("approve", waits.hash, scope));
        let (verdict, answer) = tokio::join!(verdict, decide);
        assert_eq!(answer.status, StatusCode::OK);
        assert!(matches!(verdict, Verdict::Approved { .. }), "whoever waits hears it: {verdict:?}");
    }
    let mut id = 10;
    let mut holds = async |command: &str, run: u8| {
        id += 1;
        decided(&put(&world, id, questioned("bash", command, run)).await) == Some(true)
    };
    assert!(!holds("make once", 1).await, "another call, though it looks the same");
    assert!(holds("make run", 1).await && !holds("make run", 2).await);
    assert!(holds("make always", 2).await && !holds("make always ", 2).await, "a blank more is another call");
}

#[tokio::test]
async fn a_command_that_nobody_allowed_does_not_run_whatever_the_computer_says() {
    let world = asking(Policy::Ask).await;
    let _: serde_json::Value = asked(&world, Method::PUT, &at(""), r#"{"egress":{"allow":[]}}"#).await;
    let id = InboxId::from([1; 16]);
    let run = async |command: &str| {
        let call = serde_json::json!({"tool": "bash", "inbox_id": id, "run": RunId::from([1; 16])});
        let body = serde_json::json!({"effect_id": "e1", "command": command, "timeout_ms": 9000, "call": call});
        ask(&world, Method::POST, &at("/exec"), body.to_string()).await.0
    };
    assert_eq!(run("echo a").await, StatusCode::FORBIDDEN);
    let Asked::Waits(waits) = put(&world, 1, questioned("bash", "echo a", 1)).await else { panic!("it waits") };
    let body = word("approve", waits.hash, "once");
    world.client_with(Scope::Admin).await.json(Method::POST, &format!("/api/inbox/{id}"), body).await;
    assert_eq!(run("echo b").await, StatusCode::FORBIDDEN, "what runs must be what was approved");
    assert_eq!(run("echo a").await, StatusCode::OK);
}

/// Control knows by itself whose a command is: a computer that names another tool, or none, gets nothing by it.
#[tokio::test]
async fn where_the_person_is_asked_only_what_control_knows_runs_without() {
    let world = asking(Policy::Ask).await;
    let _: serde_json::Value = asked(&world, Method::PUT, &at(""), r#"{"egress":{"allow":[]}}"#).await;
    let mut effects = 0;
    let mut run = async |command: &str, tool: Option<&str>| {
        effects += 1;
        let call = tool.map(
            |tool| serde_json::json!({"tool": tool, "inbox_id": InboxId::from([9; 16]), "run": RunId::from([1; 16])}),
        );
        let effect = format!("e{effects}");
        let body = serde_json::json!({"effect_id": effect, "command": command, "timeout_ms": 9000, "call": call});
        ask(&world, Method::POST, &at("/exec"), body.to_string()).await.0
    };
    assert_eq!(run("echo a", None).await, StatusCode::FORBIDDEN, "nobody gave it");
    assert_eq!(run("echo a", Some("read_file")).await, StatusCode::FORBIDDEN, "under the name of another tool");
    assert_eq!(run(&choir_core::look::search("a", "."), None).await, StatusCode::OK, "it only looks");
    let given = serde_json::json!({"kind": "run", "instruction": "x", "commands": ["echo a"],
        "verify": {"mode": "commands", "commands": ["echo b"]}});
    world.client_with(Scope::Admin).await.json(Method::POST, "/api/tasks", given.to_string()).await;
    assert_eq!(run("echo a", None).await, StatusCode::OK, "the person gave it");
    assert_eq!(run("echo b", None).await, StatusCode::OK, "to check with");
    assert_eq!(run("echo c", None).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn checks_that_a_project_brings_run_where_every_command_is_asked_about() {
    let world = asking(Policy::Ask).await;
    let makefile = "test:\n\ttrue\n";
    world.browser().await.send(Method::PUT, "/api/files?path=Makefile", makefile.into()).await;
    let started: AssociateStarted = asked(&world, Method::PUT, &at(""), r#"{"egress":{"allow":[]}}"#).await;
    let tree = started.base_tree.unwrap();
    let file = TreeFile { path: "Makefile".into(), hash: tree, text: Some(makefile.into()) };
    let brought = discover(&[file], &[], VerifyMode::Commands).steps.pop().unwrap().command;
    let checking = format!("/associates/{}", TaskId::from([8; 16]));
    let body = serde_json::json!({"egress": {"allow": []}, "check": {"base_tree": tree, "result_tree": tree}});
    let _: serde_json::Value = asked(&world, Method::PUT, &checking, body.to_string()).await;
    let run = async |place: &str, command: &str, effect: &str| {
        let body = serde_json::json!({"effect_id": effect, "command": command, "timeout_ms": 9000});
        ask(&world, Method::POST, &format!("{place}/exec"), body.to_string()).await.0
    };
    assert_eq!(run(&checking, &brought, "e1").await, StatusCode::OK, "{brought}");
    assert_eq!(run(&checking, "rm -rf .", "e2").await, StatusCode::FORBIDDEN);
    assert_eq!(run(&at(""), &brought, "e3").await, StatusCode::FORBIDDEN, "a worker's sandbox is no place for checks");
}

#[tokio::test]
async fn a_file_that_nobody_allowed_is_not_written_whatever_the_computer_says() {
    let world = asking(Policy::Ask).await;
    let _: serde_json::Value = asked(&world, Method::PUT, &at(""), r#"{"egress":{"allow":[]}}"#).await;
    let put_file = async |path: &str| ask(&world, Method::PUT, &at(&format!("/files?path={path}")), "x").await.0;
    assert_eq!(put_file("a.txt").await, StatusCode::FORBIDDEN);
    assert_eq!(put_file(".choir-page-e1").await, StatusCode::NO_CONTENT, "a page that is read");
    let arguments = serde_json::json!({"path": "a.txt", "content": "x"});
    let write = async |tool: &str, arguments: &serde_json::Value| {
        let call = serde_json::json!({"tool": tool, "inbox_id": InboxId::from([1; 16]), "run": RunId::from([1; 16])});
        let body = serde_json::json!({"arguments": arguments, "call": call});
        ask(&world, Method::POST, &at("/write"), body.to_string()).await.0
    };
    assert_eq!(write("write_file", &arguments).await, StatusCode::FORBIDDEN);
    assert_eq!(write("list_files", &arguments).await, StatusCode::FORBIDDEN);
    let question = questioned("write_file", &arguments.to_string(), 1);
    let Asked::Waits(waits) = put(&world, 1, question).await else { panic!("it waits") };
    let path = format!("/api/inbox/{}", waits.id);
    world.client_with(Scope::Admin).await.json(Method::POST, &path, word("approve", waits.hash, "once")).await;
    let other = serde_json::json!({"path": "a.txt", "content": "y"});
    assert_eq!(write("write_file", &other).await, StatusCode::FORBIDDEN, "what is written must be what was approved");
    assert_eq!(write("write_file", &arguments).await, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn what_was_approved_for_one_way_out_is_asked_about_again_for_another() {
    let world = asking(Policy::Ask).await;
    let (run, near, far) = (RunId::from([1; 16]), TaskId::from([7; 16]), TaskId::from([8; 16]));
    for (task, allow) in [(near, vec![]), (far, vec!["registries"])] {
        let body = serde_json::json!({"egress": {"allow": allow}}).to_string();
        let _: serde_json::Value = asked(&world, Method::PUT, &format!("/associates/{task}"), body).await;
    }
    let question = |task: TaskId| {
        serde_json::json!({"run": run, "task": task, "matter": "call", "tool": "bash", "subject": "./deploy"})
            .to_string()
    };
    let Asked::Waits(first) = put(&world, 1, question(near)).await else { panic!("it waits") };
    let path = format!("/api/inbox/{}", first.id);
    world.client_with(Scope::Admin).await.json(Method::POST, &path, word("approve", first.hash, "run")).await;
    assert!(matches!(put(&world, 2, question(near)).await, Asked::Decided { .. }), "the same again");
    assert_eq!(decided(&put(&world, 1, question(far)).await), Some(false), "nor under the name of the first");
    let Asked::Waits(second) = put(&world, 3, question(far)).await else { panic!("it waits") };
    assert!(second.hash != first.hash && second.question.contains("registries"), "{}", second.question);
}

#[tokio::test]
async fn a_question_says_which_words_answer_it() {
    let world = World::start().await;
    let admin = world.client_with(Scope::Admin).await;
    let (run, task) = (RunId::from([1; 16]), TaskId::from([7; 16]));
    let words = serde_json::json!(["mine", "theirs", "both"]);
    let mut body = serde_json::json!({"run": run, "task": task, "matter": "question", "question": "Whose?"});
    put(&world, 1, body.to_string()).await;
    body["answers"] = words.clone();
    let Asked::Waits(waits) = put(&world, 2, body.to_string()).await else { panic!("it waits") };
    assert_eq!(waits.answers, Side::ALL, "the log is told too");
    let inbox = admin.get("/api/inbox").await.value()["inbox"].clone();
    assert_eq!((inbox[0].get("answers"), inbox[1].get("answers")), (None, Some(&words)), "{inbox}");
}

#[tokio::test]
async fn what_was_asked_can_be_read_in_a_database_of_the_version_before() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("control")).unwrap();
    let path = directory.path().join("control/control.sqlite");
    let db = choir_control::db::Db::open(&path).unwrap();
    db.ask(question(1, None, "example.org:443")).await.unwrap();
    let older = rusqlite::Connection::open(&path).unwrap();
    older.execute_batch("ALTER TABLE approvals DROP COLUMN answers; PRAGMA user_version = 8").unwrap();
    let read = choir_control::db::approvals(directory.path(), |path| rusqlite::Connection::open(path)).unwrap();
    assert_eq!(read, [question(1, None, "example.org:443")]);
}

#[tokio::test]
async fn a_question_is_answered_with_words_and_can_be_taken_back() {
    let world = World::start().await;
    let admin = world.client_with(Scope::Admin).await;
    let (run, task) = (RunId::from([1; 16]), TaskId::from([7; 16]));
    let body = serde_json::json!({"run": run, "task": task, "matter": "question", "question": "Which year?"});
    let Asked::Waits(waits) = put(&world, 1, body.to_string()).await else { panic!("it waits") };
    let item = admin.get("/api/inbox").await.value()["inbox"][0].clone();
    assert_eq!((item["kind"].as_str(), item["question"].as_str()), (Some("question"), Some("Which year?")), "{item}");
    let path = format!("/api/inbox/{}", waits.id);
    let refused = admin.json(Method::POST, &path, word("approve", waits.hash, "once")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "a question takes an answer");
    let answer = serde_json::json!({"decision": "answer", "hash": waits.hash, "text": "1984"}).to_string();
    assert_eq!(admin.json(Method::POST, &path, answer).await.status, StatusCode::OK);
    let inside = format!("/inbox/{}", waits.id);
    let said: Verdict = asked(&world, Method::GET, &inside, "").await;
    assert_eq!(said, Verdict::Answered { text: "1984".into() });

    let Asked::Waits(second) = put(&world, 2, body.to_string()).await else { panic!("it waits") };
    let inside = format!("/inbox/{}", second.id);
    let none: Option<Verdict> = asked(&world, Method::DELETE, &inside, "").await;
    assert_eq!(none, None);
    assert_eq!(admin.get("/api/inbox").await.value()["inbox"], serde_json::json!([]));
    assert_eq!(asked::<Verdict>(&world, Method::GET, &inside, "").await, Verdict::Withdrawn);
}

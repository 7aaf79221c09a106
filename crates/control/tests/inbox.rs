//! What waits for a person's word, and what their word is bound to.

use crate::support::World;
use choir_control::db::{Approval, Decided, Outcome, Reach, Scope};
use choir_proto::{Hash, TaskId, Timestamp};
use http::{Method, StatusCode};
use uuid::Uuid;

fn question(number: u8, task: Option<TaskId>, entry: &str) -> Approval {
    let id = Uuid::from_bytes([number; 16]);
    let (entry, hash, asked) = (entry.to_owned(), Hash([number; 32]), Timestamp(number.into()));
    Approval { id, task, entry, hash, asked, decided: None }
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
    assert!(world.db().granted(None).await.unwrap().is_empty(), "a mismatch voids it");

    let denied = browser.json(Method::POST, &path, word("deny", Hash([1; 32]), "always")).await;
    assert_eq!((denied.status, denied.value()["decision"].as_str()), (StatusCode::OK, Some("deny")));
    let late = browser.json(Method::POST, &path, word("approve", Hash([1; 32]), "always")).await;
    assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "decided"));
    assert!(world.db().granted(None).await.unwrap().is_empty());
    assert_eq!(browser.get("/api/inbox").await.value()["inbox"], serde_json::json!([]));
}

#[tokio::test]
async fn an_approval_reaches_as_far_as_it_says() {
    let world = World::start().await;
    let db = world.db();
    let (one, two) = (TaskId::from([1; 16]), TaskId::from([2; 16]));
    for (number, task, entry, reach) in
        [(1, Some(one), "a.example:443", Reach::Once), (2, Some(one), "b.example:443", Reach::Always)]
    {
        db.ask(question(number, task, entry)).await.unwrap();
        let decided = Decided { approved: true, reach };
        let outcome = db.decide(Uuid::from_bytes([number; 16]), Hash([number; 32]), decided, Timestamp(9)).await;
        assert!(matches!(outcome.unwrap(), Outcome::Kept(_)));
    }
    assert_eq!(db.granted(Some(one)).await.unwrap(), ["a.example:443", "b.example:443"]);
    assert_eq!(db.granted(Some(two)).await.unwrap(), ["b.example:443"]);
    assert_eq!(db.granted(None).await.unwrap(), ["b.example:443"]);
}

#[tokio::test]
async fn a_question_is_asked_once_and_there_are_never_too_many() {
    let world = World::start().await;
    let db = world.db();
    db.ask(question(1, None, "a.example:443")).await.unwrap();
    db.ask(Approval { id: Uuid::from_bytes([2; 16]), ..question(1, None, "a.example:443") }).await.unwrap();
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

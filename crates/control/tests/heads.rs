//! What control has seen of a log, signed.

use crate::support::computer::FakeComputer;
use crate::support::{World, options};
use choir_control::clock::Clock;
use choir_control::computer::State;
use choir_control::db::{Db, Head, HeadsError, Scope, heads};
use choir_control::{data, up};
use choir_proto::{ComputerId, Hash, Seq};
use ed25519_dalek::SigningKey;
use http::{Method, StatusCode};
use std::path::Path;
use tempfile::TempDir;

#[tokio::test]
async fn the_last_position_is_signed_and_a_changed_one_is_noticed() {
    let world = World::with(Default::default(), FakeComputer::with_events(3)).await;
    let mut socket = world.client_with(Scope::Read).await.upgrade("/api/stream?after=3").await.unwrap();
    world.computer.append(4);
    assert_eq!(socket.events(4).await, [4, 5, 6, 7]);
    let directory = world.directory;
    world.control.stop().await;

    let signed = heads(directory.path(), |path| rusqlite::Connection::open(path)).unwrap();
    assert_eq!(signed.len(), 1);
    assert_eq!((signed[0].seq, &signed[0].hash.0[..8]), (Seq(7), &7_u64.to_be_bytes()[..]));

    let database = rusqlite::Connection::open(directory.path().join("control/control.sqlite")).unwrap();
    database.execute("UPDATE heads SET seq = 6", []).unwrap();
    assert!(matches!(heads(directory.path(), |path| rusqlite::Connection::open(path)), Err(HeadsError::Forged { .. })));
}

/// A data directory whose log was seen up to an event.
async fn signed_up_to(events: u64) -> TempDir {
    let World { control, directory, .. } = World::with(Default::default(), FakeComputer::with_events(events)).await;
    control.stop().await;
    assert_eq!(
        heads(directory.path(), |path| rusqlite::Connection::open(path)).unwrap()[0].seq,
        Seq(events),
        "signed from the first start on"
    );
    directory
}

/// Starts on a directory with another log and says how that is refused.
async fn refused(directory: &Path, computer: &FakeComputer) -> up::Error {
    let options = options(directory, Default::default(), computer, Clock::system());
    let mut control = match up::start(options).await {
        Ok(control) => control,
        Err(error) => return error,
    };
    let error = control.settled().await.expect_err("a start on another log");
    control.stop().await;
    error
}

#[tokio::test]
async fn a_shorter_log_than_the_signed_one_ends_the_start() {
    let directory = signed_up_to(7).await;
    for events in [0, 6] {
        let error = refused(directory.path(), &FakeComputer::with_events(events)).await;
        let said = format!("the log ends at {events}, but control has seen 7");
        assert!(matches!(&error, up::Error::Contradicted(reason) if *reason == said), "{error}");
    }
}

#[tokio::test]
async fn another_event_in_the_place_of_the_signed_one_ends_the_start() {
    let directory = signed_up_to(7).await;
    let other = FakeComputer::with_events(6);
    let hash = Hash([9; 32]);
    other.forge(7, format!(r#"{{"seq":7,"prev":"{hash}","hash":"{hash}"}}"#));
    other.append(3);
    let error = refused(directory.path(), &other).await;
    assert!(matches!(&error, up::Error::Contradicted(reason) if reason.contains("event 7")), "{error}");
    assert_eq!(
        heads(directory.path(), |path| rusqlite::Connection::open(path)).unwrap()[0].seq,
        Seq(7),
        "what was signed stays signed"
    );
}

#[tokio::test]
async fn a_directory_that_is_gone_is_not_made_anew() {
    let directory = signed_up_to(2).await;
    let computers = directory.path().join("computers");
    let id = std::fs::read_dir(&computers).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&id).unwrap();
    let error = refused(directory.path(), &FakeComputer::with_events(9)).await;
    assert!(matches!(error, up::Error::Contradicted(_)), "{error}");
    assert!(!id.exists());
}

#[tokio::test]
async fn a_head_never_goes_back() {
    let directory = tempfile::tempdir().unwrap();
    let data = data::DataDir::open(directory.path()).unwrap();
    let db = Db::open(&data.database()).unwrap();
    let key = SigningKey::from_bytes(&[7; 32]);
    std::fs::write(data.control().join("signing.key"), key.to_bytes()).unwrap();
    let computer = ComputerId::from([1; 16]);
    let head = |seq: u64| Head { computer, seq: Seq(seq), hash: Hash([seq as u8; 32]) };
    for seq in [5, 9, 8, 3] {
        db.sign_head(head(seq), &key).await.unwrap();
    }
    assert_eq!(heads(directory.path(), |path| rusqlite::Connection::open(path)).unwrap(), [head(9)]);
}

#[tokio::test]
async fn nothing_is_written_to_a_log_that_contradicts_itself() {
    let world = World::with(Default::default(), FakeComputer::with_events(2)).await;
    let client = world.client_with(Scope::Admin).await;
    let hash = Hash::ZERO;
    world.computer.forge(9, format!(r#"{{"seq":9,"prev":"{hash}","hash":"{hash}"}}"#));
    let mut state = world.control.computer.clone();
    state.wait_for(|state| matches!(state, State::Contradicted { .. })).await.unwrap();
    for (method, path) in
        [(Method::POST, "/api/echo"), (Method::POST, "/api/terminals"), (Method::PUT, "/api/files?path=a")]
    {
        let answer = client.json(method, path, r#"{"cols":80,"rows":24}"#).await;
        let said = (answer.status, answer.code());
        assert_eq!(said, (StatusCode::SERVICE_UNAVAILABLE, "log_contradicted".into()), "{path}");
    }
    assert_eq!(client.get("/api/echo").await.status, StatusCode::OK, "it can still be read");
    assert_eq!(client.json(Method::PUT, "/api/settings", "{}").await.status, StatusCode::OK, "and control is its own");
}

#[tokio::test]
async fn a_key_that_something_rests_on_is_not_made_anew() {
    let world = World::with(Default::default(), FakeComputer::with_events(3)).await;
    let admin = world.client_with(Scope::Admin).await;
    let sealed = admin.json(Method::PUT, "/api/providers/openai", r#"{"key":"sk-test"}"#).await;
    assert_eq!(sealed.status, StatusCode::NO_CONTENT);
    let World { control, directory, .. } = world;
    control.stop().await;
    for name in ["signing.key", "seal.key"] {
        let file = directory.path().join("control").join(name);
        let key = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let error = refused(directory.path(), &FakeComputer::with_events(3)).await;
        assert!(matches!(error, up::Error::Data(data::Error::KeyGone { .. })), "{name}: {error}");
        assert!(!file.exists(), "{name} was made anew");
        std::fs::write(&file, key).unwrap();
    }
}

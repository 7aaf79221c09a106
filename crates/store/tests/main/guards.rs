//! What keeps a log true when something else goes wrong: each guard is tested by what happens without it.

use crate::fixture::{all, directory, event};
use choir_proto::event::{DocumentCompacted, NewEvent};
use choir_proto::{DocumentId, Seq};
use choir_store::{AppendError, Blobs, Expect, Log, OpenError, Query, verify};
use rusqlite::Connection;
use std::path::Path;

/// Somebody else's hand on the file of a log that is open.
fn other_hand(directory: &Path) -> Connection {
    Connection::open(directory.join("log.sqlite")).unwrap()
}

const COPY_NEWEST: &str =
    "INSERT INTO events SELECT seq + 1, x'00112233445566778899aabbccddeeff', epoch, at, actor, run,
    task, cause, kind, version, place, payload, payload_hash, hash FROM events WHERE seq = 3";

#[tokio::test]
async fn what_is_on_disk_but_not_acknowledged_is_seen_by_nobody() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=3).map(event).collect(), Expect::Any).await.unwrap();
    other_hand(directory.path()).execute_batch(COPY_NEWEST).unwrap();
    let seen = |query| {
        let log = log.clone();
        async move { log.read(query).await.unwrap().iter().map(|event| event.header.seq.0).collect::<Vec<_>>() }
    };
    assert_eq!(seen(Query { limit: 10, ..Query::default() }).await, [1, 2, 3]);
    assert_eq!(seen(Query { limit: 10, upto: Some(Seq(4)), ..Query::default() }).await, [1, 2, 3]);
    let mut follower = log.subscribe(Seq(0));
    assert_eq!(follower.next().await.unwrap().len(), 3);
    let later = tokio::time::timeout(std::time::Duration::from_millis(50), follower.next()).await;
    assert!(later.is_err(), "a follower waits for the head, not for the file");
}

#[tokio::test]
async fn a_blob_that_many_events_name_is_counted_and_missed_once() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let named = ["one", "two"].map(|text| log.blobs().put(text.as_bytes()).unwrap());
    let events = (1..=6).map(|number| {
        let state = named[number as usize % 2];
        let compacted = DocumentCompacted { document_id: DocumentId::from([7; 16]), version: 1, state };
        NewEvent { event: compacted.into(), ..event(number) }
    });
    log.append(events.collect(), Expect::Any).await.unwrap();
    log.close().await;
    let seen = || verify(directory.path(), &[], |_| {}).unwrap();
    assert_eq!((seen().events, seen().blobs, seen().faults), (6, 2, Vec::new()));
    let name = named[0].to_string();
    std::fs::remove_file(directory.path().join("blobs").join(&name[..2]).join(&name[2..])).unwrap();
    let faults = seen().faults;
    assert!(faults.len() == 1 && faults[0].starts_with("event 2 names a blob"), "{faults:?}");
}

/// A failed commit may leave a connection that believes what the disk does not hold. The next append opens the file anew
/// and looks at it first: here it finds an event that is not what it was.
#[tokio::test]
async fn after_a_failed_commit_the_file_is_looked_at_again_before_anything_is_added() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=3).map(event).collect(), Expect::Any).await.unwrap();
    let other = other_hand(directory.path());
    other.execute_batch("BEGIN IMMEDIATE; UPDATE events SET actor = 'control' WHERE seq = 3").unwrap();
    assert!(matches!(log.append(vec![event(4)], Expect::Any).await, Err(AppendError::Failed(_))));
    assert_eq!(log.head().seq, Seq(3), "what failed was told to nobody");
    other.execute_batch("COMMIT").unwrap();
    assert!(
        matches!(log.append(vec![event(4)], Expect::Any).await, Err(AppendError::Failed(_))),
        "nothing is added to a log whose end is damaged"
    );
    other.execute_batch("UPDATE events SET actor = 'person' WHERE seq = 3").unwrap();
    assert_eq!(log.append(vec![event(4)], Expect::Any).await.unwrap().first, Seq(4), "and then it goes on");
    assert_eq!(all(&log).await.len(), 4);
    log.close().await;
    drop(other);
    assert!(verify(directory.path(), &[], |_| ()).unwrap().faults.is_empty());
}

/// A log that lost acknowledged events while it was not looked at is not continued under other events.
#[tokio::test]
async fn after_a_failed_commit_a_log_that_lost_its_end_is_not_continued() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=3).map(event).collect(), Expect::Any).await.unwrap();
    let other = other_hand(directory.path());
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM events WHERE seq = 3").unwrap();
    assert!(log.append(vec![event(4)], Expect::Any).await.is_err());
    other.execute_batch("COMMIT").unwrap();
    let failed = log.append(vec![event(4)], Expect::Any).await;
    assert!(matches!(failed, Err(AppendError::Failed(why)) if why.to_string().contains("gone")));
}

/// Somebody has seen how far the log went. One that does not hold that event is not opened, and not touched.
#[tokio::test]
async fn a_log_that_does_not_hold_what_was_seen_of_it_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("log.sqlite");
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=3).map(event).collect(), Expect::Any).await.unwrap();
    let seen = log.head();
    log.close().await;
    Log::open_seen(directory.path(), seen).unwrap().close().await;
    let whole = std::fs::read(&path).unwrap();
    for harm in ["DELETE FROM events WHERE seq = 3", "UPDATE events SET hash = payload_hash WHERE seq = 3"] {
        other_hand(directory.path()).execute_batch(harm).unwrap();
        let harmed = std::fs::read(&path).unwrap();
        assert!(matches!(Log::open_seen(directory.path(), seen), Err(OpenError::Contradicted { .. })), "{harm}");
        assert_eq!(std::fs::read(&path).unwrap(), harmed, "{harm}");
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Log::open_seen(directory.path(), seen), Err(OpenError::Contradicted { .. })));
    assert!(!path.exists(), "and none is made anew");
}

/// Content that was synced before the process died, and that no event names: it is there, and it disturbs nobody.
#[tokio::test]
async fn a_crash_between_content_and_event_leaves_a_whole_log() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1)], Expect::Any).await.unwrap();
    let orphan = log.blobs().put(b"of an event that never came").unwrap();
    std::fs::write(directory.path().join("blobs/tmp/7"), b"half a bl").unwrap();
    // Everything as it lies on the disk at this moment, while the first holder still runs.
    let after = self::directory();
    copy(directory.path(), after.path());
    let again = Log::open(after.path()).unwrap();
    assert_eq!(all(&again).await.len(), 1);
    assert_eq!(std::fs::read_dir(after.path().join("blobs/tmp")).unwrap().count(), 0, "halves are swept away");
    assert_eq!(again.blobs().put(b"of an event that never came").unwrap(), orphan, "and the same can be put again");
    again.append(vec![event(2)], Expect::Any).await.unwrap();
    again.close().await;
    assert!(verify(after.path(), &[], |_| ()).unwrap().faults.is_empty());
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                std::fs::create_dir(&target).unwrap();
                copy(&entry.path(), &target);
            }
            false => drop(std::fs::copy(entry.path(), &target).unwrap()),
        }
    }
}

/// Half of something large may be what fills the disk.
#[test]
fn a_blob_that_could_not_be_kept_leaves_nothing_behind() {
    let directory = directory();
    let blobs = Blobs::open(directory.path()).unwrap();
    let hash = choir_store::sha256(b"content").to_string();
    std::fs::create_dir_all(directory.path().join(&hash[..2]).join(&hash[2..]).join("in the way")).unwrap();
    assert!(blobs.put(b"content").is_err());
    assert_eq!(std::fs::read_dir(directory.path().join("tmp")).unwrap().count(), 0);
}

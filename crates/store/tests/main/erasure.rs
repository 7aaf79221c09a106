use crate::fixture::{all, directory, event, steer};
use choir_proto::event::{ArtifactImported, NewEvent, PayloadErased};
use choir_proto::{EventId, Hash, Seq};
use choir_store::log::PAYLOAD_INLINE_BYTES_MAX;
use choir_store::{AppendError, Erasure, Expect, Log, verify};
use uuid::Uuid;

/// Of the first event, when the log ends at `upto`.
fn erasure(upto: u64, erased: PayloadErased, blobs: Vec<Hash>) -> Erasure {
    let tombstone = NewEvent { event: erased.into(), ..event(u128::from(upto) + 1) };
    Erasure { target: event(1).id, tombstone, blobs, unnamed_upto: Seq(upto) }
}

#[tokio::test]
async fn an_erased_payload_is_gone_from_disk_and_the_chain_still_holds() {
    const SECRET: &str = "sk-canary-0123456789";
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    // Long enough for pages of its own, which are only put aside when they are not needed any more.
    let long = format!("{}{SECRET}", "x".repeat(20_000));
    log.append(vec![event(1), steer(2, &long), event(3)], Expect::Any).await.unwrap();
    let target = EventId::new(Uuid::from_u128(2));
    let erased = PayloadErased { event_id: target, seq: Seq(2), blobs: Vec::new(), document_id: None };
    let tombstone = NewEvent { event: erased.into(), ..event(4) };
    log.erase(Erasure { target, tombstone, blobs: Vec::new(), unnamed_upto: Seq(3) }).await.unwrap();
    let followed = log.subscribe(Seq(1)).next().await.unwrap();
    assert_eq!(followed[0].payload.get(), "null", "not in memory either");

    let events = all(&log).await;
    assert_eq!((events[1].payload.get(), events[1].damaged), ("null", false));
    assert_eq!(events[3].header.kind, "payload.erased");
    log.close().await;
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!((report.events, report.erased, report.faults), (4, 1, Vec::new()));
    for file in
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "found in {}", file.display());
    }
}

/// Stands for a crash between the tombstone's commit and the removal: the blob is put back as it was.
#[tokio::test]
async fn an_erasure_that_a_crash_cut_off_is_finished_at_the_next_start() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let large = "x".repeat(PAYLOAD_INLINE_BYTES_MAX);
    let kept = log.blobs().put(b"of another event").unwrap();
    let named = log.blobs().put(b"named by the event").unwrap();
    log.append(vec![steer(1, &large)], Expect::Any).await.unwrap();
    let payload = log.find(steer(1, "").id).await.unwrap().unwrap().header.payload_hash;
    let payload_bytes = log.blobs().get(&payload).unwrap();
    let erased = PayloadErased { event_id: steer(1, "").id, seq: Seq(1), blobs: vec![named], document_id: None };
    log.erase(erasure(1, erased, vec![named])).await.unwrap();
    log.blobs().put(b"named by the event").unwrap();
    log.blobs().put(&payload_bytes).unwrap();
    log.close().await;

    let log = Log::open(directory.path()).unwrap();
    assert!(log.blobs().get(&named).is_err() && log.blobs().get(&payload).is_err());
    assert!(log.blobs().get(&kept).is_ok());
}

#[tokio::test]
async fn a_payload_that_another_event_shares_stays() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let large = "x".repeat(PAYLOAD_INLINE_BYTES_MAX);
    log.append(vec![steer(1, &large), steer(2, &large)], Expect::Any).await.unwrap();
    let erased = PayloadErased { event_id: steer(1, "").id, seq: Seq(1), blobs: Vec::new(), document_id: None };
    log.erase(erasure(2, erased, Vec::new())).await.unwrap();
    log.close().await;
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!((report.erased, report.faults), (1, Vec::new()));
}

fn artifact(number: u128, content_hash: Hash) -> NewEvent {
    let imported = ArtifactImported {
        artifact_id: Uuid::from_u128(number).into_bytes().into(),
        content_hash,
        size: 8,
        media_type: "text/plain".into(),
        origin: "a test".into(),
        text: None,
        unreadable: None,
    };
    NewEvent { event: imported.into(), ..event(number) }
}

/// Others may put the same content while it is being erased: what they were told is stored stays, and what came too late is
/// refused instead of being acknowledged without its content.
#[tokio::test]
async fn content_that_somebody_else_named_meanwhile_stays() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let content = log.blobs().put(b"evidence").unwrap();
    log.append(vec![artifact(1, content)], Expect::Any).await.unwrap();
    // Named after the eraser had looked.
    log.append(vec![artifact(2, content)], Expect::Any).await.unwrap();
    let erased = PayloadErased { event_id: event(1).id, seq: Seq(1), blobs: vec![content], document_id: None };
    let tombstone = NewEvent { event: erased.into(), ..event(3) };
    let blobs = vec![content];
    log.erase(Erasure { target: event(1).id, tombstone, blobs, unnamed_upto: Seq(1) }).await.unwrap();
    assert!(log.blobs().get(&content).is_ok());

    let erased = PayloadErased { event_id: event(2).id, seq: Seq(2), blobs: vec![content], document_id: None };
    let tombstone = NewEvent { event: erased.into(), ..event(4) };
    let blobs = vec![content];
    log.erase(Erasure { target: event(2).id, tombstone, blobs, unnamed_upto: Seq(3) }).await.unwrap();
    assert!(log.blobs().get(&content).is_err());
    let late = log.append(vec![artifact(5, content)], Expect::Any).await;
    assert!(matches!(late, Err(AppendError::Missing(hash)) if hash == content));
    log.close().await;
    assert!(verify(directory.path(), &[], |_| ()).unwrap().faults.is_empty());
}

/// Somebody who reads an old page of the file keeps it in the write-ahead log. They are not waited for, and not hidden.
#[tokio::test]
async fn an_erasure_that_a_reader_holds_up_says_so_and_is_finished_later() {
    const SECRET: &str = "sk-canary-9876543210";
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![steer(1, SECRET)], Expect::Any).await.unwrap();
    let holds = |name: &str| {
        let bytes = std::fs::read(directory.path().join(name)).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    let reader = rusqlite::Connection::open(directory.path().join("log.sqlite")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events;").unwrap();
    let erase = || {
        let erased = PayloadErased { event_id: event(1).id, seq: Seq(1), blobs: Vec::new(), document_id: None };
        log.erase(erasure(1, erased, Vec::new()))
    };
    assert!(matches!(erase().await, Err(AppendError::Lingers)));
    assert!(holds("log.sqlite-wal"));
    drop(reader);
    assert!(erase().await.unwrap().repeated, "nothing is added, only finished");
    assert!(!holds("log.sqlite-wal") && !holds("log.sqlite"));
    assert_eq!(all(&log).await.len(), 2);
}

/// A disk that keeps a file is not hidden behind an acknowledgement: whoever erases hears of it, and finishes it by erasing again.
#[tokio::test]
async fn an_erasure_whose_file_stays_says_so_and_is_finished_later() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let named = log.blobs().put(b"named by the event").unwrap();
    log.append(vec![artifact(1, named)], Expect::Any).await.unwrap();
    // No file of that name can be removed, not even by root: it is a directory, and not an empty one.
    let name = named.to_string();
    let path = directory.path().join("blobs").join(&name[..2]).join(&name[2..]);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("stays")).unwrap();
    let erase = || {
        let erased = PayloadErased { event_id: event(1).id, seq: Seq(1), blobs: vec![named], document_id: None };
        log.erase(erasure(1, erased, vec![named]))
    };
    assert!(matches!(erase().await, Err(AppendError::Unremoved(hash)) if hash == named));
    std::fs::remove_dir_all(&path).unwrap();
    log.blobs().put(b"named by the event").unwrap();
    assert!(erase().await.unwrap().repeated, "nothing is added, only finished");
    assert!(log.blobs().get(&named).is_err());
    assert_eq!(all(&log).await.len(), 2);
}

/// Whoever holds the file can take a payload out of it. Only a tombstone makes that an erasure.
#[tokio::test]
async fn a_payload_that_vanished_without_a_tombstone_is_not_erased() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1), event(2), event(3)], Expect::Any).await.unwrap();
    let erased = PayloadErased { event_id: event(1).id, seq: Seq(1), blobs: Vec::new(), document_id: None };
    log.erase(erasure(3, erased, Vec::new())).await.unwrap();
    log.close().await;
    let connection = rusqlite::Connection::open(directory.path().join("log.sqlite")).unwrap();
    connection.execute_batch("UPDATE events SET place = 2, payload = NULL WHERE seq = 2").unwrap();
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!(report.faults, ["the payload of event 2 is gone, and no tombstone says that it was erased"]);
}

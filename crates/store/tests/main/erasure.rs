use crate::fixture::{all, directory, event, steer};
use choir_proto::event::{NewEvent, PayloadErased};
use choir_proto::{EventId, Seq};
use choir_store::log::PAYLOAD_INLINE_BYTES_MAX;
use choir_store::{Expect, Log, verify};
use uuid::Uuid;

#[tokio::test]
async fn an_erased_payload_is_gone_from_disk_and_the_chain_still_holds() {
    const SECRET: &str = "sk-canary-0123456789";
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1), steer(2, SECRET), event(3)], Expect::Any).await.unwrap();
    let target = EventId::new(Uuid::from_u128(2));
    let erased = PayloadErased { event_id: target, seq: Seq(2), blobs: Vec::new() };
    log.erase(target, NewEvent { event: erased.into(), ..event(4) }, Vec::new()).await.unwrap();

    let events = all(&log).await;
    assert_eq!(events[1].payload.get(), "null");
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
    let erased = PayloadErased { event_id: steer(1, "").id, seq: Seq(1), blobs: vec![named] };
    log.erase(steer(1, "").id, NewEvent { event: erased.into(), ..event(2) }, vec![named]).await.unwrap();
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
    let erased = PayloadErased { event_id: steer(1, "").id, seq: Seq(1), blobs: Vec::new() };
    log.erase(steer(1, "").id, NewEvent { event: erased.into(), ..event(3) }, Vec::new()).await.unwrap();
    log.close().await;
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!((report.erased, report.faults), (1, Vec::new()));
}

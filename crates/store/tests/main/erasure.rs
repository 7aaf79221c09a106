use crate::fixture::{all, directory, event, steer};
use choir_proto::event::{NewEvent, PayloadErased};
use choir_proto::{EventId, Seq};
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

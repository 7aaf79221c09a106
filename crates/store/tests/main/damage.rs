//! What a bad spot of the disk takes away, and who is told.

use crate::fixture::{all, directory, event, steer};
use crate::views::counts;
use choir_proto::event::{NewEvent, UnknownEvent};
use choir_proto::{Event, Seq};
use choir_store::{Expect, LiveViews, Log, OpenError, Query, StoreError, Views, verify};
use serde_json::value::RawValue;

/// One bad spot must not take away what was written around it.
#[tokio::test]
async fn a_damaged_payload_is_absent_and_everything_else_is_read() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let large = "x".repeat(choir_store::log::PAYLOAD_INLINE_BYTES_MAX);
    log.append(vec![event(1), steer(2, &large), event(3)], Expect::Any).await.unwrap();
    let blob = log.find(event(2).id).await.unwrap().unwrap().header.payload_hash.to_string();
    log.close().await;
    std::fs::write(directory.path().join("blobs").join(&blob[..2]).join(&blob[2..]), b"flipped").unwrap();
    // A blob is not the end of the log, also when one of the newest events is in it.
    let log = Log::open(directory.path()).unwrap();
    let connection = rusqlite::Connection::open(directory.path().join("log.sqlite")).unwrap();
    connection
        .execute_batch(
            "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), '3', '4') AS BLOB) WHERE seq = 3",
        )
        .unwrap();
    let payloads: Vec<String> = all(&log).await.iter().map(|event| event.payload.get().to_owned()).collect();
    assert_eq!(payloads, [r#"{"text":"note 1"}"#, "null", "null"]);
    let damaged: Vec<bool> = all(&log).await.iter().map(|event| event.damaged).collect();
    assert_eq!(damaged, [false, true, true], "nobody takes them for erased");
    assert_eq!(log.damage(), Some("what event 2 says is damaged"), "and whoever asks is told");
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!(report.faults.len(), 2, "{:?}", report.faults);
    // The newest rows are checked at the start, so that nothing is appended to a damaged end.
    log.close().await;
    assert!(matches!(Log::open(directory.path()), Err(OpenError::Damaged { .. })));
}

#[tokio::test]
async fn a_missing_event_is_noticed_by_whoever_reads_over_it() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let connection = rusqlite::Connection::open(directory.path().join("log.sqlite")).unwrap();
    connection.execute_batch("DELETE FROM events WHERE seq = 4").unwrap();
    log.read(Query { after: Seq(4), limit: 9, ..Query::default() }).await.unwrap();
    assert_eq!(log.damage(), None, "it was not read");
    let before = log.read(Query { limit: 9, ..Query::default() }).await.unwrap();
    assert_eq!(before.len(), 3, "nobody is led over it unawares");
    assert_eq!(log.damage(), Some("event 4 cannot be read"));
    let lost = log.read(Query { after: Seq(3), limit: 9, ..Query::default() }).await.unwrap_err();
    assert!(matches!(lost, StoreError::Hole(hole) if (hole.first, hole.last) == (Seq(4), Seq(4))), "{lost}");
    assert_eq!(log.find(event(9).id).await.unwrap().unwrap().header.seq, Seq(9));
}

/// Overwrites the page in which an event lies, and says which others lie there.
fn damage_page_of(path: &std::path::Path, seq: u64) -> Vec<u64> {
    let text = format!("note {seq}\"");
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    let page = at / PAGE_BYTES * PAGE_BYTES..(at / PAGE_BYTES + 1) * PAGE_BYTES;
    let lies_there = |seq: &u64| {
        let text = format!("note {seq}\"");
        bytes[page.clone()].windows(text.len()).any(|window| window == text.as_bytes())
    };
    let lost = (1..=EVENTS_OF_PAGES).filter(lies_there).collect();
    bytes[page.clone()].fill(0x5a);
    std::fs::write(path, bytes).unwrap();
    lost
}

const EVENTS_OF_PAGES: u64 = 2_000;
const PAGE_BYTES: usize = 8192;

#[tokio::test]
async fn a_damaged_page_takes_away_at_most_itself() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=EVENTS_OF_PAGES.into()).map(event).collect(), Expect::Any).await.unwrap();
    log.close().await;
    let lost = damage_page_of(&directory.path().join("log.sqlite"), 700);
    let (first, last) = (Seq(lost[0]), Seq(*lost.last().unwrap()));
    assert!(lost.len() > 3 && last.0 - first.0 + 1 == lost.len() as u64, "{lost:?}");
    // Nothing derived is left: all of it is made from a log that cannot be read in full.
    choir_store::remove_derived(directory.path()).unwrap();
    std::fs::remove_file(directory.path().join("index.sqlite")).unwrap();

    let log = Log::open(directory.path()).unwrap();
    let views = Views::open(directory.path(), counts(1)).unwrap();
    let live = LiveViews::follow(log.clone(), views).await.unwrap();
    assert_eq!(live.read(|views| Ok(views.at().seq)).await.unwrap(), Seq(EVENTS_OF_PAGES));
    assert_eq!(log.damage(), Some(format!("events {first} to {last} cannot be read").as_str()));
    let mut seen = Vec::new();
    let mut after = Seq::ZERO;
    loop {
        match log.read(Query { after, limit: 300, ..Query::default() }).await {
            Ok(page) if page.is_empty() => break,
            Ok(page) => seen.extend(page.iter().map(|event| event.header.seq.0)),
            Err(StoreError::Hole(hole)) => {
                assert_eq!((hole.first, hole.last), (first, last));
                after = hole.last;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        after = Seq(*seen.last().unwrap());
    }
    assert!((1..=EVENTS_OF_PAGES).filter(|seq| !lost.contains(seq)).eq(seen), "everything else is read");
    assert_eq!(log.find(event(EVENTS_OF_PAGES.into()).id).await.unwrap().unwrap().header.seq, Seq(EVENTS_OF_PAGES));
    log.append(vec![event((EVENTS_OF_PAGES + 1).into())], Expect::Any).await.unwrap();
    log.close().await;
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!(report.events, EVENTS_OF_PAGES + 1 - lost.len() as u64, "what is sound on both sides is told");
    assert!(report.faults.contains(&format!("events {first} to {last} cannot be read")), "{:?}", report.faults);
}

/// A page outside of every table is damaged all the same.
#[tokio::test]
async fn a_damaged_page_is_noticed_wherever_it_is() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=200).map(event).collect(), Expect::Any).await.unwrap();
    log.close().await;
    let path = directory.path().join("log.sqlite");
    let good = std::fs::read(&path).unwrap();
    let mut sound = Vec::new();
    for page in 1..good.len() / 4096 {
        let mut bytes = good.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let seen = verify(directory.path(), &[], |_| ());
        assert!(!matches!(&seen, Ok(report) if report.faults.is_empty()), "page {page}");
        sound.extend(seen.map(|report| report.events));
    }
    assert!(sound.iter().any(|events| (100..200).contains(events)), "what is sound before a damage is told: {sound:?}");
}

#[tokio::test]
async fn an_event_that_makes_no_sense_is_left_out_and_told() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let live = LiveViews::follow(log.clone(), Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    let senseless =
        UnknownEvent { kind: "run.steered".into(), version: 1, payload: RawValue::from_string("{}".into()).unwrap() };
    let senseless = NewEvent { event: Event::Unknown(senseless), ..event(2) };
    log.append(vec![event(1), senseless, event(3)], Expect::Any).await.unwrap();
    assert_eq!(live.read(|views| Ok(views.at().seq)).await.unwrap(), Seq(3));
    assert_eq!(log.damage(), Some("event 2 cannot be understood"));
}

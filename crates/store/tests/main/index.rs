//! Finding events by id, run and kind, whatever became of the file that remembers where they are.

use crate::fixture::{directory, event};
use choir_proto::{EventId, RunId, Seq};
use choir_store::{Expect, Log, Query};
use rusqlite::Connection;
use std::path::Path;
use uuid::Uuid;

/// More than two segments of the index, and a rest.
const EVENTS: u128 = 40_000;

/// Three runs share the events of the fixture.
const RUNS: u128 = 3;

async fn fill(directory: &Path) {
    let log = Log::open(directory).unwrap();
    for first in (1..=EVENTS).step_by(500) {
        log.append((first..first + 500).map(event).collect(), Expect::Any).await.unwrap();
    }
    log.close().await;
}

fn index(directory: &Path) -> Connection {
    Connection::open(directory.join("index.sqlite")).unwrap()
}

/// Everything that the index is asked for, across its segments and at its end.
async fn assert_finds_everything(log: &Log) {
    let run = |number| Some(RunId::new(Uuid::from_u128(number)));
    for number in 0..RUNS {
        let mut found = Vec::new();
        while let Some(last) = {
            let after = found.last().copied().unwrap_or(Seq::ZERO);
            let page = log.read(Query { after, run: run(number), limit: 777, ..Query::default() }).await.unwrap();
            found.extend(page.iter().map(|event| event.header.seq));
            page.last().map(|event| event.header.seq)
        } {
            assert!(last <= log.head().seq);
        }
        let wanted: Vec<Seq> = (1..=EVENTS).filter(|seq| seq % RUNS == number).map(|seq| Seq(seq as u64)).collect();
        assert!(found == wanted, "run {number}: {} of {} events", found.len(), wanted.len());
    }
    let kind = Some("run.steered".to_owned());
    let page = log.read(Query { after: Seq(16_300), kind, limit: 200, ..Query::default() }).await.unwrap();
    assert!(page.iter().map(|event| event.header.seq.0).eq(16_301..=16_500));
    for seq in [1, 16_384, 16_385, 32_768, 32_769, EVENTS] {
        let found = log.find(EventId::new(Uuid::from_u128(seq))).await.unwrap().unwrap();
        assert_eq!(found.header.seq, Seq(seq as u64));
        let again = log.append(vec![event(seq)], Expect::Any).await.unwrap();
        assert!(again.repeated && again.first == Seq(seq as u64));
    }
}

#[tokio::test]
async fn events_are_found_across_segments_and_after_reopening() {
    let directory = directory();
    fill(directory.path()).await;
    let log = Log::open(directory.path()).unwrap();
    assert_finds_everything(&log).await;
}

#[tokio::test]
async fn an_index_that_is_lost_behind_or_not_an_index_is_made_anew() {
    let directory = directory();
    fill(directory.path()).await;
    let path = directory.path().join("index.sqlite");
    let losses: [(&str, &dyn Fn()); 4] = [
        ("lost", &|| std::fs::remove_file(&path).unwrap()),
        ("not a database", &|| std::fs::write(&path, "not a database, but long enough to be looked at").unwrap()),
        ("of another log", &|| {
            index(directory.path()).execute_batch("UPDATE cursor SET hash = zeroblob(32)").map(drop).unwrap()
        }),
        ("ahead of the log", &|| {
            index(directory.path()).execute_batch("UPDATE cursor SET seq = 99999").map(drop).unwrap()
        }),
    ];
    for (what, lose) in losses {
        lose();
        let log = Log::open(directory.path()).unwrap();
        assert_finds_everything(&log).await;
        log.close().await;
        let rows: u64 = index(directory.path()).query_row("SELECT count(*) FROM ids", [], |row| row.get(0)).unwrap();
        assert_eq!(u128::from(rows), EVENTS, "{what}");
    }
}

#[tokio::test]
async fn a_damaged_index_is_noticed_and_mended_while_the_log_is_open() {
    let directory = directory();
    fill(directory.path()).await;
    index(directory.path()).execute_batch("UPDATE runs SET places = x'01'").unwrap();
    let log = Log::open(directory.path()).unwrap();
    let run = Some(RunId::new(Uuid::from_u128(1)));
    let query = Query { run, limit: 10, ..Query::default() };
    assert!(log.read(query.clone()).await.is_err(), "what cannot be true is not passed on");
    log.close().await;
    let log = Log::open(directory.path()).unwrap();
    assert_finds_everything(&log).await;
}

#[tokio::test]
async fn a_log_of_format_1_is_taken_over() {
    let directory = directory();
    fill(directory.path()).await;
    std::fs::remove_file(directory.path().join("index.sqlite")).unwrap();
    let old = Connection::open(directory.path().join("log.sqlite")).unwrap();
    old.execute_batch("CREATE INDEX events_run ON events (run); PRAGMA user_version = 1;").unwrap();
    drop(old);
    let log = Log::open(directory.path()).unwrap();
    assert_finds_everything(&log).await;
    log.close().await;
    let new = Connection::open(directory.path().join("log.sqlite")).unwrap();
    let left: u64 = new
        .query_row("SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'events'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 0);
}

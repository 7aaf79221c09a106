use crate::fixture::{all, directory, event};
use choir_proto::{Envelope, Seq};
use choir_store::relay::{ContinueError, JsonLines, Relay, RelayError};
use choir_store::{Expect, Log};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

async fn events(directory: &Path) -> Vec<Envelope> {
    numbered(directory, 1..=20).await
}

async fn numbered(directory: &Path, numbers: RangeInclusive<u128>) -> Vec<Envelope> {
    let log = Log::open(directory).unwrap();
    log.append(numbers.map(event).collect(), Expect::Any).await.unwrap();
    let events = all(&log).await;
    log.close().await;
    events
}

fn sequence(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str::<Envelope>(line).unwrap().header.seq.0).collect()
}

#[tokio::test]
async fn a_relay_that_is_cut_off_anywhere_goes_on_without_gap_or_duplicate() {
    let directory = directory();
    let events = events(directory.path()).await;
    let path = directory.path().join("events.jsonl");
    Relay::new(JsonLines::open(&path).unwrap()).carry(&events[..3]).unwrap();
    let whole = fs::read(&path).unwrap();
    // Every place would cost a sync each; these meet line ends, the bytes beside them and many in between.
    let ends = (0..whole.len()).filter(|at| whole[*at] == b'\n').flat_map(|at| [at, at + 1]);
    for cut in (0..=whole.len()).step_by(29).chain(ends) {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut relay = Relay::new(JsonLines::open(&path).unwrap());
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(relay.position(), Seq(lines as u64));
        relay.carry(&events).unwrap();
        assert_eq!(sequence(&path), (1..=20).collect::<Vec<_>>(), "cut after {cut} bytes");
    }
}

/// Whoever delivers may do so twice, or again from the beginning after a crash before it was told where we are.
#[tokio::test]
async fn what_is_delivered_again_changes_nothing() {
    let directory = directory();
    let events = events(directory.path()).await;
    let once = directory.path().join("once.jsonl");
    Relay::new(JsonLines::open(&once).unwrap()).carry(&events).unwrap();
    let twice = directory.path().join("twice.jsonl");
    let mut relay = Relay::new(JsonLines::open(&twice).unwrap());
    for (index, event) in events.iter().enumerate() {
        relay.carry([event, event]).unwrap();
        if index % 5 == 4 {
            drop(relay);
            relay = Relay::new(JsonLines::open(&twice).unwrap());
            relay.carry(&events[..=index]).unwrap();
        }
    }
    assert_eq!(fs::read(&twice).unwrap(), fs::read(&once).unwrap());
}

/// Out of order is a gap first: nothing beyond it is taken, and what comes in order later is.
#[tokio::test]
async fn what_comes_too_early_is_not_taken() {
    let directory = directory();
    let events = events(directory.path()).await;
    let path = directory.path().join("events.jsonl");
    let mut relay = Relay::new(JsonLines::open(&path).unwrap());
    let swapped = [&events[0], &events[2], &events[1], &events[3]];
    assert!(matches!(relay.carry(swapped), Err(RelayError::Gap { expected: Seq(2), found: Seq(3) })));
    assert_eq!(relay.position(), Seq(1), "and it says where to read on from");
    relay.carry(&events[1..]).unwrap();
    assert_eq!(sequence(&path), (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_gap_is_refused_and_a_foreign_file_is_left_alone() {
    let directory = directory();
    let events = events(directory.path()).await;
    let path = directory.path().join("events.jsonl");
    let mut relay = Relay::new(JsonLines::open(&path).unwrap());
    relay.carry(&events[..3]).unwrap();
    let gap = relay.carry(&events[4..]);
    assert!(matches!(gap, Err(RelayError::Gap { expected: Seq(4), found: Seq(5) })));
    assert_eq!(sequence(&path), [1, 2, 3]);

    let foreign = directory.path().join("letters.txt");
    fs::write(&foreign, "dear all\n").unwrap();
    assert!(JsonLines::open(&foreign).is_err());
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "dear all\n");
    for text in ["precious", "dear all\nprecious", "{\"seq\""] {
        fs::write(&foreign, text).unwrap();
        let opened = JsonLines::open(&foreign).is_ok();
        assert!(opened == text.starts_with('{'), "only what a crash can leave of an event goes");
        assert!(opened || fs::read_to_string(&foreign).unwrap() == text);
    }
}

#[tokio::test]
async fn a_file_has_one_who_writes_to_it() {
    let directory = directory();
    let events = events(directory.path()).await;
    let path = directory.path().join("events.jsonl");
    let mut first = Relay::new(JsonLines::open(&path).unwrap());
    assert!(matches!(JsonLines::open(&path), Err(ContinueError::InUse)));
    first.carry(&events[..2]).unwrap();
    drop(first);
    Relay::new(JsonLines::open(&path).unwrap()).carry(&events[..3]).unwrap();
    assert_eq!(sequence(&path), [1, 2, 3]);
}

#[tokio::test]
async fn a_file_of_another_log_is_not_continued() {
    let (one, other) = (directory(), directory());
    let (events, strangers) = (events(one.path()).await, numbered(other.path(), 101..=103).await);
    let path = one.path().join("events.jsonl");
    Relay::new(JsonLines::open(&path).unwrap()).carry(&strangers[..2]).unwrap();
    let kept = fs::read(&path).unwrap();
    let mut relay = Relay::new(JsonLines::open(&path).unwrap());
    assert!(matches!(relay.carry(&events), Err(RelayError::Foreign(Seq(3)))));
    assert_eq!(fs::read(&path).unwrap(), kept);
}

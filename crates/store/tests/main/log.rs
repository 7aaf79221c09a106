use crate::fixture::{all, directory, event, steer};
use choir_proto::{RunId, Seq};
use choir_store::{AppendError, Expect, Log, OpenError, Query, refuse_newer, verify};
use uuid::Uuid;

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let appended = log.append(vec![event(1), event(2)], Expect::Any).await.unwrap();
    assert_eq!((appended.first, appended.last, appended.repeated), (Seq(1), Seq(2), false));
    let before = all(&log).await;
    log.close().await;

    let log = Log::open(directory.path()).unwrap();
    let after = all(&log).await;
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    assert_eq!(log.epoch(), 2, "a new holder fences the old one");
    assert!(verify(directory.path(), &[], |_| ()).unwrap().faults.is_empty());
}

#[tokio::test]
async fn a_repeated_append_changes_nothing_and_a_reused_id_is_refused() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1), event(2)], Expect::Any).await.unwrap();
    let again = log.append(vec![event(1), event(2)], Expect::Head(Seq(0))).await.unwrap();
    assert!(again.repeated && (again.first, again.last) == (Seq(1), Seq(2)));
    for bad in [vec![steer(2, "other words")], vec![event(2), event(3)], vec![event(3), event(2)]] {
        assert!(matches!(log.append(bad, Expect::Any).await, Err(AppendError::IdReused(_))));
    }
    assert_eq!(log.head().seq, Seq(2));
}

#[tokio::test]
async fn an_append_can_insist_on_where_the_log_ends() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1)], Expect::Head(Seq(0))).await.unwrap();
    let late = log.append(vec![event(2)], Expect::Head(Seq(0))).await;
    assert!(matches!(late, Err(AppendError::Moved { expected: Seq(0), found: Seq(1) })));
}

#[tokio::test]
async fn a_second_holder_is_refused() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    assert!(matches!(Log::open(directory.path()), Err(OpenError::InUse(_))));
    log.close().await;
    assert!(Log::open(directory.path()).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_alone_and_many_at_once_take_turns_and_make_one_order() {
    const CALLERS: u128 = 16;
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    for round in 0..20 {
        let head = log.head().seq;
        let alone = round * (CALLERS + 1);
        let first = log.append(vec![event(alone)], Expect::Head(head)).await.unwrap();
        assert_eq!(first.first, head.next(), "nobody else writes");
        let again = log.append(vec![event(alone)], Expect::Head(head)).await.unwrap();
        assert!(again.repeated && again.first == first.first);
        let callers: Vec<_> = (alone + 1..=alone + CALLERS)
            .map(|number| {
                tokio::spawn({
                    let log = log.clone();
                    async move { log.append(vec![event(number)], Expect::Any).await.unwrap().first }
                })
            })
            .collect();
        let mut places = Vec::new();
        for caller in callers {
            places.push(caller.await.unwrap().0);
        }
        places.sort_unstable();
        assert_eq!(places, (head.0 + 2..head.0 + 2 + CALLERS as u64).collect::<Vec<_>>());
    }
    let kept = log.clone();
    log.close().await;
    let late = kept.append(vec![event(9999)], Expect::Any).await;
    assert!(matches!(late, Err(AppendError::Closed)), "{late:?}");
    drop(kept);
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!((report.events, report.faults), (20 * (CALLERS as u64 + 1), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_see_every_event_once_in_order_whenever_they_join() {
    const EVENTS: u128 = 3000;
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let follow = |after: u64| {
        let mut subscription = log.subscribe(Seq(after));
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while subscription.position() < Seq(EVENTS as u64) {
                seen.extend(subscription.next().await.unwrap().iter().map(|event| event.header.seq.0));
            }
            assert_eq!(seen, (after + 1..=EVENTS as u64).collect::<Vec<_>>());
        })
    };
    let early = follow(0);
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let log = log.clone();
            tokio::spawn(async move {
                for number in (1..=EVENTS).filter(|number| number % 8 == writer) {
                    log.append(vec![event(number)], Expect::Any).await.unwrap();
                }
            })
        })
        .collect();
    let middle = follow(17);
    for writer in writers {
        writer.await.unwrap();
    }
    let late = follow(1234);
    for follower in [early, middle, late] {
        follower.await.unwrap();
    }
}

#[tokio::test]
async fn events_are_found_by_run_and_by_kind() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let run = Some(RunId::new(Uuid::from_u128(1)));
    let kind = Some("run.steered".to_owned());
    let found = |query: Query| {
        let log = log.clone();
        async move { log.read(query).await.unwrap().iter().map(|event| event.header.seq.0).collect::<Vec<_>>() }
    };
    assert_eq!(found(Query { limit: 9, run, ..Query::default() }).await, [1, 4, 7]);
    assert_eq!(found(Query { limit: 2, run, kind: kind.clone(), after: Seq(1), ..Query::default() }).await, [4, 7]);
    assert_eq!(found(Query { limit: 3, kind, after: Seq(2), ..Query::default() }).await, [3, 4, 5]);
    assert!(found(Query { limit: 3, kind: Some("choir.sung".into()), ..Query::default() }).await.is_empty());
}

#[tokio::test]
async fn a_large_payload_becomes_a_blob_and_reads_back_exactly() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let text = "ä".repeat(100_000);
    log.append(vec![steer(1, &text)], Expect::Any).await.unwrap();
    log.close().await;
    let log = Log::open(directory.path()).unwrap();
    let events = all(&log).await;
    assert!(events[0].payload.get().contains(&text));
    assert!(std::fs::metadata(directory.path().join("log.sqlite")).unwrap().len() < 100_000);
}

#[tokio::test]
async fn one_changed_byte_anywhere_is_noticed() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let blob = log.blobs().put(b"evidence").unwrap();
    log.append((1..=200).map(event).collect(), Expect::Any).await.unwrap();
    log.close().await;

    let path = directory.path().join("log.sqlite");
    let tamper = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    for sql in [
        "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'note 5', 'note 6') AS BLOB) WHERE seq = 5",
        "UPDATE events SET actor = 'control' WHERE seq = 7",
        "DELETE FROM events WHERE seq = 50",
    ] {
        let copy = self::directory();
        std::fs::copy(&path, copy.path().join("log.sqlite")).unwrap();
        let connection = rusqlite::Connection::open(copy.path().join("log.sqlite")).unwrap();
        connection.execute_batch(sql).unwrap();
        drop(connection);
        assert!(!verify(copy.path(), &[], |_| ()).unwrap().faults.is_empty(), "{sql}");
    }
    assert!(verify(directory.path(), &[], |_| ()).unwrap().faults.is_empty());

    // The newest events are checked at every start, so a damaged tail is refused before anything is appended to it.
    tamper("UPDATE events SET actor = 'control' WHERE seq = 199");
    assert!(matches!(Log::open(directory.path()), Err(OpenError::Damaged { .. })));
    tamper("UPDATE events SET actor = 'person' WHERE seq = 199");
    let log = Log::open(directory.path()).unwrap();

    let name = blob.to_string();
    std::fs::write(directory.path().join("blobs").join(&name[..2]).join(&name[2..]), b"evidences").unwrap();
    assert!(log.blobs().get(&blob).is_err());
    assert_eq!(log.blobs().put(b"evidence").unwrap(), blob);
    assert_eq!(log.blobs().get(&blob).unwrap(), b"evidence");
}

#[tokio::test]
async fn a_log_that_was_cut_off_or_rewritten_does_not_agree_with_a_signed_head() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let signed = (log.head().seq, log.head().hash);
    log.close().await;
    let faults = |marks: &[_]| verify(directory.path(), marks, |_| ()).unwrap().faults;
    assert!(faults(&[signed]).is_empty());
    assert!(faults(&[(Seq(9), choir_proto::Hash::ZERO)])[0].contains("signed"));
    assert!(faults(&[(Seq(10), signed.1)])[0].contains("ends at 9"));
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let directory = directory();
    Log::open(directory.path()).unwrap().close().await;
    let path = directory.path().join("log.sqlite");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Log::open(directory.path()), Err(OpenError::Newer { found: 99, .. })));
    assert!(
        !verify(directory.path(), &[], |_| ()).unwrap().faults.is_empty(),
        "what cannot be read is not called sound"
    );
    assert!(matches!(refuse_newer(directory.path()), Err(OpenError::Newer { found: 99, .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// A start after a crash reads all of the write-ahead log, so it must not grow with every small commit.
#[tokio::test]
async fn small_commits_do_not_pile_up() {
    const COMMITS: u128 = 4000;
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    for number in 0..COMMITS {
        log.append(vec![event(number)], Expect::Any).await.unwrap();
    }
    let length = std::fs::metadata(directory.path().join("log.sqlite-wal")).unwrap().len();
    // Each of these commits adds a page and more: without folding there would be 16 MB and more.
    assert!(length < 12 << 20, "{length} bytes");
}

#[tokio::test]
async fn an_id_that_is_used_for_something_else_with_an_equal_payload_is_refused() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append(vec![event(1)], Expect::Any).await.unwrap();
    let other = choir_proto::event::NewEvent { run: None, ..event(1) };
    assert!(matches!(log.append(vec![other], Expect::Any).await, Err(AppendError::IdReused(_))));
    assert!(log.append(vec![event(1)], Expect::Any).await.unwrap().repeated);
}

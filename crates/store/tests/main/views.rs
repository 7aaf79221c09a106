use crate::fixture::{directory, event};
use choir_proto::event::Header;
use choir_proto::{Event, Seq};
use choir_store::view::Load;
use choir_store::{Expect, LiveViews, Log, Projection, StoreError, Views, verify};
use std::collections::BTreeMap;

/// Counts events by run.
#[derive(Default)]
struct Counts {
    version: u32,
    rows: BTreeMap<String, u64>,
}

impl Projection for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn apply(&mut self, header: &Header, _: &Event, load: &mut Load<'_>) -> Result<(), StoreError> {
        let Some(run) = header.run else { return Ok(()) };
        let key = run.to_string();
        if !self.rows.contains_key(&key) {
            let kept = load(&key)?.map_or(0, |bytes| String::from_utf8(bytes).unwrap().parse().unwrap());
            self.rows.insert(key.clone(), kept);
        }
        *self.rows.get_mut(&key).unwrap() += 1;
        Ok(())
    }

    fn dirty(&self) -> Vec<String> {
        self.rows.keys().cloned().collect()
    }

    fn peek(&self, key: &str) -> Option<Option<Vec<u8>>> {
        self.rows.get(key).map(|count| Some(count.to_string().into_bytes()))
    }

    fn clean(&mut self) {
        self.rows.clear();
    }

    fn reset(&mut self) {
        self.rows.clear();
    }
}

pub(crate) fn counts(version: u32) -> Vec<Box<dyn Projection>> {
    vec![Box::new(Counts { version, ..Counts::default() })]
}

async fn digest(views: &LiveViews) -> choir_proto::Hash {
    views.read(Views::digest).await.unwrap()
}

#[tokio::test]
async fn a_rebuilt_view_has_equal_bytes_and_a_restart_folds_only_the_tail() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let views = LiveViews::follow(log.clone(), Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    log.append((1..=50).map(event).collect(), Expect::Any).await.unwrap();
    let kept = digest(&views).await;
    drop(views);
    log.append((51..=60).map(event).collect(), Expect::Any).await.unwrap();
    log.close().await;

    let log = Log::open(directory.path()).unwrap();
    let reopened = Views::open(directory.path(), counts(1)).unwrap();
    assert!(reopened.at().seq >= Seq(50), "the kept rows are used");
    let grown = digest(&LiveViews::follow(log.clone(), reopened).await.unwrap()).await;
    assert_ne!(kept, grown);

    std::fs::remove_file(directory.path().join("views.sqlite")).unwrap();
    let fresh = Views::open(directory.path(), counts(1)).unwrap();
    assert_eq!(fresh.at().seq, Seq(0));
    assert_eq!(digest(&LiveViews::follow(log, fresh).await.unwrap()).await, grown);
}

#[tokio::test]
async fn views_that_nobody_holds_follow_no_longer() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let views = LiveViews::follow(log.clone(), Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    let other = views.clone();
    drop(views);
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    digest(&other).await;
    tokio::time::timeout(std::time::Duration::from_secs(10), other.close()).await.unwrap();
    log.append(vec![event(10)], Expect::Any).await.unwrap();
    assert!(Views::open(directory.path(), counts(1)).unwrap().at().seq <= Seq(9));
}

#[tokio::test]
async fn damaged_views_and_new_versions_are_built_anew() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let views = Views::open(directory.path(), counts(1)).unwrap();
    let good = digest(&LiveViews::follow(log.clone(), views).await.unwrap()).await;
    assert_eq!(Views::open(directory.path(), counts(2)).unwrap().at().seq, Seq(0), "a new version starts over");

    std::fs::write(directory.path().join("views.sqlite"), b"not a database, but long enough to be looked at as one")
        .unwrap();
    let views = Views::open(directory.path(), counts(1)).unwrap();
    let live = LiveViews::follow(log.clone(), views).await.unwrap();
    assert_eq!(digest(&live).await, good);
    drop(live);

    let connection = rusqlite::Connection::open(directory.path().join("views.sqlite")).unwrap();
    connection.execute_batch("UPDATE rows SET bytes = x'39'").unwrap();
    let live = LiveViews::follow(log, Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    let newest = || live.read(|views| views.newest("counts", None, 10));
    assert!(newest().await.is_err(), "a damaged row is never shown");
    let mended = async {
        while newest().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), mended).await.unwrap();
    assert_eq!(digest(&live).await, good);
}

#[tokio::test]
async fn rows_that_are_not_written_yet_are_seen_beside_those_that_are() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let views = LiveViews::follow(log.clone(), Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    log.append((1..=4).map(event).collect(), Expect::Any).await.unwrap();
    views.read(Views::flush).await.unwrap();
    log.append(vec![event(5)], Expect::Any).await.unwrap();
    let counts = views.read(|views| views.newest("counts", None, 10)).await.unwrap();
    let counts: Vec<_> = counts.into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    assert_eq!(counts, ["2", "2", "1"], "run 2 has the new event, run 1 two old ones, run 0 one");
    let first = views.read(|views| views.newest("counts", None, 1)).await.unwrap();
    assert_eq!(first.len(), 1);
}

fn damage_page(path: &std::path::Path, page: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
    std::fs::write(path, bytes).unwrap();
}

/// What they are made from cannot be read: they say so, and what they have stays.
#[tokio::test]
async fn a_log_that_cannot_be_read_neither_hangs_readers_nor_costs_rows() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=600).map(event).collect(), Expect::Any).await.unwrap();
    log.close().await;
    let log = Log::open(directory.path()).unwrap();
    // The names of kinds, without which no event means anything.
    damage_page(&directory.path().join("log.sqlite"), 2);
    let live = LiveViews::follow(log.clone(), Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    let newest = || live.read(|views| views.newest("counts", None, 10));
    for _ in 0..3 {
        assert!(matches!(newest().await, Err(StoreError::Stuck { .. })));
    }
    assert!(live.trouble().is_some_and(|trouble| trouble.contains("can be read")), "{:?}", live.trouble());
    assert_eq!(log.damage(), Some("events 1 to 600 cannot be read"));
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert!(report.faults.iter().any(|fault| fault.starts_with("events 1 to 600")), "{:?}", report.faults);
}

/// A checksum that was left as it was must not hide changed bytes from whoever compares everything.
#[tokio::test]
async fn a_digest_is_of_the_bytes_themselves() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let live = LiveViews::follow(log, Views::open(directory.path(), counts(1)).unwrap()).await.unwrap();
    let good = digest(&live).await;
    let connection = rusqlite::Connection::open(directory.path().join("views.sqlite")).unwrap();
    connection.execute_batch("UPDATE rows SET bytes = x'39'").unwrap();
    assert_ne!(digest(&live).await, good);
}

/// The words of what was erased are gone from the views' files at once, and no space is needed for that.
#[tokio::test]
async fn views_that_are_dropped_leave_nothing_behind_in_their_files() {
    const CANARY: &str = "00000000-0000-0000-0000-000000000001";
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    log.append((1..=9).map(event).collect(), Expect::Any).await.unwrap();
    let mut views = Views::open(directory.path(), counts(1)).unwrap();
    for number in 1..=9 {
        let envelope = log.find(event(number).id).await.unwrap().unwrap();
        views.fold(&envelope.header, envelope.event()).unwrap();
    }
    views.flush().unwrap();
    let holds = || {
        let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let views = files.filter(|path| path.to_string_lossy().contains("views.sqlite"));
        views
            .map(|path| std::fs::read(path).unwrap())
            .any(|bytes| bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()))
    };
    assert!(holds(), "otherwise nothing is shown");
    views.reset().unwrap();
    assert!(!holds());
}

//! A log as the first version that ran agents wrote it. Logs live longer than any build: this one must be read, verified and
//! folded for ever. Its file is never changed; a log of a newer format gets a file of its own.

use choir_computer::view::projections;
use choir_store::{Blobs, LiveViews, Log, Query, Views, sha256, verify};
use std::fmt::Write;
use std::path::Path;

/// Format 1: the whole database, as SQL.
const LOG: &str = include_str!("golden/format-1.sql");
/// The content that its events name.
const CONTENTS: [&str; 3] =
    ["count the fruit", "Fruit report\n\nEverything was counted.\n", "Fruit report\n\nEverything was counted twice.\n"];
/// A hash over the rows of each view that comes of it. A line changes only when a view is meant to show something else.
const VIEWS: &str = include_str!("golden/format-1.views");
/// Set it to write the hashes anew after a change that was meant.
const RENEW: &str = "CHOIR_RENEW";
/// No view of it has more.
const ROWS_MAX: usize = 1000;

fn restore(directory: &Path) {
    rusqlite::Connection::open(directory.join("log.sqlite")).unwrap().execute_batch(LOG).unwrap();
    let blobs = Blobs::open(&directory.join("blobs")).unwrap();
    for content in CONTENTS {
        let hash = blobs.put(content.as_bytes()).unwrap();
        assert!(LOG.contains(&hash.to_string()), "{content}");
    }
}

async fn digests(directory: &Path) -> String {
    let log = Log::open(directory).unwrap();
    let live = LiveViews::follow(log.clone(), Views::open(directory, projections()).unwrap()).await.unwrap();
    let mut lines = String::new();
    for name in projections().iter().map(|projection| projection.name()) {
        let rows = live.read(move |views| views.newest(name, None, ROWS_MAX)).await.unwrap();
        let text: Vec<u8> =
            rows.iter().flat_map(|(key, bytes)| [key.as_bytes(), b"\0", bytes, b"\n"].concat()).collect();
        writeln!(lines, "{name} {} {}", rows.len(), sha256(&text)).unwrap();
    }
    drop(live);
    log.close().await;
    lines
}

#[tokio::test]
async fn a_log_of_the_first_format_means_what_it_always_meant() {
    let directory = tempfile::tempdir().unwrap();
    restore(directory.path());
    let report = verify(directory.path(), &[], |_| ()).unwrap();
    assert!(report.faults.is_empty() && report.events > 20, "{report:?}");
    let found = digests(directory.path()).await;
    if std::env::var_os(RENEW).is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/golden/format-1.views");
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(found, VIEWS, "if that is meant: {RENEW}=1 cargo test -p choir-computer golden");
    let again = verify(directory.path(), &[], |_| ()).unwrap();
    assert_eq!((again.events, again.faults), (report.events, Vec::new()), "opening it has changed no event");
    let log = Log::open(directory.path()).unwrap();
    let events = log.read(Query { limit: ROWS_MAX, ..Query::default() }).await.unwrap();
    let unknown: Vec<_> =
        events.iter().filter(|event| !matches!(event.event(), Ok(event) if !is_unknown(&event))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn is_unknown(event: &choir_proto::Event) -> bool {
    matches!(event, choir_proto::Event::Unknown(_))
}

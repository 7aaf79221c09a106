use crate::fixture::{directory, event, steer};
use choir_proto::Hash;
use choir_store::log::PAYLOAD_INLINE_BYTES_MAX;
use choir_store::{Expect, Log, Orphans, collect};
use std::path::{Path, PathBuf};

fn path(directory: &Path, hash: Hash) -> PathBuf {
    let name = hash.to_string();
    directory.join("blobs").join(&name[..2]).join(&name[2..])
}

#[tokio::test]
async fn what_was_kept_for_an_event_that_never_came_is_removed_and_nothing_else() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let named = log.blobs().put(b"named in some text").unwrap();
    let orphan = log.blobs().put(b"orphan").unwrap();
    let large = "x".repeat(PAYLOAD_INLINE_BYTES_MAX);
    log.append(vec![event(1), steer(2, &format!("see {named}")), steer(3, &large)], Expect::Any).await.unwrap();
    let payload = log.find(steer(3, "").id).await.unwrap().unwrap().header.payload_hash;

    assert_eq!(collect(&log, directory.path()).unwrap().orphans, Orphans { blobs: 1, bytes: 6 });
    assert!(log.blobs().get(&orphan).is_err());
    assert!(log.blobs().get(&named).is_ok() && log.blobs().get(&payload).is_ok());
    assert_eq!(collect(&log, directory.path()).unwrap().orphans, Orphans::default(), "there is nothing more");
}

/// A backup may bring the payload back, and then what it names is needed.
#[tokio::test]
async fn where_a_payload_cannot_be_read_everything_stays() {
    let directory = directory();
    let log = Log::open(directory.path()).unwrap();
    let named = log.blobs().put(b"named by the payload that is gone").unwrap();
    let text = format!("{named} {}", "x".repeat(PAYLOAD_INLINE_BYTES_MAX));
    log.append(vec![steer(1, &text)], Expect::Any).await.unwrap();
    let payload = log.find(event(1).id).await.unwrap().unwrap().header.payload_hash;
    std::fs::rename(path(directory.path(), payload), directory.path().join("aside")).unwrap();

    assert_eq!(collect(&log, directory.path()).unwrap().named, None, "nobody knows");
    assert_eq!(collect(&log, directory.path()).unwrap().orphans, Orphans::default());
    std::fs::rename(directory.path().join("aside"), path(directory.path(), payload)).unwrap();
    assert!(log.blobs().get(&named).is_ok());
    assert_eq!(collect(&log, directory.path()).unwrap().orphans, Orphans::default());
}

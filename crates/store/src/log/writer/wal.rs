//! The write-ahead log is folded into the file beside the writer: inside a commit that would be everybody's worst case.

use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages that are added to the write-ahead log between two checkpoints. A start after a crash has to read all of it, and a
/// commit of one small event adds half a dozen pages.
const CHECKPOINT_EVERY_PAGES: usize = 1_000;

/// Pages of the write-ahead log above which the writer itself folds in what is left. Under load without a pause the other
/// thread never comes to an end, and a long one costs every append: it no longer fits into the processor's caches, and
/// each sync also has to make the file's new length durable.
const WAL_PAGES_MAX: usize = 2_000;

/// How long the write-ahead log is, and when it is to be folded in next.
#[derive(Default)]
pub(super) struct Wal {
    /// Set by SQLite with every commit.
    pages: Arc<AtomicUsize>,
    /// The length at the last checkpoint that was asked for.
    asked_at: usize,
    /// The length when the writer last helped.
    helped_at: usize,
}

impl Wal {
    pub(super) fn watched(&mut self, mut connection: Connection) -> Connection {
        let pages = Arc::clone(&self.pages);
        let watch = move |_: &mut rusqlite::hooks::Wal, length: i32| {
            pages.store(usize::try_from(length).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        };
        if let Err(error) = connection.wal_hook(Some(watch)) {
            tracing::warn!(%error, "the write-ahead log is not watched; it grows until the log is closed");
        }
        connection
    }

    /// Whether it is time to fold it in beside the writer.
    pub(super) fn is_due(&mut self) -> bool {
        grown(&mut self.asked_at, self.pages.load(Ordering::Relaxed))
    }

    /// Whether the writer has to help. A reader may keep all help from being whole, so it does not help at every commit.
    pub(super) fn is_long(&mut self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        pages > WAL_PAGES_MAX && grown(&mut self.helped_at, pages)
    }
}

/// Whether enough pages were added since the last time that this was so.
fn grown(since: &mut usize, pages: usize) -> bool {
    if pages < *since {
        // Everything in it was folded in, and it has begun anew.
        *since = 0;
    }
    let grown = pages - *since >= CHECKPOINT_EVERY_PAGES;
    if grown {
        *since = pages;
    }
    grown
}

/// Checkpoints beside the writer, when told to, with a connection of its own.
pub(super) fn spawn_checkpointer(path: PathBuf) -> std::sync::mpsc::SyncSender<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(1);
    let work = move || {
        while receiver.recv().is_ok() {
            match Connection::open(&path) {
                Ok(connection) => checkpoint(&connection, "PASSIVE"),
                Err(error) => tracing::warn!(%error, "the write-ahead log could not be folded in; it grows"),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("log-checkpoint".into()).spawn(work) {
        tracing::warn!(%error, "no checkpoint thread; the write-ahead log grows until the log is closed");
    }
    sender
}

/// Folds the write-ahead log into the file.
pub(super) fn checkpoint(connection: &Connection, mode: &str) {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    if let Err(error) = connection.query_row(&sql, [], |_| Ok(())) {
        tracing::warn!(%error, "the write-ahead log could not be folded in; it grows");
    }
}

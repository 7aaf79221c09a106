//! The write-ahead log is folded into the file beside the writer: inside a commit that would be everybody's worst case.

use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages that are added to the write-ahead log between two checkpoints. A start after a crash has to read all of it, and a
/// commit of one small event adds half a dozen pages.
const CHECKPOINT_EVERY_PAGES: usize = 1_000;

/// Pages of the write-ahead log above which the writer waits a moment for a checkpoint. Under load without a pause something
/// is always added meanwhile, and it would otherwise never begin anew.
const WAL_PAGES_MAX: u64 = 2_000;

/// How long the write-ahead log is, and when it is to be folded in next.
#[derive(Default)]
pub(super) struct Wal {
    /// Set by SQLite with every commit.
    pages: Arc<AtomicUsize>,
    /// The length at the last checkpoint that was asked for.
    asked_at: usize,
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

    pub(super) fn is_due(&mut self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.asked_at {
            // Everything in it was folded in, and it has begun anew.
            self.asked_at = 0;
        }
        let due = pages - self.asked_at >= CHECKPOINT_EVERY_PAGES;
        if due {
            self.asked_at = pages;
        }
        due
    }
}

/// Checkpoints beside the writer, when told to, with a connection of its own.
pub(super) fn spawn_checkpointer(path: PathBuf) -> std::sync::mpsc::SyncSender<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(1);
    let work = move || {
        while receiver.recv().is_ok() {
            match Connection::open(&path) {
                Ok(connection) => {
                    let pages = checkpoint(&connection, "PASSIVE");
                    if pages > WAL_PAGES_MAX {
                        checkpoint(&connection, "RESTART");
                    }
                }
                Err(error) => tracing::warn!(%error, "the write-ahead log could not be folded in; it grows"),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("log-checkpoint".into()).spawn(work) {
        tracing::warn!(%error, "no checkpoint thread; the write-ahead log grows until the log is closed");
    }
    sender
}

/// Folds the write-ahead log into the file. Says how many pages it had.
pub(super) fn checkpoint(connection: &Connection, mode: &str) -> u64 {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    match connection.query_row(&sql, [], |row| row.get::<_, i64>(1)) {
        Ok(pages) => pages.max(0).unsigned_abs(),
        Err(error) => {
            tracing::warn!(%error, "the write-ahead log could not be folded in; it grows");
            0
        }
    }
}

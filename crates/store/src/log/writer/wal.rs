//! The write-ahead log is folded into the file beside the writer: inside a commit that would be everybody's worst case.

use crate::log::beside::stand_back;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pages of the write-ahead log after which it is folded in. A start after a crash has to read all of it, and a short one is
/// written over and over in place: it stays in the processor's caches, and no sync has to make a new length durable.
const CHECKPOINT_EVERY_PAGES: usize = 500;

/// Pages that are little enough for the writer to fold in between two commits.
const LITTLE_PAGES: usize = 128;

/// How long the writer waits for whoever reads an old page before it gives up cutting the write-ahead log off. Readers of our
/// own are done within it.
const READER_PATIENCE: Duration = Duration::from_millis(200);

/// How often the helper begins again because much was added while it worked.
const PASSES_MAX: usize = 4;

/// How long the write-ahead log is, and who folds it in next.
///
/// Most of it is folded in by a thread of its own while commits go on. What they add meanwhile is little, and the writer folds
/// it in between two commits: only when nothing is left can the next commit begin the write-ahead log anew.
pub(super) struct Wal {
    /// Set by SQLite with every commit.
    pages: Arc<AtomicUsize>,
    /// The length at which folding in was last begun.
    begun_at: usize,
    helper: Helper,
}

impl Wal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { pages: Arc::default(), begun_at: 0, helper: Helper::spawn(path) }
    }

    pub(super) fn watched(&self, mut connection: Connection) -> Connection {
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

    /// Does what is due after a commit. Nothing here waits for a reader: one of an old page only puts the end off.
    pub(super) fn tend(&mut self, connection: &Connection) {
        if self.helper.has_finished() {
            checkpoint(connection, "PASSIVE");
        }
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.begun_at {
            // Everything in it was folded in, and it has begun anew.
            self.begun_at = 0;
        }
        if pages - self.begun_at >= CHECKPOINT_EVERY_PAGES && self.helper.begin() {
            self.begun_at = pages;
        }
    }

    /// Nobody folds anything in beside the writer from now on.
    pub(super) fn close(&mut self) {
        self.helper.end();
    }
}

/// The thread that folds in beside the writer, when told to, with a connection of its own.
struct Helper {
    /// Absent once it was told to end.
    wake: Option<SyncSender<()>>,
    state: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

const IDLE: u8 = 0;
const AT_WORK: u8 = 1;
const FINISHED: u8 = 2;

impl Helper {
    fn spawn(path: PathBuf) -> Self {
        let (wake, woken) = sync_channel::<()>(1);
        let state = Arc::new(AtomicU8::new(IDLE));
        let told = Arc::clone(&state);
        let work = move || {
            stand_back();
            while woken.recv().is_ok() {
                match Connection::open(&path) {
                    Ok(connection) => fold_most(&connection),
                    Err(error) => tracing::warn!(%error, "the write-ahead log could not be folded in; it grows"),
                }
                told.store(FINISHED, Ordering::Release);
            }
        };
        let spawned = std::thread::Builder::new().name("log-checkpoint".into()).spawn(work);
        let thread = spawned.inspect_err(|error| {
            tracing::warn!(%error, "no checkpoint thread; the write-ahead log grows until the log is closed");
        });
        Self { wake: Some(wake), state, thread: thread.ok() }
    }

    /// Waits until it has finished what it is at.
    fn end(&mut self) {
        self.wake = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that folds the write-ahead log in panicked");
        }
    }

    /// Sends it to work, unless it is at work already.
    fn begin(&self) -> bool {
        let free = self.state.compare_exchange(IDLE, AT_WORK, Ordering::AcqRel, Ordering::Acquire).is_ok();
        free && self.wake.as_ref().is_some_and(|wake| wake.try_send(()).is_ok())
    }

    /// Whether it has finished since this was last asked.
    fn has_finished(&self) -> bool {
        self.state.compare_exchange(FINISHED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Folds in what is there, then what was added meanwhile, until little is left for the writer.
fn fold_most(connection: &Connection) {
    let mut before = 0;
    for _ in 0..PASSES_MAX {
        let folded = checkpoint(connection, "PASSIVE");
        if folded.saturating_sub(before) <= LITTLE_PAGES {
            break;
        }
        before = folded;
    }
}

/// Folds in everything and cuts the write-ahead log off, so that nothing that was erased is left in it. False when somebody
/// reads an old page for longer than everybody else can be made to wait.
pub(super) fn truncate(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.busy_timeout(READER_PATIENCE)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0).map(|busy| busy == 0))
}

/// Nothing is lost: the next start folds it in.
pub(super) fn tell_failure(truncated: Result<bool, rusqlite::Error>) {
    match truncated {
        Ok(true) => {}
        Ok(false) => tracing::warn!("the write-ahead log is still being read and was not cut off"),
        Err(error) => tracing::warn!(%error, "the write-ahead log could not be cut off"),
    }
}

/// Folds the write-ahead log into the file, and says how many of its pages are there now.
pub(super) fn checkpoint(connection: &Connection, mode: &str) -> usize {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    match connection.query_row(&sql, [], |row| row.get::<_, i64>(2)) {
        Ok(folded) => usize::try_from(folded).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "the write-ahead log could not be folded in; it grows");
            0
        }
    }
}

//! Where the events of an id, a run and a kind are: derived from the log and kept in a file beside it.
//!
//! A commit writes the log alone. The newest events are known from memory, and a batch of them is written down here when
//! it is large enough, on a thread of its own. A start reads again what a crash kept from being written down.

mod file;
mod tail;

use self::file::{IndexFile, Lookup};
use self::tail::{Segment, Tail};
use super::beside::stand_back;
use crate::sqlite::{self, OpenError, StoreError};
use choir_proto::{EventId, Hash, RunId, Seq};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

/// Events after which what is known from memory is written down: often enough that a start after a crash has little to read
/// again, and seldom enough that a busy log does not feel it.
const SEGMENT_EVENTS: usize = 16 * 1024;

/// Events known from memory only, above which the log takes no more: the index could not be written for a long time, and
/// memory is not endless.
const TAIL_EVENTS_MAX: usize = 16 * SEGMENT_EVENTS;

/// What the index knows of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) seq: Seq,
    pub(crate) id: EventId,
    pub(crate) run: Option<RunId>,
    /// Its number in the log's table of kinds.
    pub(crate) kind: i64,
    pub(crate) hash: Hash,
}

/// Which events are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Those of a run.
    Run(RunId),
    /// Those of a kind, by its number.
    Kind(i64),
}

impl Of {
    fn holds(self, entry: &Entry) -> bool {
        match self {
            Self::Run(run) => entry.run == Some(run),
            Self::Kind(kind) => entry.kind == kind,
        }
    }
}

/// The index of one log.
#[derive(Debug)]
pub(crate) struct Index {
    log: PathBuf,
    tail: RwLock<Tail>,
    file: Mutex<IndexFile>,
    lookup: Mutex<Lookup>,
    /// Something was read that cannot be true.
    damaged: AtomicBool,
    /// Wakes the thread that writes segments down. Absent once the index is closed.
    wake: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Index {
    /// Opens the index beside a log and reads what it has missed; one that cannot be used is begun anew.
    pub(crate) fn open(directory: &Path, log: &Connection, upto: Seq) -> Result<Arc<Self>, OpenError> {
        let mut file = IndexFile::open(directory)?;
        if !file.stands_on(log)? {
            tracing::warn!("the index does not belong to this log and is built anew");
            file.begin_anew()?;
        }
        Self::follow(directory, file, log, upto)
    }

    /// The same, whatever was there before.
    pub(crate) fn open_anew(directory: &Path, log: &Connection, upto: Seq) -> Result<Arc<Self>, OpenError> {
        let mut file = IndexFile::open(directory)?;
        file.begin_anew()?;
        Self::follow(directory, file, log, upto)
    }

    fn follow(directory: &Path, mut file: IndexFile, log: &Connection, upto: Seq) -> Result<Arc<Self>, OpenError> {
        let rest = fill(&mut file, log, upto)?;
        let mut tail = Tail::new(file.cursor().seq, file.greatest()?, SEGMENT_EVENTS);
        tail.push(rest);
        let (wake, woken) = sync_channel(1);
        let index = Arc::new(Self {
            log: super::log_path(directory),
            tail: RwLock::new(tail),
            lookup: Mutex::new(file.lookup()?),
            file: Mutex::new(file),
            damaged: AtomicBool::new(false),
            wake: Mutex::new(Some(wake)),
            thread: Mutex::default(),
        });
        let thread = spawn_writer(Arc::clone(&index), woken);
        let thread = thread.map_err(|source| OpenError::File { path: directory.to_owned(), source })?;
        *locked(&index.thread) = Some(thread);
        Ok(index)
    }

    /// Learns of events that turned out to be on disk after all.
    pub(crate) fn catch_up(&self, log: &Connection, upto: Seq) -> Result<(), StoreError> {
        let after = self.tail().newest();
        self.push(file::entries(log, after, upto, TAIL_EVENTS_MAX)?);
        Ok(())
    }

    /// Adds events that are on disk.
    pub(crate) fn push(&self, entries: impl IntoIterator<Item = Entry>) {
        let is_due = {
            let mut tail = self.tail_mut();
            tail.push(entries);
            tail.next_full().is_some()
        };
        if is_due {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(wake) = &*locked(&self.wake) {
            // A full queue means that it will be looked at anyway.
            wake.try_send(()).ok();
        }
    }

    /// Whether more events may come.
    pub(crate) fn has_room(&self) -> bool {
        self.tail().len() < TAIL_EVENTS_MAX
    }

    /// Where the event with an id is.
    pub(crate) fn seq_of(&self, id: EventId) -> Result<Option<Seq>, StoreError> {
        {
            let tail = self.tail();
            if let Some(seq) = tail.seq_of(id) {
                return Ok(Some(seq));
            }
            // Ids that grow with time are mostly beyond what is written down.
            if !tail.may_be_written(id) {
                return Ok(None);
            }
        }
        self.looked_up(|lookup| lookup.seq_of(id))
    }

    /// Where the next events of a run or kind are, in order, at most `limit`.
    pub(crate) fn seqs_of(&self, of: Of, after: Seq, upto: Seq, limit: usize) -> Result<Vec<Seq>, StoreError> {
        // Memory first: what is written down meanwhile is then seen twice, not missed.
        let (written_upto, recent) = self.tail().seqs_of(of, after, upto, limit);
        let upto = upto.min(written_upto);
        let mut seqs = self.looked_up(|lookup| lookup.seqs_of(of, after, upto, limit))?;
        seqs.extend(recent.into_iter().take(limit.saturating_sub(seqs.len())));
        Ok(seqs)
    }

    fn looked_up<T>(&self, look: impl FnOnce(&Lookup) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let found = look(&locked(&self.lookup));
        if found.as_ref().is_err_and(is_damage) {
            self.damaged.store(true, Ordering::Relaxed);
            self.wake();
        }
        found
    }

    /// Writes down what is known from memory; a damaged file is built anew first.
    fn tend(&self) -> Result<(), OpenError> {
        if self.damaged.load(Ordering::Relaxed) {
            self.rebuild()?;
        }
        let written = self.write_down();
        if written.as_ref().is_err_and(is_damage) {
            self.rebuild()?;
            return self.write_down().map_err(|error| super::damaged(&self.log, error));
        }
        written.map_err(|error| super::damaged(&self.log, error))
    }

    fn write_down(&self) -> Result<(), StoreError> {
        while let Some(segment) = self.next_full() {
            let mut file = locked(&self.file);
            file.write(segment.entries())?;
            let greatest = file.greatest()?;
            self.tail_mut().forget(&segment, greatest);
        }
        Ok(())
    }

    fn next_full(&self) -> Option<Arc<Segment>> {
        self.tail().next_full()
    }

    /// Builds the file anew, as far as it went. Whoever looks something up waits: half an index would say that a known id
    /// is new.
    fn rebuild(&self) -> Result<(), OpenError> {
        tracing::warn!("the index of the log is damaged and is built anew");
        let mut lookup = locked(&self.lookup);
        let mut file = locked(&self.file);
        let upto = self.tail().written_upto();
        let log = sqlite::open_reader(&self.log)?;
        file.begin_anew()?;
        let rest = fill(&mut file, &log, upto)?;
        file.write(&rest).map_err(|error| super::damaged(&self.log, error))?;
        *lookup = file.lookup()?;
        self.damaged.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Writes down the rest and ends the thread.
    pub(crate) fn close(&self) {
        *locked(&self.wake) = None;
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the index panicked");
        }
        // Here, because somebody waits for it.
        self.tail_mut().end_segment();
        tell_failure(self.tend());
    }

    fn tail(&self) -> RwLockReadGuard<'_, Tail> {
        self.tail.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tail_mut(&self) -> RwLockWriteGuard<'_, Tail> {
        self.tail.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Writes down whole segments of what the file has missed up to a place, and gives back the rest.
fn fill(file: &mut IndexFile, log: &Connection, upto: Seq) -> Result<Vec<Entry>, OpenError> {
    loop {
        let segment = file::entries(log, file.cursor().seq, upto, SEGMENT_EVENTS);
        let mut segment = segment.map_err(|error| super::damaged(file.path(), error))?;
        if segment.len() < SEGMENT_EVENTS {
            return Ok(segment);
        }
        file.write(&segment).map_err(|error| super::damaged(file.path(), error))?;
        if let Some(last) = segment.pop() {
            tracing::info!(at = last.seq.0, of = upto.0, "the index of the log is being built");
        }
    }
}

fn spawn_writer(index: Arc<Index>, woken: Receiver<()>) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        stand_back();
        while woken.recv().is_ok() {
            tell_failure(index.tend());
        }
    };
    std::thread::Builder::new().name("log-index".into()).spawn(work)
}

/// Nothing is lost: the events stay in memory, and the next segment tries again.
fn tell_failure(tended: Result<(), OpenError>) {
    if let Err(error) = tended {
        tracing::warn!(%error, "the index of the log could not be written");
    }
}

/// Whether the file itself is wrong, not the disk or the moment.
fn is_damage(error: &StoreError) -> bool {
    use rusqlite::ErrorCode::{ConstraintViolation, DatabaseCorrupt, NotADatabase};
    match error {
        StoreError::Row { .. } => true,
        StoreError::Sqlite(error) => {
            matches!(error.sqlite_error_code(), Some(ConstraintViolation | DatabaseCorrupt | NotADatabase))
        }
        _ => false,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

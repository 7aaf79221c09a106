//! The log of one computer: one writer, group commit, sync before acknowledge, push on commit.

mod beside;
mod hole;
mod index;
pub(crate) mod reader;
mod recent;
mod rest;
pub(crate) mod row;
mod subscription;
mod writer;

pub use hole::Hole;
pub use reader::Query;
pub use rest::AtRest;
pub use subscription::Subscription;

use crate::blob::{Blobs, sync_directory};
use crate::seats::Seats;
use crate::sqlite::{OpenError, StoreError};
use choir_proto::event::{Header, NewEvent};
use choir_proto::{Envelope, EventId, Hash, Seq};
use index::Index;
use reader::Readers;
use recent::Recent;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{oneshot, watch};

/// The newest format of the log's file that is understood.
pub(crate) const FORMAT: i32 = 2;

/// Payloads above this size are kept as blobs, so that the log stays quick to scan.
pub const PAYLOAD_INLINE_BYTES_MAX: usize = 64 * 1024;

/// Who reads from disk at once: enough for a disk to have something to put in order.
const READ_AT_ONCE_MAX: usize = 8;

// The log and nothing but the log: what finds events by id, run or kind is derived and lies in the index beside it, so that a
// commit writes as few pages as possible.
// `kind` is a number into `kinds`: two bytes instead of a dozen.
// `place`: 0 = payload in the row, 1 = payload is the blob named by `payload_hash`, 2 = erased.
const SCHEMA: &str = "
    CREATE TABLE kinds (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        id BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        run BLOB,
        task BLOB,
        cause BLOB,
        kind INTEGER NOT NULL REFERENCES kinds (id),
        version INTEGER NOT NULL,
        place INTEGER NOT NULL,
        payload BLOB,
        payload_hash BLOB NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
";

/// Where the log is expected to end when an append takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anywhere.
    Any,
    /// Exactly here: somebody decided by reading up to this position.
    Head(Seq),
}

/// Where an append ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The first event's place.
    pub first: Seq,
    /// The last event's place.
    pub last: Seq,
    /// Whether it had been appended before; nothing changed.
    pub repeated: bool,
}

/// Why nothing was appended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// Somebody else appended first.
    #[error("the log is at {found}, not at {expected}")]
    Moved {
        /// Where it was expected to be.
        expected: Seq,
        /// Where it is.
        found: Seq,
    },
    /// The id is in the log with other content, or only some of the ids are.
    #[error("event id {0} is already used by another event")]
    IdReused(EventId),
    /// Content that an event names is not stored, or was erased a moment ago.
    #[error("{0} is not stored here")]
    Missing(Hash),
    /// The payload is erased, but somebody who reads an old page keeps it in the write-ahead log. Erasing again finishes it.
    #[error("the erased bytes are still held by somebody who reads the log")]
    Lingers,
    /// The payload is erased, but the disk does not let go of a file that belongs to it. Erasing again finishes it.
    #[error("the payload is erased, but the file of {0} could not be removed")]
    Unremoved(Hash),
    /// Nothing so long is taken: it would not go through the streams that carry events.
    #[error("a fact of the kind {kind} would have {bytes} bytes, more than an event may")]
    TooLong {
        /// What it would be.
        kind: String,
        /// How long.
        bytes: usize,
    },
    /// The disk is full. Reading works, and so does appending once there is space.
    #[error("the disk is full")]
    Full,
    /// The disk failed or is read-only. What was not acknowledged is not promised.
    #[error("the log could not be written")]
    Failed(#[source] Arc<StoreError>),
    /// The log is closing.
    #[error("the log is closed")]
    Closed,
}

/// What is to be erased.
#[derive(Debug)]
pub struct Erasure {
    /// The event whose payload goes. Erasing what is erased already only makes sure that nothing is left of it.
    pub target: EventId,
    /// The event that says so.
    pub tombstone: NewEvent,
    /// Blobs that go with it, unless a later event names them.
    pub blobs: Vec<Hash>,
    /// No other event up to here names one of the blobs.
    pub unnamed_upto: Seq,
}

/// A handle to an open log. Cheap to clone; the last one closes it.
#[derive(Debug, Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: writer::Queue,
    turn: Arc<writer::Turn>,
    readers: Readers,
    /// For those who read from disk.
    seats: Seats,
    /// Changed only by the writer, after a commit is on disk.
    head: watch::Receiver<Head>,
    recent: Recent,
    blobs: Arc<Blobs>,
    epoch: u32,
    /// Why something could not be read.
    damage: OnceLock<String>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// The newest event of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Its place; zero for an empty log.
    pub seq: Seq,
    /// Its hash; zero for an empty log.
    pub hash: Hash,
}

/// Where the parts of a computer lie.
pub(crate) fn log_path(directory: &Path) -> PathBuf {
    directory.join("log.sqlite")
}

/// Where blobs lie.
pub(crate) fn blobs_path(directory: &Path) -> PathBuf {
    directory.join("blobs")
}

impl Log {
    /// Opens the log in a directory, creating both. One process may hold it.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(directory, Index::open)
    }

    /// Opens a log of which somebody else has seen `head`. One that does not hold that event was cut off, rewritten or
    /// lost: it is refused, and nothing is made or changed.
    pub fn open_seen(directory: &Path, head: Head) -> Result<Self, OpenError> {
        Self::open_seen_with(directory, head, Index::open)
    }

    /// The same, building the index anew; not where a part of the log is lost, of which the index still knows.
    pub fn open_reindexed(directory: &Path, head: Head) -> Result<Self, OpenError> {
        Self::open_seen_with(directory, head, |directory, connection, upto| {
            whole(&log_path(directory))?;
            Index::open_anew(directory, connection, upto)
        })
    }

    fn open_seen_with(
        directory: &Path,
        head: Head,
        open_index: impl FnOnce(&Path, &rusqlite::Connection, Seq) -> Result<Arc<Index>, OpenError>,
    ) -> Result<Self, OpenError> {
        if head.seq == Seq::ZERO {
            return Self::open_with(directory, open_index);
        }
        let path = log_path(directory);
        if !path.exists() {
            return Err(OpenError::Contradicted { path, seen: head.seq, what: "it is gone".into() });
        }
        let lock = lock(directory)?;
        holds(&path, head)?;
        Self::open_locked(directory, lock, open_index)
    }

    fn open_with(
        directory: &Path,
        open_index: impl FnOnce(&Path, &rusqlite::Connection, Seq) -> Result<Arc<Index>, OpenError>,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        Self::open_locked(directory, lock(directory)?, open_index)
    }

    fn open_locked(
        directory: &Path,
        lock: File,
        open_index: impl FnOnce(&Path, &rusqlite::Connection, Seq) -> Result<Arc<Index>, OpenError>,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: directory.to_owned(), source };
        claim(directory).map_err(failed)?;
        let path = log_path(directory);
        let connection = writer::open(&path)?;
        let blobs = Arc::new(Blobs::open(&blobs_path(directory)).map_err(|error| damaged(&path, error))?);
        // The database file itself must have a durable name before anything in it is acknowledged.
        sync_directory(directory).map_err(|error| damaged(&path, error))?;
        let last = writer::last(&path, &connection, &blobs).map_err(|error| damaged(&path, error))?;
        let newest = Head { seq: last.seq, hash: last.hash };
        let index = open_index(directory, &connection, last.seq)?;
        writer::finish_erasure(&connection, &blobs, &index, last.seq).map_err(|error| damaged(&path, error))?;
        let (head_sender, head) = watch::channel(newest);
        let (queue, taker) = writer::queue();
        let recent = Recent::default();
        let epoch = last.epoch + 1;
        let beside = writer::Beside { recent: recent.clone(), index: Arc::clone(&index), blobs: Arc::clone(&blobs) };
        let writer = writer::Writer::new(path.clone(), connection, epoch, head_sender, beside);
        let turn = Arc::new(writer::Turn::new(writer));
        let of_thread = Arc::clone(&turn);
        let thread = std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || {
                of_thread.serve_to_the_end(taker);
                drop(lock);
            })
            .map_err(failed)?;
        let readers = Readers::indexed(path, index);
        Ok(Self {
            shared: Arc::new(Shared {
                queue,
                turn,
                readers,
                seats: Seats::new(READ_AT_ONCE_MAX),
                head,
                recent,
                blobs,
                epoch,
                damage: OnceLock::new(),
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Appends events as one unit. When this returns `Ok` they survive a power cut; on `Err` none of them is in the log
    /// as far as anybody was told.
    pub async fn append(&self, events: Vec<NewEvent>, expect: Expect) -> Result<Appended, AppendError> {
        if events.is_empty() {
            let head = self.head().seq;
            return Ok(Appended { first: head, last: head, repeated: false });
        }
        let _asking = self.shared.turn.ask();
        let events = self.prepare(events).await?;
        let (reply, answer) = oneshot::channel();
        self.ask(writer::Command::Append { events, expect, reply }).await?;
        answer.await.map_err(|_| AppendError::Closed)?
    }

    /// Replaces the payload of an event by a tombstone and appends that.
    pub async fn erase(&self, erasure: Erasure) -> Result<Appended, AppendError> {
        let Erasure { target, tombstone, blobs, unnamed_upto } = erasure;
        let tombstone = Box::new(writer::Prepared::new(tombstone, &self.shared.blobs).await?);
        let (reply, answer) = oneshot::channel();
        self.ask(writer::Command::Erase { target, tombstone, blobs, unnamed_upto, reply }).await?;
        answer.await.map_err(|_| AppendError::Closed)?
    }

    /// Writes at once when nobody else does, and stands in line otherwise.
    async fn ask(&self, command: writer::Command) -> Result<(), AppendError> {
        match self.shared.turn.take(command) {
            Some(command) => self.shared.queue.push(command).await.map_err(|_| AppendError::Closed),
            None => Ok(()),
        }
    }

    /// Reads events from disk, in order.
    pub async fn read(&self, query: Query) -> Result<Vec<Envelope>, StoreError> {
        let shared = Arc::clone(&self.shared);
        // What is not acknowledged is not there yet, even if SQLite would already show it.
        let head = self.head().seq;
        let upto = query.upto.map_or(head, |upto| upto.min(head));
        let query = Query { upto: Some(upto), limit: query.limit.min(reader::EVENTS_READ_MAX), ..query };
        let read = move || shared.readers.read(&query, &shared.blobs);
        self.noticed(self.shared.seats.work(read).await?)
    }

    /// Remembers that something could not be read because the file is damaged, or is not as it was written.
    fn noticed(&self, read: Result<reader::Read, StoreError>) -> Result<Vec<Envelope>, StoreError> {
        let damage = match &read {
            Ok(read) => read.damage.clone(),
            Err(StoreError::Sqlite(error)) if crate::verify::is_damage(error) => Some(error.to_string()),
            Err(error @ (StoreError::Hole(_) | StoreError::Row { .. })) => Some(error.to_string()),
            Err(_) => None,
        };
        if let Some(damage) = damage {
            self.remember(damage);
        }
        read.map(|read| read.events)
    }

    /// Keeps the first of what is said to be damaged, and tells it once.
    pub(crate) fn remember(&self, damage: String) {
        self.shared.damage.get_or_init(|| {
            tracing::error!(%damage, "the log is damaged");
            damage
        });
    }

    /// What is wrong with the file, once something could not be read.
    pub fn damage(&self) -> Option<&str> {
        self.shared.damage.get().map(String::as_str)
    }

    /// Reads one event by its id.
    pub async fn find(&self, id: EventId) -> Result<Option<Envelope>, StoreError> {
        let shared = Arc::clone(&self.shared);
        let read = move || shared.readers.find(id, &shared.blobs);
        Ok(self.noticed(self.shared.seats.work(read).await?)?.pop())
    }

    /// Shows acknowledged events after a position on the calling thread, in order and without copying them. What cannot be read is
    /// remembered and left out: one bad page takes away at most itself.
    pub(crate) fn replay(
        &self,
        after: Seq,
        limit: usize,
        mut take: impl FnMut(Header, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let query = Query { after, upto: Some(self.head().seq), limit, ..Query::default() };
        let blobs = &self.shared.blobs;
        let show = |header: Header, place, payload: Option<&[u8]>| {
            let payload = row::payload(&header, place, payload, blobs)?.bytes();
            let text = std::str::from_utf8(&payload).map_err(|_| row::not_text(&header))?;
            take(header, text)
        };
        let missed = |hole: Hole| {
            self.remember(hole.to_string());
            true
        };
        self.shared.readers.each(&query, show, missed)
    }

    /// Follows the log from a position: every event after it once, in order, without end.
    pub fn subscribe(&self, after: Seq) -> Subscription {
        Subscription::new(self.clone(), after)
    }

    /// Whether this very event is in the log; the empty head is in every log.
    pub async fn holds(&self, head: Head) -> bool {
        if head == Head::default() {
            return true;
        }
        let query = Query { after: Seq(head.seq.0.saturating_sub(1)), limit: 1, ..Query::default() };
        matches!(self.read(query).await, Ok(found) if found.first().is_some_and(|event| event.header.hash == head.hash))
    }

    /// The newest acknowledged event.
    pub fn head(&self) -> Head {
        *self.shared.head.borrow()
    }

    /// Tells when the head moves.
    pub fn watch(&self) -> watch::Receiver<Head> {
        self.shared.head.clone()
    }

    /// Content named by events of this log.
    pub fn blobs(&self) -> &Arc<Blobs> {
        &self.shared.blobs
    }

    /// Which holder of the log this is.
    pub fn epoch(&self) -> u32 {
        self.shared.epoch
    }

    /// Finishes what was accepted, folds the write-ahead log into the file and gives up the lock. No thread touches the
    /// files afterwards.
    pub async fn close(self) {
        // A failed send means that the writer is gone already.
        self.shared.queue.push(writer::Command::Close).await.ok();
        let thread = self.shared.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let shared = Arc::clone(&self.shared);
        let end = move || {
            shared.readers.close();
            thread.is_none_or(|thread| thread.join().is_ok())
        };
        if !tokio::task::spawn_blocking(end).await.unwrap_or(false) {
            tracing::error!("the log writer panicked while closing");
        }
    }

    async fn prepare(&self, mut events: Vec<NewEvent>) -> Result<writer::Events, AppendError> {
        if events.len() == 1
            && let Some(only) = events.pop()
        {
            return writer::Prepared::new(only, &self.shared.blobs).await.map(writer::Events::One);
        }
        let mut prepared = Vec::with_capacity(events.len());
        for event in events {
            prepared.push(writer::Prepared::new(event, &self.shared.blobs).await?);
        }
        Ok(writer::Events::Many(prepared))
    }

    pub(crate) fn recent(&self) -> &Recent {
        &self.shared.recent
    }
}

/// Refuses a log of which not everything can be read.
fn whole(path: &Path) -> Result<(), OpenError> {
    let mut first = None;
    let missed = |hole| {
        first = Some(hole);
        false
    };
    let query = Query { limit: usize::MAX, ..Query::default() };
    let read = Readers::new(path.to_owned()).each(&query, |_, _, _| Ok(true), missed);
    read.map_err(|error| damaged(path, error))?;
    match first {
        Some(hole) => Err(OpenError::Damaged { path: path.to_owned(), what: hole.to_string() }),
        None => Ok(()),
    }
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join("lock");
    let failed = |source| OpenError::File { path: path.clone(), source };
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// What root writes here is root's, and a user to whom the directory was given could not read it: whoever gives it must see that
/// it has to be given again.
fn claim(directory: &Path) -> std::io::Result<()> {
    let is_given = fs::metadata(directory)?.uid() != 0;
    match is_given && rustix::process::geteuid().is_root() {
        true => chown(directory, Some(0), Some(0)),
        false => Ok(()),
    }
}

/// Whether a log holds an event, without a connection that could write.
fn holds(path: &Path, head: Head) -> Result<(), OpenError> {
    let contradicted = |what: String| Err(OpenError::Contradicted { path: path.to_owned(), seen: head.seq, what });
    let readers = Readers::new(path.to_owned());
    match readers.format().map_err(|error| damaged(path, error))? {
        0 => return contradicted("it is empty".into()),
        found if found > FORMAT => return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT }),
        _ => {}
    }
    let query = Query { after: Seq(head.seq.0 - 1), limit: 1, ..Query::default() };
    let (rows, _) = readers.stored(&query).map_err(|error| damaged(path, error))?;
    match rows.first() {
        Some(row) if row.header.seq == head.seq && row.header.hash == head.hash => Ok(()),
        Some(_) => contradicted(format!("it holds another event {}", head.seq)),
        None => contradicted("it ends before that".into()),
    }
}

fn damaged(path: &Path, error: StoreError) -> OpenError {
    match error {
        StoreError::File(source) => OpenError::File { path: path.to_owned(), source },
        StoreError::Sqlite(source) => OpenError::Sqlite(source),
        other => OpenError::Damaged { path: path.to_owned(), what: other.to_string() },
    }
}

/// Whether SQLite said that there is no space.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

//! The one writer: it gathers what callers ask for, commits it with one sync, and only then answers.

mod gather;
mod insert;
mod open;
mod queue;
mod replies;
mod turn;
mod wal;

pub(crate) use open::{finish_erasure, last, open};
pub(crate) use queue::{Queue, queue};
pub(crate) use turn::Turn;

use self::gather::Gathering;
use self::insert::Insert;
use self::open::{anchor, is_shared, named_after};
use self::queue::Taker;
use self::replies::Replies;
use self::wal::{Wal, tell_failure, truncate};
use super::index::{Entry, Index};
use super::row::{self, Place};
use super::{AppendError, Appended, Expect, Head, PAYLOAD_INLINE_BYTES_MAX, is_full};
use crate::blob::Blobs;
use crate::log::recent::Recent;
use crate::sha256;
use crate::sqlite::{OpenError, StoreError};
use choir_proto::event::{Header, NewEvent, PAYLOAD_BYTES_MAX};
use choir_proto::{Envelope, EventId, Hash, Seq};
use foldhash::fast::RandomState;
use rusqlite::{Connection, params};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{oneshot, watch};

type Reply = oneshot::Sender<Result<Appended, AppendError>>;

/// What callers ask of the writer.
#[expect(clippy::large_enum_variant, reason = "an event within its command is one piece of memory less to fetch")]
pub(crate) enum Command {
    /// Add events as one unit.
    Append { events: Events, expect: Expect, reply: Reply },
    /// Replace a payload by a tombstone.
    Erase { target: EventId, tombstone: Box<Prepared>, blobs: Vec<Hash>, unnamed_upto: Seq, reply: Reply },
    /// Finish and end the thread.
    Close,
}

/// The events of one append. A single one, as most are, travels within its command: commands lie one behind the other, and the writer,
/// on another processor, reads from end to end what it would otherwise fetch piece by piece.
#[expect(clippy::large_enum_variant, reason = "an event within its command is one piece of memory less to fetch")]
pub(crate) enum Events {
    One(Prepared),
    Many(Vec<Prepared>),
}

impl Events {
    fn as_slice(&self) -> &[Prepared] {
        match self {
            Self::One(event) => std::slice::from_ref(event),
            Self::Many(events) => events,
        }
    }
}

/// An event made ready on the caller's thread, so that the writer only inserts.
pub(crate) struct Prepared {
    /// All but what its place in the log gives it.
    header: Header,
    payload: Box<RawValue>,
    place: Place,
    /// Blobs without which it means nothing.
    named: Vec<Hash>,
}

impl Prepared {
    /// Serialises and hashes the payload; a large one is kept as a blob, synced before the event can name it.
    pub(crate) async fn new(new: NewEvent, blobs: &Arc<Blobs>) -> Result<Self, AppendError> {
        let payload = new.event.payload();
        let mut named = new.event.blobs();
        if payload.get().len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::TooLong { kind: new.event.kind().into_owned(), bytes: payload.get().len() });
        }
        if payload.get().len() <= PAYLOAD_INLINE_BYTES_MAX {
            let payload_hash = sha256(payload.get().as_bytes());
            return Ok(Self { header: unplaced(new, payload_hash), payload, place: Place::Inline, named });
        }
        let (blobs, bytes) = (Arc::clone(blobs), payload.clone());
        // Syncs, so it may not hold up a thread that serves others.
        let put = tokio::task::spawn_blocking(move || blobs.put(bytes.get().as_bytes()));
        let hash = put.await.map_err(|_| AppendError::Closed)?.map_err(unkept)?;
        named.push(hash);
        Ok(Self { header: unplaced(new, hash), payload, place: Place::Blob, named })
    }

    /// Whether a row holds this very event, whenever it was written.
    fn is_in(&self, row: &rusqlite::Row<'_>) -> Result<bool, rusqlite::Error> {
        let (payload_hash, run) = (Hash(row.get(0)?), row.get::<_, Option<[u8; 16]>>(2)?);
        let kind = row.get_ref(1)?.as_str()?;
        let Header { payload_hash: own_hash, kind: own_kind, run: own_run, .. } = &self.header;
        Ok(payload_hash == *own_hash && kind == own_kind && run.map(Into::into) == *own_run)
    }
}

/// Why a payload could not be put among the blobs.
fn unkept(error: StoreError) -> AppendError {
    match error {
        StoreError::File(source) if source.kind() == std::io::ErrorKind::StorageFull => AppendError::Full,
        other => AppendError::Failed(Arc::new(other)),
    }
}

/// What is known of an event before it has a place.
fn unplaced(new: NewEvent, payload_hash: Hash) -> Header {
    Header {
        seq: Seq::ZERO,
        id: new.id,
        epoch: 0,
        at: new.at,
        actor: new.actor,
        run: new.run,
        task: new.task,
        cause: new.cause,
        kind: new.event.kind(),
        version: new.event.version(),
        payload_hash,
        prev: Hash::ZERO,
        hash: Hash::ZERO,
    }
}

/// What the writer keeps true beside the log itself.
pub(crate) struct Beside {
    pub(crate) recent: Recent,
    pub(crate) index: Arc<Index>,
    pub(crate) blobs: Arc<Blobs>,
}

/// The file while a commit is staged, with what every event of it needs.
struct Writable<'file> {
    connection: &'file Connection,
    insert: Insert<'file>,
}

/// The state of the one who writes; [`Turn`] says who that is.
pub(crate) struct Writer {
    path: PathBuf,
    /// Absent after the disk failed, until a reopening has verified what is there.
    connection: Option<Connection>,
    epoch: u32,
    /// The end of the log including what is staged but not yet committed.
    end: Head,
    kinds: HashMap<String, i64, RandomState>,
    head: watch::Sender<Head>,
    recent: Recent,
    index: Arc<Index>,
    /// What becomes known of the events that are staged, once they are committed.
    staged: Staging,
    blobs: Arc<Blobs>,
    wal: Wal,
    /// Keeps the shared memory of SQLite open while the writing connection is closed after a failure: on a disk that has
    /// turned read-only it could not be made again, and nobody could read.
    anchor: Option<Connection>,
    replies: Replies,
    scratch: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(
        path: PathBuf,
        connection: Connection,
        epoch: u32,
        head: watch::Sender<Head>,
        beside: Beside,
    ) -> Self {
        let end = *head.borrow();
        let Beside { recent, index, blobs } = beside;
        let wal = Wal::new(path.clone());
        Self {
            anchor: anchor(&path),
            path,
            connection: Some(wal.watched(connection)),
            epoch,
            end,
            kinds: HashMap::default(),
            head,
            recent,
            index,
            staged: Staging::default(),
            blobs,
            wal,
            replies: Replies::start(),
            scratch: Vec::new(),
        }
    }

    /// Commits what is asked for, beginning with a command, until nothing more comes for a moment.
    fn serve(&mut self, first: Command, gathering: &mut Gathering, taker: &mut Taker) {
        let mut next = Some(first);
        while let Some(first) = next {
            let started = Instant::now();
            // Whoever comes while the first are staged joins them and does not wait for a commit of their own.
            let more = std::iter::from_fn(|| gathering.more(taker));
            self.commit(&mut std::iter::once(first).chain(more));
            gathering.commit_took = started.elapsed();
            next = gathering.soon(taker);
        }
    }

    /// Ends everything that works beside it, and folds the write-ahead log into the file.
    fn close(mut self) {
        self.anchor = None;
        self.index.close();
        self.wal.close();
        if let Some(connection) = &self.connection {
            tell_failure(truncate(connection));
        }
    }

    fn commit(&mut self, batch: &mut dyn Iterator<Item = Command>) {
        let mut staged = Vec::new();
        let result = self.reopen_if_needed().and_then(|()| self.stage_all(batch, &mut staged));
        match result {
            Ok(()) => self.acknowledge(staged),
            Err(error) => {
                // Everybody who came must get an answer, whatever failed first.
                staged.extend(batch.map(Staged::lost));
                self.refuse(staged, error);
            }
        }
    }

    fn stage_all(
        &mut self,
        batch: &mut dyn Iterator<Item = Command>,
        staged: &mut Vec<Staged>,
    ) -> Result<(), StoreError> {
        let connection = self.connection.take().ok_or(StoreError::Closed)?;
        let result = self.stage_on(&connection, batch, staged);
        // After a failure that is not "no space" the connection may hold a lie about what is on disk: it is closed, and
        // the next command opens the file anew and checks it. A failed sync is never retried.
        let keep = match &result {
            Ok(()) => true,
            Err(StoreError::Sqlite(error)) => is_full(error) && rolled_back(&connection),
            Err(_) => false,
        };
        if keep {
            self.connection = Some(connection);
        }
        result
    }

    fn stage_on(
        &mut self,
        connection: &Connection,
        batch: &mut dyn Iterator<Item = Command>,
        staged: &mut Vec<Staged>,
    ) -> Result<(), StoreError> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut file = Writable { connection, insert: Insert::prepare(connection)? };
        for command in batch {
            let (reply, outcome) = match command {
                Command::Close => continue,
                Command::Append { events, expect, reply } => (reply, self.append(&mut file, events, expect)),
                Command::Erase { target, tombstone, blobs, unnamed_upto, reply } => {
                    (reply, self.erase(&mut file, target, *tombstone, (blobs, unnamed_upto)))
                }
            };
            let (outcome, failure) = match outcome {
                Ok(outcome) => (outcome, Ok(())),
                Err(error) => (Outcome::Lost, Err(error)),
            };
            staged.push(Staged { reply, outcome });
            failure?;
        }
        drop(file);
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn append(&mut self, file: &mut Writable<'_>, events: Events, expect: Expect) -> Result<Outcome, StoreError> {
        let before = self.end;
        if let Expect::Head(expected) = expect
            && expected != before.seq
        {
            let moved = Err(AppendError::Moved { expected, found: before.seq });
            return Ok(Outcome::Answered(self.repeated(file.connection, events.as_slice())?.unwrap_or(moved)));
        }
        if let Some(used) = self.first_used(events.as_slice())? {
            let reused = Err(AppendError::IdReused(used));
            return Ok(Outcome::Answered(self.repeated(file.connection, events.as_slice())?.unwrap_or(reused)));
        }
        if let Some(missing) = self.first_missing(events.as_slice()) {
            return Ok(Outcome::Answered(Err(AppendError::Missing(missing))));
        }
        if !self.index.has_room() {
            return Err(StoreError::Row { seq: before.seq.0, what: "the index could not follow the log".into() });
        }
        match events {
            Events::One(event) => self.insert(file, event)?,
            Events::Many(events) => events.into_iter().try_for_each(|event| self.insert(file, event))?,
        }
        let appended = Appended { first: before.seq.next(), last: self.end.seq, repeated: false };
        Ok(Outcome::Appended(appended))
    }

    /// The first id of an append that is in the log already, or twice in the append itself.
    fn first_used(&self, events: &[Prepared]) -> Result<Option<EventId>, StoreError> {
        let mut own = HashSet::new();
        for event in events {
            let id = event.header.id;
            let twice = events.len() > 1 && !own.insert(id);
            if twice || self.seq_of(id)?.is_some() {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Content that an append names and that was erased since it was put there.
    fn first_missing(&self, events: &[Prepared]) -> Option<Hash> {
        events.iter().flat_map(|event| &event.named).find(|hash| !self.blobs.contains(hash)).copied()
    }

    fn seq_of(&self, id: EventId) -> Result<Option<Seq>, StoreError> {
        match self.staged.ids.get(&id) {
            Some(seq) => Ok(Some(*seq)),
            None => self.index.seq_of(id),
        }
    }

    /// Recognises a repeated append: all of its ids are there with the same payloads, or none is.
    fn repeated(
        &self,
        connection: &Connection,
        events: &[Prepared],
    ) -> Result<Option<Result<Appended, AppendError>>, StoreError> {
        let find = "SELECT payload_hash, name, run FROM events JOIN kinds ON kinds.id = kind WHERE seq = ?1";
        let mut statement = connection.prepare_cached(find)?;
        let mut places = Vec::new();
        for event in events {
            let reused = Ok(Some(Err(AppendError::IdReused(event.header.id))));
            match self.seq_of(event.header.id)? {
                Some(seq) if statement.query_row([seq.0], |row| event.is_in(row))? => places.push(seq),
                Some(_) => return reused,
                None if places.is_empty() => {}
                None => return reused,
            }
        }
        match (places.first(), places.last()) {
            (Some(first), Some(last)) if places.len() == events.len() => {
                Ok(Some(Ok(Appended { first: *first, last: *last, repeated: true })))
            }
            (Some(_), _) => Ok(Some(Err(AppendError::IdReused(events[0].header.id)))),
            _ => Ok(None),
        }
    }

    /// Gives an event its place.
    fn insert(&mut self, file: &mut Writable<'_>, event: Prepared) -> Result<(), StoreError> {
        let Prepared { mut header, payload, place, .. } = event;
        header.seq = self.end.seq.next();
        header.epoch = self.epoch;
        header.prev = self.end.hash;
        header.hash = row::hash(&header, &mut self.scratch);
        let kind = self.kind_number(file.connection, &header.kind)?;
        let inline = (place == Place::Inline).then(|| payload.get().as_bytes());
        file.insert.add(&header, kind, place, inline)?;
        self.end = Head { seq: header.seq, hash: header.hash };
        self.staged.push(kind, Envelope { header, payload, damaged: false });
        Ok(())
    }

    fn kind_number(&mut self, connection: &Connection, name: &str) -> Result<i64, StoreError> {
        if let Some(number) = self.kinds.get(name) {
            return Ok(*number);
        }
        connection.prepare_cached("INSERT OR IGNORE INTO kinds (name) VALUES (?1)")?.execute([name])?;
        let find = "SELECT id FROM kinds WHERE name = ?1";
        let number = connection.prepare_cached(find)?.query_row([name], |row| row.get(0))?;
        self.kinds.insert(name.to_owned(), number);
        Ok(number)
    }

    fn erase(
        &mut self,
        file: &mut Writable<'_>,
        target: EventId,
        tombstone: Prepared,
        (mut blobs, unnamed_upto): (Vec<Hash>, Seq),
    ) -> Result<Outcome, StoreError> {
        let connection = file.connection;
        let target = self.seq_of(target)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let find = "SELECT place, payload_hash FROM events WHERE seq = ?1";
        let (place, hash): (i64, [u8; 32]) =
            connection.prepare_cached(find)?.query_row([target.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if !blobs.is_empty() {
            let named = named_after(connection, unnamed_upto, target, &self.blobs)?;
            blobs.retain(|hash| !named.contains(hash));
        }
        if place != Place::Inline as i64 && !is_shared(connection, target, &hash)? {
            blobs.push(Hash(hash));
        }
        if place == Place::Erased as i64 {
            // Only what an earlier attempt could not finish is left to do.
            let appended = Appended { first: self.end.seq, last: self.end.seq, repeated: true };
            return Ok(Outcome::Erased { appended, blobs });
        }
        connection
            .prepare_cached("UPDATE events SET place = ?2, payload = NULL WHERE seq = ?1")?
            .execute(params![target.0, Place::Erased as i64])?;
        let first = self.end.seq.next();
        self.insert(file, tombstone)?;
        let appended = Appended { first, last: first, repeated: false };
        Ok(Outcome::Erased { appended, blobs })
    }

    /// The commit is on disk: publish it, then answer.
    fn acknowledge(&mut self, staged: Vec<Staged>) {
        let (entries, mut envelopes) = self.staged.take();
        let mut replies = Vec::with_capacity(staged.len());
        for Staged { reply, outcome } in staged {
            let answer = match outcome {
                Outcome::Answered(answer) => answer,
                Outcome::Lost => Err(AppendError::Closed),
                Outcome::Appended(appended) => Ok(appended),
                Outcome::Erased { appended, blobs } => {
                    // It ends its commit, and what came before it there may be what was erased.
                    envelopes.clear();
                    self.finish_erasure(&blobs).map(|()| appended)
                }
            };
            replies.push((reply, answer));
        }
        let waiting = self.replies.hold(replies);
        self.index.push(entries);
        let oldest = self.recent.push(envelopes);
        self.head.send_replace(self.end);
        waiting.release();
        // Nobody should have waited for that.
        drop(oldest);
        if let Some(connection) = &self.connection {
            self.wal.tend(connection);
        }
    }

    fn finish_erasure(&self, blobs: &[Hash]) -> Result<(), AppendError> {
        self.recent.forget();
        // Each is tried, and so is the write-ahead log: the less is left the better.
        let mut kept = Ok(());
        for hash in blobs {
            if let Err(error) = self.blobs.erase(hash) {
                tracing::error!(%hash, %error, "an erased blob could not be removed");
                kept = Err(AppendError::Unremoved(*hash));
            }
        }
        // The write-ahead log still holds the old page.
        let Some(connection) = &self.connection else { return kept };
        match truncate(connection) {
            Ok(true) => kept,
            Ok(false) => Err(AppendError::Lingers),
            Err(error) => Err(failed(StoreError::Sqlite(error))),
        }
    }

    fn refuse(&mut self, staged: Vec<Staged>, error: StoreError) {
        tracing::error!(%error, "a commit failed; nothing in it was acknowledged");
        self.kinds.clear();
        self.staged.take();
        self.end = *self.head.borrow();
        let answer = failed(error);
        for Staged { reply, .. } in staged {
            reply.send(Err(answer.clone())).ok();
        }
    }

    fn reopen_if_needed(&mut self) -> Result<(), StoreError> {
        if self.connection.is_some() {
            return Ok(());
        }
        let connection = open(&self.path).map_err(|error| match error {
            OpenError::Sqlite(error) => StoreError::Sqlite(error),
            OpenError::File { source, .. } => StoreError::File(source),
            other => StoreError::Row { seq: self.end.seq.0, what: other.to_string() },
        })?;
        let last = last(&self.path, &connection, &self.blobs)?;
        if last.seq < self.head.borrow().seq {
            return Err(StoreError::Row { seq: last.seq.0, what: "acknowledged events after it are gone".into() });
        }
        // Events whose commit failed may be there after all. They were not acknowledged, but they are whole.
        self.index.catch_up(&connection, last.seq)?;
        self.end = Head { seq: last.seq, hash: last.hash };
        self.recent.forget();
        self.head.send_replace(self.end);
        self.connection = Some(self.wal.watched(connection));
        Ok(())
    }
}

impl Command {
    fn size(&self) -> usize {
        match self {
            Self::Append { events, .. } => events.as_slice().len(),
            Self::Erase { .. } | Self::Close => 1,
        }
    }
}

/// Events of a commit that is not on disk yet.
#[derive(Default)]
struct Staging {
    entries: Vec<Entry>,
    ids: HashMap<EventId, Seq, RandomState>,
    /// For followers.
    envelopes: Vec<Arc<Envelope>>,
}

impl Staging {
    fn push(&mut self, kind: i64, envelope: Envelope) {
        let Header { seq, id, run, hash, .. } = envelope.header;
        self.ids.insert(id, seq);
        self.entries.push(Entry { seq, id, run, kind, hash });
        self.envelopes.push(Arc::new(envelope));
    }

    fn take(&mut self) -> (Vec<Entry>, Vec<Arc<Envelope>>) {
        self.ids.clear();
        (std::mem::take(&mut self.entries), std::mem::take(&mut self.envelopes))
    }
}

struct Staged {
    reply: Reply,
    outcome: Outcome,
}

impl Staged {
    fn lost(command: Command) -> Self {
        let reply = match command {
            Command::Append { reply, .. } | Command::Erase { reply, .. } => reply,
            // Nobody waits for it: what is sent here reaches no one.
            Command::Close => oneshot::channel().0,
        };
        Self { reply, outcome: Outcome::Lost }
    }
}

enum Outcome {
    /// Known without writing.
    Answered(Result<Appended, AppendError>),
    /// Becomes true with the commit.
    Appended(Appended),
    /// So does this; then the blobs are removed too.
    Erased { appended: Appended, blobs: Vec<Hash> },
    /// The batch failed.
    Lost,
}

fn failed(error: StoreError) -> AppendError {
    match &error {
        StoreError::Sqlite(source) if is_full(source) => AppendError::Full,
        _ => AppendError::Failed(Arc::new(error)),
    }
}

fn rolled_back(connection: &Connection) -> bool {
    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
}

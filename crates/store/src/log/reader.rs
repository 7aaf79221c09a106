//! Reading from disk, beside the writer and never in its way.

use super::hole::{self, Hole, is_unreadable};
use super::index::{Index, Of};
use super::row::{self, Place, Stored};
use crate::StoreError;
use crate::blob::Blobs;
use crate::sqlite::open_reader;
use choir_proto::event::Header;
use choir_proto::{Envelope, Event, EventId, Hash, RunId, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

/// Events in one answer, whatever was asked for.
pub(crate) const EVENTS_READ_MAX: usize = 1000;

/// Payload bytes after which an answer is cut short; the caller asks again.
const BYTES_READ_MAX: usize = 8 * 1024 * 1024;

/// Connections kept open for the next reader.
const CONNECTIONS_IDLE_MAX: usize = 4;

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only later ones.
    pub after: Seq,
    /// Only up to this one.
    pub upto: Option<Seq>,
    /// At most so many.
    pub limit: usize,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only of this kind.
    pub kind: Option<String>,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) events: Vec<Envelope>,
    /// What of it is not as it was written, if anything.
    pub(crate) damage: Option<String>,
}

/// Connections to one log that only read.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    /// Absent when nobody asks for a run, a kind or an id.
    index: Option<Arc<Index>>,
    /// Absent once closed.
    idle: Mutex<Option<Vec<Reader>>>,
    /// Held by everybody who is reading.
    at_work: RwLock<()>,
}

/// One connection with what it has learned.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    kinds: HashMap<i64, Cow<'static, str>>,
}

impl Readers {
    /// Readers of ranges only.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, index: None, idle: Mutex::new(Some(Vec::new())), at_work: RwLock::default() }
    }

    /// Readers that also find events by what they belong to.
    pub(crate) fn indexed(path: PathBuf, index: Arc<Index>) -> Self {
        Self { index: Some(index), ..Self::new(path) }
    }

    /// Whole events. Nobody is led over a hole unawares: what comes before it is read, and whoever begins with it is told where
    /// it ends.
    pub(crate) fn read(&self, query: &Query, blobs: &Blobs) -> Result<Read, StoreError> {
        let (mut read, mut bytes, mut met) = (Read::default(), 0, None);
        let take = |header: Header, place, payload: Option<&[u8]>| {
            let event = Stored::new(header, place, payload).envelope(blobs)?;
            if event.damaged {
                let seq = event.header.seq;
                read.damage.get_or_insert_with(|| format!("what event {seq} says is damaged"));
            }
            bytes += event.payload.get().len();
            read.events.push(event);
            Ok(bytes <= BYTES_READ_MAX)
        };
        let missed = |hole| {
            met = Some(hole);
            false
        };
        self.with(|reader| match (&self.index, query.run, &query.kind) {
            (_, None, None) => reader.range(query, take, missed),
            (None, ..) => Err(StoreError::Closed),
            (Some(index), run, kind) => reader.found(index, run, kind.as_deref(), query, take),
        })?;
        match met {
            Some(hole) if read.events.is_empty() => Err(StoreError::Hole(hole)),
            Some(hole) => Ok(Read { damage: Some(hole.to_string()), ..read }),
            None => Ok(read),
        }
    }

    /// Rows as they are, without what is in blobs, and what lies between them that cannot be read.
    pub(crate) fn stored(&self, query: &Query) -> Result<(Vec<Stored>, Vec<Hole>), StoreError> {
        let (mut rows, mut holes) = (Vec::new(), Vec::new());
        let take = |header: Header, place, payload: Option<&[u8]>| {
            rows.push(Stored::new(header, place, payload));
            Ok(true)
        };
        let missed = |hole| {
            holes.push(hole);
            true
        };
        self.each(query, take, missed)?;
        Ok((rows, holes))
    }

    /// Shows each event between two places in order until `take` has enough, and names what cannot be read until `missed` does not
    /// want to go on. Payloads are not copied.
    pub(crate) fn each(
        &self,
        query: &Query,
        take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
        missed: impl FnMut(Hole) -> bool,
    ) -> Result<(), StoreError> {
        self.with(|reader| reader.range(query, take, missed))
    }

    /// The format that the file says it has.
    pub(crate) fn format(&self) -> Result<i32, StoreError> {
        self.with(|reader| Ok(reader.connection.pragma_query_value(None, "user_version", |row| row.get(0))?))
    }

    /// What SQLite itself finds wrong with the file.
    pub(crate) fn faults(&self) -> Result<Vec<String>, StoreError> {
        self.with(|reader| {
            let mut statement = reader.connection.prepare("PRAGMA quick_check(10)")?;
            let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            Ok(lines
                .into_iter()
                .filter(|line| line != "ok")
                .map(|line| format!("the file is damaged: {line}"))
                .collect())
        })
    }

    pub(crate) fn find(&self, id: EventId, blobs: &Blobs) -> Result<Read, StoreError> {
        let index = self.index.as_ref().ok_or(StoreError::Closed)?;
        let Some(seq) = index.seq_of(id)? else { return Ok(Read::default()) };
        let query = Query { after: Seq(seq.0 - 1), limit: 1, ..Query::default() };
        self.read(&query, blobs)
    }

    fn with<T>(&self, read: impl FnOnce(&mut Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _at_work = self.at_work.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let idle = self.idle().as_mut().ok_or(StoreError::Closed)?.pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => Reader { connection: open_reader(&self.path)?, kinds: HashMap::new() },
        };
        let answer = read(&mut reader);
        // After an error the connection is dropped: it may have seen a disk that failed.
        if answer.is_ok()
            && let Some(idle) = &mut *self.idle()
            && idle.len() < CONNECTIONS_IDLE_MAX
        {
            idle.push(reader);
        }
        answer
    }

    /// Waits for whoever is reading and lets go of the file; nobody can read from now on.
    pub(crate) fn close(&self) {
        let idle = self.idle().take();
        drop(idle);
        drop(self.at_work.write().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<Vec<Reader>>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Reader {
    /// Every event between two places that can be read, and every hole between them.
    fn range(
        &mut self,
        query: &Query,
        mut take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
        mut missed: impl FnMut(Hole) -> bool,
    ) -> Result<(), StoreError> {
        let (mut at, mut left) = (query.after, query.limit);
        loop {
            // Whoever takes may fail as well, and that is no hole.
            let mut failed = None;
            let stretch = Query { after: at, limit: left, ..query.clone() };
            let stretched = self.stretch(&stretch, |header, place, payload| {
                (at, left) = (header.seq, left - 1);
                take(header, place, payload).or_else(|error| {
                    failed = Some(error);
                    Ok(false)
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let hole = match stretched {
                Ok(Stretch::Ended) => return Ok(()),
                Ok(Stretch::Broken { next }) => Hole { first: at.next(), last: Seq(next.0 - 1) },
                Err(error) if is_unreadable(&error) => {
                    let upto = query.upto.map_or_else(|| newest(&self.connection), Ok)?;
                    hole::after(at, upto, |seq| self.is_readable(seq))?.ok_or(error)?
                }
                Err(error) => return Err(error),
            };
            if !missed(hole) {
                return Ok(());
            }
            at = hole.last;
        }
    }

    /// Events in a row, up to a hole.
    fn stretch(
        &mut self,
        query: &Query,
        mut take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
    ) -> Result<Stretch, StoreError> {
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let upto = query.upto.map_or(i64::MAX, |seq| seq.0 as i64);
        let mut statement = self.connection.prepare_cached(row::SELECT_RANGE)?;
        let mut rows = statement.query(params![query.after.next().0, upto, limit])?;
        let mut before = (query.after, hash_at(&self.connection, query.after)?);
        while let Some(row) = rows.next()? {
            let next = Seq(row.get(0)?);
            if next <= before.0 {
                return Err(StoreError::Row { seq: next.0, what: "it is out of order".into() });
            }
            if before.0.next() != next {
                return Ok(Stretch::Broken { next });
            }
            let kind = kind_name(&self.connection, &mut self.kinds, row.get(row::KIND)?)?;
            let (header, place, payload) = row::read(row, kind, before.1)?;
            before = (next, header.hash);
            if !take(header, place, payload)? {
                break;
            }
        }
        Ok(Stretch::Ended)
    }

    fn is_readable(&mut self, seq: Seq) -> Result<bool, StoreError> {
        match self.one(seq, |_, _, _| Ok(())) {
            Ok(()) => Ok(true),
            Err(error) if is_unreadable(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Events of a run or of a kind, or of both.
    fn found(
        &mut self,
        index: &Index,
        run: Option<RunId>,
        kind: Option<&str>,
        query: &Query,
        mut take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let number = match kind {
            Some(name) => kind_number(&self.connection, name)?,
            None => None,
        };
        // A run is short, a kind is not.
        let of = match (run, number) {
            (Some(run), _) => Of::Run(run),
            (None, Some(number)) => Of::Kind(number),
            (None, None) => return Ok(()),
        };
        let upto = query.upto.unwrap_or(Seq(i64::MAX as u64));
        let (mut after, mut wanted) = (query.after, query.limit);
        while wanted > 0 {
            let seqs = index.seqs_of(of, after, upto, wanted)?;
            let Some(last) = seqs.last() else { break };
            after = *last;
            let all = self.these(&seqs, |header, place, payload| {
                if kind.is_some_and(|kind| header.kind != kind) {
                    return Ok(true);
                }
                wanted -= 1;
                take(header, place, payload)
            })?;
            if !all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Events that must be there, until `take` has enough; whether it wanted all. One look at the file, begun after they
    /// were found: to take and leave its lock for each of them takes longer than to read them.
    fn these(
        &mut self,
        seqs: &[Seq],
        mut take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        self.connection.execute_batch("BEGIN")?;
        let mut wants_more = true;
        for seq in seqs {
            wants_more = self.one(*seq, &mut take)?;
            if !wants_more {
                break;
            }
        }
        // After an error the connection is dropped, and its look at the file with it.
        self.connection.execute_batch("COMMIT")?;
        Ok(wants_more)
    }

    /// One event that must be there.
    fn one<T>(
        &mut self,
        seq: Seq,
        take: impl FnOnce(Header, Place, Option<&[u8]>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let prev = hash_at(&self.connection, Seq(seq.0.saturating_sub(1)))?;
        let mut statement = self.connection.prepare_cached(row::SELECT_ONE)?;
        let mut rows = statement.query([seq.0])?;
        let missing = || StoreError::Row { seq: seq.0, what: "it is missing".into() };
        let row = rows.next()?.ok_or_else(missing)?;
        let kind = kind_name(&self.connection, &mut self.kinds, row.get(row::KIND)?)?;
        let (header, place, payload) = row::read(row, kind, prev)?;
        take(header, place, payload)
    }
}

/// How a row of events ended.
enum Stretch {
    /// Nobody wants more, or there is no more.
    Ended,
    /// The next event is not the next place.
    Broken { next: Seq },
}

fn newest(connection: &Connection) -> Result<Seq, StoreError> {
    let newest: Option<u64> = connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0))?;
    Ok(newest.map_or(Seq::ZERO, Seq))
}

fn kind_number(connection: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT id FROM kinds WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

/// The hash of an event; zero where there is none that can be read.
fn hash_at(connection: &Connection, seq: Seq) -> Result<Hash, StoreError> {
    let mut statement = connection.prepare_cached("SELECT hash FROM events WHERE seq = ?1")?;
    let found = statement.query_row([seq.0], |row| row.get(0).map(Hash)).optional().map_err(StoreError::Sqlite);
    match found {
        Err(error) if is_unreadable(&error) => Ok(Hash::ZERO),
        found => Ok(found?.unwrap_or(Hash::ZERO)),
    }
}

/// Numbers of kinds are never given to another name, so a name once learned stays true.
fn kind_name(
    connection: &Connection,
    known: &mut HashMap<i64, Cow<'static, str>>,
    number: i64,
) -> Result<Cow<'static, str>, StoreError> {
    if let Some(name) = known.get(&number) {
        return Ok(name.clone());
    }
    let mut statement = connection.prepare_cached("SELECT name FROM kinds WHERE id = ?1")?;
    let name = Event::kind_named(&statement.query_row([number], |row| row.get::<_, String>(0))?);
    known.insert(number, name.clone());
    Ok(name)
}

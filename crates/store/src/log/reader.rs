//! Reading from disk, beside the writer and never in its way.

use super::row::{self, Place, Stored};
use crate::StoreError;
use crate::blob::Blobs;
use crate::sqlite::open_reader;
use choir_proto::event::Header;
use choir_proto::{Envelope, Event, EventId, Hash, RunId, Seq};
use rusqlite::{Connection, OptionalExtension, ToSql};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

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

/// Connections to one log that only read.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Reader>>,
}

/// One connection with what it has learned.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    kinds: HashMap<i64, Cow<'static, str>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Whole events.
    pub(crate) fn read(&self, query: &Query, blobs: &Blobs) -> Result<Vec<Envelope>, StoreError> {
        let mut events = Vec::new();
        let mut bytes = 0;
        self.each(query, |header, place, payload| {
            let event = Stored::new(header, place, payload).envelope(blobs)?;
            bytes += event.payload.get().len();
            events.push(event);
            Ok(bytes <= BYTES_READ_MAX)
        })?;
        Ok(events)
    }

    /// Rows as they are, without what is in blobs.
    pub(crate) fn stored(&self, query: &Query) -> Result<Vec<Stored>, StoreError> {
        let mut rows = Vec::new();
        self.each(query, |header, place, payload| {
            rows.push(Stored::new(header, place, payload));
            Ok(true)
        })?;
        Ok(rows)
    }

    /// Shows each event in order until `take` has enough. Payloads are not copied.
    pub(crate) fn each(
        &self,
        query: &Query,
        take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.with(|reader| reader.each(query, take))
    }

    /// The format that the file says it has.
    pub(crate) fn format(&self) -> Result<i32, StoreError> {
        self.with(|reader| Ok(reader.connection.pragma_query_value(None, "user_version", |row| row.get(0))?))
    }

    pub(crate) fn find(&self, id: EventId, blobs: &Blobs) -> Result<Option<Envelope>, StoreError> {
        let seq: Option<u64> = self.with(|reader| {
            let mut statement = reader.connection.prepare_cached("SELECT seq FROM events WHERE id = ?1")?;
            Ok(statement.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
        })?;
        let Some(seq) = seq else { return Ok(None) };
        let query = Query { after: Seq(seq - 1), limit: 1, ..Query::default() };
        Ok(self.read(&query, blobs)?.pop())
    }

    fn with<T>(&self, read: impl FnOnce(&mut Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle().pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => Reader { connection: open_reader(&self.path)?, kinds: HashMap::new() },
        };
        let answer = read(&mut reader);
        // After an error the connection is dropped: it may have seen a disk that failed.
        if answer.is_ok() {
            let mut idle = self.idle();
            if idle.len() < CONNECTIONS_IDLE_MAX {
                idle.push(reader);
            }
        }
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Reader {
    fn each(
        &mut self,
        query: &Query,
        mut take: impl FnMut(Header, Place, Option<&[u8]>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let limit = query.limit as i64;
        let upto = query.upto.map_or(i64::MAX, |seq| seq.0 as i64);
        let run = query.run.map(|run| run.as_bytes().to_vec());
        let mut values: Vec<&dyn ToSql> = vec![&query.after.0, &limit, &upto];
        let mut conditions = String::from("seq > ?1 AND seq <= ?3");
        if let Some(run) = &run {
            values.push(run);
            conditions.push_str(&format!(" AND run = ?{}", values.len()));
        }
        if let Some(kind) = &query.kind {
            values.push(kind);
            // With a run the run's index is the better one: a run is short, a kind is not.
            let column = if run.is_some() { "+kind" } else { "kind" };
            conditions.push_str(&format!(" AND {column} = (SELECT id FROM kinds WHERE name = ?{})", values.len()));
        }
        let sql = format!("SELECT {} FROM events WHERE {conditions} ORDER BY seq LIMIT ?2", row::COLUMNS);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(values.as_slice())?;
        let mut before = (Seq::ZERO, Hash::ZERO);
        while let Some(row) = rows.next()? {
            let seq = Seq(row.get(0)?);
            if before.0.next() != seq {
                before.1 = hash_at(&self.connection, Seq(seq.0.saturating_sub(1)))?;
            }
            let kind = kind_name(&self.connection, &mut self.kinds, row.get(row::KIND)?)?;
            let (header, place, payload) = row::read(row, kind, before.1)?;
            before = (seq, header.hash);
            if !take(header, place, payload)? {
                break;
            }
        }
        Ok(())
    }
}

/// The hash of an event; zero where there is none.
fn hash_at(connection: &Connection, seq: Seq) -> Result<Hash, StoreError> {
    let mut statement = connection.prepare_cached("SELECT hash FROM events WHERE seq = ?1")?;
    Ok(statement.query_row([seq.0], |row| row.get(0).map(Hash)).optional()?.unwrap_or(Hash::ZERO))
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

//! Reading from disk, beside the writer and never in its way.

use super::row;
use crate::StoreError;
use crate::blob::Blobs;
use crate::sqlite::open_reader;
use choir_proto::{Envelope, EventId, RunId, Seq};
use rusqlite::{Connection, OptionalExtension, ToSql};
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

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Whole events.
    pub(crate) fn read(&self, query: &Query, blobs: &Blobs) -> Result<Vec<Envelope>, StoreError> {
        let mut events = Vec::new();
        let mut bytes = 0;
        self.each(query, |stored| {
            let event = stored.envelope(blobs)?;
            bytes += event.payload.get().len();
            events.push(event);
            Ok(bytes <= BYTES_READ_MAX)
        })?;
        Ok(events)
    }

    /// Rows as they are, without what is in blobs.
    pub(crate) fn stored(&self, query: &Query) -> Result<Vec<row::Stored>, StoreError> {
        let mut rows = Vec::new();
        self.each(query, |stored| {
            rows.push(stored);
            Ok(true)
        })?;
        Ok(rows)
    }

    fn each(
        &self,
        query: &Query,
        mut take: impl FnMut(row::Stored) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.with(|connection| {
            let limit = query.limit.min(EVENTS_READ_MAX) as i64;
            let upto = query.upto.map_or(i64::MAX, |seq| seq.0 as i64);
            let run = query.run.map(|run| run.as_bytes().to_vec());
            let mut conditions = String::from("seq > ?1 AND seq <= ?3");
            let mut values: Vec<&dyn ToSql> = vec![&query.after.0, &limit, &upto];
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
            let columns = row::COLUMNS;
            let sql = format!("SELECT {columns} FROM events WHERE {conditions} ORDER BY seq LIMIT ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(values.as_slice())?;
            while let Some(row) = rows.next()? {
                if !take(row::read(row)?)? {
                    break;
                }
            }
            Ok(())
        })
    }

    pub(crate) fn find(&self, id: EventId, blobs: &Blobs) -> Result<Option<Envelope>, StoreError> {
        self.with(|connection| {
            let seq: Option<u64> = connection
                .prepare_cached("SELECT seq FROM events WHERE id = ?1")?
                .query_row([id.as_bytes()], |row| row.get(0))
                .optional()?;
            let Some(seq) = seq else { return Ok(None) };
            let query = Query { after: Seq(seq - 1), limit: 1, ..Query::default() };
            Ok(self.read(&query, blobs)?.pop())
        })
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_reader(&self.path)?,
        };
        let answer = read(&connection);
        // After an error the connection is dropped: it may have seen a disk that failed.
        if answer.is_ok() {
            let mut idle = self.idle();
            if idle.len() < CONNECTIONS_IDLE_MAX {
                idle.push(connection);
            }
        }
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

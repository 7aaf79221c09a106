//! The part of the index that is written down, in segments: one row for each id, and one row for all events that a run or a
//! kind has in a segment, so that writing a segment costs little more than its ids.

// Writing and looking up have a connection each: nobody who looks something up waits for a segment.

use super::{Entry, Of};
use crate::log::Head;
use crate::log::hole::{self, is_unreadable};
use crate::sqlite::{self, OpenError, StoreError};
use choir_proto::{EventId, Hash, Seq};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FORMAT: i32 = 1;

// `base` is the place before a segment's first event; `places` are distances from it, two bytes each, in order. The cursor
// names the newest event that is written down.
const SCHEMA: &str = "
    CREATE TABLE ids (id BLOB PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE runs (run BLOB NOT NULL, base INTEGER NOT NULL, places BLOB NOT NULL,
                       PRIMARY KEY (run, base)) STRICT, WITHOUT ROWID;
    CREATE TABLE kinds (kind INTEGER NOT NULL, base INTEGER NOT NULL, places BLOB NOT NULL,
                        PRIMARY KEY (kind, base)) STRICT, WITHOUT ROWID;
    CREATE TABLE cursor (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
";

/// Distances are two bytes, so a segment is no longer than this.
const SEGMENT_EVENTS_MAX: usize = u16::MAX as usize;

/// The file and where it stands.
#[derive(Debug)]
pub(super) struct IndexFile {
    path: PathBuf,
    connection: Connection,
    cursor: Head,
}

impl IndexFile {
    /// Opens the file in a computer's directory; one that cannot be used is begun anew.
    pub(super) fn open(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join("index.sqlite");
        let opened = open_file(&path).and_then(|connection| Ok((cursor(&connection)?, connection)));
        let (cursor, connection) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "the index of the log could not be used and is built anew");
                sqlite::remove(&path)?;
                (Head::default(), open_file(&path)?)
            }
        };
        Ok(Self { path, connection, cursor })
    }

    /// An empty index in its place.
    pub(super) fn begin_anew(&mut self) -> Result<(), OpenError> {
        // The file can only be replaced once it is closed here. Whoever still has it open keeps the old one.
        self.connection = Connection::open_in_memory()?;
        self.cursor = Head::default();
        sqlite::remove(&self.path)?;
        self.connection = open_file(&self.path)?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The newest event that is written down.
    pub(super) fn cursor(&self) -> Head {
        self.cursor
    }

    /// Whether the newest event that is written down is in this very log.
    pub(super) fn stands_on(&self, log: &Connection) -> Result<bool, rusqlite::Error> {
        if self.cursor == Head::default() {
            return Ok(true);
        }
        let find = "SELECT hash FROM events WHERE seq = ?1";
        let found: Option<[u8; 32]> = log.query_row(find, [self.cursor.seq.0], |row| row.get(0)).optional()?;
        Ok(found.map(Hash) == Some(self.cursor.hash))
    }

    /// The greatest id that is written down.
    pub(super) fn greatest(&self) -> Result<Option<EventId>, rusqlite::Error> {
        let sql = "SELECT max(id) FROM ids";
        let greatest: Option<[u8; 16]> = self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(greatest.map(Into::into))
    }

    /// Writes down the events after the cursor.
    pub(super) fn write(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        // What an attempt wrote that failed only afterwards is not written twice.
        let written = entries.partition_point(|entry| entry.seq <= self.cursor.seq);
        let mut rest = &entries[written..];
        while let Some(first) = rest.first() {
            // Where events are lost, fewer than usual are as near to the base as they have to be.
            let base = Seq(first.seq.0 - 1);
            let near = rest.partition_point(|entry| entry.seq.0 - base.0 <= SEGMENT_EVENTS_MAX as u64);
            let (segment, later) = rest.split_at(near);
            let Some(last) = segment.last() else { break };
            let cursor = Head { seq: last.seq, hash: last.hash };
            self.write_segment(segment, base, cursor)?;
            self.cursor = cursor;
            rest = later;
        }
        Ok(())
    }

    fn write_segment(&self, segment: &[Entry], base: Seq, cursor: Head) -> Result<(), StoreError> {
        let transaction = self.connection.unchecked_transaction()?;
        let mut insert = transaction.prepare_cached("INSERT INTO ids VALUES (?1, ?2)")?;
        let mut ids: Vec<_> = segment.iter().map(|entry| (entry.id, entry.seq)).collect();
        // In the order of the tree, so that neighbours share pages.
        ids.sort_unstable();
        for (id, seq) in ids {
            insert.execute(params![id.as_bytes(), seq.0])?;
        }
        drop(insert);
        let runs = places(base, segment, |entry| entry.run.map(|run| *run.as_bytes()));
        let mut insert = transaction.prepare_cached("INSERT INTO runs VALUES (?1, ?2, ?3)")?;
        for (run, places) in runs {
            insert.execute(params![run, base.0, places])?;
        }
        drop(insert);
        let mut insert = transaction.prepare_cached("INSERT INTO kinds VALUES (?1, ?2, ?3)")?;
        for (kind, places) in places(base, segment, |entry| Some(entry.kind)) {
            insert.execute(params![kind, base.0, places])?;
        }
        drop(insert);
        transaction
            .prepare_cached("INSERT OR REPLACE INTO cursor VALUES (1, ?1, ?2)")?
            .execute(params![cursor.seq.0, cursor.hash.0])?;
        Ok(transaction.commit()?)
    }

    /// A connection to look things up with.
    pub(super) fn lookup(&self) -> Result<Lookup, rusqlite::Error> {
        Ok(Lookup { connection: sqlite::open_reader(&self.path)? })
    }
}

/// Looks up what is written down.
#[derive(Debug)]
pub(super) struct Lookup {
    connection: Connection,
}

impl Lookup {
    pub(super) fn seq_of(&self, id: EventId) -> Result<Option<Seq>, StoreError> {
        let mut find = self.connection.prepare_cached("SELECT seq FROM ids WHERE id = ?1")?;
        Ok(find.query_row([id.as_bytes()], |row| row.get(0).map(Seq)).optional()?)
    }

    pub(super) fn seqs_of(&self, of: Of, after: Seq, upto: Seq, limit: usize) -> Result<Vec<Seq>, StoreError> {
        // A segment that begins before `after` may reach beyond it.
        let from = after.0.saturating_sub(SEGMENT_EVENTS_MAX as u64);
        let (table, column) = match of {
            Of::Run(_) => ("runs", "run"),
            Of::Kind(_) => ("kinds", "kind"),
        };
        let sql =
            format!("SELECT base, places FROM {table} WHERE {column} = ?1 AND base >= ?2 AND base < ?3 ORDER BY base");
        let mut find = self.connection.prepare_cached(&sql)?;
        let mut rows = match of {
            Of::Run(run) => find.query(params![run.as_bytes(), from, upto.0])?,
            Of::Kind(kind) => find.query(params![kind, from, upto.0])?,
        };
        let mut seqs = Vec::new();
        while seqs.len() < limit
            && let Some(row) = rows.next()?
        {
            let places = read_places(row)?;
            seqs.extend(places.filter(|seq| *seq > after && *seq <= upto).take(limit - seqs.len()));
        }
        Ok(seqs)
    }
}

/// The events of a segment by what they belong to, as distances from its base.
fn places<K: Ord>(base: Seq, segment: &[Entry], key: impl Fn(&Entry) -> Option<K>) -> BTreeMap<K, Vec<u8>> {
    let mut places: BTreeMap<K, Vec<u8>> = BTreeMap::new();
    for entry in segment {
        if let Some(key) = key(entry) {
            // A segment is short enough for it.
            let distance = (entry.seq.0 - base.0) as u16;
            places.entry(key).or_default().extend_from_slice(&distance.to_le_bytes());
        }
    }
    places
}

fn read_places<'row>(row: &'row Row<'_>) -> Result<impl Iterator<Item = Seq> + 'row, StoreError> {
    let base: u64 = row.get(0)?;
    let damaged = |_| StoreError::Row { seq: base, what: "its place in the index".into() };
    let (places, rest) = row.get_ref(1)?.as_blob().map_err(damaged)?.as_chunks::<2>();
    if rest.is_empty() {
        Ok(places.iter().map(move |place| Seq(base + u64::from(u16::from_le_bytes(*place)))))
    } else {
        Err(StoreError::Row { seq: base, what: "its place in the index".into() })
    }
}

/// What the index has to know of the next events in the log that can be read.
pub(super) fn entries(log: &Connection, after: Seq, upto: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
    let (mut entries, mut at) = (Vec::new(), after);
    let is_readable = |seq: Seq| match stretch(log, (Seq(seq.0 - 1), seq), 1, &mut Vec::new()) {
        Ok(()) => Ok(true),
        Err(error) if is_unreadable(&error) => Ok(false),
        Err(error) => Err(error),
    };
    loop {
        let Err(error) = stretch(log, (at, upto), limit, &mut entries) else { return Ok(entries) };
        if !is_unreadable(&error) {
            return Err(error);
        }
        let last = entries.last().map_or(at, |entry: &Entry| entry.seq.max(at));
        let hole = hole::after(last, upto, is_readable)?.ok_or(error)?;
        tracing::error!(%hole, "a part of the log is damaged and left out of its index");
        at = hole.last;
    }
}

/// Adds events in a row.
fn stretch(
    log: &Connection,
    (after, upto): (Seq, Seq),
    limit: usize,
    entries: &mut Vec<Entry>,
) -> Result<(), StoreError> {
    let sql = "SELECT seq, id, run, kind, hash FROM events WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
    let mut statement = log.prepare_cached(sql)?;
    let mut rows = statement.query(params![after.next().0, upto.0, limit.saturating_sub(entries.len()) as i64])?;
    while let Some(row) = rows.next()? {
        entries.push(Entry {
            seq: Seq(row.get(0)?),
            id: row.get::<_, [u8; 16]>(1)?.into(),
            run: row.get::<_, Option<[u8; 16]>>(2)?.map(Into::into),
            kind: row.get(3)?,
            hash: Hash(row.get(4)?),
        });
    }
    Ok(())
}

fn open_file(path: &Path) -> Result<Connection, OpenError> {
    let connection = sqlite::open_writer(path)?;
    sqlite::ensure_schema(&connection, path, FORMAT, SCHEMA)?;
    // It can be rebuilt, so losing its end to a power cut costs a moment, not a fact; but it must not be left damaged, so it
    // is synced whenever the write-ahead log is folded in (NORMAL).
    sqlite::set_number(&connection, "synchronous", 1)?;
    Ok(connection)
}

fn cursor(connection: &Connection) -> Result<Head, OpenError> {
    let head = |row: &Row<'_>| Ok(Head { seq: Seq(row.get(0)?), hash: Hash(row.get(1)?) });
    Ok(connection.query_row("SELECT seq, hash FROM cursor", [], head).optional()?.unwrap_or_default())
}

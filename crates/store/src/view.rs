//! Views derived from the log, kept in a file of their own that may be deleted at any time.
//!
//! A view is a set of rows; each event concerns at most one row of it. Rows are folded in memory and written back in
//! batches together with the position they stand for, so a start folds only the tail of the log.

mod live;

pub use live::LiveViews;

use crate::log::Head;
use crate::sha256;
use crate::sqlite::{self, OpenError, StoreError};
use choir_proto::event::{DecodeError, Header};
use choir_proto::{Event, Hash, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FORMAT: i32 = 2;

// `seq` and `hash` of a cursor name the event that the rows stand for; `sum` shows a damaged row. Rows are too large to
// live inside the index of their keys: its depth would grow with every row.
const SCHEMA: &str = "
    CREATE TABLE cursors (name TEXT PRIMARY KEY, version INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE TABLE rows (name TEXT NOT NULL, key TEXT NOT NULL, sum BLOB NOT NULL, bytes BLOB NOT NULL,
                       PRIMARY KEY (name, key)) STRICT;
";

/// Pages of views kept in memory: enough for the keys of a hundred thousand rows, so that a row costs one read.
const CACHE_KIB: i64 = 16 * 1024;

const PUT_ROW: &str = "INSERT INTO rows VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name, key) DO UPDATE SET sum = excluded.sum, bytes = excluded.bytes";

/// Reads a row that a projection does not have in memory.
pub type Load<'a> = dyn FnMut(&str) -> Result<Option<Vec<u8>>, StoreError> + 'a;

/// One view: how events change its rows. What the rows mean is known to whoever wrote it.
pub trait Projection: Send {
    /// Its name in the file.
    fn name(&self) -> &'static str;
    /// Raised when the same events give other rows; old rows are then dropped.
    fn version(&self) -> u32;
    /// Folds one event.
    fn apply(&mut self, header: &Header, event: &Event, load: &mut Load<'_>) -> Result<(), StoreError>;
    /// Keys of rows changed since [`Projection::clean`], in order.
    fn dirty(&self) -> Vec<String>;
    /// A row that is in memory: its bytes, or nothing for a row that is gone. `None` when only the disk knows.
    fn peek(&self, key: &str) -> Option<Option<Vec<u8>>>;
    /// Every changed row is on disk.
    fn clean(&mut self);
    /// Forgets everything.
    fn reset(&mut self);
}

/// All views of one computer.
pub struct Views {
    path: PathBuf,
    connection: Connection,
    projections: Vec<Kept>,
    /// The event that every projection has seen.
    at: Head,
    dirty: bool,
    /// The first event that was left out, because it cannot be understood.
    left_out: Option<Seq>,
}

/// A projection with what is known of its rows on disk.
struct Kept {
    projection: Box<dyn Projection>,
    /// The greatest key on disk. Keys that grow with time are mostly beyond it and need not be looked for.
    greatest: Option<String>,
}

/// Whether the disk may have a row with this key, given the greatest key it has.
fn may_hold(greatest: &Option<String>, key: &str) -> bool {
    greatest.as_deref().is_some_and(|greatest| key <= greatest)
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").field("path", &self.path).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Views {
    /// Opens the file of views in a computer's directory; one that cannot be used is begun anew.
    pub fn open(directory: &Path, projections: Vec<Box<dyn Projection>>) -> Result<Self, OpenError> {
        let path = path(directory);
        let connection = match open_file(&path) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "the views could not be used and are built anew from the log");
                made_anew(&path)?
            }
        };
        let projections = projections.into_iter().map(|projection| Kept { projection, greatest: None }).collect();
        let mut views = Self { path, connection, projections, at: Head::default(), dirty: false, left_out: None };
        match views.cursor() {
            Ok(Some(at)) => {
                views.at = at;
                views.find_greatest()?;
            }
            Ok(None) => views.reset()?,
            Err(error) => {
                tracing::warn!(%error, "the views are damaged and are built anew from the log");
                views.reset()?;
            }
        }
        Ok(views)
    }

    /// The event that the views stand for.
    pub fn at(&self) -> Head {
        self.at
    }

    /// Drops every row: the next fold starts from the beginning of the log.
    ///
    /// The file goes as a whole. Rows of erased payloads would survive a mere deletion inside it, and a deletion needs
    /// space, which a full disk has only after the file has gone. Where no new one can be made, the views live in memory.
    pub fn reset(&mut self) -> Result<(), OpenError> {
        for kept in &mut self.projections {
            kept.projection.reset();
            kept.greatest = None;
        }
        self.at = Head::default();
        self.dirty = false;
        // It can only be replaced once nobody has it open.
        self.connection = in_memory()?;
        self.connection = made_anew(&self.path)?;
        Ok(())
    }

    /// The first event that was left out, because it cannot be understood.
    pub(crate) fn left_out(&self) -> Option<Seq> {
        self.left_out
    }

    /// Folds the next event.
    pub fn fold(&mut self, header: &Header, event: Result<Event, DecodeError>) -> Result<(), StoreError> {
        // A payload that cannot be read is treated as absent: one damaged event must not take every view away.
        match event {
            Ok(event) => self.apply(header, &event)?,
            Err(error) => {
                tracing::warn!(seq = header.seq.0, %error, "an event is left out of the views");
                self.left_out.get_or_insert(header.seq);
            }
        }
        self.at = Head { seq: header.seq, hash: header.hash };
        self.dirty = true;
        Ok(())
    }

    fn apply(&mut self, header: &Header, event: &Event) -> Result<(), StoreError> {
        let connection = &self.connection;
        for Kept { projection, greatest } in &mut self.projections {
            let name = projection.name();
            projection.apply(header, event, &mut |key| match may_hold(greatest, key) {
                true => load(connection, name, key),
                false => Ok(None),
            })?;
        }
        Ok(())
    }

    fn find_greatest(&mut self) -> Result<(), rusqlite::Error> {
        for kept in &mut self.projections {
            let sql = "SELECT max(key) FROM rows WHERE name = ?1";
            kept.greatest = self.connection.query_row(sql, [kept.projection.name()], |row| row.get(0))?;
        }
        Ok(())
    }

    /// Writes changed rows and the position they stand for, together. On an error nothing is forgotten.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if !self.dirty {
            return Ok(());
        }
        let transaction = self.connection.unchecked_transaction()?;
        for kept in &self.projections {
            let projection = &kept.projection;
            let name = projection.name();
            for key in projection.dirty() {
                match projection.peek(&key).flatten() {
                    Some(bytes) => {
                        transaction.prepare_cached(PUT_ROW)?.execute(params![name, key, checksum(&bytes), bytes])?;
                    }
                    None if may_hold(&kept.greatest, &key) => {
                        transaction
                            .prepare_cached("DELETE FROM rows WHERE name = ?1 AND key = ?2")?
                            .execute(params![name, key])?;
                    }
                    // It came and went between two writes.
                    None => {}
                }
            }
            transaction.prepare_cached("INSERT OR REPLACE INTO cursors VALUES (?1, ?2, ?3, ?4)")?.execute(params![
                name,
                projection.version(),
                self.at.seq.0,
                self.at.hash.0
            ])?;
        }
        transaction.commit()?;
        for Kept { projection, greatest } in &mut self.projections {
            *greatest = projection.dirty().pop().max(greatest.take());
            projection.clean();
        }
        self.dirty = false;
        Ok(())
    }

    /// One row. What is not written yet is seen all the same: reading works on a full disk.
    pub fn get(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.projection(name).and_then(|projection| projection.peek(key)) {
            Some(bytes) => Ok(bytes),
            None => load(&self.connection, name, key),
        }
    }

    /// Rows from the greatest key down, after `before`.
    pub fn newest(&self, name: &str, before: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let unwritten = self.unwritten(name, |key| before.is_none_or(|before| key < before));
        let sql =
            "SELECT key, sum, bytes FROM rows WHERE name = ?1 AND (?2 IS NULL OR key < ?2) ORDER BY key DESC LIMIT ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let wanted = (limit + unwritten.len()) as i64;
        let written = statement.query_map(params![name, before, wanted], kept_row)?;
        let mut rows = overlaid(written, unwritten)?;
        rows.reverse();
        rows.truncate(limit);
        Ok(rows)
    }

    /// Rows whose key begins with a prefix, in order.
    pub fn with_prefix(&self, name: &str, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let unwritten = self.unwritten(name, |key| key.starts_with(prefix));
        // U+10FFFF sorts after every key that goes on.
        let end = format!("{prefix}\u{10ffff}");
        let sql = "SELECT key, sum, bytes FROM rows WHERE name = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4";
        let mut statement = self.connection.prepare_cached(sql)?;
        let wanted = (limit + unwritten.len()) as i64;
        let written = statement.query_map(params![name, prefix, end, wanted], kept_row)?;
        let mut rows = overlaid(written, unwritten)?;
        rows.truncate(limit);
        Ok(rows)
    }

    fn projection(&self, name: &str) -> Option<&dyn Projection> {
        self.projections.iter().map(|kept| &*kept.projection).find(|projection| projection.name() == name)
    }

    /// Rows of one view that are wanted and changed in memory only.
    fn unwritten(&self, name: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Option<Vec<u8>>> {
        let Some(projection) = self.projection(name) else { return BTreeMap::new() };
        let keys = projection.dirty().into_iter().filter(|key| wanted(key));
        keys.map(|key| (projection.peek(&key).flatten(), key)).map(|(bytes, key)| (key, bytes)).collect()
    }

    /// One hash over every row of every view: equal bytes give equal digests.
    pub fn digest(&mut self) -> Result<Hash, StoreError> {
        self.flush()?;
        let mut all = Vec::new();
        // The bytes themselves: whoever changed them may have left their checksum as it was.
        let mut statement = self.connection.prepare("SELECT name, key, bytes FROM rows ORDER BY name, key")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, key): (String, String) = (row.get(0)?, row.get(1)?);
            all.extend_from_slice(format!("{name}\0{key}\0").as_bytes());
            all.extend_from_slice(&checksum(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?));
        }
        Ok(sha256(&all))
    }

    /// Where the kept rows stand, if all projections agree and none has a new version.
    fn cursor(&self) -> Result<Option<Head>, StoreError> {
        let mut found: Option<Head> = None;
        for Kept { projection, .. } in &self.projections {
            let sql = "SELECT seq, hash FROM cursors WHERE name = ?1 AND version = ?2";
            let head = self
                .connection
                .query_row(sql, params![projection.name(), projection.version()], |row| {
                    Ok(Head { seq: Seq(row.get(0)?), hash: Hash(row.get(1)?) })
                })
                .optional()?;
            if head.is_none() || found.is_some_and(|found| Some(found) != head) {
                return Ok(None);
            }
            found = head;
        }
        Ok(found)
    }
}

/// Rows from disk with what is not written yet laid over them, in order.
fn overlaid(
    written: impl Iterator<Item = Result<KeptRow, rusqlite::Error>>,
    unwritten: BTreeMap<String, Option<Vec<u8>>>,
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let mut rows: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
    for row in written {
        let (key, sum, bytes) = row?;
        rows.insert(key, Some(checked(sum, bytes)?));
    }
    rows.extend(unwritten);
    Ok(rows.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))).collect())
}

pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join("views.sqlite")
}

fn open_file(path: &Path) -> Result<Connection, OpenError> {
    let connection = sqlite::open_writer(path)?;
    sqlite::ensure_schema(&connection, path, FORMAT, SCHEMA)?;
    // It can be rebuilt, so losing its end to a power cut costs a moment, not a fact; but it must not be left damaged, so it
    // is synced whenever the write-ahead log is folded in (NORMAL).
    sqlite::set_number(&connection, "synchronous", 1)?;
    sqlite::set_number(&connection, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// An empty file in the place of what was there; where none can be made, because the disk is full, say, an empty database in memory.
fn made_anew(path: &Path) -> Result<Connection, OpenError> {
    sqlite::remove(path).and_then(|()| open_file(path)).or_else(|error| {
        tracing::error!(%error, "the views cannot be written and are kept in memory");
        in_memory()
    })
}

fn in_memory() -> Result<Connection, OpenError> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn load(connection: &Connection, name: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT sum, bytes FROM rows WHERE name = ?1 AND key = ?2")?;
    let row: Option<([u8; 32], Vec<u8>)> =
        statement.query_row(params![name, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    row.map(|(sum, bytes)| checked(sum, bytes)).transpose()
}

/// A row's key, checksum and bytes.
type KeptRow = (String, [u8; 32], Vec<u8>);

fn kept_row(row: &rusqlite::Row<'_>) -> Result<KeptRow, rusqlite::Error> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn checked(sum: [u8; 32], bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    if checksum(&bytes) == sum { Ok(bytes) } else { Err(StoreError::Damaged(Hash(sum))) }
}

fn checksum(bytes: &[u8]) -> [u8; 32] {
    sha256(bytes).0
}

//! Opening a log: what durability rests on is set and read back, and what a crash left unfinished is finished.

use super::wal::{tell_failure, truncate};
use crate::StoreError;
use crate::blob::Blobs;
use crate::log::index::Index;
use crate::log::reader::{Query, Readers};
use crate::log::row::{self, Place};
use crate::log::{FORMAT, SCHEMA};
use crate::sqlite::{self, OpenError, set_number};
use choir_proto::event::{PAYLOAD_ERASED, PayloadErased};
use choir_proto::{Event, Hash, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use std::path::Path;

/// Events whose chain is checked when a log is opened; the whole of it is `choir verify`'s business.
const TAIL_CHECKED: usize = 64;

/// Twice the usual: a commit of many events writes fewer pages, each with a call and a checksum of its own, and one of a single
/// event hardly more. A log that was made with other pages keeps them.
const PAGE_BYTES: i64 = 8192;

/// `synchronous=FULL`: every commit is synced.
const SYNCHRONOUS_FULL: i64 = 2;

fn synchronous() -> i64 {
    #[cfg(feature = "sabotage")]
    if crate::sabotage::syncs_are_off() {
        return 0;
    }
    SYNCHRONOUS_FULL
}

/// Opens the file and sets what durability rests on.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    let connection = sqlite::open_paged(path, PAGE_BYTES)?;
    leave_format_1(&connection)?;
    sqlite::ensure_schema(&connection, path, FORMAT, SCHEMA)?;
    set_number(&connection, "synchronous", synchronous())?;
    // Checkpoints run on another thread: inside a commit they would be everybody's worst case.
    set_number(&connection, "wal_autocheckpoint", 0)?;
    // Erased payloads are overwritten, not only unlinked.
    set_number(&connection, "secure_delete", 1)?;
    Ok(connection)
}

/// Format 1 kept its indexes in the log's own file. The index of its ids stays: it is part of the table and does no harm.
fn leave_format_1(connection: &Connection) -> Result<(), OpenError> {
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 1 {
        let drop = "DROP INDEX IF EXISTS events_run; DROP INDEX IF EXISTS events_kind; PRAGMA user_version = 2;";
        connection.execute_batch(&format!("BEGIN IMMEDIATE; {drop} COMMIT;"))?;
    }
    Ok(())
}

/// The end of the log as the file has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last {
    pub(crate) seq: Seq,
    pub(crate) hash: Hash,
    pub(crate) epoch: u32,
}

/// Reads the end of the log and checks the chain just before it.
pub(crate) fn last(path: &Path, connection: &Connection, blobs: &Blobs) -> Result<Last, StoreError> {
    let newest: Option<u64> = connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0))?;
    let Some(newest) = newest else { return Ok(Last { seq: Seq::ZERO, hash: Hash::ZERO, epoch: 0 }) };
    let after = Seq(newest.saturating_sub(TAIL_CHECKED as u64));
    let query = Query { after, upto: Some(Seq(newest)), limit: TAIL_CHECKED, ..Query::default() };
    let (tail, holes) = Readers::new(path.to_owned()).stored(&query)?;
    if let Some(hole) = holes.iter().find(|hole| hole.last.0 >= newest) {
        return Err(StoreError::Hole(*hole));
    }
    let mut scratch = Vec::new();
    for stored in &tail {
        let seq = stored.header.seq.0;
        // A blob that is damaged takes away one payload, like that of any older event; the row itself is what the log stands on.
        let matches = match stored.payload_matches(blobs) {
            Err(error) if stored.place == Place::Blob => {
                tracing::warn!(%seq, %error, "the payload of an event is lost");
                true
            }
            matches => matches? || stored.place == Place::Blob,
        };
        // Where the event before it is lost, nobody can say that it follows it.
        let is_after_hole = stored.header.prev == Hash::ZERO && seq > 1;
        let follows = is_after_hole || row::hash(&stored.header, &mut scratch) == stored.header.hash;
        if !follows || !matches {
            return Err(StoreError::Row { seq, what: "its hash does not match".into() });
        }
    }
    let last = tail.last().ok_or_else(|| StoreError::Row { seq: newest, what: "it cannot be read".into() })?;
    Ok(Last { seq: last.header.seq, hash: last.header.hash, epoch: last.header.epoch })
}

/// Does again what a crash may have cut off after a tombstone was written: the blobs go, and so does every page in the
/// write-ahead log that may still hold a payload.
pub(crate) fn finish_erasure(
    connection: &Connection,
    blobs: &Blobs,
    index: &Index,
    newest: Seq,
) -> Result<(), StoreError> {
    tell_failure(truncate(connection));
    let find = "SELECT payload FROM events JOIN kinds ON kinds.id = kind WHERE seq = ?1 AND name = ?2";
    let tombstone: Option<Vec<u8>> =
        connection.query_row(find, params![newest.0, PAYLOAD_ERASED], |row| row.get(0)).optional()?;
    let Some(tombstone) = tombstone else { return Ok(()) };
    let PayloadErased { event_id, blobs: named, .. } = serde_json::from_slice(&tombstone)
        .map_err(|_| StoreError::Row { seq: newest.0, what: "the tombstone cannot be read".into() })?;
    let own = match index.seq_of(event_id)? {
        Some(target) => own_blob(connection, target)?,
        None => None,
    };
    for hash in named.iter().chain(&own) {
        blobs.erase(hash)?;
    }
    Ok(())
}

/// The blob that only this event's payload may be in.
fn own_blob(connection: &Connection, target: Seq) -> Result<Option<Hash>, StoreError> {
    let find = "SELECT payload_hash FROM events WHERE seq = ?1";
    let hash: [u8; 32] = connection.query_row(find, [target.0], |row| row.get(0))?;
    Ok((!is_shared(connection, target, &hash)?).then_some(Hash(hash)))
}

/// Blobs that events after a place name, whoever else is erased.
pub(super) fn named_after(
    connection: &Connection,
    after: Seq,
    target: Seq,
    blobs: &Blobs,
) -> Result<HashSet<Hash>, StoreError> {
    let sql = "SELECT seq, name, version, place, payload, payload_hash FROM events JOIN kinds ON kinds.id = kind
               WHERE seq > ?1 AND seq <> ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![after.0, target.0])?;
    let mut named = HashSet::new();
    while let Some(row) = rows.next()? {
        let payload = match Place::from_column(row.get(3)?) {
            Some(Place::Inline) => row.get::<_, Vec<u8>>(4)?,
            Some(Place::Blob) => blobs.get(&Hash(row.get(5)?))?,
            _ => continue,
        };
        let name: String = row.get(1)?;
        let text = String::from_utf8_lossy(&payload);
        // What cannot be understood names nothing that could be read.
        if let Ok(event) = Event::decode(&name, row.get(2)?, &text) {
            named.extend(event.blobs());
        }
    }
    Ok(named)
}

/// Whether another event has the same payload in the same blob. Erasure is rare, so there is no index for it.
pub(super) fn is_shared(connection: &Connection, target: Seq, hash: &[u8; 32]) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE place = ?1 AND payload_hash = ?2 AND seq <> ?3)";
    let values = params![Place::Blob as i64, hash, target.0];
    Ok(connection.query_row(sql, values, |row| row.get(0))?)
}

pub(super) fn anchor(path: &Path) -> Option<Connection> {
    // It takes hold with its first read.
    let read = |connection: Connection| {
        connection.query_row("SELECT max(seq) FROM events", [], |_| Ok(())).map(|()| connection)
    };
    match sqlite::open_reader(path).and_then(read) {
        Ok(connection) => Some(connection),
        Err(error) => {
            tracing::warn!(%error, "reading may stop if the disk turns read-only");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_durability_and_erasure_rest_on_is_set() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.sqlite");
        for life in ["the first", "the second"] {
            let connection = open(&path).unwrap();
            let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            let settings = ["synchronous", "wal_autocheckpoint", "secure_delete", "page_size"].map(number);
            assert_eq!(settings, [SYNCHRONOUS_FULL, 0, 1, PAGE_BYTES], "{life}");
            let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!(mode, "wal", "{life}");
        }
    }
}

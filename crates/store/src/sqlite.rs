//! How every SQLite file of the store is opened, and what can go wrong with one.

use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first SQLite without the WAL-reset corruption bug.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Prepared statements kept for reuse by each connection.
const STATEMENTS_CACHED: usize = 64;

/// Why a computer's files could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the log.
    #[error("the computer in {0} is in use by another process")]
    InUse(PathBuf),
    /// A newer version wrote it.
    #[error("{path} has format {found}, but this version of choir reads up to {known}")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The newest that is understood.
        known: i32,
    },
    /// Somebody else has seen an event that the log does not hold.
    #[error("{path} is not the log that was seen up to event {seen}: {what}")]
    Contradicted {
        /// Which file.
        path: PathBuf,
        /// How far it was seen.
        seen: choir_proto::Seq,
        /// What it is instead.
        what: String,
    },
    /// The linked SQLite is too old to be trusted with a log.
    #[error("SQLite {0} is linked, but 3.51.3 or newer is needed")]
    OldSqlite(&'static str),
    /// A setting that durability rests on did not take.
    #[error("SQLite refused the setting {0}")]
    Setting(&'static str),
    /// The file is damaged.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was seen.
        what: String,
    },
    /// The file system said no.
    #[error("cannot use {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// SQLite said no.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Why stored data could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite said no, in its words: whoever passes on only what this says passes on the cause.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The file system said no.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// Bytes are not what their hash says.
    #[error("{0} is damaged: its bytes do not match its name")]
    Damaged(choir_proto::Hash),
    /// There is no such content, or it was erased.
    #[error("{0} is not stored here")]
    Missing(choir_proto::Hash),
    /// A row cannot be understood.
    #[error("event {seq} is damaged: {what}")]
    Row {
        /// Where.
        seq: u64,
        /// What was seen.
        what: String,
    },
    /// What was asked for begins with events that are lost.
    #[error("{0}; what comes later begins after {last}", last = .0.last)]
    Hole(crate::log::Hole),
    /// The views do not hold everything that was asked for, because the log cannot be read.
    #[error("the log cannot be read after event {at}: {what}")]
    Stuck {
        /// How far the views are.
        at: choir_proto::Seq,
        /// What was seen.
        what: Arc<str>,
    },
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}

impl OpenError {
    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => has_no_room(error),
            Self::File { source, .. } => is_full(source),
            _ => false,
        }
    }
}

impl StoreError {
    /// Whether what is stored is wrong, not the disk or the moment.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) | Self::Row { .. } | Self::Hole(_) | Self::Stuck { .. } => true,
            Self::Sqlite(error) => crate::verify::is_damage(error),
            Self::File(_) | Self::Missing(_) | Self::Closed => false,
        }
    }

    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Sqlite(error) => has_no_room(error),
            Self::File(error) => is_full(error),
            _ => false,
        }
    }
}

fn has_no_room(error: &rusqlite::Error) -> bool {
    // The file of shared memory beside a database is the first that does not fit, and SQLite has a word of its own for that.
    let is_shared_memory = |error: &rusqlite::ffi::Error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
        || error.sqlite_error().is_some_and(is_shared_memory)
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// The size of a page that SQLite chooses by itself.
const PAGE_BYTES: i64 = 4096;

/// Opens the only connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    open_paged(path, PAGE_BYTES)
}

/// The same; a file that is made now has pages of so many bytes.
pub(crate) fn open_paged(path: &Path, page_bytes: i64) -> Result<Connection, OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::OldSqlite(rusqlite::version()));
    }
    let connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.pragma_update(None, "page_size", page_bytes)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    expect_setting(&connection, "journal_mode", "wal")?;
    Ok(connection)
}

/// How a file is opened that may not be changed.
pub type Open = fn(&Path) -> Result<Connection, rusqlite::Error>;

/// Opens a connection that cannot write, on a file or on what [`untouched`] says of it.
///
/// Beside a file with a write-ahead log SQLite wants to make shared memory. Where it may not, as on a backup that is mounted
/// read-only, or cannot, as on a full disk, nobody else can write either: a file whose write-ahead log is folded in is then read
/// as it is.
pub fn open_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(path, flags)?;
    let readable = connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0));
    if readable.is_err_and(|error| is_cannot_open(&error)) && !has_content(&beside(path, "-wal")) {
        connection = Connection::open_with_flags(immutable(path), flags)?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(connection)
}

/// Opens a connection that cannot write and leaves nothing behind.
pub fn open_untouched(path: &Path) -> Result<Connection, rusqlite::Error> {
    open_reader(&untouched(path))
}

/// A file as it is opened to leave nothing behind. Where no shared memory and nothing of a write-ahead log lies beside it nobody
/// uses it, and SQLite, which would make both, is told that nobody will.
pub(crate) fn untouched(path: &Path) -> PathBuf {
    match is_in_use(path) {
        true => path.to_owned(),
        false => immutable(path),
    }
}

/// Whether somebody uses a file, or has left something beside it that belongs to it.
pub(crate) fn is_in_use(path: &Path) -> bool {
    beside(path, "-shm").exists() || has_content(&beside(path, "-wal"))
}

fn is_cannot_open(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly)) || has_no_room(error)
}

fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.len() > 0)
}

/// A path as SQLite takes it together with the promise that nothing changes the file.
fn immutable(path: &Path) -> PathBuf {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            other => uri.push(*other),
        }
    }
    uri.extend_from_slice(b"?immutable=1");
    PathBuf::from(OsString::from_vec(uri))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Sets a number and reads it back: a pragma that is not understood is silently ignored by SQLite.
pub(crate) fn set_number(connection: &Connection, name: &'static str, value: i64) -> Result<(), OpenError> {
    connection.pragma_update(None, name, value)?;
    let found: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
    if found == value { Ok(()) } else { Err(OpenError::Setting(name)) }
}

fn expect_setting(connection: &Connection, name: &'static str, wanted: &str) -> Result<(), OpenError> {
    let found: String = connection.pragma_query_value(None, name, |row| row.get(0))?;
    if found == wanted { Ok(()) } else { Err(OpenError::Setting(name)) }
}

/// Creates the tables of an empty file, or refuses a file that a newer version wrote.
pub(crate) fn ensure_schema(connection: &Connection, path: &Path, known: i32, schema: &str) -> Result<(), OpenError> {
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match found {
        0 => Ok(connection.execute_batch(&format!("BEGIN IMMEDIATE; {schema} PRAGMA user_version = {known}; COMMIT;"))?),
        found if found == known => Ok(()),
        found => Err(OpenError::Newer { path: path.to_owned(), found, known }),
    }
}

/// Removes a database that can be made again.
pub(crate) fn remove(path: &Path) -> Result<(), OpenError> {
    for suffix in ["", "-wal", "-shm"] {
        let path = beside(path, suffix);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(OpenError::File { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_take_refuses_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let connection = open_writer(&directory.path().join("log.sqlite")).unwrap();
        set_number(&connection, "synchronous", 2).unwrap();
        // SQLite answers neither of these with an error.
        assert!(matches!(set_number(&connection, "synchronous", 12), Err(OpenError::Setting("synchronous"))));
        assert!(set_number(&connection, "synchronously", 2).is_err());
    }

    #[test]
    fn whoever_looks_at_a_file_leaves_nothing_beside_it_and_sees_what_is_only_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("50%#?.sqlite");
        let count = || {
            let connection = open_untouched(&path).unwrap();
            connection.query_row("SELECT count(*) FROM kept", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let writer = open_writer(&path).unwrap();
        writer.execute_batch("CREATE TABLE kept (x); INSERT INTO kept VALUES (1)").unwrap();
        assert_eq!(count(), 1, "what is only in the write-ahead log counts");
        drop(writer);
        assert_eq!(count(), 1);
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["50%#?.sqlite"]);
    }

    /// What is written into the log of a process is one line, and often only what an error says of itself.
    #[test]
    fn the_cause_is_in_what_an_error_says() {
        let full = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
        assert!(StoreError::from(full).to_string().contains("full"));
        let refused = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
        assert!(StoreError::from(refused).to_string().contains("read-only"));
    }

    #[test]
    fn a_file_without_a_write_ahead_log_is_refused() {
        let refused = open_writer(Path::new(":memory:"));
        assert!(matches!(refused, Err(OpenError::Setting("journal_mode"))), "{refused:?}");
    }
}

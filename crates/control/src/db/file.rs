//! The file of the database, and whether it is believed.
//!
//! After a failure of the disk a connection may hold a lie about what is kept: a sync that failed is not tried again, since the
//! next one would answer for pages that the kernel has given up. So the connection is closed, and nothing more is acknowledged
//! before the file has been opened anew, everything in its write-ahead log has been written and synced once more, and its pages
//! have been looked over. Meanwhile what can be answered by looking is.

use super::{BUSY, Error, schema};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The one who reads and writes the file.
pub(super) struct File {
    path: PathBuf,
    /// Cannot write. It keeps the shared memory of SQLite while the other one is closed, which on a full disk could not be made
    /// again. Closed first: the last one to close a file takes what lies beside it away, and this one may not.
    reader: Connection,
    /// Absent after the disk failed, until an opening has shown that the file keeps what it is given.
    connection: Option<Connection>,
    /// In few words, while the connection is absent.
    trouble: watch::Sender<Option<&'static str>>,
}

impl File {
    /// Opens the file, bringing it up to date.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let connection = open(path)?;
        let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        reader.busy_timeout(BUSY)?;
        // Only who has read takes part in the shared memory.
        reader.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
        let trouble = watch::Sender::new(None);
        Ok(Self { path: path.to_owned(), reader, connection: Some(connection), trouble })
    }

    /// Whoever holds the answer sees what is wrong, as long as something is.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<&'static str>> {
        self.trouble.subscribe()
    }

    /// Does one piece of work, on a file that is believed; on one that is not, what needs no writing.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let mut connection = match self.connection.take().map_or_else(|| self.reopen(), Ok) {
            Ok(connection) => connection,
            Err(refused) => return self.look(work, refused),
        };
        match work(&mut connection) {
            Err(error) if is_doubtful(&error) || !connection.is_autocommit() => {
                drop(connection);
                let error = Error::from(error);
                tracing::error!(error = &error as &dyn std::error::Error, "control's database is closed");
                self.trouble.send_replace(Some(in_short(&error)));
                Err(error)
            }
            done => {
                self.connection = Some(connection);
                Ok(done?)
            }
        }
    }

    fn reopen(&self) -> Result<Connection, Error> {
        let reopened = open(&self.path).and_then(|connection| {
            schema::settle(&connection)?;
            schema::examine(&connection)?;
            Ok(connection)
        });
        match &reopened {
            Ok(_) => tracing::info!("control's database was opened anew and is in order"),
            Err(error) => tracing::warn!(error = error as &dyn std::error::Error, "control's database stays closed"),
        }
        self.trouble.send_replace(reopened.as_ref().err().map(in_short));
        reopened
    }

    /// Looks at what is there; what would have to be written is refused, with the reason for which nothing can be.
    fn look<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
        refused: Error,
    ) -> Result<T, Error> {
        match work(&mut self.reader) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => Err(refused),
            looked => Ok(looked?),
        }
    }
}

fn open(path: &Path) -> Result<Connection, Error> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // A transaction that begins by reading and finds another process writing when it wants to write is refused at once;
    // one that begins by writing waits its turn.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    schema::prepare(&mut connection)?;
    Ok(connection)
}

/// Whether an error says something about the file rather than about what was asked.
fn is_doubtful(error: &rusqlite::Error) -> bool {
    use ErrorCode::{
        CannotOpen, DatabaseCorrupt, DiskFull, FileLockingProtocolFailed, NotADatabase, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    matches!(
        error.sqlite_error_code(),
        Some(
            SystemIoFailure
                | DiskFull
                | ReadOnly
                | CannotOpen
                | PermissionDenied
                | DatabaseCorrupt
                | NotADatabase
                | FileLockingProtocolFailed
        )
    )
}

fn in_short(error: &Error) -> &'static str {
    match error {
        Error::Full => "the disk is full",
        Error::Disk(_) => "the disk failed",
        Error::Damaged(_) => "its database is damaged",
        Error::Newer { .. } => "a newer version has changed its database",
        Error::Sqlite(_) | Error::Unsafe { .. } | Error::Closed => "its database failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn file(directory: &Path) -> File {
        let mut file = File::open(&directory.join("control.sqlite")).unwrap();
        file.run(|c| c.execute_batch("CREATE TABLE kept (x); CREATE TEMP TABLE here (x)")).unwrap();
        file
    }

    fn fail(file: &mut File, extended_code: i32) -> Error {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        file.run(|c| {
            c.execute("INSERT INTO kept VALUES (1)", [])?;
            Err::<(), _>(failure)
        })
        .unwrap_err()
    }

    fn count(file: &mut File, table: &str) -> Result<i64, Error> {
        file.run(|c| c.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)))
    }

    fn insert(file: &mut File) -> Result<usize, Error> {
        file.run(|c| c.execute("INSERT INTO kept VALUES (2)", []))
    }

    #[test]
    fn a_connection_whose_sync_failed_is_never_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = file(directory.path());
        let trouble = file.trouble();
        assert!(count(&mut file, "here").is_ok(), "what is temporary lives as long as its connection");
        assert!(matches!(fail(&mut file, ffi::SQLITE_IOERR_FSYNC), Error::Disk(_)));
        assert_eq!(*trouble.borrow(), Some("the disk failed"));
        insert(&mut file).unwrap();
        assert_eq!(*trouble.borrow(), None);
        assert!(count(&mut file, "here").is_err(), "another connection");
        // What was not acknowledged may be there after all, but whole; and the write-ahead log was settled.
        assert_eq!(count(&mut file, "kept").unwrap(), 2);
    }

    #[test]
    fn a_mistake_of_the_caller_closes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = file(directory.path());
        file.run(|c| c.execute("INSERT INTO nowhere VALUES (1)", [])).unwrap_err();
        file.run(|c| c.query_row("SELECT x FROM kept", [], |_| Ok(()))).unwrap_err();
        assert!(count(&mut file, "here").is_ok(), "the same connection");
        assert_eq!(*file.trouble().borrow(), None);
    }

    #[test]
    fn a_transaction_that_stays_open_closes_the_connection() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = file(directory.path());
        file.run(|c| {
            c.execute_batch("BEGIN IMMEDIATE; INSERT INTO kept VALUES (1)")?;
            Err::<(), _>(rusqlite::Error::InvalidQuery)
        })
        .unwrap_err();
        assert_eq!(count(&mut file, "kept").unwrap(), 0);
        insert(&mut file).unwrap();
    }

    /// Whoever is signed in stays so on a disk that takes nothing more.
    #[test]
    fn until_the_file_can_be_opened_anew_it_is_only_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let (path, away) = (directory.path().join("control.sqlite"), directory.path().join("away"));
        let mut file = file(directory.path());
        insert(&mut file).unwrap();
        fail(&mut file, ffi::SQLITE_FULL);
        std::fs::rename(&path, &away).unwrap();
        std::fs::create_dir(&path).unwrap();
        for _ in 0..2 {
            assert!(matches!(insert(&mut file), Err(Error::Disk(_))), "nothing is acknowledged");
            assert_eq!(count(&mut file, "kept").unwrap(), 2, "what is there can be read");
            assert_eq!(*file.trouble().borrow(), Some("the disk failed"));
        }
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        insert(&mut file).unwrap();
        assert_eq!((count(&mut file, "kept").unwrap(), *file.trouble().borrow()), (3, None));
    }

    #[test]
    fn an_orderly_end_leaves_one_file() {
        let directory = tempfile::tempdir().unwrap();
        drop(file(directory.path()));
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["control.sqlite"]);
    }
}

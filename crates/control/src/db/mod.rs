//! Control's own small database: what it decides, it keeps here. One thread owns the connection.

mod access;
mod approvals;
mod egress;
mod file;
mod heads;
mod pages;
mod providers;
mod refusals;
mod schema;
mod settings;
mod spend;
mod tasks;
mod tools;

pub use access::{Grant, Scope, Session, Token, computers, tokens};
pub use approvals::{Approval, Outcome, approvals};
pub use egress::{Attempt, attempts};
pub use heads::{Head, HeadsError, heads};
pub(crate) use heads::{SIGNED, signing_key};
pub(crate) use pages::{PAGES_MAX, Sort};
pub use providers::{Stored, providers};
pub use refusals::Refusals;
pub use spend::{Cost, Spent, UnderWay, spends};
pub use tasks::task_trees;

use self::file::File;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Calls that may wait for the thread.
const QUEUE: usize = 256;
/// How long to wait for another process (`choir token create`) to let go of the file.
const BUSY: Duration = Duration::from_secs(5);

/// Why the database could not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused.
    #[error("control's database refused")]
    Sqlite(#[source] rusqlite::Error),
    /// The disk refused, or its directory did. Nothing is acknowledged before the file has been opened anew and checked.
    #[error("control's database cannot be used")]
    Disk(#[source] rusqlite::Error),
    /// The file is not what was written.
    #[error("control's database is damaged: {0}")]
    Damaged(String),
    /// There is no room.
    #[error("the disk is full")]
    Full,
    /// The file was written by a newer version.
    #[error("control's database has version {found}, this binary knows {known}")]
    Newer {
        /// In the file.
        found: i64,
        /// In this binary.
        known: i64,
    },
    /// The file does not keep what it acknowledges.
    #[error("SQLite does not accept {setting}, so nothing that it acknowledges would be safe")]
    Unsafe {
        /// What was asked for.
        setting: &'static str,
    },
    /// The thread ended.
    #[error("control's database has been closed")]
    Closed,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => Self::Full,
            // The file of shared memory beside a database is the first that does not fit.
            _ if error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE) => Self::Full,
            Some(
                ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied,
            ) => Self::Disk(error),
            _ => Self::Sqlite(error),
        }
    }
}

/// Looks at control's database of a data directory, which may be in use: whether this version can use it, and whether its pages
/// are in order. Given is how a file is opened that may not be changed.
pub fn examine(data_dir: &Path, open: impl FnOnce(&Path) -> rusqlite::Result<Connection>) -> Result<(), Error> {
    schema::examine(&open(&data_dir.join("control/control.sqlite"))?)
}

type Job = Box<dyn FnOnce(&mut File) + Send>;

/// A handle to the database thread.
#[derive(Debug, Clone)]
pub struct Db {
    jobs: mpsc::Sender<Job>,
    trouble: watch::Receiver<Option<&'static str>>,
}

impl Db {
    /// Opens the file, bringing it up to date, and starts its thread.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        let trouble = file.trouble();
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let work = move || {
            while let Some(job) = queue.blocking_recv() {
                job(&mut file);
            }
        };
        std::thread::Builder::new().name("control-db".into()).spawn(work).map_err(|_| Error::Closed)?;
        Ok(Self { jobs, trouble })
    }

    /// Folds the write-ahead log into the file, so that an orderly end leaves one file behind.
    pub async fn settle(&self) -> Result<(), Error> {
        self.call(|c| c.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))).await
    }

    /// What is wrong with the file, in few words, if nothing can be kept. It is tried once more before that is said.
    pub async fn trouble(&self) -> Option<&'static str> {
        if self.trouble.borrow().is_some() {
            // Whatever comes of it is said there.
            self.call(|_| Ok(())).await.ok();
        }
        *self.trouble.borrow()
    }

    /// Runs one piece of SQL work on the thread and waits for what comes of it.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, result) = oneshot::channel();
        // A caller that went away does not want its answer.
        self.queue(move |file| drop(answer.send(file.run(work)))).await?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// Queues one piece of SQL work that can be left out, if there is room for it.
    fn offer(&self, job: impl FnOnce(&mut File) + Send + 'static) {
        // Whoever is busy comes to the next.
        self.jobs.try_send(Box::new(job)).ok();
    }

    /// Queues one piece of SQL work: whatever is asked afterwards finds it done.
    async fn queue(&self, job: impl FnOnce(&mut File) + Send + 'static) -> Result<(), Error> {
        self.jobs.send(Box::new(job)).await.map_err(|_| Error::Closed)
    }
}

/// Writes without a sync: the end of a process loses nothing of it, a power cut may.
fn unsynced<T>(
    connection: &mut Connection,
    write: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let written = write(connection);
    connection.pragma_update(None, "synchronous", "FULL")?;
    written
}

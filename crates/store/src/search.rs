//! Full-text search over the log, in a file of its own that may be deleted at any time.
//!
//! The index knows words and the places of the events that hold them. What is found is read from the log, so nothing
//! is kept twice and an erased payload is gone from here as soon as the index is built anew.

use crate::log::{Head, Log};
use crate::seats::Seats;
use crate::sqlite::{self, OpenError, StoreError};
use choir_proto::event::Header;
use choir_proto::{Event, Hash, Seq};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

const FORMAT: i32 = 2;

// `words` has no content of its own; its rowid is the event's `seq`. Beginnings of words are known as well: the last word of a
// question may be only begun, and all words that begin with it would have to be gone through. `subjects` says which event speaks
// for a thing now.
const SCHEMA: &str = "
    CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, prefix = '1 2 3 4 5 6',
                                           tokenize = 'unicode61 remove_diacritics 2');
    CREATE TABLE subjects (subject TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE cursor (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, seq INTEGER NOT NULL,
                         hash BLOB NOT NULL) STRICT;
";

/// Events indexed in one transaction.
const BATCH: usize = 512;

/// Events that come within this time share a transaction: nobody searches faster than that.
const COALESCE: Duration = Duration::from_millis(50);

/// How long a question waits for the newest events to be indexed. A full disk must not make people wait for ever.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Questions at once: one is answered, another is ready to be.
const FIND_AT_ONCE_MAX: usize = 2;

/// Events up to which the best come first. To rank them, all have to be looked at: of more the newest come first, so that nobody
/// waits longer because the log is long.
const RANKED_MAX: i64 = 1_000;

/// Words of one question; more are ignored.
const TERMS_MAX: usize = 16;

/// What an event means for the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indexed {
    /// Its words. With a subject they take the place of what was said of it before.
    Text {
        /// What it is about, when a later event shall replace it.
        subject: Option<String>,
        /// What can be found.
        text: String,
    },
    /// The subject is gone.
    Gone {
        /// What it was about.
        subject: String,
    },
}

/// Says what can be found in an event. What events mean is known to whoever wrote it.
pub trait Words: Send + Sync + 'static {
    /// Raised when the same events give other words; the old index is then dropped.
    fn version(&self) -> u32;
    /// The words of one event; `blob` reads content that it names.
    fn of(&self, header: &Header, event: &Event, blob: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> Option<Indexed>;
}

/// A handle to the index. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Search {
    log: Log,
    index: Arc<Mutex<Index>>,
    at: watch::Receiver<Seq>,
    seats: Arc<Seats>,
}

impl Search {
    /// Opens the index in a computer's directory and keeps it up to date; one that cannot be used is begun anew.
    pub fn follow(log: Log, directory: &Path, words: Arc<dyn Words>) -> Result<Self, OpenError> {
        let index = Index::open(directory, words.version())?;
        let (sender, at) = watch::channel(index.at.seq);
        let index = Arc::new(Mutex::new(index));
        let follower = Follower { log: log.clone(), index: Arc::clone(&index), words, at: sender };
        tokio::spawn(follower.run());
        Ok(Self { log, index, at, seats: Arc::new(Seats::new(FIND_AT_ONCE_MAX)) })
    }

    /// Places of events that hold every word, the best first, or the newest where there are very many; the last word may be only begun. Sees what was acknowledged before
    /// the call, unless the index is far behind or cannot be written: then it answers with what it knows.
    pub async fn find(&self, question: &str, limit: usize) -> Result<Vec<Seq>, StoreError> {
        let Some(expression) = expression(question) else { return Ok(Vec::new()) };
        let head = self.log.head().seq;
        let mut at = self.at.clone();
        if let Ok(caught_up) = tokio::time::timeout(CATCH_UP, at.wait_for(|at| *at >= head)).await {
            caught_up.map_err(|_| StoreError::Closed)?;
        }
        let index = Arc::clone(&self.index);
        let work = move || lock(&index).find(&expression, limit);
        self.seats.work(work).await?
    }
}

/// The question in the index's own language. Every word is quoted, so nothing in it is an operator.
fn expression(question: &str) -> Option<String> {
    let terms: Vec<String> = question
        .split(|c: char| !c.is_alphanumeric())
        .filter(|term| !term.is_empty())
        .take(TERMS_MAX)
        .map(|term| format!("\"{term}\""))
        .collect();
    (!terms.is_empty()).then(|| format!("{}*", terms.join(" ")))
}

#[derive(Debug)]
struct Index {
    directory: PathBuf,
    connection: Connection,
    version: u32,
    /// The event that the index stands for.
    at: Head,
}

impl Index {
    fn open(directory: &Path, version: u32) -> Result<Self, OpenError> {
        let connection = match open_file(directory) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "the search index could not be used and is built anew");
                made_anew(directory)?
            }
        };
        let at = cursor(&connection, version)?;
        let mut index = Self { directory: directory.to_owned(), connection, version, at: at.unwrap_or_default() };
        if at.is_none() {
            index.reset()?;
        }
        Ok(index)
    }

    /// Begins anew with an empty file: words of erased payloads would survive a mere deletion inside it.
    fn reset(&mut self) -> Result<(), OpenError> {
        // The file can only be replaced once nobody has it open.
        self.connection = Connection::open_in_memory()?;
        self.connection = made_anew(&self.directory)?;
        self.at = Head::default();
        Ok(())
    }

    fn find(&self, expression: &str, limit: usize) -> Result<Vec<Seq>, StoreError> {
        let count = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)";
        let mut count = self.connection.prepare_cached(count)?;
        let found: i64 = count.query_row(params![expression, RANKED_MAX + 1], |row| row.get(0))?;
        let sql = match found <= RANKED_MAX {
            true => "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rank, rowid DESC LIMIT ?2",
            false => "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC LIMIT ?2",
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![expression, limit as i64], |row| row.get(0).map(Seq))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Indexes the next events and says whether an erasure was met, after which the index is worth nothing.
    fn advance(&mut self, log: &Log, words: &dyn Words, erased_upto: Seq) -> Result<bool, StoreError> {
        let transaction = self.connection.unchecked_transaction()?;
        let mut at = self.at;
        let mut erased = false;
        let blob = |hash: &Hash| log.blobs().get(hash).ok();
        log.replay(at.seq, BATCH, |header, payload| {
            erased |= header.seq > erased_upto && header.kind == choir_proto::event::PAYLOAD_ERASED;
            if let Ok(event) = Event::decode(&header.kind, header.version, payload)
                && let Some(indexed) = words.of(&header, &event, &blob)
            {
                apply(&transaction, header.seq, indexed)?;
            }
            at = Head { seq: header.seq, hash: header.hash };
            Ok(!erased)
        })?;
        transaction.prepare_cached("INSERT OR REPLACE INTO cursor VALUES (1, ?1, ?2, ?3)")?.execute(params![
            self.version,
            at.seq.0,
            at.hash.0
        ])?;
        transaction.commit()?;
        self.at = at;
        Ok(erased)
    }
}

fn apply(connection: &Connection, seq: Seq, indexed: Indexed) -> Result<(), StoreError> {
    let (subject, text) = match indexed {
        Indexed::Text { subject, text } => (subject, Some(text)),
        Indexed::Gone { subject } => (Some(subject), None),
    };
    if let Some(subject) = &subject {
        let find = "DELETE FROM subjects WHERE subject = ?1 RETURNING seq";
        let before: Option<u64> = connection.prepare_cached(find)?.query_row([subject], |row| row.get(0)).optional()?;
        if let Some(before) = before {
            connection.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([before])?;
        }
    }
    let Some(text) = text else { return Ok(()) };
    connection.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?.execute(params![seq.0, text])?;
    if let Some(subject) = subject {
        connection.prepare_cached("INSERT INTO subjects VALUES (?1, ?2)")?.execute(params![subject, seq.0])?;
    }
    Ok(())
}

struct Follower {
    log: Log,
    index: Arc<Mutex<Index>>,
    words: Arc<dyn Words>,
    at: watch::Sender<Seq>,
}

impl Follower {
    async fn run(self) {
        let mut head = self.log.watch();
        let mut erased_upto = *self.at.borrow();
        if !self.stands_on_the_log().await {
            tracing::warn!("the search index belongs to another log and is built anew");
            self.reset(&mut erased_upto);
        }
        loop {
            let at = *self.at.borrow();
            let Ok(newest) = head.wait_for(|head| head.seq > at).await.map(|head| head.seq) else { return };
            if newest.0 - at.0 < BATCH as u64 {
                tokio::time::sleep(COALESCE).await;
            }
            match self.advance(erased_upto).await {
                Ok(false) => {}
                Ok(true) => self.reset(&mut erased_upto),
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "the search index is behind; it is tried again with the next event");
                    if head.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn stands_on_the_log(&self) -> bool {
        let at = lock(&self.index).at;
        self.log.holds(at).await
    }

    async fn advance(&self, erased_upto: Seq) -> Result<bool, StoreError> {
        let (log, index, words) = (self.log.clone(), Arc::clone(&self.index), Arc::clone(&self.words));
        let work = move || {
            let mut index = lock(&index);
            index.advance(&log, &*words, erased_upto).map(|erased| (erased, index.at.seq))
        };
        let (erased, at) = tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)??;
        if !erased {
            self.at.send_replace(at);
        }
        Ok(erased)
    }

    fn reset(&self, erased_upto: &mut Seq) {
        *erased_upto = self.log.head().seq;
        if let Err(error) = lock(&self.index).reset() {
            tracing::error!(%error, "the search index could not be begun anew");
        }
        self.at.send_replace(Seq::ZERO);
    }
}

fn cursor(connection: &Connection, version: u32) -> Result<Option<Head>, OpenError> {
    let sql = "SELECT seq, hash FROM cursor WHERE version = ?1";
    let head = |row: &rusqlite::Row<'_>| Ok(Head { seq: Seq(row.get(0)?), hash: Hash(row.get(1)?) });
    Ok(connection.query_row(sql, [version], head).optional()?)
}

pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join("search.sqlite")
}

/// An empty file in the place of what was there; where none can be made, because the disk is full, say, an empty index in memory.
fn made_anew(directory: &Path) -> Result<Connection, OpenError> {
    sqlite::remove(&path(directory)).and_then(|()| open_file(directory)).or_else(|error| {
        tracing::error!(%error, "the search index cannot be written and is kept in memory");
        let connection = Connection::open_in_memory()?;
        sqlite::ensure_schema(&connection, &path(directory), FORMAT, SCHEMA)?;
        Ok(connection)
    })
}

fn open_file(directory: &Path) -> Result<Connection, OpenError> {
    let path = path(directory);
    let connection = sqlite::open_writer(&path)?;
    sqlite::ensure_schema(&connection, &path, FORMAT, SCHEMA)?;
    // It can be rebuilt, so losing its end to a power cut costs a moment, not a fact; but it must not be left damaged, so it
    // is synced whenever the write-ahead log is folded in (NORMAL).
    sqlite::set_number(&connection, "synchronous", 1)?;
    Ok(connection)
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_question_is_an_operator() {
        assert_eq!(expression("NOT \"a\" OR b*"), Some(r#""NOT" "a" "OR" "b"*"#.to_owned()));
        assert_eq!(expression(" -- ^* "), None);
        assert_eq!(expression(&"w ".repeat(100)).unwrap().matches('w').count(), TERMS_MAX);
    }
}

//! Tables, and the settings without which an acknowledgement means nothing.

use super::Error;
use rusqlite::Connection;

const VERSION: i64 = 10;
/// Older ones can corrupt a write-ahead log that two processes use.
const SQLITE_MIN: i32 = 3_051_003;

/// What is looked over at every start: a few milliseconds' worth.
const LOOKED_OVER_BYTES_MAX: i64 = 8 << 20;

const TABLES: &str = "
CREATE TABLE computers (id BLOB PRIMARY KEY, created INTEGER NOT NULL) STRICT;
CREATE TABLE tokens (digest BLOB PRIMARY KEY, name TEXT NOT NULL, scope TEXT NOT NULL, created INTEGER NOT NULL,
  expires INTEGER) STRICT;
CREATE TABLE sessions (digest BLOB PRIMARY KEY, created INTEGER NOT NULL, expires INTEGER NOT NULL) STRICT;
CREATE TABLE signins (digest BLOB PRIMARY KEY, created INTEGER NOT NULL, expires INTEGER NOT NULL) STRICT;
CREATE TABLE providers (name TEXT PRIMARY KEY, kind TEXT NOT NULL, base_url TEXT, sealed_key BLOB) STRICT;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE spend (run BLOB NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL,
  micro_usd INTEGER NOT NULL, PRIMARY KEY (run, model)) STRICT, WITHOUT ROWID;
CREATE TABLE egress (id INTEGER PRIMARY KEY, task BLOB, host TEXT NOT NULL, port INTEGER NOT NULL,
  allowed INTEGER NOT NULL, reason TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE TABLE tasks (task BLOB PRIMARY KEY, base BLOB NOT NULL) STRICT;
CREATE TABLE heads (computer BLOB PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL)
  STRICT;
";

/// From version 1, which had a table of decisions that nothing wrote to.
const APPROVALS: &str = "
DROP TABLE IF EXISTS approvals;
CREATE TABLE approvals (id BLOB PRIMARY KEY, task BLOB, entry TEXT NOT NULL, hash BLOB NOT NULL, asked INTEGER NOT NULL,
  approved INTEGER, reach TEXT, decided INTEGER) STRICT;
";

/// From version 2: what came of a task, kept until its computer has it in the log.
const FINISHED: &str = "
CREATE TABLE finished (task BLOB PRIMARY KEY, answer TEXT NOT NULL) STRICT;
";

/// From version 3, which asked about egress alone.
const QUESTIONS: &str = "
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'egress';
ALTER TABLE approvals ADD COLUMN run BLOB;
ALTER TABLE approvals ADD COLUMN question TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN text TEXT;
CREATE INDEX approvals_by_hash ON approvals (hash);
";

/// From version 4, which only logged them.
const REFUSALS: &str = "
CREATE TABLE refusals (id INTEGER PRIMARY KEY, reason TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
  origin TEXT, peer TEXT NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
";

/// From version 5, which knew no tools from elsewhere.
const TOOLS: &str = "
CREATE TABLE tools (tool TEXT PRIMARY KEY, definition BLOB NOT NULL) STRICT;
";

/// From version 6, which forgot at every restart what a person had given. Rows are in the order in which they came.
const PAGES: &str = "
CREATE TABLE pages (hash BLOB NOT NULL, sort TEXT NOT NULL, PRIMARY KEY (hash, sort)) STRICT;
";

/// From version 7, which knew of no edit whether a crash had come before or after it.
const EDITS: &str = "
CREATE TABLE edits (effect TEXT PRIMARY KEY, task BLOB NOT NULL, before BLOB NOT NULL, after BLOB NOT NULL) STRICT;
CREATE INDEX edits_by_task ON edits (task);
";

/// From version 8, which knew of no question that only some words answer it.
const ANSWERS: &str = "
ALTER TABLE approvals ADD COLUMN answers TEXT NOT NULL DEFAULT '';
";

/// From version 9, which forgot at every crash what was under way.
const CALLS: &str = "
CREATE TABLE calls (id INTEGER PRIMARY KEY, run BLOB NOT NULL, model TEXT NOT NULL, tokens INTEGER NOT NULL,
  micro_usd INTEGER NOT NULL) STRICT;
";

/// Sets up a connection and makes or checks the tables. A newer file is left exactly as it is.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), Error> {
    refuse_newer(connection)?;
    make_durable(connection)?;
    look_over(connection)?;
    let step = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have made the tables meanwhile.
    let found: i64 = step.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found == 0 {
        step.execute_batch(TABLES)?;
    }
    if found < 2 {
        step.execute_batch(APPROVALS)?;
    }
    if found < 3 {
        step.execute_batch(FINISHED)?;
    }
    if found < 4 {
        step.execute_batch(QUESTIONS)?;
    }
    if found < 5 {
        step.execute_batch(REFUSALS)?;
    }
    if found < 6 {
        step.execute_batch(TOOLS)?;
    }
    if found < 7 {
        step.execute_batch(PAGES)?;
    }
    if found < 8 {
        step.execute_batch(EDITS)?;
    }
    if found < 9 {
        step.execute_batch(ANSWERS)?;
    }
    if found < 10 {
        step.execute_batch(CALLS)?;
    }
    step.pragma_update(None, "user_version", VERSION)?;
    step.commit()?;
    Ok(())
}

/// Writes and syncs what is only in the write-ahead log. Of pages in there that a failed sync was to keep, and of those written
/// without one, nobody knows whether the disk has them; afterwards nothing rests on them any more.
pub(super) fn settle(connection: &Connection) -> Result<(), Error> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy == 0 { Ok(()) } else { Err(Error::Unsafe { setting: "that its write-ahead log is settled" }) }
}

/// Whether this version can use a file, looked at without changing anything.
pub(super) fn examine(connection: &Connection) -> Result<(), Error> {
    refuse_newer(connection)?;
    check_pages(connection)
}

pub(super) fn refuse_newer(connection: &Connection) -> Result<(), Error> {
    match connection.query_row("PRAGMA user_version", [], |row| row.get(0))? {
        found if found > VERSION => Err(Error::Newer { found, known: VERSION }),
        _ => Ok(()),
    }
}

/// A damaged page is told at the start, not when a session or a key is looked for.
fn look_over(connection: &Connection) -> Result<(), Error> {
    let size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    if connection.query_row(size, [], |row| row.get::<_, i64>(0))? > LOOKED_OVER_BYTES_MAX {
        return Ok(());
    }
    check_pages(connection)
}

fn check_pages(connection: &Connection) -> Result<(), Error> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Error::Damaged(found.replace('\n', ", "))) }
}

fn make_durable(connection: &Connection) -> Result<(), Error> {
    if rusqlite::version_number() < SQLITE_MIN {
        return Err(Error::Unsafe { setting: "a version from 3.51.3" });
    }
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Error::Unsafe { setting: "journal_mode = WAL" });
    }
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")?;
    let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if synchronous != 2 {
        return Err(Error::Unsafe { setting: "synchronous = FULL" });
    }
    Ok(())
}

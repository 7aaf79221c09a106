//! Which pages nobody made up, as hashes of their addresses: when a prompt is erased, no address stays behind here.

use super::{Db, Error, unsynced};
use choir_proto::Hash;
use rusqlite::{Connection, params};

/// Addresses of each sort that are remembered, the oldest forgotten first. Whoever meets a forgotten one is asked.
pub(crate) const PAGES_MAX: usize = 4096;

/// Why an address may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A person gave it.
    Given,
    /// A search answered with it.
    Found,
    /// No address: a command that a person gave.
    Command,
}

impl Sort {
    const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Found => "found",
            Self::Command => "command",
        }
    }
}

impl Db {
    /// All of one sort, the oldest first.
    pub(crate) async fn pages(&self, sort: Sort) -> Result<Vec<Hash>, Error> {
        const SQL: &str = "SELECT hash FROM pages WHERE sort = ?1 ORDER BY rowid";
        self.call(move |c| c.prepare(SQL)?.query_map([sort.name()], |row| row.get(0).map(Hash))?.collect()).await
    }

    /// Whether one is among those of a sort.
    pub(crate) async fn is_kept(&self, sort: Sort, hash: Hash) -> Result<bool, Error> {
        const SQL: &str = "SELECT count(*) FROM pages WHERE sort = ?1 AND hash = ?2";
        self.call(move |c| c.query_row(SQL, params![sort.name(), hash.0], |row| row.get::<_, i64>(0)))
            .await
            .map(|n| n > 0)
    }

    /// Keeps more of them, without waiting for the disk: whoever loses one to a power cut is asked once.
    pub(crate) async fn keep_pages_soon(&self, sort: Sort, hashes: Vec<Hash>) -> Result<(), Error> {
        const INSERT: &str = "INSERT OR IGNORE INTO pages (hash, sort) VALUES (?1, ?2)";
        const FORGET: &str = "DELETE FROM pages WHERE sort = ?1 AND rowid <=
            (SELECT rowid FROM pages WHERE sort = ?1 ORDER BY rowid DESC LIMIT 1 OFFSET ?2)";
        let keep = move |c: &mut Connection| {
            let step = c.transaction()?;
            for hash in &hashes {
                step.execute(INSERT, params![hash.0, sort.name()])?;
            }
            step.execute(FORGET, params![sort.name(), PAGES_MAX as i64])?;
            step.commit()
        };
        self.queue(move |file| {
            if let Err(error) = file.run(|c| unsynced(c, keep)) {
                tracing::warn!(error = &error as &dyn std::error::Error, "pages will be asked about after a restart");
            }
        })
        .await
    }
}

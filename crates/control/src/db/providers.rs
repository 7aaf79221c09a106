//! Providers that a person added in the desktop, with their sealed keys.

use super::{Db, Error};
use rusqlite::{Connection, params};
use std::path::Path;

/// A provider as it is stored. The key is sealed: without the key file it is noise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its name in `PROVIDER/MODEL`.
    pub name: String,
    /// Which wire format it speaks.
    pub kind: String,
    /// Where it is; nothing means the format's own place.
    pub base_url: Option<String>,
    /// See [`crate::seal`].
    pub sealed_key: Option<Vec<u8>>,
}

impl Db {
    /// All of them, in the order in which they were added.
    pub async fn providers(&self) -> Result<Vec<Stored>, Error> {
        self.call(|c| read(c)).await
    }

    /// Whether any key was ever sealed.
    pub async fn has_sealed_keys(&self) -> Result<bool, Error> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM providers WHERE sealed_key IS NOT NULL)";
        self.call(|c| c.query_row(SQL, [], |row| row.get(0))).await
    }

    /// Keeps one, in the place of one of the same name; an address that is not given stays as it was.
    pub async fn set_provider(&self, provider: Stored) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO providers (name, kind, base_url, sealed_key) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (name) DO UPDATE SET kind = ?2, base_url = coalesce(?3, base_url), sealed_key = ?4";
        let Stored { name, kind, base_url, sealed_key } = provider;
        self.call(move |c| c.execute(SQL, params![name, kind, base_url, sealed_key]).map(drop)).await
    }
}

/// The same of a data directory, whether or not an instance runs, given how a file is opened that may not be changed.
pub fn providers(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<Vec<Stored>, Error> {
    Ok(read(&open(&data_dir.join("control/control.sqlite"))?)?)
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<Stored>> {
    const SQL: &str = "SELECT name, kind, base_url, sealed_key FROM providers ORDER BY rowid";
    let mut statement = connection.prepare_cached(SQL)?;
    let rows = statement.query_map([], |row| {
        Ok(Stored { name: row.get(0)?, kind: row.get(1)?, base_url: row.get(2)?, sealed_key: row.get(3)? })
    })?;
    rows.collect()
}

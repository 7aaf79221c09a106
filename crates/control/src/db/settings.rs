//! What a person changed in the desktop, on top of the configuration file.

use super::{Db, Error};
use rusqlite::{OptionalExtension, params};

impl Db {
    /// One named value, as JSON text.
    pub async fn setting(&self, name: &'static str) -> Result<Option<String>, Error> {
        const SQL: &str = "SELECT value FROM settings WHERE name = ?1";
        self.call(move |c| c.query_row(SQL, [name], |row| row.get(0)).optional()).await
    }

    /// Keeps one named value.
    pub async fn set_setting(&self, name: &'static str, value: String) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO settings (name, value) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET value = ?2";
        self.call(move |c| c.execute(SQL, params![name, value]).map(drop)).await
    }
}

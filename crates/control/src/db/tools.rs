//! Tools from elsewhere, as they were when they were first allowed without a question.

use super::{Db, Error};
use choir_proto::Hash;
use rusqlite::params;

impl Db {
    /// The definition under which a tool was first allowed; it is this one, if it never was.
    pub async fn tool_definition(&self, tool: String, now: Hash) -> Result<Hash, Error> {
        self.call(move |c| {
            c.execute("INSERT OR IGNORE INTO tools (tool, definition) VALUES (?1, ?2)", params![tool, now.0])?;
            c.query_row("SELECT definition FROM tools WHERE tool = ?1", [tool], |row| row.get(0).map(Hash))
        })
        .await
    }
}

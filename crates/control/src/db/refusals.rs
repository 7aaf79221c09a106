//! Requests that were refused because of where they came from, kept where no sandbox can reach.

use super::{Db, Error};
use choir_proto::Timestamp;
use choir_proto::event::RequestRefused;
use rusqlite::params;

impl Db {
    /// Keeps what is told of many alike.
    pub async fn add_refusal(&self, refused: RequestRefused, at: Timestamp) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO refusals (reason, method, path, origin, peer, count, at)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let RequestRefused { reason, method, path, origin, peer, count } = refused;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.call(move |c| c.execute(SQL, params![reason.name(), method, path, origin, peer, count, at.0]).map(drop))
            .await
    }

    /// How often requests were refused, by all that was told of it.
    pub async fn refusals(&self) -> Result<Refusals, Error> {
        const SQL: &str = "SELECT count(*), coalesce(sum(count), 0) FROM refusals";
        self.call(move |c| c.query_row(SQL, [], |row| Ok(Refusals { told: row.get(0)?, count: row.get(1)? }))).await
    }
}

/// What was kept of refused requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// Lines.
    pub told: u64,
    /// Requests.
    pub count: u64,
}

//! Connections that control allowed or refused, kept where no sandbox can reach.

use super::{Db, Error};
use choir_proto::{TaskId, Timestamp};
use rusqlite::params;

impl Db {
    /// Keeps one decision.
    pub async fn add_egress(
        &self,
        task: Option<TaskId>,
        host: String,
        port: u16,
        decision: Result<String, String>,
        at: Timestamp,
    ) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO egress (task, host, port, allowed, reason, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let task = task.map(|task| *task.as_bytes());
        let allowed = decision.is_ok();
        let reason = decision.unwrap_or_else(|reason| reason);
        self.call(move |c| c.execute(SQL, params![task, host, port, allowed, reason, at.0]).map(drop)).await
    }
}

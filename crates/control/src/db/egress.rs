//! Connections that control allowed or refused, kept where no sandbox can reach.

use super::{Db, Error};
use choir_proto::{TaskId, Timestamp};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::Path;

/// One decision, as an event tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Whose attempt.
    pub task: Option<TaskId>,
    /// Where to.
    pub host: String,
    /// Where to.
    pub port: u16,
    /// Whether it could go there.
    pub allowed: bool,
    /// By which rule, or why not.
    pub reason: String,
}

impl Attempt {
    /// From its parts.
    pub fn new(task: Option<TaskId>, host: &str, port: u16, allowed: bool, reason: &str) -> Self {
        Self { task, host: host.to_owned(), port, allowed, reason: reason.to_owned() }
    }
}

/// Everything that was decided about connections of a data directory, and how often. Works whether or not an instance runs, given
/// how a file is opened that may not be changed.
pub fn attempts(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<HashMap<Attempt, u64>, Error> {
    const SQL: &str = "SELECT task, host, port, allowed, reason, count(*) FROM egress GROUP BY 1, 2, 3, 4, 5";
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    let mut statement = connection.prepare(SQL)?;
    let rows = statement.query_map([], |row| {
        let task = row.get::<_, Option<[u8; 16]>>(0)?.map(TaskId::from);
        let (host, port, allowed, reason) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        Ok((Attempt { task, host, port, allowed, reason }, row.get::<_, i64>(5)? as u64))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

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

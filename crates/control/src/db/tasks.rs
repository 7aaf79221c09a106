//! Which tree each unfinished task works on, so that it goes on over the same one after a crash.

use super::{Db, Error};
use choir_proto::{Hash, TaskId};
use rusqlite::{OptionalExtension, params};

impl Db {
    /// Keeps a task's base.
    pub async fn add_task(&self, task: TaskId, base: Hash) -> Result<(), Error> {
        const SQL: &str = "INSERT OR REPLACE INTO tasks (task, base) VALUES (?1, ?2)";
        self.call(move |c| c.execute(SQL, params![task.as_bytes(), base.0]).map(drop)).await
    }

    /// A task's base, if it is unfinished.
    pub async fn task_base(&self, task: TaskId) -> Result<Option<Hash>, Error> {
        const SQL: &str = "SELECT base FROM tasks WHERE task = ?1";
        self.call(move |c| c.query_row(SQL, [task.as_bytes()], |row| row.get(0).map(Hash)).optional()).await
    }

    /// Forgets a task.
    pub async fn remove_task(&self, task: TaskId) -> Result<(), Error> {
        self.call(move |c| c.execute("DELETE FROM tasks WHERE task = ?1", [task.as_bytes()]).map(drop)).await
    }
}

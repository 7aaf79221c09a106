//! Which tree each unfinished task works on, so that it goes on over the same one after a crash.

use super::{Db, Error};
use crate::sandboxes::Edges;
use choir_proto::{Hash, TaskId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::Path;

/// The trees that unfinished tasks of a data directory need: what they work on, and what came of those that nobody has been
/// told of yet. To be asked while no instance runs, given how a file is opened that may not be changed.
pub fn task_trees(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<Vec<Hash>, Error> {
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    let mut bases = connection.prepare("SELECT base FROM tasks")?;
    let mut trees = bases.query_map([], |row| row.get(0).map(Hash))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut answers = connection.prepare("SELECT answer FROM finished")?;
    for answer in answers.query_map([], |row| row.get::<_, String>(0))? {
        // Whatever could be a name is one: an older version may have written it.
        trees.extend(
            answer?.split(|letter: char| !letter.is_ascii_hexdigit()).filter_map(|word| word.parse::<Hash>().ok()),
        );
    }
    Ok(trees)
}

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

    /// The bases of every unfinished task.
    pub async fn task_bases(&self) -> Result<Vec<Hash>, Error> {
        const SQL: &str = "SELECT DISTINCT base FROM tasks";
        self.call(move |c| c.prepare(SQL)?.query_map([], |row| row.get(0).map(Hash))?.collect()).await
    }

    /// Forgets a task.
    pub async fn remove_task(&self, task: TaskId) -> Result<(), Error> {
        let forget = move |c: &Connection, sql| c.execute(sql, [task.as_bytes()]).map(drop);
        self.call(move |c| {
            forget(c, "DELETE FROM tasks WHERE task = ?1")?;
            forget(c, "DELETE FROM edits WHERE task = ?1")?;
            forget(c, "DELETE FROM finished WHERE task = ?1")
        })
        .await
    }

    /// Keeps what a file is before an edit and after it, until the task is forgotten.
    pub(crate) async fn begin_edit(&self, task: TaskId, effect: String, edges: Edges) -> Result<(), Error> {
        const SQL: &str = "INSERT OR REPLACE INTO edits (effect, task, before, after) VALUES (?1, ?2, ?3, ?4)";
        let Edges { before, after } = edges;
        self.call(move |c| c.execute(SQL, params![effect, task.as_bytes(), before.0, after.0]).map(drop)).await
    }

    /// An edit that was about to be made.
    pub(crate) async fn edit(&self, effect: String) -> Result<Option<Edges>, Error> {
        const SQL: &str = "SELECT before, after FROM edits WHERE effect = ?1";
        let edges = |row: &Row<'_>| Ok(Edges { before: row.get(0).map(Hash)?, after: row.get(1).map(Hash)? });
        self.call(move |c| c.query_row(SQL, [effect], edges).optional()).await
    }

    /// Keeps what came of a task, so that it is told again when it is asked for again.
    pub async fn finish_task(&self, task: TaskId, answer: String) -> Result<(), Error> {
        const SQL: &str = "INSERT OR REPLACE INTO finished (task, answer) VALUES (?1, ?2)";
        self.call(move |c| c.execute(SQL, params![task.as_bytes(), answer]).map(drop)).await
    }

    /// What came of a task that its computer has not let go yet.
    pub async fn finished_task(&self, task: TaskId) -> Result<Option<String>, Error> {
        const SQL: &str = "SELECT answer FROM finished WHERE task = ?1";
        self.call(move |c| c.query_row(SQL, [task.as_bytes()], |row| row.get(0)).optional()).await
    }
}

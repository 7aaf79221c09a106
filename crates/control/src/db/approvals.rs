//! What a person was asked and what they decided. An approval is bound to the hash of what is approved, and ends here.

use super::{Db, Error};
use choir_proto::{Hash, TaskId, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use uuid::Uuid;

/// Questions that may wait at once: a task that wishes for everything fills no disk.
const WAITING_MAX: i64 = 1_000;

/// For how much a decision counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// For the task that asked.
    Once,
    /// For every task of its run.
    Run,
    /// From now on.
    Always,
}

impl Reach {
    const ALL: [Self; 3] = [Self::Once, Self::Run, Self::Always];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Always => "always",
        }
    }
}

/// A question that waits or was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Its name.
    pub id: Uuid,
    /// Who wants it.
    pub task: Option<TaskId>,
    /// What is wanted: an entry of the ceiling.
    pub entry: String,
    /// Of what is wanted; a decision has to repeat it.
    pub hash: Hash,
    /// When.
    pub asked: Timestamp,
    /// What was decided, if it was.
    pub decided: Option<Decided>,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// Whether it may be.
    pub approved: bool,
    /// For how much.
    pub reach: Reach,
}

/// What came of deciding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It counts.
    Kept(Approval),
    /// There is no such question.
    Unknown,
    /// The hash is that of something else: what was shown is not what was asked.
    Differs,
    /// Somebody was faster; theirs counts.
    Before(Approval),
}

const COLUMNS: &str = "id, task, entry, hash, asked, approved, reach";

impl Db {
    /// Keeps a question. One that waits already is not asked twice.
    pub async fn ask(&self, approval: Approval) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO approvals (id, task, entry, hash, asked) SELECT ?1, ?2, ?3, ?4, ?5
            WHERE (SELECT count(*) FROM approvals WHERE approved IS NULL) < ?6
            AND NOT EXISTS (SELECT 1 FROM approvals WHERE hash = ?4 AND task IS ?2)";
        let Approval { id, task, entry, hash, asked, .. } = approval;
        let (id, task) = (*id.as_bytes(), task.map(|task| *task.as_bytes()));
        self.call(move |c| c.execute(SQL, params![id, task, entry, hash.0, asked.0, WAITING_MAX]).map(drop)).await
    }

    /// Questions that wait, oldest first.
    pub async fn waiting(&self) -> Result<Vec<Approval>, Error> {
        self.call(|c| {
            let sql = format!("SELECT {COLUMNS} FROM approvals WHERE approved IS NULL ORDER BY asked, id");
            let mut statement = c.prepare_cached(&sql)?;
            statement.query_map([], read)?.collect()
        })
        .await
    }

    /// Decides one, in one step: of two that decide, the first counts.
    pub async fn decide(&self, id: Uuid, hash: Hash, decided: Decided, at: Timestamp) -> Result<Outcome, Error> {
        const SQL: &str = "UPDATE approvals SET approved = ?2, reach = ?3, decided = ?4 WHERE id = ?1";
        self.call(move |c| {
            let step = c.transaction()?;
            let sql = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
            let found = step.query_row(&sql, [id.as_bytes()], read).optional()?;
            let mut approval = match found {
                None => return Ok(Outcome::Unknown),
                Some(found) if found.decided.is_some() => return Ok(Outcome::Before(found)),
                Some(found) if found.hash != hash => return Ok(Outcome::Differs),
                Some(found) => found,
            };
            step.execute(SQL, params![id.as_bytes(), decided.approved, decided.reach.name(), at.0])?;
            step.commit()?;
            approval.decided = Some(decided);
            Ok(Outcome::Kept(approval))
        })
        .await
    }

    /// What a person has allowed beyond the ceiling: to everybody, or to this very task.
    pub async fn granted(&self, task: Option<TaskId>) -> Result<Vec<String>, Error> {
        const SQL: &str = "SELECT DISTINCT entry FROM approvals WHERE approved = 1
            AND (reach = 'always' OR (reach = 'once' AND task = ?1)) ORDER BY entry";
        let task = task.map(|task| *task.as_bytes());
        self.call(move |c| {
            let mut statement = c.prepare_cached(SQL)?;
            statement.query_map([task], |row| row.get(0))?.collect()
        })
        .await
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let reach: Option<String> = row.get(6)?;
    let reach = reach.and_then(|name| Reach::ALL.into_iter().find(|reach| reach.name() == name));
    let approved: Option<bool> = row.get(5)?;
    Ok(Approval {
        id: Uuid::from_bytes(row.get(0)?),
        task: row.get::<_, Option<[u8; 16]>>(1)?.map(TaskId::from),
        entry: row.get(2)?,
        hash: Hash(row.get(3)?),
        asked: Timestamp(row.get(4)?),
        decided: approved.zip(reach).map(|(approved, reach)| Decided { approved, reach }),
    })
}

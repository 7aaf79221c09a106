//! What a person was asked and what they decided. An approval is bound to the hash of what is approved, and ends here.

use super::{Db, Error};
use choir_proto::inbox::{AskKind, Reach, Verdict};
use choir_proto::task::Side;
use choir_proto::{Hash, InboxId, RunId, TaskId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::Path;

/// Questions that may wait at once: a task that wishes for everything fills no disk.
const WAITING_MAX: i64 = 1_000;

/// A question that waits or was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Its name.
    pub id: InboxId,
    /// What sort of word is wanted.
    pub kind: AskKind,
    /// For which run.
    pub run: Option<RunId>,
    /// Who wants it.
    pub task: Option<TaskId>,
    /// What is wanted, exactly: an entry of the ceiling, a command, a question.
    pub entry: String,
    /// In a sentence.
    pub question: String,
    /// Of what is wanted; a decision has to repeat it.
    pub hash: Hash,
    /// The words of which one is an answer; none where any text is.
    pub answers: Vec<Side>,
    /// When.
    pub asked: Timestamp,
    /// What was decided, if it was.
    pub decided: Option<Verdict>,
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

const COLUMNS: &str = "id, kind, run, task, entry, question, hash, asked, approved, reach, text";

impl Db {
    /// Keeps a question and answers what is kept. One that was put before is not put again, and there are never too many.
    pub async fn ask(&self, approval: Approval) -> Result<Option<Approval>, Error> {
        const SQL: &str = "INSERT INTO approvals (id, kind, run, task, entry, question, hash, asked, answers)
            SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10
            WHERE (SELECT count(*) FROM approvals WHERE approved IS NULL) < ?9
            AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = ?1 OR (kind = 'egress' AND hash = ?7 AND task IS ?4))";
        self.call(move |c| {
            let Approval { id, kind, run, task, entry, question, hash, answers, asked, .. } = approval;
            let (run, task) = (run.map(|run| *run.as_bytes()), task.map(|task| *task.as_bytes()));
            let step = c.transaction()?;
            let answers = answers.into_iter().map(Side::name).collect::<Vec<_>>().join(" ");
            let asked = asked.0;
            let values =
                params![id.as_bytes(), kind.name(), run, task, entry, question, hash.0, asked, WAITING_MAX, answers];
            step.execute(SQL, values)?;
            let sql = format!(
                "SELECT {COLUMNS}, answers FROM approvals WHERE id = ?1 OR (kind = 'egress' AND hash = ?2 AND task IS ?3)"
            );
            let kept = step.query_row(&sql, params![id.as_bytes(), hash.0, task], read).optional()?;
            step.commit()?;
            Ok(kept)
        })
        .await
    }

    /// One of them.
    pub async fn approval(&self, id: InboxId) -> Result<Option<Approval>, Error> {
        self.call(move |c| find(c, id)).await
    }

    /// Questions that wait, oldest first.
    pub async fn waiting(&self) -> Result<Vec<Approval>, Error> {
        self.call(|c| {
            let sql = format!("SELECT {COLUMNS}, answers FROM approvals WHERE approved IS NULL ORDER BY asked, id");
            let mut statement = c.prepare_cached(&sql)?;
            statement.query_map([], read)?.collect()
        })
        .await
    }

    /// Decides one, in one step: of two that decide, the first counts.
    pub async fn decide(&self, id: InboxId, hash: Hash, verdict: Verdict, at: Timestamp) -> Result<Outcome, Error> {
        const SQL: &str = "UPDATE approvals SET approved = ?2, reach = ?3, text = ?4, decided = ?5 WHERE id = ?1";
        self.call(move |c| {
            let step = c.transaction()?;
            let mut approval = match find(&step, id)? {
                None => return Ok(Outcome::Unknown),
                Some(found) if found.decided.is_some() => return Ok(Outcome::Before(found)),
                Some(found) if found.hash != hash => return Ok(Outcome::Differs),
                Some(found) => found,
            };
            let (approved, reach, text) = match &verdict {
                Verdict::Approved { scope } => (true, *scope, None),
                Verdict::Answered { text } => (true, Reach::Once, Some(text.clone())),
                Verdict::Denied { scope } => (false, *scope, None),
                Verdict::Expired | Verdict::Withdrawn => (false, Reach::Once, None),
            };
            step.execute(SQL, params![id.as_bytes(), approved, reach.name(), text, at.0])?;
            step.commit()?;
            approval.decided = Some(verdict);
            Ok(Outcome::Kept(approval))
        })
        .await
    }

    /// Takes a question back that nobody has answered; what was decided, if it was.
    pub async fn withdraw(&self, id: InboxId) -> Result<Option<Verdict>, Error> {
        self.call(move |c| {
            let step = c.transaction()?;
            let found = find(&step, id)?.and_then(|approval| approval.decided);
            step.execute("DELETE FROM approvals WHERE id = ?1 AND approved IS NULL", [id.as_bytes()])?;
            step.commit()?;
            Ok(found)
        })
        .await
    }

    /// What a person has said about reaching beyond the ceiling: entries, and whether they may be reached by this task.
    pub async fn entries(&self, task: Option<TaskId>, run: Option<RunId>) -> Result<Vec<(String, bool)>, Error> {
        const SQL: &str =
            "SELECT entry, approved, max(decided) FROM approvals WHERE kind = 'egress' AND approved IS NOT NULL
            AND (reach = 'always' OR (reach = 'run' AND run = ?2) OR (reach = 'once' AND task = ?1))
            GROUP BY entry ORDER BY entry";
        let (task, run) = (task.map(|task| *task.as_bytes()), run.map(|run| *run.as_bytes()));
        self.call(move |c| {
            let mut statement = c.prepare_cached(SQL)?;
            statement.query_map(params![task, run], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .await
    }

    /// What a person has said about a call of exactly this hash, where it counts for this run or for this very call.
    pub async fn standing(&self, hash: Hash, id: InboxId, run: RunId) -> Result<Option<bool>, Error> {
        const SQL: &str = "SELECT approved FROM approvals WHERE kind = 'tool' AND hash = ?1 AND approved IS NOT NULL
            AND (reach = 'always' OR (reach = 'run' AND run = ?3) OR (reach = 'once' AND id = ?2))
            ORDER BY decided DESC LIMIT 1";
        self.call(move |c| {
            c.query_row(SQL, params![hash.0, id.as_bytes(), run.as_bytes()], |row| row.get(0)).optional()
        })
        .await
    }
}

/// Everything that was ever put to the person of a data directory, with what they said. Works whether or not an instance
/// runs, given how a file is opened that may not be changed; so the file may be of the version before, which does not know the
/// words that answer a question.
pub fn approvals(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<Vec<Approval>, Error> {
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS}, '' FROM approvals"))?;
    let found = statement.query_map([], read)?.collect::<rusqlite::Result<_>>();
    Ok(found?)
}

fn find(connection: &Connection, id: InboxId) -> rusqlite::Result<Option<Approval>> {
    let sql = format!("SELECT {COLUMNS}, answers FROM approvals WHERE id = ?1");
    connection.query_row(&sql, [id.as_bytes()], read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let kind: String = row.get(1)?;
    let reach: Option<String> = row.get(9)?;
    let scope = reach.and_then(|name| Reach::ALL.into_iter().find(|reach| reach.name() == name));
    let text: Option<String> = row.get(10)?;
    let answers: String = row.get(11)?;
    let decided = match (row.get(8)?, text, scope) {
        (Some(true), Some(text), _) => Some(Verdict::Answered { text }),
        (Some(true), None, Some(scope)) => Some(Verdict::Approved { scope }),
        (Some(false), _, Some(scope)) => Some(Verdict::Denied { scope }),
        _ => None,
    };
    Ok(Approval {
        id: InboxId::from(row.get::<_, [u8; 16]>(0)?),
        // A kind of a later version is shown as what it is nearest to: something to read before a yes.
        kind: AskKind::ALL.into_iter().find(|known| known.name() == kind).unwrap_or(AskKind::Tool),
        run: row.get::<_, Option<[u8; 16]>>(2)?.map(RunId::from),
        task: row.get::<_, Option<[u8; 16]>>(3)?.map(TaskId::from),
        entry: row.get(4)?,
        question: row.get(5)?,
        hash: Hash(row.get(6)?),
        answers: Side::ALL.into_iter().filter(|side| answers.split(' ').any(|word| word == side.name())).collect(),
        asked: Timestamp(row.get(7)?),
        decided,
    })
}

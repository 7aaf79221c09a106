//! What each run has cost, by model. Control counts for itself: the computer's receipt is only a copy.

use super::{Db, Error, unsynced};
use choir_proto::model::Usage;
use choir_proto::{RunId, Usd};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::Path;

/// What a run has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls that were answered.
    pub calls: u64,
    /// Every token that was paid for.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
}

/// What every run of a data directory has cost. Works whether or not an instance runs, given how a file is opened that may not be
/// changed.
pub fn spends(
    data_dir: &Path,
    open: impl FnOnce(&Path) -> rusqlite::Result<Connection>,
) -> Result<HashMap<RunId, Spent>, Error> {
    let connection = open(&data_dir.join("control/control.sqlite"))?;
    let mut statement =
        connection.prepare("SELECT run, sum(calls), sum(tokens), sum(micro_usd) FROM spend GROUP BY run")?;
    let rows = statement.query_map([], |row| {
        let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
        let run = RunId::from(row.get::<_, [u8; 16]>(0)?);
        Ok((run, Spent { calls: number(1)?, tokens: number(2)?, usd: Usd(number(3)?) }))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What one call has cost.
#[derive(Debug, Clone)]
pub struct Cost {
    /// For whom it was made.
    pub run: RunId,
    /// Who answered.
    pub model: String,
    /// How much.
    pub usage: Usage,
}

impl UnderWay {
    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO calls (id, run, model, tokens, micro_usd) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (id) DO UPDATE SET tokens = ?4, micro_usd = ?5";
        let Cost { run, model, usage } = &self.cost;
        let (tokens, usd) = (usage.tokens() as i64, usage.usd.0 as i64);
        connection.prepare_cached(SQL)?.execute(params![self.id, run.as_bytes(), model, tokens, usd]).map(drop)
    }
}

impl Cost {
    /// Money is synced. What cost none is only counted: the sync would stand in the way of the computer's own, for every step
    /// of an agent.
    fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        match self.usage.usd {
            Usd(0) => unsynced(connection, |c| self.insert(c)),
            _ => self.insert(connection),
        }
    }

    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO spend (run, model, calls, tokens, micro_usd) VALUES (?1, ?2, 1, ?3, ?4)
            ON CONFLICT (run, model) DO UPDATE SET calls = calls + 1, tokens = tokens + ?3, micro_usd = micro_usd + ?4";
        let (tokens, usd) = (self.usage.tokens() as i64, self.usage.usd.0 as i64);
        connection.prepare_cached(SQL)?.execute(params![self.run.as_bytes(), self.model, tokens, usd]).map(drop)
    }
}

/// A call to a model under way, and what it has cost so far. Nothing of it is synced: it is there for the end of a process, and a
/// power cut takes what was not synced of the runs as well.
#[derive(Debug, Clone)]
pub struct UnderWay {
    /// Its name, in the life of one process.
    pub id: i64,
    /// As if it ended now.
    pub cost: Cost,
}

impl Db {
    /// Writes down that a call is made, before it is, or how far it has come.
    pub async fn begin_call(&self, call: UnderWay) -> Result<(), Error> {
        self.call(move |c| unsynced(c, |c| call.write(c))).await
    }

    /// The same, without waiting for it.
    pub fn note_call(&self, call: UnderWay) {
        // Whoever cannot write hears of it where the cost is written.
        self.offer(move |file| drop(file.run(|c| unsynced(c, |c| call.write(c)))));
    }

    /// A call has ended, and what it cost is written or was nothing.
    pub async fn end_call(&self, id: i64) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM calls WHERE id = ?1";
        self.queue(move |file| drop(file.run(|c| unsynced(c, |c| c.prepare_cached(SQL)?.execute([id]))))).await
    }

    /// Counts what was under way when an earlier process ended: nobody will hear what it cost in the end.
    pub async fn settle_calls(&self) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO spend (run, model, calls, tokens, micro_usd)
            SELECT run, model, count(*), sum(tokens), sum(micro_usd) FROM calls WHERE true GROUP BY run, model
            ON CONFLICT (run, model) DO UPDATE SET calls = calls + excluded.calls, tokens = tokens + excluded.tokens,
              micro_usd = micro_usd + excluded.micro_usd";
        self.call(|c| {
            let step = c.transaction()?;
            step.execute(SQL, [])?;
            step.execute("DELETE FROM calls", [])?;
            step.commit()
        })
        .await
    }

    /// Adds one call.
    pub async fn add_spend(&self, cost: Cost) -> Result<(), Error> {
        self.call(move |c| cost.write(c)).await
    }

    /// Adds one call without waiting for the disk: `ended` hears how that went, before anything that is asked later is looked
    /// up.
    pub async fn add_spend_soon(
        &self,
        cost: Cost,
        ended: impl FnOnce(Cost, Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.queue(move |file| {
            let written = file.run(|c| cost.write(c));
            ended(cost, written);
        })
        .await
    }

    /// The sum over a run's models.
    pub async fn spent(&self, run: RunId) -> Result<Spent, Error> {
        const SQL: &str = "SELECT coalesce(sum(calls), 0), coalesce(sum(tokens), 0), coalesce(sum(micro_usd), 0)
            FROM spend WHERE run = ?1";
        self.call(move |c| {
            c.prepare_cached(SQL)?.query_row([run.as_bytes()], |row| {
                let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
                Ok(Spent { calls: number(0)?, tokens: number(1)?, usd: Usd(number(2)?) })
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cost_nothing_leaves_the_next_one_synced() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE spend (run, model, calls, tokens, micro_usd, PRIMARY KEY (run, model));
                 PRAGMA synchronous = FULL",
            )
            .unwrap();
        let run = RunId::new(uuid::Uuid::from_u128(7));
        for usd in [0, 5, 0] {
            let usage = Usage { input_tokens: 1, usd: Usd(usd), ..Usage::default() };
            Cost { run, model: "a/b".into(), usage }.write(&mut connection).unwrap();
            let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(synchronous, 2, "after {usd}");
        }
        let sum = connection.query_row("SELECT calls, micro_usd FROM spend", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(sum.unwrap(), (3i64, 5i64));
    }
}

//! What each run has cost, by model. Control counts for itself: the computer's receipt is only a copy.

use super::{Db, Error};
use choir_proto::model::Usage;
use choir_proto::{RunId, Usd};
use rusqlite::{Connection, params};

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

impl Cost {
    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO spend (run, model, calls, tokens, micro_usd) VALUES (?1, ?2, 1, ?3, ?4)
            ON CONFLICT (run, model) DO UPDATE SET calls = calls + 1, tokens = tokens + ?3, micro_usd = micro_usd + ?4";
        let (tokens, usd) = (self.usage.tokens() as i64, self.usage.usd.0 as i64);
        connection.prepare_cached(SQL)?.execute(params![self.run.as_bytes(), self.model, tokens, usd]).map(drop)
    }
}

impl Db {
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
        self.queue(move |c| {
            let written = cost.write(c).map_err(Error::from);
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

//! The budget as a wall: checked before the call, with what calls under way may still cost, and no answer may be longer than
//! what is left pays for.

use super::Gateway;
use super::tariff::Tariff;
use crate::db::{self, Cost};
use choir_proto::model::{ErrorClass, ModelError, Paid};
use choir_proto::wire::ModelCall;
use choir_proto::{RunId, Usd};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

impl Gateway {
    /// Refuses a call whose run has no money left for `least`; else reserves what it may cost at most. Near the wall calls go
    /// one at a time: what others under way may cost is no reason to end, because most cost far less.
    pub(super) async fn reserve(
        &self,
        call: &ModelCall,
        tariff: &Tariff,
        least: Usd,
        provider: &str,
    ) -> Result<Reservation, ModelError> {
        // Before anything is looked up, so that nothing that is given back is missed.
        let mut freed = self.0.reserved.freed.subscribe();
        let mut spent = self.spent(call.run).await.map_err(|error| unaccounted(&error))?;
        let wall = Wall::of(self.settings().budget.usd_per_run, call.usd_left.map(|left| spent + left));
        let wish = Wish { most: tariff.price.most(&call.request), least };
        loop {
            if let Some(taken) = self.0.reserved.take(call.run, wish, spent, &wall) {
                return taken.map_err(|error| if tariff.is_assumed { told_of_price(error, provider) } else { error });
            }
            // The sender is our own, and lives as long as we ask.
            freed.changed().await.ok();
            spent = self.spent(call.run).await.map_err(|error| unaccounted(&error))?;
        }
    }

    /// Counts what an answer cost. The answer does not wait for the disk.
    pub(super) async fn pay(&self, cost: Cost) -> Result<(), ModelError> {
        let mut known = self.0.spent.known.lock().await;
        let (run, usd) = (cost.run, cost.usage.usd);
        let spending = self.0.spent.clone();
        spending.queued.fetch_add(1, Ordering::SeqCst);
        let ended = move |cost, written: Result<(), db::Error>| {
            if let Err(error) = written {
                tracing::error!(error = &error as &dyn std::error::Error, "spending was not written down");
                spending.unpaid().push(cost);
            }
            spending.queued.fetch_sub(1, Ordering::SeqCst);
        };
        self.0.db.add_spend_soon(cost, ended).await.map_err(|error| unaccounted(&error))?;
        if let Some(spent) = known.get_mut(&run) {
            *spent = *spent + usd;
        }
        Ok(())
    }

    /// What a run has spent. As long as the disk refuses to write something down that was spent, nothing more is.
    pub(super) async fn spent(&self, run: RunId) -> Result<Usd, db::Error> {
        let mut known = self.0.spent.known.lock().await;
        // Whoever asks the database stands behind all that is queued, and knows then how that went.
        let is_settled = self.0.spent.queued.load(Ordering::SeqCst) == 0;
        let spent = match known.get(&run).filter(|_| is_settled) {
            Some(spent) => *spent,
            None => self.0.db.spent(run).await?.usd,
        };
        if self.pay_rest().await? {
            known.clear();
            return Ok(self.0.db.spent(run).await?.usd);
        }
        if known.len() >= RUNS_MAX {
            known.clear();
        }
        known.insert(run, spent);
        Ok(spent)
    }

    /// What a run has cost in all, with what was paid for answers that nobody got. Calls that were let go a moment ago are
    /// counted first.
    pub(super) async fn paid(&self, run: RunId) -> Result<Paid, db::Error> {
        let mut freed = self.0.reserved.freed.subscribe();
        let all_ended = async {
            while self.0.reserved.is_under_way(run) {
                // The sender is our own, and lives as long as we ask.
                freed.changed().await.ok();
            }
        };
        // Who still calls while it asks gets what is known so far.
        tokio::time::timeout(LET_GO_MAX, all_ended).await.ok();
        self.spent(run).await?;
        let db::Spent { tokens, usd, .. } = self.0.db.spent(run).await?;
        Ok(Paid { tokens, usd, output_tokens: 0 })
    }

    /// Tries again what the disk refused. Whether there was anything.
    async fn pay_rest(&self) -> Result<bool, db::Error> {
        let mut unpaid = std::mem::take(&mut *self.0.spent.unpaid()).into_iter();
        let is_any = unpaid.len() > 0;
        while let Some(cost) = unpaid.next() {
            if let Err(error) = self.0.db.add_spend(cost.clone()).await {
                self.0.spent.unpaid().extend(std::iter::once(cost).chain(unpaid));
                return Err(error);
            }
        }
        Ok(is_any)
    }
}

/// How long calls that nobody waits for any more may take to be let go.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// Runs whose spending is known without asking the database.
const RUNS_MAX: usize = 10_000;

/// What was spent, as far as it is known without asking the database; nobody else writes there.
#[derive(Debug, Clone, Default)]
pub(super) struct Spending {
    /// Locked by whoever looks something up or adds to it, so that nothing is missed or counted twice.
    known: Arc<tokio::sync::Mutex<HashMap<RunId, Usd>>>,
    /// Calls whose cost the database has not answered for yet.
    queued: Arc<AtomicUsize>,
    /// What could not be written down yet.
    unpaid: Arc<Mutex<Vec<Cost>>>,
}

impl Spending {
    pub(super) fn unpaid(&self) -> std::sync::MutexGuard<'_, Vec<Cost>> {
        self.unpaid.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Calls of one run.
#[derive(Debug, Clone, Copy, Default)]
struct UnderWay {
    calls: usize,
    usd: u64,
}

/// What calls under way may cost, by run.
#[derive(Debug, Clone, Default)]
pub(super) struct Reserved {
    all: Arc<Mutex<HashMap<RunId, UnderWay>>>,
    /// Rings when something was given back.
    freed: watch::Sender<()>,
}

/// What a run may spend in all, and which wall that is.
#[derive(Debug, Clone)]
struct Wall {
    limit: Usd,
    name: String,
}

impl Wall {
    /// The budget that somebody asked for may be tighter than the one for every run; never wider.
    fn of(each: Usd, asked: Option<Usd>) -> Self {
        match asked.filter(|asked| *asked < each) {
            Some(limit) => Self { limit, name: "the budget that was asked for".to_owned() },
            None => Self { limit: each, name: format!("the run's budget of {each} (usd_per_run)") },
        }
    }
}

/// What a call may cost.
#[derive(Debug, Clone, Copy)]
struct Wish {
    most: Usd,
    /// Below this it is not worth making.
    least: Usd,
}

/// Gives back what was reserved when the call ends, however it ends.
#[derive(Debug)]
pub(super) struct Reservation {
    all: Reserved,
    run: RunId,
    usd: u64,
    /// What the call may cost, and not more.
    pub(super) left: Usd,
}

impl Reserved {
    /// Nothing: it has to be seen first what those under way cost.
    fn take(&self, run: RunId, wish: Wish, spent: Usd, wall: &Wall) -> Option<Result<Reservation, ModelError>> {
        let Wish { most, least } = wish;
        let Wall { limit, name } = wall;
        let limit = *limit;
        let mut all = self.lock();
        let under_way = Usd(all.get(&run).map_or(0, |under_way| under_way.usd));
        // A run that has spent nothing at a limit of nothing may still use models that cost nothing.
        if spent > limit || (spent == limit && most > Usd(0)) {
            let message = format!("{name} is used up: {spent} spent, {under_way} under way");
            return Some(Err(out_of_budget(message)));
        }
        if under_way > Usd(0) && spent + under_way + most > limit {
            return None;
        }
        let left = Usd(limit.0 - spent.0.saturating_add(under_way.0).min(limit.0));
        if least > left {
            let message = format!("{left} of {name} are left, and the shortest answer costs {least}");
            return Some(Err(out_of_budget(message)));
        }
        let usd = most.min(left).0;
        let taken = all.entry(run).or_default();
        (taken.calls, taken.usd) = (taken.calls + 1, taken.usd + usd);
        Some(Ok(Reservation { all: self.clone(), run, usd, left }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, UnderWay>> {
        self.all.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_under_way(&self, run: RunId) -> bool {
        self.lock().contains_key(&run)
    }

    fn give_back(&self, run: RunId, usd: u64) {
        let mut all = self.lock();
        if let Some(reserved) = all.get_mut(&run) {
            (reserved.calls, reserved.usd) = (reserved.calls.saturating_sub(1), reserved.usd.saturating_sub(usd));
            if reserved.calls == 0 {
                all.remove(&run);
            }
        }
        drop(all);
        self.freed.send_replace(());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.all.give_back(self.run, self.usd);
    }
}

fn out_of_budget(message: String) -> ModelError {
    ModelError { class: ErrorClass::Budget, message, retry_after_ms: None }
}

/// A wall that stands on a guess says so, and how to build it elsewhere.
fn told_of_price(error: ModelError, provider: &str) -> ModelError {
    let message = format!(
        "{}. The price of this model is not known, so that the dearest was assumed: say what it costs by \
         `usd_per_million` of [providers.{provider}]",
        error.message
    );
    ModelError { message, ..error }
}

/// What cannot be counted is not spent.
pub(super) fn unaccounted(error: &db::Error) -> ModelError {
    tracing::error!(error = error as &dyn std::error::Error, "spending could not be accounted for");
    let message = "control's database failed, so that spending cannot be counted".to_owned();
    out_of_budget(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: [u8; 16] = [1; 16];

    #[test]
    fn near_the_wall_calls_go_one_at_a_time_and_at_it_none_goes() {
        let reserved = Reserved::default();
        let take = |most, spent| {
            let wish = Wish { most: Usd(most), least: Usd(5) };
            reserved.take(RUN.into(), wish, Usd(spent), &Wall::of(Usd(100), None))
        };
        let first = take(60, 0).unwrap().unwrap();
        let beside = take(40, 0).unwrap().unwrap();
        assert!(take(60, 0).is_none(), "the others may cost less than they could: that is waited for");
        drop(beside);
        assert!(take(60, 30).is_none());
        drop(first);
        let last = take(60, 90).unwrap().unwrap();
        assert_eq!(last.left, Usd(10), "a call may cost what is left, and not what it might");
        drop(last);
        assert_eq!(take(60, 96).unwrap().unwrap_err().class, ErrorClass::Budget, "not even a short answer");
        assert_eq!(take(60, 100).unwrap().unwrap_err().class, ErrorClass::Budget);
        assert!(reserved.lock().is_empty(), "what has ended is forgotten");
    }

    #[test]
    fn free_models_need_no_money() {
        let (nothing, wall) = (Wish { most: Usd(0), least: Usd(0) }, Wall::of(Usd(0), None));
        assert!(Reserved::default().take(RUN.into(), nothing, Usd(0), &wall).unwrap().is_ok());
    }

    #[test]
    fn the_wall_that_is_reached_is_named_exactly() {
        let said = |each, asked| {
            let wish = Wish { most: Usd(9_000), least: Usd(8_000) };
            Reserved::default().take(RUN.into(), wish, Usd(0), &Wall::of(each, asked)).unwrap().unwrap_err().message
        };
        let each = said(Usd(4_000), Some(Usd(90_000)));
        assert!(each.starts_with("$0.004 of the run's budget of $0.004 (usd_per_run) are left"), "{each}");
        let asked = said(Usd(5_000_000), Some(Usd(4_000)));
        assert!(asked.starts_with("$0.004 of the budget that was asked for are left"), "{asked}");
    }
}

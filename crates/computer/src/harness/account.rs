//! Budgets shared down the tree: what a child uses, everybody above it has used too.

use crate::world::World;
use choir_core::agent::{Account, Limits, Spent};
use choir_proto::Usd;
use choir_proto::model::Usage;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One agent's budget in the tree of its run; cheap to clone.
#[derive(Clone)]
pub(super) struct Purse(Arc<Inner>);

struct Inner {
    limits: Limits,
    /// Of the agent and everybody below it. Time is counted by the clock instead.
    used: Mutex<Used>,
    world: Arc<dyn World>,
    taken: Duration,
    above: Option<Purse>,
}

#[derive(Default)]
struct Used {
    /// What was used before this process, and since.
    spent: Spent,
    /// Time in which a person was waited for.
    waited: Duration,
}

impl Purse {
    /// A budget within the one above. `before` is what earlier processes used.
    pub(super) fn new(limits: Limits, before: Spent, world: Arc<dyn World>, above: Option<Self>) -> Self {
        let taken = world.elapsed();
        Self(Arc::new(Inner {
            limits,
            used: Mutex::new(Used { spent: before, waited: Duration::ZERO }),
            world,
            taken,
            above,
        }))
    }

    /// Adds one answer, here and all the way up.
    pub(super) fn add(&self, usage: &Usage) {
        self.each_up(|purse| purse.lock().spent.add(usage));
    }

    /// A person was waited for: that is nobody's time at work.
    pub(super) fn excuse(&self, waited: Duration) {
        self.each_up(|purse| purse.lock().waited += waited);
    }

    /// This budget and all above it, innermost first.
    pub(super) fn accounts(&self) -> Vec<Account> {
        let mut accounts = Vec::new();
        self.each_up(|purse| accounts.push(purse.account()));
        accounts
    }

    /// What the tightest budget leaves of the time.
    pub(super) fn time_left(&self) -> Duration {
        let left = self.accounts().iter().map(Account::time_left_ms).min();
        Duration::from_millis(left.unwrap_or_default())
    }

    /// What the tightest budget leaves of the money.
    pub(super) fn usd_left(&self) -> Usd {
        self.accounts().iter().map(Account::usd_left).min().unwrap_or_default()
    }

    /// Time at work.
    pub(super) fn time_ms(&self) -> u64 {
        self.account().spent.time_ms
    }

    fn account(&self) -> Account {
        let used = self.lock();
        let here = (self.0.world.elapsed() - self.0.taken).saturating_sub(used.waited);
        let time_ms = used.spent.time_ms + here.as_millis() as u64;
        Account { limits: self.0.limits, spent: Spent { time_ms, ..used.spent } }
    }

    fn each_up(&self, mut visit: impl FnMut(&Self)) {
        let mut next = Some(self);
        while let Some(purse) = next {
            visit(purse);
            next = purse.0.above.as_ref();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

//! Budgets shared down the tree: what a child uses, everybody above it has used too.

use crate::world::World;
use choir_core::agent::{Account, Limits, Patience, Spent};
use choir_proto::Usd;
use choir_proto::model::Usage;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

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
    /// Shared by the whole tree.
    turns: Turns,
}

/// Who may ask a model next, in the whole tree.
#[derive(Clone, Default)]
struct Turns {
    /// Held while what is left is looked at and taken, so that nobody else takes the same.
    taking: Arc<Mutex<()>>,
    /// Rings when something was given back.
    freed: watch::Sender<()>,
}

#[derive(Default)]
struct Used {
    /// What was used before this process, and since.
    spent: Spent,
    /// Time in which a person or a model was waited for.
    waited: Duration,
    /// How many wait right now, and since when anybody does: who waits at the same time is not excused twice.
    waiting: usize,
    since: Duration,
    /// Tokens that calls under way may take.
    under_way: u64,
}

/// Tokens that a call under way may take: nobody else counts on them as long as this is held.
#[must_use]
pub(super) struct Reservation {
    purse: Purse,
    tokens: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.purse.each_up(|purse| {
            let mut used = purse.lock();
            used.under_way = used.under_way.saturating_sub(self.tokens);
        });
        self.purse.0.turns.freed.send_replace(());
    }
}

impl Used {
    /// Time that nobody worked, up to now.
    fn waited(&self, now: Duration) -> Duration {
        if self.waiting == 0 { self.waited } else { self.waited + now.saturating_sub(self.since) }
    }
}

/// Whom somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// The person, who may answer, allow, go on or bring a model.
    Person,
    /// A model that is there and fails.
    Model,
}

/// As long as this is held, the time is nobody's time at work: not the agent's and not that of anybody above it. A budget that has
/// no patience with a model counts it all the same.
#[must_use]
pub(super) struct Wait {
    purse: Purse,
    whom: Whom,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let now = self.purse.0.world.elapsed();
        self.purse.each_up(|purse| {
            if purse.counts(self.whom) {
                return;
            }
            let mut used = purse.lock();
            used.waited = used.waited(now);
            (used.waiting, used.since) = (used.waiting.saturating_sub(1), now);
        });
    }
}

impl Purse {
    /// A budget within the one above. `before` is what earlier processes used.
    pub(super) fn new(limits: Limits, before: Spent, world: Arc<dyn World>, above: Option<Self>) -> Self {
        let taken = world.elapsed();
        let turns = above.as_ref().map_or_else(Turns::default, |above| above.0.turns.clone());
        let used = Mutex::new(Used { spent: before, ..Used::default() });
        Self(Arc::new(Inner { limits, used, world, taken, above, turns }))
    }

    /// Takes the tokens that a call may use at most. Near the wall calls go one at a time, because most take far less: what
    /// rings when one has ended, if that has to be seen first.
    pub(super) fn reserve(&self, tokens: u64) -> Result<Reservation, watch::Receiver<()>> {
        // Before anything is looked at, so that nothing that is given back is missed.
        let freed = self.0.turns.freed.subscribe();
        let _taking = self.0.turns.taking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut fits = true;
        self.each_up(|purse| {
            let used = purse.lock();
            let wanted = used.spent.tokens.saturating_add(used.under_way).saturating_add(tokens);
            fits &= used.under_way == 0 || wanted <= purse.0.limits.tokens;
        });
        if !fits {
            return Err(freed);
        }
        self.each_up(|purse| purse.lock().under_way += tokens);
        Ok(Reservation { purse: self.clone(), tokens })
    }

    /// Adds one answer, here and all the way up.
    pub(super) fn add(&self, usage: &Usage) {
        self.each_up(|purse| purse.lock().spent.add(usage));
    }

    /// Adds what an answer took that broke off, here and all the way up.
    pub(super) fn charge(&self, usage: &Usage) {
        self.each_up(|purse| purse.lock().spent.charge(usage));
    }

    /// Time that was nobody's work here, while those above had others at work.
    pub(super) fn excuse(&self, waited: Duration) {
        self.lock().waited += waited;
    }

    /// Begins to wait.
    pub(super) fn wait(&self, whom: Whom) -> Wait {
        let now = self.0.world.elapsed();
        self.each_up(|purse| {
            if purse.counts(whom) {
                return;
            }
            let mut used = purse.lock();
            used.waited = used.waited(now);
            (used.waiting, used.since) = (used.waiting + 1, now);
        });
        Wait { purse: self.clone(), whom }
    }

    /// Whether a wait is time like any other here.
    fn counts(&self, whom: Whom) -> bool {
        whom == Whom::Model && self.0.limits.patience == Patience::WithTime
    }

    /// How long a model that fails may still be waited for, where there is an end to that.
    pub(super) fn patience_left(&self) -> Option<Duration> {
        let mut left: Option<u64> = None;
        self.each_up(|purse| {
            if purse.counts(Whom::Model) {
                let here = purse.account().time_left_ms();
                left = Some(left.map_or(here, |left| left.min(here)));
            }
        });
        left.map(Duration::from_millis)
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

    /// What the tightest budget leaves of the money, where there is one.
    pub(super) fn usd_left(&self) -> Option<Usd> {
        self.accounts().iter().filter_map(Account::usd_left).min()
    }

    /// Time at work.
    pub(super) fn time_ms(&self) -> u64 {
        self.account().spent.time_ms
    }

    fn account(&self) -> Account {
        let used = self.lock();
        let now = self.0.world.elapsed();
        let here = now.saturating_sub(self.0.taken).saturating_sub(used.waited(now));
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

#[cfg(test)]
mod tests {
    use super::*;
    use choir_core::agent::Place;
    use choir_proto::Timestamp;
    use choir_proto::task::Budget;
    use uuid::Uuid;

    /// A clock that is set by hand.
    #[derive(Default)]
    struct ByHand(Mutex<Duration>);

    impl World for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn elapsed(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }

        fn chance(&self) -> f64 {
            0.0
        }
    }

    #[test]
    fn near_the_wall_of_tokens_calls_go_one_at_a_time() {
        let world: Arc<dyn World> = Arc::new(ByHand::default());
        let budget = |tokens| Budget { tokens: Some(tokens), ..Budget::default() };
        let limits = |tokens| Limits::of(Some(&budget(tokens)), Place::Below);
        let first = Purse::new(limits(100), Spent::default(), world.clone(), None);
        let below = || Purse::new(limits(1_000), Spent::default(), world.clone(), Some(first.clone()));
        let (one, two) = (below(), below());
        let far = (one.reserve(40).unwrap(), two.reserve(60).unwrap());
        drop(far);
        let near = one.reserve(80).unwrap();
        let mut freed = two.reserve(30).err().expect("the first may need it");
        assert!(!freed.has_changed().unwrap());
        drop(near);
        assert!(freed.has_changed().unwrap(), "and is waited for");
        freed.mark_unchanged();
        assert!(two.reserve(200).is_ok(), "alone, the wall is for the answer to keep to");
    }

    #[test]
    fn waiting_is_no_work_however_many_wait_at_once() {
        let world = Arc::new(ByHand::default());
        let pass = |seconds| *world.0.lock().unwrap() += Duration::from_secs(seconds);
        let limits = Limits::of(None, Place::Below);
        let purse = |above| Purse::new(limits, Spent::default(), world.clone() as Arc<dyn World>, above);
        let first = purse(None);
        let (one, two) = (purse(Some(first.clone())), purse(Some(first.clone())));
        pass(1);
        let waits = one.wait(Whom::Person);
        pass(10);
        let also = two.wait(Whom::Person);
        pass(10);
        assert_eq!((first.time_ms(), one.time_ms(), two.time_ms()), (1_000, 1_000, 11_000), "while they wait");
        drop(waits);
        pass(10);
        drop(also);
        pass(1);
        assert_eq!((first.time_ms(), one.time_ms(), two.time_ms()), (2_000, 12_000, 12_000));
    }

    #[test]
    fn a_model_that_fails_is_waited_for_within_the_time_of_the_run_where_that_was_given() {
        let world = Arc::new(ByHand::default());
        let pass = |seconds| *world.0.lock().unwrap() += Duration::from_secs(seconds);
        let purse = |limits, above| Purse::new(limits, Spent::default(), world.clone() as Arc<dyn World>, above);
        let timed = Budget { time_s: Some(60.0), ..Budget::default() };
        let first = purse(Limits::of(Some(&timed), Place::First), None);
        let below = purse(Limits::of(None, Place::Below), Some(first.clone()));
        let waits = below.wait(Whom::Model);
        pass(20);
        assert_eq!((first.time_ms(), below.time_ms()), (20_000, 0), "the run's own time goes by");
        assert_eq!(below.patience_left(), Some(Duration::from_secs(40)));
        drop(waits);
        let waits = below.wait(Whom::Person);
        pass(20);
        assert_eq!((first.time_ms(), below.time_ms()), (20_000, 0), "but not while the person is waited for");
        drop(waits);
        assert_eq!(purse(Limits::of(None, Place::First), None).patience_left(), None);
    }
}

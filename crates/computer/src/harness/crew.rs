//! How many work for one run: so many at once, and so many in all. Whoever comes later waits in line, and says so. Whoever waits
//! for the person is not at work and stands aside: else a few that wait would stop everybody.

use super::person::Person;
use super::{Driver, HarnessError, stopped};
use choir_core::agent::{self, DEPTH_MAX, WORKERS_AT_ONCE_MAX, WORKERS_MAX, patience};
use choir_proto::event::TaskStarted;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// Workers of a run that stand aside at once. Each keeps its sandbox, so that further ones keep their places too.
const ASIDE_MAX: usize = 32;

/// Everybody who works for a run. Each level of its tree has places of its own: whoever waits for somebody below keeps its
/// place, and no place is ever waited for by those above it.
pub struct Crew {
    levels: Vec<Arc<Semaphore>>,
    /// Room for those who stand aside.
    aside: Arc<Semaphore>,
    /// How many were ever asked.
    asked: AtomicU32,
}

impl Crew {
    /// Of a run that has asked so many already.
    pub fn new(asked: u32) -> Self {
        let level = || Arc::new(Semaphore::new(WORKERS_AT_ONCE_MAX));
        let aside = Arc::new(Semaphore::new(ASIDE_MAX));
        Self { levels: (0..=DEPTH_MAX).map(|_| level()).collect(), aside, asked: AtomicU32::new(asked) }
    }

    /// Whether one more may be asked.
    pub(super) fn admits(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) < WORKERS_MAX
    }
}

/// A place among those at work, held until its worker has ended; nothing for whoever needs none.
#[derive(Default)]
pub(super) struct Seat(Option<Held>);

struct Held {
    level: Arc<Semaphore>,
    /// Locked for long only by whoever comes back.
    place: Mutex<Place>,
}

/// Where a worker is.
enum Place {
    AtWork(#[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit),
    Aside(#[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit),
}

impl Seat {
    fn at_work(level: Arc<Semaphore>, place: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self(Some(Held { level, place: Mutex::new(Place::AtWork(place)) })))
    }

    /// Gives the place to whoever is next in line, if there is room aside.
    pub(super) fn stand_aside(&self, crew: &Crew) {
        let Some(held) = &self.0 else { return };
        // Where it is locked, another call of the same worker comes back with an answer: it goes on working.
        let Ok(mut place) = held.place.try_lock() else { return };
        if let (Place::AtWork(_), Ok(aside)) = (&*place, Arc::clone(&crew.aside).try_acquire_owned()) {
            *place = Place::Aside(aside);
        }
    }

    /// Takes a place again at once; whether the worker has one.
    fn try_come_back(&self) -> bool {
        let Some(held) = &self.0 else { return true };
        let Ok(mut place) = held.place.try_lock() else { return false };
        if let Place::Aside(_) = &*place {
            let Ok(free) = Arc::clone(&held.level).try_acquire_owned() else { return false };
            *place = Place::AtWork(free);
        }
        true
    }

    /// The same, as soon as there is one.
    async fn come_back(&self) -> Result<(), HarnessError> {
        let Some(held) = &self.0 else { return Ok(()) };
        let mut place = held.place.lock().await;
        if let Place::Aside(_) = &*place {
            let free = Arc::clone(&held.level).acquire_owned().await.map_err(|_| HarnessError::LetGo)?;
            *place = Place::AtWork(free);
        }
        Ok(())
    }
}

impl Person<'_> {
    /// Goes back to work with what the person said; not if they wanted no more before there was a place.
    pub(super) async fn come_back(&self) -> Result<bool, HarnessError> {
        // Whoever ends needs no place, and a word that came in the same moment still counts.
        let is_over = self.context.signal.borrow().cancelled;
        let Some(seat) = self.seat.filter(|seat| !is_over && !seat.try_come_back()) else { return Ok(true) };
        let journal = &self.context.harness.journal;
        journal.append(&self.scope, vec![patience::in_line(WORKERS_AT_ONCE_MAX).into()]).await?;
        let before = journal.world().elapsed();
        tokio::select! {
            back = seat.come_back() => back?,
            stop = stopped(self.context.signal.clone()) => return stop.map(|()| false),
        }
        if let Some(purse) = self.purse {
            purse.excuse(journal.world().elapsed() - before);
        }
        journal.append(&self.scope, vec![TaskStarted { base_tree: None, alone: false }.into()]).await?;
        Ok(true)
    }
}

/// Why a delegation is refused when a run has had all of its workers.
pub(super) fn too_many() -> String {
    format!("A run may ask {WORKERS_MAX} workers in all, and this one has. Go on with what they said, or finish.")
}

impl Driver {
    /// Takes a place to work at, as soon as there is one; not if the person wanted no more before. Whoever was not asked by
    /// another worker needs none, and neither does a conductor that is asked aside: its worker holds a place.
    pub(super) async fn take_place(&mut self) -> Result<bool, HarnessError> {
        let level = self.context.crew.levels.get(self.depth as usize).cloned();
        let Some(level) = level.filter(|_| self.agent.place() == agent::Place::Below) else { return Ok(true) };
        if let Ok(place) = Arc::clone(&level).try_acquire_owned() {
            self.seat = Seat::at_work(level, place);
            return Ok(true);
        }
        self.tell(patience::in_line(WORKERS_AT_ONCE_MAX)).await?;
        let world = Arc::clone(self.context.harness.journal.world());
        let before = world.elapsed();
        let place = tokio::select! {
            place = Arc::clone(&level).acquire_owned() => place.map_err(|_| HarnessError::LetGo)?,
            stop = stopped(self.context.signal.clone()) => return stop.map(|()| false),
        };
        self.seat = Seat::at_work(level, place);
        // Standing in line is no work of its own; the run's time goes on, because others are at work.
        self.purse.excuse(world.elapsed() - before);
        self.append(vec![TaskStarted { base_tree: None, alone: false }.into()]).await?;
        Ok(true)
    }
}

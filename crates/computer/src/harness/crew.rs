//! How many work for one run: so many at once, and so many in all. Whoever comes later waits in line, and says so.

use super::{Driver, HarnessError, stopped};
use choir_core::agent::{DEPTH_MAX, Place, WORKERS_AT_ONCE_MAX, WORKERS_MAX, patience};
use choir_proto::event::TaskStarted;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Everybody who works for a run. Each level of its tree has places of its own: whoever waits for somebody below keeps its
/// place, and no place is ever waited for by those above it.
pub struct Crew {
    levels: Vec<Arc<Semaphore>>,
    /// How many were ever asked.
    asked: AtomicU32,
}

impl Crew {
    /// Of a run that has asked so many already.
    pub fn new(asked: u32) -> Self {
        let level = || Arc::new(Semaphore::new(WORKERS_AT_ONCE_MAX));
        Self { levels: (0..=DEPTH_MAX).map(|_| level()).collect(), asked: AtomicU32::new(asked) }
    }

    /// Whether one more may be asked.
    pub(super) fn admits(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) < WORKERS_MAX
    }
}

/// A place among those at work, held until its worker has ended.
pub(super) struct Seat(#[expect(dead_code, reason = "it is held, not looked at")] Option<OwnedSemaphorePermit>);

/// Why a delegation is refused when a run has had all of its workers.
pub(super) fn too_many() -> String {
    format!("A run may ask {WORKERS_MAX} workers in all, and this one has. Go on with what they said, or finish.")
}

impl Driver {
    /// A place to work at, as soon as there is one; nothing if the person wanted no more before. Whoever was not asked by
    /// another worker needs none, and neither does a conductor that is asked aside: its worker holds a place.
    pub(super) async fn take_place(&mut self) -> Result<Option<Seat>, HarnessError> {
        let level = self.context.crew.levels.get(self.depth as usize).cloned();
        let Some(level) = level.filter(|_| self.agent.place() == Place::Below) else { return Ok(Some(Seat(None))) };
        if let Ok(place) = Arc::clone(&level).try_acquire_owned() {
            return Ok(Some(Seat(Some(place))));
        }
        self.tell(patience::in_line(WORKERS_AT_ONCE_MAX)).await?;
        let world = Arc::clone(self.context.harness.journal.world());
        let before = world.elapsed();
        let place = tokio::select! {
            place = level.acquire_owned() => place.map_err(|_| HarnessError::LetGo)?,
            stop = stopped(self.context.signal.clone()) => return stop.map(|()| None),
        };
        // Standing in line is no work of its own; the run's time goes on, because others are at work.
        self.purse.excuse(world.elapsed() - before);
        self.append(vec![TaskStarted { base_tree: None, alone: false }.into()]).await?;
        Ok(Some(Seat(Some(place))))
    }
}

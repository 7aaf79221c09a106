//! How many appends share a sync.

use super::Command;
use super::queue::Taker;
use std::time::{Duration, Instant};

/// Events in one commit. More would make the first caller wait for the last one's bytes.
const BATCH_EVENTS_MAX: usize = 256;

/// The longest that a commit waits for callers who are expected back.
const GATHER_MAX: Duration = Duration::from_micros(500);

/// How long the writer looks around after a commit before it goes to sleep.
const SOON: Duration = Duration::from_micros(100);

/// Decides how many appends share a sync. Callers that were answered together tend to come back together: beginning with
/// the first of them would give it a sync of its own and let the others wait for that.
#[derive(Default)]
pub(super) struct Gathering {
    /// How many came for the last commit.
    expected: usize,
    /// How many have come for this one.
    came: usize,
    events: usize,
    /// Nothing more may join this commit.
    full: bool,
    /// Nothing comes after it.
    closing: bool,
    waited: Duration,
    pub(super) commit_took: Duration,
}

impl Gathering {
    /// The first command of a commit, however long it takes. Nothing when the log is closed.
    pub(super) fn awaited(&mut self, taker: &mut Taker) -> Option<Command> {
        if self.closing {
            return None;
        }
        let first = taker.next()?;
        self.begin(first)
    }

    /// The first command of the next commit, if it comes at once. A caller that was just answered often asks again, and
    /// waking a thread that has gone to sleep costs more than looking around for a moment.
    pub(super) fn soon(&mut self, taker: &mut Taker) -> Option<Command> {
        if self.closing {
            return None;
        }
        let started = Instant::now();
        while started.elapsed() < SOON {
            match taker.try_next() {
                Some(command) => return self.begin(command),
                None => std::thread::yield_now(),
            }
        }
        None
    }

    fn begin(&mut self, first: Command) -> Option<Command> {
        // Who was too late for one commit is expected for the next: one small commit must not make all of them small.
        self.expected = std::mem::take(&mut self.came).max(self.expected - self.expected.div_ceil(8));
        self.events = 0;
        self.full = false;
        self.waited = Duration::ZERO;
        self.join(first)
    }

    /// One more command for the same commit, if there is one or one is expected any moment.
    pub(super) fn more(&mut self, taker: &mut Taker) -> Option<Command> {
        if self.full {
            return None;
        }
        let next = self.expect(taker)?;
        self.join(next)
    }

    fn join(&mut self, command: Command) -> Option<Command> {
        self.came += 1;
        self.events += command.size();
        self.closing = matches!(command, Command::Close);
        // An erasure ends its commit, so that after a crash an unfinished one is the newest event.
        self.full = self.closing || matches!(command, Command::Erase { .. }) || self.events >= BATCH_EVENTS_MAX;
        (!self.closing).then_some(command)
    }

    fn expect(&mut self, taker: &mut Taker) -> Option<Command> {
        if let Some(next) = taker.try_next() {
            return Some(next);
        }
        let patience = (self.commit_took / 2).min(GATHER_MAX).saturating_sub(self.waited);
        let started = Instant::now();
        loop {
            match taker.try_next() {
                Some(next) => {
                    self.waited += started.elapsed();
                    return Some(next);
                }
                None if self.came < self.expected && started.elapsed() < patience => std::thread::yield_now(),
                None => return None,
            }
        }
    }
}

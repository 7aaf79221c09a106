//! How many appends share a sync.

use super::Command;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Events in one commit. More would make the first caller wait for the last one's bytes.
const BATCH_EVENTS_MAX: usize = 256;

/// The longest that a commit waits for callers who are expected back.
const GATHER_MAX: Duration = Duration::from_micros(500);

/// How long the writer looks around after a commit before it goes to sleep.
const SOON: Duration = Duration::from_micros(50);

/// Decides how many appends share a sync. Callers that were answered together tend to come back together: beginning with
/// the first of them would give it a sync of its own and let the others wait for that.
#[derive(Default)]
pub(super) struct Gathering {
    /// How many came last time.
    callers: usize,
    pub(super) commit_took: Duration,
}

impl Gathering {
    pub(super) fn next(&mut self, commands: &mut mpsc::Receiver<Command>) -> Option<Vec<Command>> {
        let first = soon(commands).or_else(|| commands.blocking_recv())?;
        let patience = (self.commit_took / 2).min(GATHER_MAX);
        let started = Instant::now();
        let mut size = first.size();
        let mut batch = vec![first];
        // An erasure ends its batch, so that after a crash an unfinished one is the newest event.
        while size < BATCH_EVENTS_MAX && !matches!(batch.last(), Some(Command::Erase { .. })) {
            match commands.try_recv() {
                Ok(next) => {
                    size += next.size();
                    batch.push(next);
                }
                Err(_) if batch.len() < self.callers && started.elapsed() < patience => std::thread::yield_now(),
                Err(_) => break,
            }
        }
        self.callers = batch.len();
        Some(batch)
    }
}

/// The next command, if it comes at once. A caller that was just answered often asks again, and waking a thread that has
/// gone to sleep costs more than looking around for a moment.
fn soon(commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
    let started = Instant::now();
    while started.elapsed() < SOON {
        match commands.try_recv() {
            Ok(command) => return Some(command),
            Err(_) => std::thread::yield_now(),
        }
    }
    None
}

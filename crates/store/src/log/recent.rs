//! The newest events in memory, so that followers at the head never touch the disk.

use choir_proto::{Envelope, Seq};
use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

/// Events kept. A follower that is further behind reads from disk.
const EVENTS_MAX: usize = 2048;

/// Payload bytes kept, whatever the number of events.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A bounded window on the end of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    window: Arc<RwLock<Window>>,
}

#[derive(Debug, Default)]
struct Window {
    events: VecDeque<Arc<Envelope>>,
    bytes: usize,
}

impl Recent {
    /// Adds committed events and gives up the oldest.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = Arc<Envelope>>) -> Vec<Arc<Envelope>> {
        let mut window = self.window.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for event in events {
            window.bytes += event.payload.get().len();
            window.events.push_back(event);
        }
        let mut given_up = Vec::new();
        while window.events.len() > EVENTS_MAX || window.bytes > BYTES_MAX {
            let Some(oldest) = window.events.pop_front() else { break };
            window.bytes -= oldest.payload.get().len();
            given_up.push(oldest);
        }
        given_up
    }

    /// Events after a position, or nothing when the window does not reach back that far.
    pub(crate) fn after(&self, after: Seq, limit: usize) -> Option<Vec<Arc<Envelope>>> {
        let window = self.window.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let oldest = window.events.front()?.header.seq;
        let skip = (after.0 + 1).checked_sub(oldest.0)? as usize;
        Some(window.events.iter().skip(skip).take(limit).cloned().collect())
    }

    /// Replaces an event whose payload was erased.
    pub(crate) fn forget(&self) {
        let mut window = self.window.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *window = Window::default();
    }
}

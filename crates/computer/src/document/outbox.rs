//! What waits for somebody who reads slowly: bounded by number and by bytes, because one answer may hold a whole document.

use super::room::Outgoing;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Messages that somebody may be behind before they have to come again.
const MESSAGES_MAX: usize = 1024;

/// Bytes that they may be behind. One message more may be longer than that: a document has to fit.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Where messages are put.
pub(super) struct Outbox {
    out: mpsc::Sender<Outgoing>,
    waiting: Arc<AtomicUsize>,
    bytes_max: usize,
}

/// Where they are taken from.
pub struct Inbox {
    out: mpsc::Receiver<Outgoing>,
    waiting: Arc<AtomicUsize>,
}

/// Both ends.
pub(super) fn outbox() -> (Outbox, Inbox) {
    bounded(BYTES_MAX)
}

fn bounded(bytes_max: usize) -> (Outbox, Inbox) {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let waiting = Arc::new(AtomicUsize::new(0));
    (Outbox { out: sender, waiting: Arc::clone(&waiting), bytes_max }, Inbox { out: receiver, waiting })
}

impl Outbox {
    /// Whether it was put there. It is not when too much waits already, or nobody takes anything any more.
    pub(super) fn put(&self, message: Outgoing) -> bool {
        let bytes = message.bytes();
        // A word without weight always fits: that one has to leave is the last thing that is said.
        if bytes > 0 && self.waiting.load(Ordering::Relaxed) >= self.bytes_max {
            return false;
        }
        // Counted before it can be taken, so that nobody takes away what was never added.
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.out.try_send(message).is_ok()
    }
}

impl Inbox {
    /// The next message; nothing when there will be none.
    pub async fn recv(&mut self) -> Option<Outgoing> {
        let message = self.out.recv().await?;
        Some(self.taken(message))
    }

    /// A message that waits.
    pub fn try_recv(&mut self) -> Option<Outgoing> {
        let message = self.out.try_recv().ok()?;
        Some(self.taken(message))
    }

    fn taken(&self, message: Outgoing) -> Outgoing {
        self.waiting.fetch_sub(message.bytes(), Ordering::Relaxed);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Leave;

    fn message(bytes: usize) -> Outgoing {
        Outgoing::Message(vec![0; bytes].into())
    }

    #[test]
    fn who_does_not_read_is_told_nothing_more_but_that_they_have_to_leave() {
        let (outbox, mut inbox) = bounded(10);
        assert!(outbox.put(message(6)) && outbox.put(message(60)), "one may be longer than all that may wait");
        assert!(!outbox.put(message(1)), "what waits is too much already");
        assert!(inbox.try_recv().is_some() && !outbox.put(message(1)));
        assert!(inbox.try_recv().is_some() && outbox.put(message(1)), "who reads is told more");
        assert!(outbox.put(message(9)) && !outbox.put(message(1)));
        assert!(outbox.put(Outgoing::Close(Leave::refused("late"))));
    }
}

//! One subscription, any number of readers: the ring behind a lock, and a bell that rings when it grew.

use super::ring::{Read, Ring, Wanted};
use axum::extract::ws::Utf8Bytes;
use choir_proto::Seq;
use std::sync::Mutex;
use tokio::sync::watch;

/// Where the subscription writes and every stream reads.
#[derive(Debug)]
pub struct Hub {
    /// Nothing until the first subscription stands. The subscription alone writes.
    ring: Mutex<Option<Ring>>,
    bell: watch::Sender<()>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { ring: Mutex::new(None), bell: watch::channel(()).0 }
    }
}

impl Hub {
    /// A bell for one reader: it rings after every change.
    pub fn listen(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// The newest event; nothing until the first subscription stands.
    pub fn head(&self) -> Option<Seq> {
        self.with(|ring| ring.map(|ring| ring.head()))
    }

    /// Begins after an event, unless it has begun: readers keep their positions over restarts of the computer.
    pub(super) fn begin(&self, head: Seq) {
        let mut ring = self.lock();
        ring.get_or_insert_with(|| Ring::after(head));
        drop(ring);
        self.bell.send_replace(());
    }

    /// Publishes lines: events that follow the head, and live ones. What was `erased` by them is forgotten before anybody
    /// can read it.
    pub(super) fn publish(&self, lines: impl IntoIterator<Item = (Option<Seq>, Utf8Bytes)>, erased: Option<Seq>) {
        let mut ring = self.lock();
        let Some(ring) = ring.as_mut() else { return };
        for (seq, text) in lines {
            match seq {
                Some(seq) => ring.push(seq, text),
                None => ring.push_live(text),
            }
        }
        if let Some(erased) = erased {
            ring.forget(erased);
        }
        self.bell.send_replace(());
    }

    /// Where a reader goes on; `Err` until a subscription stands, `None` if it has to catch up first.
    pub fn position(&self, after: Seq) -> Result<Option<u64>, NotYet> {
        self.with(|ring| ring.map(|ring| ring.position(after)).ok_or(NotYet))
    }

    /// What stands at a position.
    pub fn read(&self, position: u64, after: Seq, wanted: Wanted, count: usize) -> Read {
        self.with(|ring| ring.map_or(Read::Lapped, |ring| ring.read(position, after, wanted, count)))
    }

    fn with<T>(&self, look: impl FnOnce(Option<&Ring>) -> T) -> T {
        look(self.lock().as_ref())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Ring>> {
        // A panic while holding it cannot leave half a line behind: every change is a push.
        self.ring.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The first subscription has not been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotYet;

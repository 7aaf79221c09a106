//! Output under way to the host, bounded by a window that the host gives back.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::protocol::OUTPUT_WINDOW_BYTES;

/// The window of one request; a cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Credit(Arc<Semaphore>);

/// Leave to send at least one byte, given back unless it is spent.
#[derive(Debug)]
pub(super) struct Leave<'a> {
    first: SemaphorePermit<'a>,
    window: &'a Semaphore,
}

impl Credit {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(OUTPUT_WINDOW_BYTES)))
    }

    /// The host took so many bytes.
    pub(super) fn taken(&self, bytes: u64) -> Result<(), &'static str> {
        let room = OUTPUT_WINDOW_BYTES.saturating_sub(self.0.available_permits());
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= room => self.0.add_permits(bytes),
            _ => return Err("the host took more than it was sent"),
        }
        Ok(())
    }

    /// Waits until something may be sent. Only one may wait for a request's leave.
    pub(super) async fn leave(&self) -> Option<Leave<'_>> {
        let first = self.0.acquire().await.ok()?;
        Some(Leave { first, window: &self.0 })
    }
}

impl Leave<'_> {
    /// How much may be sent.
    pub(super) fn bytes(&self) -> usize {
        self.window.available_permits() + 1
    }

    /// Takes this much, at most [`Leave::bytes`] and at least one.
    pub(super) fn spend(self, bytes: usize) {
        self.first.forget();
        let rest = u32::try_from(bytes.saturating_sub(1)).unwrap_or(u32::MAX);
        // The room was there a moment ago, and nobody else takes from it.
        if let Ok(rest) = self.window.try_acquire_many(rest) {
            rest.forget();
        }
    }
}

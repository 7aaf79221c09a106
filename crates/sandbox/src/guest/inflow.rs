//! Bulk bytes towards one request, bounded by a window instead of by blocking the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::session::Outgoing;
use crate::protocol::{INPUT_WINDOW_BYTES, Progress, WINDOW_STEP_BYTES};

/// The host sent more than the window allows.
#[derive(Debug)]
pub(super) struct WindowExceeded;

/// The end that the stream's reader fills.
#[derive(Debug)]
pub(super) struct Inflow {
    queue: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The end that the request empties.
#[derive(Debug)]
pub(super) struct InflowReader {
    queue: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
    /// Used, but not given back yet.
    owed: usize,
    id: u64,
    out: Outgoing,
}

pub(super) fn inflow(id: u64, out: Outgoing) -> (Inflow, InflowReader) {
    // Unbounded in length, but `push` bounds the bytes, and an empty frame is dropped there.
    let (sender, queue) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Inflow { queue: sender, waiting: waiting.clone() }, InflowReader { queue, waiting, owed: 0, id, out })
}

impl Inflow {
    pub(super) fn push(&self, bytes: Bytes) -> Result<(), WindowExceeded> {
        if bytes.is_empty() {
            return Ok(());
        }
        let before = self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if before + bytes.len() > INPUT_WINDOW_BYTES {
            return Err(WindowExceeded);
        }
        // A request that no longer reads has ended or failed; what it does not want is dropped.
        self.queue.send(bytes).ok();
        Ok(())
    }
}

impl InflowReader {
    /// The next bytes; `None` when the host closed them.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        self.queue.recv().await
    }

    /// Gives the window back after the bytes were used, once it is worth a message.
    pub(super) async fn taken(&mut self, bytes: usize) {
        self.owed += bytes;
        if self.owed < WINDOW_STEP_BYTES {
            return;
        }
        let bytes = std::mem::take(&mut self.owed);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.out.progress(self.id, Progress::InputTaken { bytes: bytes as u64 }).await;
    }
}

//! Whose turn it is to write: a thread's while many ask, a caller's own while nobody else does.
//!
//! There is one writer, and whoever holds it is alone with it. Handing a single append to another thread and being woken by it
//! again costs about half of what the sync itself costs; a caller that nobody competes with therefore commits where it is.

use super::gather::Gathering;
use super::queue::Taker;
use super::{Command, Writer};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Callers in a row who met no other, after which the next one commits where it is. A thread that blocks hands its tasks to
/// another one first; under a load in which callers are alone only by chance that costs more than it saves, and threads.
const ALONE_MIN: u32 = 8;

/// The writer, and who may have it.
pub(crate) struct Turn {
    /// Absent once the log is closed.
    writer: Mutex<Option<Writer>>,
    /// The thread has something to write. Callers who come now stand behind it, or it might never get its turn.
    thread_waits: AtomicBool,
    /// Callers who have no answer yet.
    asking: AtomicUsize,
    /// How many in a row met no other.
    alone: AtomicU32,
}

/// A caller, from its coming to its answer.
#[must_use]
pub(crate) struct Asking<'turn>(&'turn Turn);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            writer: Mutex::new(Some(writer)),
            thread_waits: AtomicBool::new(false),
            asking: AtomicUsize::new(0),
            alone: AtomicU32::new(0),
        }
    }

    /// Counts a caller in until it has its answer.
    pub(crate) fn ask(&self) -> Asking<'_> {
        match self.asking.fetch_add(1, Ordering::Relaxed) {
            0 => self.alone.fetch_add(1, Ordering::Relaxed),
            // Nothing is written that says so already: others on other processors look at it as well.
            _ if self.alone.load(Ordering::Relaxed) > 0 => self.alone.swap(0, Ordering::Relaxed),
            _ => 0,
        };
        Asking(self)
    }

    /// Does what is asked for on the calling thread and gives nothing back; or gives the command back, because somebody else
    /// writes or waits to or may soon, or because other tasks would wait for this thread.
    pub(crate) fn take(&self, command: Command) -> Option<Command> {
        let alone = self.alone.load(Ordering::Relaxed) >= ALONE_MIN;
        if !alone || self.thread_waits.load(Ordering::Acquire) || !may_block() {
            return Some(command);
        }
        let Ok(mut held) = self.writer.try_lock() else { return Some(command) };
        let Some(writer) = held.as_mut() else { return Some(command) };
        tokio::task::block_in_place(|| writer.commit(&mut std::iter::once(command)));
        None
    }

    /// What the writing thread does. A panic is the end of the writer, and whoever watches the head has to hear of it: a writer that
    /// lay there half-done would keep everybody waiting for good.
    pub(crate) fn serve_to_the_end(&self, taker: Taker) {
        self.guarded(|| self.serve(taker));
    }

    fn guarded(&self, work: impl FnOnce()) {
        if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("the writer of the log panicked; the log is closed");
            drop(self.held().take());
        }
    }

    /// Until the log is closed or every handle is gone.
    fn serve(&self, mut taker: Taker) {
        let mut gathering = Gathering::default();
        while let Some(first) = gathering.awaited(&mut taker) {
            self.thread_waits.store(true, Ordering::Release);
            let held = self.writer.lock();
            self.thread_waits.store(false, Ordering::Release);
            // A caller panicked with it: nobody knows what it left, and whoever asks is told that the log is closed.
            let Ok(mut held) = held else { return drop(self.held().take()) };
            let Some(writer) = held.as_mut() else { return };
            writer.serve(first, &mut gathering, &mut taker);
        }
        if let Some(writer) = self.held().take() {
            writer.close();
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = matches!(self.writer.try_lock(), Err(TryLockError::WouldBlock));
        f.debug_struct("Turn").field("taken", &taken).finish_non_exhaustive()
    }
}

/// Whether this thread may wait for a sync while others take over what it was about to do.
fn may_block() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use super::super::{Beside, open};
    use super::*;
    use crate::blob::Blobs;
    use crate::log::index::Index;
    use crate::log::recent::Recent;
    use crate::log::{Head, blobs_path, log_path};
    use choir_proto::Seq;
    use std::sync::Arc;
    use tokio::sync::watch;

    #[test]
    fn a_writer_that_panics_is_gone_and_whoever_watches_hears_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = log_path(directory.path());
        let connection = open(&path).unwrap();
        let index = Index::open(directory.path(), &connection, Seq::ZERO).unwrap();
        let blobs = Arc::new(Blobs::open(&blobs_path(directory.path())).unwrap());
        let (sender, head) = watch::channel(Head::default());
        let beside = Beside { recent: Recent::default(), index, blobs };
        let turn = Turn::new(Writer::new(path, connection, 1, sender, beside));
        assert!(head.has_changed().is_ok());
        turn.guarded(|| {
            let _held = turn.writer.lock();
            panic!("a bug in the writer");
        });
        assert!(turn.held().is_none());
        assert!(head.has_changed().is_err(), "nobody waits for a head that never moves again");
    }
}

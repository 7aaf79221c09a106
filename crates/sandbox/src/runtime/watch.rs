//! Changes of a workspace, as the host hears of them.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use super::connection::CallError;
use super::handle::Guest;
use crate::path::RelativePath;
use crate::protocol::{Ask, Fault};

/// Reports that wait for a listener. One that is slower hears that it missed some.
const REPORTS_MAX: usize = 16;

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Where to look: files and directories that were made, written, moved or removed.
    pub paths: Vec<RelativePath>,
    /// More changed than is named; everything may have.
    pub incomplete: bool,
}

/// A watch on a workspace; dropped, it ends.
#[derive(Debug)]
pub struct Watch {
    id: u64,
    reports: mpsc::Receiver<Result<Changes, Fault>>,
    guest: Guest,
}

/// What the connection knows of a watch.
#[derive(Debug)]
pub(super) struct Watched {
    reports: mpsc::Sender<Result<Changes, Fault>>,
    missed: bool,
    /// A watch takes no input; its window is closed.
    window: Arc<Semaphore>,
}

pub(super) async fn watch(guest: &Guest) -> Result<Watch, CallError> {
    let (sender, reports) = mpsc::channel(REPORTS_MAX);
    let watched = Watched { reports: sender, missed: false, window: Arc::new(Semaphore::new(0)) };
    let id = guest.connection().watch(Ask::Watch, watched).await?;
    let mut watch = Watch { id, reports, guest: guest.clone() };
    // The first report says that everything is being watched from now on.
    watch.next().await?;
    Ok(watch)
}

impl Watch {
    /// The next changes.
    pub async fn next(&mut self) -> Result<Changes, CallError> {
        Ok(self.reports.recv().await.ok_or(CallError::Lost)??)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Without room at this moment the guest goes on telling, and nobody listens.
        self.guest.connection().tell(Ask::Kill { target: self.id });
    }
}

impl Watched {
    pub(super) fn window(&self) -> &Semaphore {
        &self.window
    }

    /// Takes a report without ever waiting.
    pub(super) fn changed(&mut self, paths: Vec<RelativePath>, incomplete: bool) {
        let changes = Changes { paths, incomplete: incomplete || self.missed };
        self.missed = self.reports.try_send(Ok(changes)).is_err();
    }

    pub(super) fn failed(self, fault: Fault) {
        // A listener that has gone or is full learns of the end by the closed queue.
        self.reports.try_send(Err(fault)).ok();
    }
}

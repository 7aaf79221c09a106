//! Views that follow a log while it grows, and readers that see at least what was acknowledged to them.

use super::Views;
use crate::log::{Log, Subscription};
use crate::sqlite::{OpenError, StoreError};
use choir_proto::{Event, Seq};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Events folded between two writes of changed rows.
const FLUSH_EVERY_EVENTS: u64 = 512;

/// A handle to views that are kept up to date.
#[derive(Debug, Clone)]
pub struct LiveViews {
    views: Arc<Mutex<Views>>,
    at: watch::Receiver<Seq>,
    log: Log,
}

impl LiveViews {
    /// Brings the views up to the log's head, then keeps following.
    pub async fn follow(log: Log, views: Views) -> Result<Self, OpenError> {
        let mut views = views;
        if !stands_on(&log, &views).await {
            tracing::warn!("the views belong to another log and are built anew");
            views.reset()?;
        }
        let (sender, at) = watch::channel(views.at().seq);
        let after = views.at().seq;
        let views = Arc::new(Mutex::new(views));
        let follower = Follower { views: Arc::clone(&views), at: sender, unflushed: 0, rebuilt_for: after };
        tokio::spawn(follower.run(log.subscribe(after)));
        Ok(Self { views, at, log })
    }

    /// Resolves when the views no longer follow the log.
    pub async fn ended(&self) {
        let mut at = self.at.clone();
        while at.changed().await.is_ok() {}
    }

    /// Reads once the views have seen everything that was acknowledged before this call.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Views) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let head = self.log.head().seq;
        self.at.clone().wait_for(|at| *at >= head).await.map_err(|_| StoreError::Closed)?;
        let views = Arc::clone(&self.views);
        let work = move || read(&mut views.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?
    }
}

/// Whether the event that the views stand for is in this log.
async fn stands_on(log: &Log, views: &Views) -> bool {
    let at = views.at();
    if at.seq == Seq::ZERO {
        return true;
    }
    let query = crate::Query { after: Seq(at.seq.0 - 1), limit: 1, ..Default::default() };
    matches!(log.read(query).await, Ok(events) if events.first().is_some_and(|event| event.header.hash == at.hash))
}

struct Follower {
    views: Arc<Mutex<Views>>,
    at: watch::Sender<Seq>,
    unflushed: u64,
    /// The newest erasure that the views have been rebuilt for; meeting it again on the way must not start over.
    rebuilt_for: Seq,
}

impl Follower {
    async fn run(mut self, mut subscription: Subscription) {
        loop {
            let events = match subscription.next().await {
                Ok(events) => events,
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "the views stopped following the log");
                    return;
                }
            };
            let folded = match self.newest_erasure(&events) {
                Some(seq) => {
                    self.rebuilt_for = seq;
                    self.rebuild(&mut subscription).map(|()| None)
                }
                None => self.fold(&events).map(Some),
            };
            match folded {
                Ok(Some(seq)) => {
                    self.at.send_replace(seq);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "a view is damaged and is built anew");
                    if let Err(error) = self.rebuild(&mut subscription) {
                        tracing::error!(%error, "the views stopped following the log");
                        return;
                    }
                }
            }
        }
    }

    fn fold(&mut self, events: &[Arc<choir_proto::Envelope>]) -> Result<Seq, StoreError> {
        let mut views = self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for event in events {
            views.fold(event)?;
        }
        self.unflushed += events.len() as u64;
        if self.unflushed >= FLUSH_EVERY_EVENTS {
            match views.flush() {
                Ok(()) => self.unflushed = 0,
                // Nothing is lost: the rows stay in memory, and the next batch tries again.
                Err(error) => tracing::warn!(%error, "the views could not be written"),
            }
        }
        Ok(views.at().seq)
    }

    fn newest_erasure(&self, events: &[Arc<choir_proto::Envelope>]) -> Option<Seq> {
        let erasures = events.iter().filter(|event| matches!(event.event(), Ok(Event::PayloadErased(_))));
        erasures.map(|event| event.header.seq).filter(|seq| *seq > self.rebuilt_for).max()
    }

    /// What was erased must not live on in a view: folding again from the start leaves it out.
    fn rebuild(&mut self, subscription: &mut Subscription) -> Result<(), StoreError> {
        let mut views = self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        views.reset().map_err(|error| match error {
            OpenError::Sqlite(error) => StoreError::Sqlite(error),
            _ => StoreError::Closed,
        })?;
        self.at.send_replace(Seq::ZERO);
        subscription.rewind();
        Ok(())
    }
}

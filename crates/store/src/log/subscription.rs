//! Following the log. A follower pulls by position, so there is no queue to overflow, no gap and no duplicate.

use super::{Log, Query};
use crate::StoreError;
use choir_proto::{Envelope, Seq};
use std::sync::Arc;

/// Events handed out at once.
const BATCH: usize = 256;

/// A position in the log that moves forward.
#[derive(Debug)]
pub struct Subscription {
    log: Log,
    after: Seq,
}

impl Subscription {
    pub(crate) fn new(log: Log, after: Seq) -> Self {
        Self { log, after }
    }

    /// The next events, at least one; waits until there is one. Cancelling the wait loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Envelope>>, StoreError> {
        let mut head = self.log.watch();
        head.wait_for(|head| head.seq > self.after).await.map_err(|_| StoreError::Closed)?;
        let events = match self.log.recent().after(self.after, BATCH) {
            Some(events) if !events.is_empty() => events,
            _ => {
                let query = Query { after: self.after, limit: BATCH, ..Query::default() };
                self.log.read(query).await?.into_iter().map(Arc::new).collect()
            }
        };
        if let Some(last) = events.last() {
            self.after = last.header.seq;
        }
        Ok(events)
    }

    /// The last position handed out.
    pub fn position(&self) -> Seq {
        self.after
    }
}

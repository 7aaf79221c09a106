//! What a run has cost beyond the answers that are in the log.

use super::{Harness, Past};
use choir_proto::model::{Paid, Usage};
use choir_proto::{Event, RunId};

impl Harness {
    /// What control has paid for answers that broke off, made no sense, or that nobody heard any more. It counts by itself; where
    /// it cannot say, the receipt has what the log has.
    pub(crate) async fn unanswered(&self, run: RunId, past: &Past) -> Option<Paid> {
        let paid = match self.control.paid(run).await {
            Ok(paid) => paid?,
            Err(error) => {
                tracing::warn!(%error, "nobody could say what a run has cost");
                return None;
            }
        };
        let mut known = Usage::default();
        for (_, event) in past.events() {
            if let Event::ModelCalled(called) = event {
                known += called.usage;
            }
        }
        paid.beyond(&known)
    }
}

//! What a run has cost beyond the answers that are in the log.

use super::{Driver, Harness, Past};
use choir_proto::model::{Paid, Usage};
use choir_proto::{Event, RunId, Usd};

impl Driver {
    /// What was paid in earlier lives for answers that no event tells of counts for the whole run: a crash came before them.
    pub(super) async fn reckon(&self) {
        let is_taken_up_again = self.context.past.knows(self.identity.task);
        if self.parent.is_some() || !is_taken_up_again {
            return;
        }
        let Some(paid) = self.context.harness.unanswered(self.identity.run, &self.context.past).await else { return };
        let broken = broken(&self.context.past);
        let tokens = paid.tokens.saturating_sub(broken.tokens());
        let usd = Usd(paid.usd.0.saturating_sub(broken.usd.0));
        self.purse.charge(&Usage::from(Paid { tokens, usd, output_tokens: 0 }));
    }
}

/// What answers took that broke off, as far as the log says it.
fn broken(past: &Past) -> Usage {
    let mut broken = Usage::default();
    for (_, event) in past.events() {
        if let Event::ModelFailed(failed) = event {
            broken += failed.usage;
        }
    }
    broken
}

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
        let beyond = paid.beyond(&known)?;
        Some(Paid { output_tokens: broken(past).output_tokens.min(beyond.tokens), ..beyond })
    }
}

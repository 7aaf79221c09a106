//! What a provider wants for an answer that nobody got: it broke off, nobody wanted it any more, or control was killed meanwhile.
//! The provider has worked all the same.

use super::Gateway;
use super::tariff::Tariff;
use crate::db::{Cost, UnderWay};
use choir_llm::price::Price;
use choir_proto::model::Usage;
use choir_proto::wire::ModelCall;
use std::sync::atomic::Ordering;

/// How much of an answer comes before it is written down again how far it is, in bytes: about a thousand tokens.
const NOTED_BYTES: usize = 4096;

/// Counted when the call is let go, however it ends; and by the next process, where this one is killed first.
pub(super) struct Bill<'call> {
    gateway: &'call Gateway,
    call: &'call ModelCall,
    tariff: Tariff,
    pub(super) model: String,
    id: i64,
    stage: Stage,
    heard_bytes: usize,
    noted_bytes: usize,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody was asked.
    New,
    /// The question is on its way.
    Asked,
    /// The answer has begun, and is not paid.
    Due,
    /// Somebody has paid.
    Paid,
}

impl<'call> Bill<'call> {
    pub(super) fn new(gateway: &'call Gateway, call: &'call ModelCall, tariff: &Tariff, model: String) -> Self {
        let id = gateway.0.calls.fetch_add(1, Ordering::Relaxed);
        let stage = Stage::New;
        Self { gateway, call, tariff: *tariff, model, id, stage, heard_bytes: 0, noted_bytes: 0 }
    }

    /// The question is sent now. Where money is at stake that is written down first.
    pub(super) async fn asked(&mut self) {
        self.stage = Stage::Asked;
        let (db, under_way) = (&self.gateway.0.db, self.under_way());
        if self.tariff.price == Price::FREE {
            return db.note_call(under_way);
        }
        if let Err(error) = db.begin_call(under_way).await {
            // What it costs is tried again then, and nothing more is spent before that is written.
            tracing::warn!(error = &error as &dyn std::error::Error, "a call was not written down before it was made");
        }
    }

    /// The provider answers.
    pub(super) fn is_answered(&mut self) {
        self.stage = Stage::Due;
    }

    /// So much more of the answer came.
    pub(super) fn heard(&mut self, bytes: usize) {
        self.heard_bytes += bytes;
        if self.heard_bytes - self.noted_bytes >= NOTED_BYTES {
            self.noted_bytes = self.heard_bytes;
            self.gateway.0.db.note_call(self.under_way());
        }
    }

    /// What the answer took, if it broke off now; nothing where none has begun.
    pub(super) fn took(&self) -> Option<Usage> {
        (self.stage == Stage::Due).then(|| self.usage())
    }

    /// Somebody has paid for it.
    pub(super) async fn is_paid(&mut self) {
        self.stage = Stage::Paid;
        // A database that is closed has ended with control.
        self.gateway.0.db.end_call(self.id).await.ok();
    }

    fn usage(&self) -> Usage {
        self.tariff.unfinished(&self.call.request, self.heard_bytes)
    }

    fn cost(&self) -> Cost {
        Cost { run: self.call.run, model: self.model.clone(), usage: self.usage() }
    }

    fn under_way(&self) -> UnderWay {
        UnderWay { id: self.id, cost: self.cost() }
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let (gateway, run, id, stage) = (self.gateway.clone(), self.call.run, self.id, self.stage);
        match stage {
            Stage::New | Stage::Paid => return,
            Stage::Asked => {}
            // Known at once, whoever asks next; and written down as soon as somebody comes to it.
            Stage::Due => gateway.0.spent.unpaid().push(self.cost()),
        }
        let pay = async move {
            if stage == Stage::Due
                && let Err(error) = gateway.spent(run).await
            {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "an answer that broke off is not counted yet");
                return;
            }
            // A database that is closed has ended with control.
            gateway.0.db.end_call(id).await.ok();
        };
        // Without a runtime control is gone, and with it everybody who could spend.
        tokio::runtime::Handle::try_current().map(|runtime| runtime.spawn(pay)).ok();
    }
}

//! What control does by itself while it runs: telling, keeping and signing.

use super::Decided;
use crate::clock::Clock;
use crate::computer::{Link, State};
use crate::db::{Db, Head};
use crate::egress::Decision;
use choir_proto::event::{Actor, EgressAllowed, EgressDenied, Event};
use choir_proto::{ComputerId, wire};
use ed25519_dalek::SigningKey;
use std::time::Duration;
use tokio::sync::watch;

/// How often a moving head is signed at most.
const SIGN: Duration = Duration::from_secs(1);

/// Tells the computer whether there is a model: when that changes and whenever it has started.
pub(super) async fn tell_models(
    mut models: watch::Receiver<wire::Models>,
    mut state: watch::Receiver<State>,
    link: Link,
) {
    loop {
        if matches!(*state.borrow_and_update(), State::Running { .. }) {
            let message = models.borrow_and_update().clone();
            if let Err(error) = link.post("/internal/models", &message).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the computer was not told about models");
            }
        }
        tokio::select! {
            changed = models.changed() => if changed.is_err() { return },
            changed = state.changed() => if changed.is_err() { return },
        }
    }
}

/// Keeps what was decided about connections: here first, then as a copy in the computer's log.
pub(super) async fn keep_decisions(mut decided: Decided, db: Db, link: Link, clock: Clock) {
    while let Some(Decision { task, host, port, outcome }) = decided.recv().await {
        let keep = || db.add_egress(task, host.clone(), port, outcome.clone(), clock.now());
        // Once more on a file that was opened anew; the log gets no copy of what is not here.
        let mut kept = keep().await;
        if kept.is_err() {
            kept = keep().await;
        }
        if let Err(error) = kept {
            tracing::error!(error = &error as &dyn std::error::Error, "a decision about a connection was not kept");
            continue;
        }
        let event = match outcome {
            Ok(rule) => Event::from(EgressAllowed { host, port, rule }),
            Err(reason) => Event::from(EgressDenied { host, port, reason }),
        };
        let (kind, version, payload) = (event.kind().to_string(), event.version(), event.payload());
        let record = wire::Record { actor: Actor::Control, run: None, task, kind, version, payload };
        if let Err(error) = link.post("/internal/record", &record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the log was not told about a connection");
        }
    }
}

/// Signs how far control has seen the log, at most once in a while and once at the end.
pub(super) async fn sign_heads(
    db: Db,
    key: SigningKey,
    computer: ComputerId,
    mut head: watch::Receiver<Option<wire::Head>>,
) {
    loop {
        let more = head.changed().await.is_ok();
        let seen = *head.borrow_and_update();
        if let Some(wire::Head { seq, hash }) = seen
            && let Err(error) = db.sign_head(Head { computer, seq, hash }, &key).await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "the head of the log could not be signed");
        }
        if !more {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(SIGN) => {}
            // The sender is gone: the end is signed without waiting.
            () = closed(&mut head) => {}
        }
    }
}

/// Ends when the sender of a channel is gone; the newest value stays to be read.
async fn closed(head: &mut watch::Receiver<Option<wire::Head>>) {
    head.wait_for(|_| false).await.map(drop).unwrap_or(());
}

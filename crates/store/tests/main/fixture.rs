//! Events and logs to test with.

use choir_proto::event::{Actor, NewEvent, RunSteered};
use choir_proto::{Envelope, EventId, RunId, Timestamp};
use choir_store::{Log, Query};
use uuid::Uuid;

pub(crate) fn event(number: u128) -> NewEvent {
    steer(number, &format!("note {number}"))
}

pub(crate) fn steer(number: u128, text: &str) -> NewEvent {
    NewEvent {
        id: EventId::new(Uuid::from_u128(number)),
        at: Timestamp(number as i64),
        actor: Actor::Person,
        run: Some(RunId::new(Uuid::from_u128(number % 3))),
        task: None,
        cause: None,
        event: RunSteered { text: text.into() }.into(),
    }
}

pub(crate) async fn all(log: &Log) -> Vec<Envelope> {
    log.read(Query { limit: 1000, ..Query::default() }).await.unwrap()
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

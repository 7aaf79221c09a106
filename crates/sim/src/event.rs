//! Events to fill logs with: a plausible mixture, determined by its number.

use choir_proto::event::{
    Actor, BlockedOn, DocumentCreated, DocumentVersioned, NewEvent, RunAccepted, RunBlocked, RunEnded, RunStarted,
    RunSteered, ToolFinished, ToolOutcome, ToolStarted,
};
use choir_proto::run::{NewRun, RunStatus};
use choir_proto::{DocumentId, Event, EventId, Role, RunId, Timestamp};
use choir_store::sha256;
use uuid::Uuid;

/// Events of one run in the mixture.
pub(crate) const EVENTS_PER_RUN: u64 = 16;

/// Runs of which one has a document of its own in the mixture.
pub(crate) const RUNS_PER_DOCUMENT: u64 = 64;

/// A word that stands in every prompt of the mixture.
pub(crate) const COMMON_WORD: &str = "fox";

/// Payload bytes of an ordinary event.
pub(crate) const PAYLOAD_BYTES: usize = 300;

/// A run by its number.
pub(crate) fn run_id(number: u64) -> RunId {
    // Ordered like UUIDs of version 7, spread like hashes: neither order nor locality is given away for free.
    let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    RunId::new(Uuid::from_u64_pair(number << 16, noise))
}

/// One event whose payload has exactly [`PAYLOAD_BYTES`].
pub(crate) fn note(id: u128) -> NewEvent {
    let frame = r#"{"text":""}"#.len();
    new(id, None, Actor::Person, RunSteered { text: "x".repeat(PAYLOAD_BYTES - frame) }.into())
}

/// The event at a place of a log full of runs.
pub(crate) fn mixed(seq: u64) -> NewEvent {
    let (run, step) = (run_id(seq / EVENTS_PER_RUN), seq % EVENTS_PER_RUN);
    let effect = format!("{run}-{}", step / 2);
    let writes = (seq / EVENTS_PER_RUN).is_multiple_of(RUNS_PER_DOCUMENT);
    let (actor, event): (_, Event) = match step {
        4 if writes => (Actor::Agent(Role::Writer), created(seq).into()),
        5 if writes => (Actor::Agent(Role::Writer), versioned(seq).into()),
        0 => (Actor::Person, accepted(seq).into()),
        1 => (Actor::Agent(Role::Conductor), RunStarted {}.into()),
        2 => (Actor::Computer, RunBlocked { on: BlockedOn::Model, message: text(40) }.into()),
        3 => (Actor::Agent(Role::Conductor), RunStarted {}.into()),
        15 => (Actor::Computer, RunEnded { status: RunStatus::Completed, summary: text(60), unanswered: None }.into()),
        step if step % 2 == 0 => (Actor::Agent(Role::Terminal), started(effect, step).into()),
        _ => (Actor::Agent(Role::Terminal), finished(effect).into()),
    };
    new(u128::from(seq) << 64 | 0xc401, Some(run), actor, event)
}

/// The document of a run by its number, if it has one.
pub(crate) fn document_id(run: u64) -> DocumentId {
    DocumentId::from(*run_id(run).as_bytes())
}

fn created(seq: u64) -> DocumentCreated {
    DocumentCreated { document_id: document_id(seq / EVENTS_PER_RUN), title: title(seq) }
}

fn versioned(seq: u64) -> DocumentVersioned {
    let content = text(2000);
    DocumentVersioned {
        document_id: document_id(seq / EVENTS_PER_RUN),
        version: 1,
        title: title(seq),
        content_hash: sha256(content.as_bytes()),
        size: content.len() as u64,
        content: Some(content),
        reason: "the first words".into(),
    }
}

fn title(seq: u64) -> String {
    format!("Page {}", seq / EVENTS_PER_RUN)
}

fn accepted(seq: u64) -> RunAccepted {
    RunAccepted { request: NewRun::new(format!("{} {seq}", text(200))), document_id: None }
}

fn started(effect_id: String, step: u64) -> ToolStarted {
    let arguments = serde_json::json!({"command": text(120)});
    ToolStarted { effect_id, turn: step as u32, index: 0, call_id: "call".into(), name: "bash".into(), arguments }
}

fn finished(effect_id: String) -> ToolFinished {
    let (outcome, content) = (ToolOutcome::Ok, text(180));
    ToolFinished { effect_id, call_id: "call".into(), outcome, content, output: None, duration_ms: 12 }
}

fn text(bytes: usize) -> String {
    "the quick brown fox jumps over the lazy dog ".chars().cycle().take(bytes).collect()
}

fn new(id: u128, run: Option<RunId>, actor: Actor, event: Event) -> NewEvent {
    NewEvent {
        id: EventId::new(Uuid::from_u128(id)),
        at: Timestamp(id as i64),
        actor,
        run,
        task: None,
        cause: None,
        event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_the_size_that_is_promised() {
        assert_eq!(note(7).event.payload().get().len(), PAYLOAD_BYTES);
    }
}

//! What tests of folds have in common.

use choir_proto::event::{Actor, Header};
use choir_proto::task::CommandResult;
use choir_proto::{Event, EventId, Hash, Seq, Timestamp};
use uuid::Uuid;

/// The envelope of an event of which only its place and kind matter.
pub(crate) fn header(seq: u64, event: &Event) -> Header {
    Header {
        seq: Seq(seq),
        id: EventId::new(Uuid::nil()),
        epoch: 1,
        at: Timestamp(0),
        actor: Actor::Computer,
        run: None,
        task: None,
        cause: None,
        kind: event.kind(),
        version: 1,
        payload_hash: Hash::ZERO,
        prev: Hash::ZERO,
        hash: Hash::ZERO,
    }
}

/// A command that was run and said nothing.
pub(crate) fn ran(command: &str) -> CommandResult {
    let (command, stdout, stderr) = (command.to_owned(), String::new(), String::new());
    let (exit_code, truncated, duration_ms, log, limit) = (None, false, 0, None, None);
    CommandResult { command, exit_code, stdout, stderr, truncated, duration_ms, log, limit }
}

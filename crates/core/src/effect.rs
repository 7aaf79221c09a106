//! Names of effects. A crash and a restart must arrive at the same name, and other arguments at another.

use choir_proto::{InboxId, RunId, TaskId};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The name of one tool call, made of its place and what it is called with.
pub fn id(run: RunId, task: TaskId, turn: u32, index: u32, name: &str, arguments: &serde_json::Value) -> String {
    let mut hasher = Sha256::new();
    hasher.update(run.as_bytes());
    hasher.update(task.as_bytes());
    hasher.update(turn.to_be_bytes());
    hasher.update(index.to_be_bytes());
    hasher.update(name.as_bytes());
    hasher.update([0]);
    hasher.update(arguments.to_string().as_bytes());
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The task that a `delegate` call begins: the same after a crash, so that no child is started twice.
pub fn child(effect_id: &str) -> TaskId {
    TaskId::new(derived(effect_id, "task"))
}

/// What a call puts to the person: the same after a crash, so that nobody is asked twice.
pub fn question(effect_id: &str) -> InboxId {
    InboxId::new(derived(effect_id, "question"))
}

/// An id that follows from an effect, for what must not be appended twice.
pub fn derived(effect_id: &str, what: &str) -> Uuid {
    let digest =
        Sha256::new().chain_update(effect_id.as_bytes()).chain_update([0]).chain_update(what.as_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

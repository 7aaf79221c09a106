//! Events as lines that a person can read: who, what, and how long it took.

use crate::words::headline;
use choir_proto::event::{Actor, Event};

/// Longer texts are cut.
const CHARACTERS_MAX: usize = 160;

/// What an event says, in a few words.
pub fn describe(event: &Event) -> String {
    let words = match event {
        Event::RunAccepted(accepted) => accepted.request.prompt.clone(),
        Event::RunBlocked(blocked) => blocked.message.clone(),
        Event::RunSteered(steered) => steered.text.clone(),
        Event::RunAnswered(answered) => answered.text.clone(),
        Event::RunEnded(ended) => format!("{}: {}", crate::status::run_words(ended.status), ended.summary),
        Event::TaskRequested(requested) => requested.request.instruction.clone(),
        Event::TaskFinished(finished) => finished.result.summary.clone(),
        Event::ModelCalled(called) => {
            format!("{}, {} tokens", called.model, crate::words::tokens(called.usage.tokens()))
        }
        Event::ModelFailed(failed) => failed.message.clone(),
        Event::ToolStarted(started) => format!("{} {}", started.name, arguments(&started.arguments)),
        Event::ToolFinished(finished) => finished.content.clone(),
        Event::DocumentCreated(created) => created.title.clone(),
        Event::DocumentVersioned(versioned) => format!("{} version {}", versioned.title, versioned.version),
        Event::DocumentUpdated(updated) => format!("version {}", updated.version),
        Event::ProposalMade(made) => format!("{} → {}", made.old, made.new),
        Event::ProposalDecided(decided) => decided.proposal_id.clone(),
        Event::CitationMade(made) => made.quote.clone(),
        Event::DocumentTrashed(trashed) => trashed.reason.clone(),
        Event::WindowOpened(opened) => opened.app.name().to_owned(),
        Event::FileChanged(changed) => changed.path.clone(),
        Event::ArtifactImported(artifact) => artifact.origin.clone(),
        Event::ActorRestarted(restarted) => format!("{}: {}", restarted.name, restarted.reason),
        Event::ActorEscalated(escalated) => format!("{}: {}", escalated.name, escalated.reason),
        _ => String::new(),
    };
    headline(&words, CHARACTERS_MAX)
}

/// The values of a call without their JSON dress.
fn arguments(value: &serde_json::Value) -> String {
    match value.as_object() {
        Some(map) => map
            .values()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" "),
        None => value.to_string(),
    }
}

/// How long it took, where that is known.
pub const fn duration_ms(event: &Event) -> Option<u64> {
    match event {
        Event::ModelCalled(called) => Some(called.duration_ms),
        Event::ToolFinished(finished) => Some(finished.duration_ms),
        _ => None,
    }
}

/// The word that chooses a hue: the agent's role, else who it was.
pub fn role(actor: &Actor) -> String {
    match actor {
        Actor::Agent(role) => role.name().to_owned(),
        other => other.to_string(),
    }
}

/// Where a bar begins and how long it is, in percent of the whole.
pub fn span(began_us: i64, total_us: i64, at_us: i64, duration_ms: u64) -> (f64, f64) {
    let total = total_us.max(1) as f64;
    let length = (duration_ms as f64 * 1_000.0).min(total);
    let start = ((at_us - began_us) as f64 - length).clamp(0.0, total);
    (100.0 * start / total, (100.0 * length / total).max(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_reads_as_a_command() {
        let value = serde_json::json!({"command": "ls -la", "timeout_s": 3});
        assert_eq!(arguments(&value), "ls -la 3");
    }

    #[test]
    fn bars_end_where_their_event_stands() {
        assert_eq!(span(0, 10_000_000, 5_000_000, 2_000), (30.0, 20.0));
        assert_eq!(span(0, 0, 0, 0), (0.0, 0.5));
    }
}

//! Events as lines that a person can read: who, what, and how long it took.

use crate::files::plainly;
use crate::json;
use crate::words::{headline, tokens};
use choir_proto::event::Actor;
use serde_json::Value;

/// Longer texts are cut.
const CHARACTERS_MAX: usize = 160;

/// Where the words of each kind stand in its payload. Read by name, so that the page needs no reader of every kind.
const WORDS: [(&str, &str); 29] = [
    ("run.accepted", "/request/prompt"),
    ("run.blocked", "/message"),
    ("run.steered", "/text"),
    ("run.answered", "/text"),
    ("run.ended", "/summary"),
    ("task.requested", "/request/instruction"),
    ("task.delayed", "/message"),
    ("task.finished", "/result/summary"),
    ("model.called", "/model"),
    ("model.failed", "/message"),
    ("tool.started", "/name"),
    ("tool.finished", "/content"),
    ("document.created", "/title"),
    ("document.versioned", "/title"),
    ("proposal.made", "/new"),
    ("proposal.decided", "/proposal_id"),
    ("citation.made", "/quote"),
    ("document.trashed", "/reason"),
    ("window.opened", "/app"),
    ("window.shaped", "/shape"),
    ("theme.chosen", "/theme"),
    ("inbox.asked", "/question"),
    ("verify.finished", "/result/status"),
    ("egress.allowed", "/host"),
    ("egress.denied", "/host"),
    ("file.changed", "/path"),
    ("artifact.imported", "/origin"),
    ("actor.restarted", "/name"),
    ("actor.escalated", "/name"),
];
/// What is said after it, where there is more: what stands between, and where.
const MORE: [(&str, &str, &str); 6] = [
    ("tool.started", " ", "/arguments"),
    ("document.versioned", " version ", "/version"),
    ("document.updated", "version ", "/version"),
    ("egress.denied", ": ", "/reason"),
    ("actor.restarted", ": ", "/reason"),
    ("actor.escalated", ": ", "/reason"),
];

/// What an event says, in a few words.
pub fn describe(kind: &str, payload: &Value) -> String {
    let at = |path: &str| payload.pointer(path).map(arguments).unwrap_or_default();
    let first = WORDS.iter().find(|(known, _)| *known == kind).map(|(_, path)| told(at(path)));
    let more = match payload.get("usage").filter(|_| kind == "model.called") {
        Some(usage) => Some(format!(", {} tokens", tokens(used(usage)))),
        None => MORE.iter().find(|(known, ..)| *known == kind).map(|(_, before, path)| format!("{before}{}", at(path))),
    };
    plainly(&headline(&[first, more].into_iter().flatten().collect::<String>(), CHARACTERS_MAX))
}

/// What a worker told in the end, where the whole of its result was kept as JSON.
fn told(said: String) -> String {
    let result =
        Some(said.as_str()).filter(|said| said.starts_with('{')).and_then(|said| json::read::<Value>(said).ok());
    result.as_ref().and_then(|result| result.get("summary")?.as_str()).map(str::to_owned).unwrap_or(said)
}

/// All tokens of a call together.
fn used(usage: &Value) -> u64 {
    let kinds = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"];
    kinds.iter().filter_map(|kind| usage.get(kind)?.as_u64()).sum()
}

/// The values of a call without their JSON dress.
fn arguments(value: &Value) -> String {
    match value {
        Value::Object(map) => map.values().map(arguments).collect::<Vec<_>>().join(" "),
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => json::write(other),
    }
}

/// How long it took, where that is known.
pub fn duration_ms(payload: &Value) -> Option<u64> {
    payload.get("duration_ms")?.as_u64()
}

/// The word that chooses a hue: the agent's role, else who it was.
pub fn role(actor: &Actor) -> String {
    match actor {
        Actor::Agent(role) => role.name().to_owned(),
        other => other.to_string(),
    }
}

/// Where a bar begins and how long it is, as parts of the whole.
pub fn span(began_us: i64, total_us: i64, at_us: i64, duration_ms: u64) -> (String, String) {
    let total = i128::from(total_us.max(1));
    let length = (i128::from(duration_ms) * 1_000).min(total);
    let start = (i128::from(at_us) - i128::from(began_us) - length).clamp(0, total);
    // Hundredths of a percent, at least half a percent: what is shorter would not be seen.
    let [start, length] = [start, length].map(|part| part * 10_000 / total);
    let [start, length] = [start, length.max(50)].map(|part| format!("{}.{:02}%", part / 100, part % 100));
    (start, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_call_reads_as_a_command() {
        let value = serde_json::json!({"command": "ls -la", "timeout_s": 3});
        assert_eq!(arguments(&value), "ls -la 3");
        let started = serde_json::json!({"name": "bash", "arguments": value});
        assert_eq!(describe("tool.started", &started), "bash ls -la 3");
    }

    #[test]
    fn every_kind_says_what_it_is_about() {
        let said = |kind: &str| {
            let mut lines = crate::event::tests::golden().filter(|(known, _)| *known == kind);
            let payload = lines.next().map(|(_, payload)| payload).unwrap_or_else(|| panic!("{kind} is not known"));
            describe(kind, &serde_json::from_str(payload).unwrap())
        };
        let kinds: std::collections::BTreeSet<_> =
            WORDS.iter().map(|(kind, _)| kind).chain(MORE.iter().map(|(kind, ..)| kind)).collect();
        for kind in kinds {
            assert!(!said(kind).trim().is_empty(), "{kind} says nothing");
        }
        assert_eq!(said("run.ended"), "done");
        let result = serde_json::json!({"content": r#"{"status":"ok","summary":"Written."}"#});
        assert_eq!(describe("tool.finished", &result), "Written.");
        assert_eq!(describe("tool.finished", &serde_json::json!({"content": "{ no JSON"})), "{ no JSON");
        let usage = serde_json::json!({"input_tokens": 2_000, "output_tokens": 300});
        assert_eq!(describe("model.called", &serde_json::json!({"model": "a/b", "usage": usage})), "a/b, 2.3k tokens");
        assert!(said("document.versioned").contains(" version "));
    }

    #[test]
    fn bars_end_where_their_event_stands() {
        assert_eq!(span(0, 10_000_000, 5_000_000, 2_000), ("30.00%".to_owned(), "20.00%".to_owned()));
        assert_eq!(span(0, 0, 0, 0), ("0.00%".to_owned(), "0.50%".to_owned()));
    }
}

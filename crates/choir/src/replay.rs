//! `choir replay`: a run once more, from the log or from a saved transcript, without asking any model.

use crate::cli::Replay;
use crate::{instance, output};
use anyhow::Context;
use choir_core::replay::{Divergence, Replayed, replay};
use choir_llm::{REDACTED, redact};
use choir_proto::event::Header;
use choir_proto::{Envelope, Event, Seq, api};
use serde_json::{Map, Value};
use std::path::Path;
use std::process::ExitCode;

/// Events in one page.
const PAGE: usize = 500;

/// A transcript of this size is not one.
const TRANSCRIPT_BYTES_MAX: u64 = 1 << 30;

/// What a run says when it leads elsewhere.
const DIVERGED: u8 = 3;

pub(crate) async fn run(arguments: Replay) -> anyhow::Result<ExitCode> {
    let lines = match &arguments.from {
        Some(path) => read(path)?,
        None => fetch(&arguments).await?,
    };
    let events = lines.iter().map(decode).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &arguments.save {
        save(path, lines)?;
    }
    // The log has everything as it was; only what was saved of it is cleaned.
    let is_cleaned = arguments.from.is_some();
    let replayed = replay(&events, |text| is_cleaned && text.contains(REDACTED));
    let is_whole = events.iter().any(|(_, event)| matches!(event, Event::RunEnded(_)));
    tell(&replayed, is_whole, arguments.json)?;
    Ok(if replayed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(DIVERGED) })
}

/// The events of a run from a running instance.
async fn fetch(arguments: &Replay) -> anyhow::Result<Vec<Value>> {
    let run = arguments.run.as_deref().context("a run or a transcript has to be named")?;
    let client = instance::connect(&arguments.reach).await?;
    let mut events = Vec::new();
    let mut after = Seq::ZERO;
    loop {
        let path = format!("/api/events?run={run}&after={after}&limit={PAGE}");
        let page: api::Events = client.get(&path).await?;
        let Some(last) = page.events.last() else { break };
        after = last.header.seq;
        for event in &page.events {
            events.push(serde_json::to_value(event)?);
        }
    }
    anyhow::ensure!(!events.is_empty(), "the log has no run {run}");
    Ok(events)
}

fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let told = || format!("the transcript {} cannot be read", path.display());
    let size = std::fs::metadata(path).with_context(told)?.len();
    anyhow::ensure!(size <= TRANSCRIPT_BYTES_MAX, "{} is too long for a transcript", path.display());
    let text = std::fs::read_to_string(path).with_context(told)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("line {} of the transcript is no event", index + 1))
        })
        .collect()
}

fn save(path: &Path, lines: Vec<Value>) -> anyhow::Result<()> {
    let text: String = lines.into_iter().map(|line| format!("{}\n", clean(line))).collect();
    std::fs::write(path, text).with_context(|| format!("the transcript cannot be written to {}", path.display()))
}

/// Fields of events that hold names of effects and hashes, which look like keys and are none.
const NAMES: [&str; 15] = [
    "base_ref",
    "base_tree",
    "blob",
    "blobs",
    "content_hash",
    "definition",
    "effect_id",
    "hash",
    "log",
    "merged_tree",
    "output",
    "over_tree",
    "result_tree",
    "source",
    "state",
];

/// Fields in which others name things as they like.
const FOREIGN: [&str; 2] = ["arguments", "input_schema"];

/// Digits of a name of an effect, and of a hash.
const NAME_DIGITS: [usize; 2] = [32, 64];

/// An event without anything that looks like a key. The envelope has names and hashes, which look like keys and are none.
fn clean(mut event: Value) -> Value {
    if let Some(payload) = event.get_mut("payload") {
        clean_value(payload, Holds::Anything);
    }
    event
}

/// What is known of a value from where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Anything,
    /// A name, if it looks like one.
    Name,
    /// Whatever somebody else said, under names that mean nothing here.
    Foreign,
}

fn clean_value(value: &mut Value, holds: Holds) {
    match value {
        Value::String(text) if holds == Holds::Name && is_name(text) => {}
        Value::String(text) => *text = redact(text),
        Value::Array(values) => values.iter_mut().for_each(|value| clean_value(value, holds)),
        Value::Object(fields) => clean_fields(fields, holds),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn clean_fields(fields: &mut Map<String, Value>, holds: Holds) {
    // The text of a source is kept by its hash; every other text is one.
    let is_source = fields.contains_key("artifact_id");
    for (name, value) in fields {
        let held = match name.as_str() {
            _ if holds == Holds::Foreign => Holds::Foreign,
            name if FOREIGN.contains(&name) => Holds::Foreign,
            name if NAMES.contains(&name) || is_source && name == "text" => Holds::Name,
            _ => Holds::Anything,
        };
        clean_value(value, held);
    }
}

fn is_name(text: &str) -> bool {
    NAME_DIGITS.contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn decode(line: &Value) -> anyhow::Result<(Header, Event)> {
    let envelope: Envelope = serde_json::from_str(&line.to_string()).context("this is no event")?;
    let event = envelope.event()?;
    Ok((envelope.header, event))
}

fn tell(replayed: &Result<Replayed, Divergence>, is_whole: bool, json: bool) -> anyhow::Result<()> {
    match replayed {
        Ok(Replayed { agents, turns, calls }) if json => output::json(&serde_json::json!({
            "diverged": null, "whole": is_whole, "agents": agents, "turns": turns, "calls": calls, "model_calls": 0,
        })),
        Ok(Replayed { agents, turns, calls }) => {
            let how_far = if is_whole { "" } else { ", as far as it goes: it ends before the run does" };
            Ok(output::line(format!(
                "the same again{how_far}: {agents} agents, {turns} answers and {calls} tool calls from the log, 0 model calls"
            ))?)
        }
        Err(divergence) if json => output::json(&serde_json::json!({
            "diverged": {"seq": divergence.seq, "task": divergence.task, "logged": divergence.logged, "now": divergence.now},
            "whole": is_whole, "model_calls": 0,
        })),
        Err(divergence) => Ok(output::line(format!("it leads elsewhere at {divergence}"))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_no_name_because_it_looks_like_one() {
        let (hex, uuid) = ("0123456789abcdef".repeat(4), "01a1ec65-4cc2-7bb9-b488-95eca436a878");
        let event = json!({"hash": hex, "payload": {
            "effect_id": &hex[..32], "task_id": uuid, "result": {"base_tree": hex, "commands": [{"log": hex}]},
            "artifact_id": uuid, "text": hex, "message": {"text": hex, "said": format!("it is {hex}")},
            "arguments": {"hash": hex, "output": &hex[..32]}, "content": &hex[..32],
        }});
        let cleaned = clean(event);
        let expected = json!({"hash": hex, "payload": {
            "effect_id": &hex[..32], "task_id": uuid, "result": {"base_tree": hex, "commands": [{"log": hex}]},
            "artifact_id": uuid, "text": hex, "message": {"text": REDACTED, "said": format!("it is {REDACTED}")},
            "arguments": {"hash": REDACTED, "output": REDACTED}, "content": REDACTED,
        }});
        assert_eq!(cleaned, expected);
    }
}

//! From the text of a scenario file to a checked scenario: what was said first, then what it means.

use super::{Act, Arguments, Call, Failure, Reply, Scenario, Turn, When, fill};
use choir_proto::Role;
use choir_proto::model::{ErrorClass, ModelError, StopReason, Usage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest scenario file.
pub const SCENARIO_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most turns in a file; a thousand-step run of every role fits.
pub const TURNS_MAX: usize = 10_000;

/// Most pieces that a text is streamed in.
const CHUNKS_MAX: usize = 10_000;

/// Why a scenario file cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Longer than [`SCENARIO_BYTES_MAX`].
    #[error("the scenario is longer than {SCENARIO_BYTES_MAX} bytes")]
    Long,
    /// Not JSON at all.
    #[error("the scenario is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON that means nothing.
    #[error("the scenario is wrong at {place}: {problem}")]
    Meaning {
        /// For example `roles.terminal[2]`.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

pub(super) fn scenario(json: &str) -> Result<Scenario, ScenarioError> {
    if json.len() > SCENARIO_BYTES_MAX {
        return Err(ScenarioError::Long);
    }
    let file: Map<String, Value> = read("the top", serde_json::from_str(json)?)?;
    let acts = match file.get("scenarios") {
        Some(_) => several(file)?,
        None => vec![act("", Value::Object(file))?],
    };
    let turns: usize = acts.iter().map(|act| act.turns.len()).sum();
    if turns > TURNS_MAX {
        return Err(wrong("the top", format!("{turns} turns are more than {TURNS_MAX}")));
    }
    Ok(Scenario { acts })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidFile {
    scenarios: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidAct {
    when_prompt_contains: Option<String>,
    #[serde(default)]
    turns: Vec<Value>,
    #[serde(default)]
    roles: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidTurn {
    #[serde(default)]
    when: SaidWhen,
    answer: Value,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct SaidWhen {
    role: Option<Role>,
    turn: Option<u32>,
    contains: Option<String>,
    prompt_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidReply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
    chunks: Option<usize>,
    #[serde(default)]
    early: bool,
    #[serde(default)]
    tool_calls: Vec<Value>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    error: Option<SaidFailure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidCall {
    name: String,
    id: Option<String>,
    arguments: Option<Map<String, Value>>,
    arguments_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidFailure {
    class: ErrorClass,
    message: Option<String>,
    retry_after_ms: Option<u64>,
    times: Option<u32>,
}

fn several(file: Map<String, Value>) -> Result<Vec<Act>, ScenarioError> {
    let file: SaidFile = read("the top", Value::Object(file))?;
    if file.scenarios.is_empty() {
        return Err(wrong("scenarios", "it is empty"));
    }
    file.scenarios.into_iter().enumerate().map(|(index, said)| act(&format!("scenarios[{index}]."), said)).collect()
}

/// `prefix` is how places within this scenario begin.
fn act(prefix: &str, said: Value) -> Result<Act, ScenarioError> {
    let place = if prefix.is_empty() { "the top" } else { prefix.trim_end_matches('.') };
    let said: SaidAct = read(place, said)?;
    not_empty(place, "when_prompt_contains", said.when_prompt_contains.as_deref())?;
    let mut turns = listed(&format!("{prefix}turns"), said.turns)?;
    for (name, replies) in said.roles {
        turns.extend(linear(&format!("{prefix}roles.{name}"), &name, replies)?);
    }
    if turns.is_empty() {
        return Err(wrong(place, "it has neither `turns` nor `roles` with an answer"));
    }
    Ok(Act { prompt_contains: said.when_prompt_contains, turns })
}

fn listed(place: &str, said: Vec<Value>) -> Result<Vec<Turn>, ScenarioError> {
    let mut numbered: BTreeMap<Option<Role>, u32> = BTreeMap::new();
    let mut turns = Vec::with_capacity(said.len());
    for (index, said) in said.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        let said: SaidTurn = read(&place, said)?;
        let mut when = condition(&format!("{place}.when"), said.when)?;
        if when.turn.is_none() && when.contains.is_none() && when.prompt_contains.is_none() {
            let number = numbered.entry(when.role).or_insert(0);
            *number += 1;
            when.turn = Some(*number);
        }
        turns.push(Turn { when, reply: reply(&format!("{place}.answer"), said.answer)?, place });
    }
    Ok(turns)
}

fn condition(place: &str, said: SaidWhen) -> Result<When, ScenarioError> {
    not_empty(place, "contains", said.contains.as_deref())?;
    not_empty(place, "prompt_contains", said.prompt_contains.as_deref())?;
    if said.turn == Some(0) {
        return Err(wrong(place, "`turn` counts from 1"));
    }
    Ok(When { role: said.role, turn: said.turn, contains: said.contains, prompt_contains: said.prompt_contains })
}

fn linear(place: &str, role: &str, replies: Vec<Value>) -> Result<Vec<Turn>, ScenarioError> {
    let role: Role = read(place, Value::String(role.to_owned()))?;
    let turn = |(index, said): (usize, Value)| {
        let place = format!("{place}[{index}]");
        let number = u32::try_from(index + 1).map_err(|_| wrong(&place, "it is too far down"))?;
        let when = When { role: Some(role), turn: Some(number), ..When::default() };
        Ok(Turn { when, reply: reply(&place, said)?, place })
    };
    replies.into_iter().enumerate().map(turn).collect()
}

fn reply(place: &str, said: Value) -> Result<Reply, ScenarioError> {
    let said: SaidReply = read(place, said)?;
    let chunks = said.chunks.unwrap_or(1);
    if !(1..=CHUNKS_MAX).contains(&chunks) {
        return Err(wrong(place, format!("`chunks` is from 1 to {CHUNKS_MAX}")));
    }
    let says_nothing = said.text.is_empty() && said.reasoning.is_empty() && said.tool_calls.is_empty();
    let fails_always = said.error.as_ref().is_some_and(|error| error.times.is_none());
    if says_nothing && !fails_always {
        return Err(wrong(place, "an answer needs `text`, `reasoning`, `tool_calls` or an `error` without `times`"));
    }
    known_placeholders(place, &said.text)?;
    known_placeholders(place, &said.reasoning)?;
    let numbered = |(index, said)| call(&format!("{place}.tool_calls[{index}]"), said);
    let calls: Vec<Call> = said.tool_calls.into_iter().enumerate().map(numbered).collect::<Result<_, _>>()?;
    let natural_stop = if calls.is_empty() { StopReason::Finished } else { StopReason::ToolUse };
    Ok(Reply {
        text: said.text,
        reasoning: said.reasoning,
        chunks,
        early: said.early,
        calls,
        usage: said.usage.unwrap_or_default(),
        stop: said.stop.unwrap_or(natural_stop),
        failure: said.error.map(failure),
    })
}

fn call(place: &str, said: Value) -> Result<Call, ScenarioError> {
    let said: SaidCall = read(place, said)?;
    not_empty(place, "name", Some(&said.name))?;
    let arguments = match (said.arguments, said.arguments_text) {
        (Some(_), Some(_)) => return Err(wrong(place, "it has both `arguments` and `arguments_text`")),
        (None, Some(text)) => Arguments::Text(text),
        (arguments, None) => Arguments::Json(Value::Object(arguments.unwrap_or_default())),
    };
    if let Arguments::Json(value) = &arguments {
        strings(value, &mut |string| known_placeholders(place, string))?;
    }
    Ok(Call { id: said.id, name: said.name, arguments })
}

fn failure(said: SaidFailure) -> Failure {
    let message = said.message.unwrap_or_else(|| "the scenario fails here".to_owned());
    let error = ModelError { class: said.class, message, retry_after_ms: said.retry_after_ms };
    Failure { error, times: said.times }
}

fn known_placeholders(place: &str, text: &str) -> Result<(), ScenarioError> {
    match fill::unknown(text) {
        Some(path) => Err(wrong(place, format!("{{{{{path}}}}} is no placeholder"))),
        None => Ok(()),
    }
}

fn strings(value: &Value, check: &mut impl FnMut(&str) -> Result<(), ScenarioError>) -> Result<(), ScenarioError> {
    match value {
        Value::String(string) => check(string),
        Value::Array(items) => items.iter().try_for_each(|item| strings(item, check)),
        Value::Object(fields) => fields.values().try_for_each(|field| strings(field, check)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn not_empty(place: &str, field: &str, text: Option<&str>) -> Result<(), ScenarioError> {
    match text {
        Some("") => Err(wrong(place, format!("`{field}` is empty"))),
        Some(_) | None => Ok(()),
    }
}

fn read<T: DeserializeOwned>(place: &str, said: Value) -> Result<T, ScenarioError> {
    serde_json::from_value(said).map_err(|error| wrong(place, error.to_string()))
}

fn wrong(place: &str, problem: impl Into<String>) -> ScenarioError {
    ScenarioError::Meaning { place: place.to_owned(), problem: problem.into() }
}

//! A provider without a model: it answers from a scenario file. Tests and the tour are played by it.
//!
//! The answer is a pure function of scenario and request. Nothing is remembered between calls: how far a task has come is
//! read off its conversation, which holds one assistant message for every earlier answer. A computer that was killed and
//! resumes therefore gets exactly the answer that it would have got.
//!
//! # The file
//!
//! JSON. The short form gives each role its answers in order; answer *k* is for a conversation with *k* − 1 assistant
//! messages:
//!
//! ```json
#![doc = include_str!("example.json")]
//! ```
//!
//! **An answer** has any of these, and at least one of `text`, `reasoning`, `tool_calls`, `error`:
//!
//! | field | meaning |
//! |---|---|
//! | `text`, `reasoning` | what is said, and what is thought |
//! | `early` | whether it is said while workers are still at work, after the first result; else the model waits for all |
//! | `chunks` | in how many pieces the text, and the arguments of each call, are streamed; 1 if absent |
//! | `tool_calls` | list of `name` and `arguments` (an object; `{}` if absent); `arguments_text` instead of `arguments` is text that is no JSON; `id` if a test needs a certain one |
//! | `usage` | `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_write_tokens`, `usd`; zero if absent |
//! | `stop` | `finished`, `tool_use`, `length`, `budget`, `refused`; by default `tool_use` if there are calls, else `finished` |
//! | `error` | `class` (as in [`ErrorClass`], for example `rate_limit`), `message`, `retry_after_ms`, `times` |
//!
//! With an `error` the text is streamed and then the call fails. With `times` the first so many attempts fail with nothing
//! said, and then the rest of the answer is given; only a caller that counts attempts, through
//! [`Scenario::answer_after`], ever gets past them.
//!
//! **Conditions.** `turns` is a list of `{"when": …, "answer": …}`, looked at from top to bottom before `roles`. All parts
//! of a `when` must hold:
//!
//! | field | holds when |
//! |---|---|
//! | `role` | the request is that role's |
//! | `turn` | it is the nth call of its task, counted from 1 |
//! | `contains` | the newest message from person or tools contains this text |
//! | `prompt_contains` | the task's first message contains this text |
//!
//! A turn with neither `turn`, `contains` nor `prompt_contains` is numbered by its place among such turns of the same
//! role (or of no role), so that a plain list of turns plays in order.
//!
//! **Several scenarios in one file**: `{"scenarios": [{"when_prompt_contains": "rounding", "roles": …}, …]}`. The first one whose
//! `when_prompt_contains` occurs in the task's first message (or that has none) and that has a turn for the role at all is
//! played.
//!
//! **Placeholders** in `text`, `reasoning` and in the strings of `arguments` are filled from the conversation:
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{{prompt}}` | the text of the task's first message |
//! | `{{turn}}` | which call of the task this is |
//! | `{{last_message}}` | the text of the newest message from person or tools |
//! | `{{last_result}}` | the newest tool result |
//! | `{{results}}` | all tool results, separated by blank lines |
//! | `{{results.2}}` | the second tool result |
//!
//! After a message or a result, `.name` or `.0` reaches into it as JSON: `{{last_result.task.id}}`. What is filled in is never
//! searched for placeholders again. Any other word in double braces is an error; with blanks inside (`{{ name }}`) it is
//! ordinary text.

mod fill;
mod parse;

use crate::assembly::chunked;
use choir_proto::Role;
use choir_proto::model::{
    Answer, AssistantMessage, DATA, Delta, ErrorClass, LATE_RESULT, Message, ModelError, ModelRequest, Part,
    STILL_AT_WORK, StopReason, ToolCall, ToolResult, Usage,
};
use fill::Values;
pub use parse::{SCENARIO_BYTES_MAX, ScenarioError, TURNS_MAX};
use serde_json::Value;
use std::collections::BTreeMap;

/// The model's name in answers when the request names none.
const MODEL: &str = "scripted/scenario";

/// A checked scenario file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    acts: Vec<Act>,
}

/// One answer as it is to be played: pieces first, then how it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// In the order of streaming.
    pub deltas: Vec<Delta>,
    /// The whole answer, or the failure that cuts it off.
    pub result: Result<Answer, ModelError>,
}

impl Scenario {
    /// Reads a scenario file. The error names the place in it.
    pub fn parse(json: &str) -> Result<Self, ScenarioError> {
        parse::scenario(json)
    }

    /// What the scenario says to a request; an error when it has nothing to say to it.
    pub fn answer(&self, request: &ModelRequest) -> Result<Script, ModelError> {
        self.answer_after(request, 0)
    }

    /// As [`Scenario::answer`], for a request that has already failed some times in a row.
    pub fn answer_after(&self, request: &ModelRequest, failures: u32) -> Result<Script, ModelError> {
        let scene = Scene::of(request);
        let turn = self.turn(&scene);
        if scene.is_early && !turn.as_ref().is_ok_and(|turn| turn.reply.early) {
            return Ok(waiting(&scene));
        }
        play(turn?, &scene, failures)
    }

    fn turn(&self, scene: &Scene<'_>) -> Result<&Turn, ModelError> {
        let act = self.acts.iter().find(|act| act.plays(scene)).ok_or_else(|| {
            wrong(format!("the scenario has nothing for the role {} and this prompt", scene.role.name()))
        })?;
        act.turns.iter().find(|turn| turn.when.holds(scene)).ok_or_else(|| {
            wrong(format!("the scenario has no turn for call {} of the role {}", scene.turn, scene.role.name()))
        })
    }
}

/// One scenario of a file.
#[derive(Debug, Clone, PartialEq)]
struct Act {
    prompt_contains: Option<String>,
    turns: Vec<Turn>,
}

impl Act {
    fn plays(&self, scene: &Scene<'_>) -> bool {
        let prompt_fits = self.prompt_contains.as_ref().is_none_or(|part| scene.prompt.contains(part));
        prompt_fits && self.turns.iter().any(|turn| turn.when.role.is_none_or(|role| role == scene.role))
    }
}

/// An answer and when it is given.
#[derive(Debug, Clone, PartialEq)]
struct Turn {
    when: When,
    reply: Reply,
    /// Where it stands in the file, for messages.
    place: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct When {
    role: Option<Role>,
    turn: Option<u32>,
    contains: Option<String>,
    prompt_contains: Option<String>,
}

impl When {
    fn holds(&self, scene: &Scene<'_>) -> bool {
        self.role.is_none_or(|role| role == scene.role)
            && self.turn.is_none_or(|turn| turn == scene.turn)
            && self.contains.as_ref().is_none_or(|part| scene.newest.contains(part))
            && self.prompt_contains.as_ref().is_none_or(|part| scene.prompt.contains(part))
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Reply {
    text: String,
    reasoning: String,
    chunks: usize,
    /// Whether it is said while others are still at work.
    early: bool,
    calls: Vec<Call>,
    usage: Usage,
    stop: StopReason,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq)]
struct Call {
    id: Option<String>,
    name: String,
    arguments: Arguments,
}

#[derive(Debug, Clone, PartialEq)]
enum Arguments {
    Json(Value),
    /// To be found malformed by whoever receives it.
    Text(String),
}

#[derive(Debug, Clone, PartialEq)]
struct Failure {
    error: ModelError,
    /// Nothing: always.
    times: Option<u32>,
}

/// What of a request decides the answer.
struct Scene<'a> {
    role: Role,
    turn: u32,
    prompt: String,
    newest: String,
    results: Vec<&'a str>,
    model: &'a str,
    /// Whether some results are still to come.
    is_early: bool,
}

impl<'a> Scene<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let spoken = |message: &&Message| matches!(message, Message::Assistant(said) if said.text != WAITING);
        let answered = request.messages.iter().filter(spoken).count();
        let incoming = |message: &&Message| !matches!(message, Message::Assistant(_));
        let late: BTreeMap<&str, &str> = request.messages.iter().filter_map(late).collect();
        let results = request.messages.iter().flat_map(results).map(|result| match late.get(result.call_id.as_str()) {
            Some(content) if result.content == STILL_AT_WORK => content,
            _ => result.content.as_str(),
        });
        let results: Vec<&str> = results.collect();
        Self {
            role: request.role,
            turn: u32::try_from(answered).unwrap_or(u32::MAX).saturating_add(1),
            prompt: request.messages.iter().find(|m| matches!(m, Message::User { .. })).map(words).unwrap_or_default(),
            newest: request.messages.iter().rfind(incoming).map(words).unwrap_or_default(),
            is_early: results.contains(&STILL_AT_WORK),
            results,
            model: request.model.as_deref().unwrap_or(MODEL),
        }
    }
}

/// The text of a message from outside, its pieces on separate lines.
fn words(message: &Message) -> String {
    let pieces: Vec<&str> = match message {
        Message::User { parts } => parts.iter().filter_map(text_part).collect(),
        Message::Tools { results } => results.iter().map(|result| result.content.as_str()).collect(),
        Message::Assistant(message) => vec![message.text.as_str()],
    };
    pieces.join("\n")
}

fn text_part(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Image { .. } => None,
    }
}

fn results(message: &Message) -> &[ToolResult] {
    match message {
        Message::Tools { results } => results,
        Message::User { .. } | Message::Assistant(_) => &[],
    }
}

/// A result that was told after its turn: the call's id, and what came of it.
fn late(message: &Message) -> Option<(&str, &str)> {
    let Message::User { parts } = message else { return None };
    let (call, content) = parts.iter().find_map(text_part)?.strip_prefix(LATE_RESULT)?.split_once(": ")?;
    let within = content.split_once('\n').and_then(|(_, data)| data.strip_prefix(DATA.0)?.strip_suffix(DATA.1));
    Some((call, within.map_or(content, str::trim_ascii)))
}

/// What a scenario says while results are still to come, unless its next answer is an early one. It is no turn of it.
const WAITING: &str = "Waiting for the others.";

fn waiting(scene: &Scene<'_>) -> Script {
    let message = AssistantMessage { text: WAITING.to_owned(), ..AssistantMessage::default() };
    let (stop, usage, model) = (StopReason::Finished, Usage::default(), scene.model.to_owned());
    Script { deltas: Vec::new(), result: Ok(Answer { message, stop, usage, model, window: None, free: None }) }
}

fn play(turn: &Turn, scene: &Scene<'_>, failures: u32) -> Result<Script, ModelError> {
    let reply = &turn.reply;
    let failure = reply.failure.as_ref().filter(|failure| failure.times.is_none_or(|times| failures < times));
    if let Some(Failure { error, times: Some(_) }) = failure {
        return Ok(Script { deltas: Vec::new(), result: Err(error.clone()) });
    }
    let values = Values { prompt: &scene.prompt, newest: &scene.newest, turn: scene.turn, results: &scene.results };
    let message = spoken(reply, scene, &values).map_err(|problem| wrong(format!("{}: {problem}", turn.place)))?;
    let deltas = deltas(&message, reply.chunks);
    let result = match failure {
        Some(failure) => Err(failure.error.clone()),
        None => Ok(Answer {
            message,
            stop: reply.stop,
            usage: reply.usage,
            model: scene.model.to_owned(),
            window: None,
            free: None,
        }),
    };
    Ok(Script { deltas, result })
}

fn spoken(reply: &Reply, scene: &Scene<'_>, values: &Values<'_>) -> Result<AssistantMessage, fill::Problem> {
    let call = |(index, call): (usize, &Call)| -> Result<ToolCall, fill::Problem> {
        // Unique in the whole conversation, and the same after every restart.
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", scene.turn));
        let (arguments, malformed) = match &call.arguments {
            Arguments::Json(value) => (fill::value(value, values)?, None),
            Arguments::Text(text) => (Value::Null, Some(text.clone())),
        };
        Ok(ToolCall { id, name: call.name.clone(), arguments, malformed })
    };
    Ok(AssistantMessage {
        text: fill::text(&reply.text, values)?,
        reasoning: fill::text(&reply.reasoning, values)?,
        reasoning_signature: String::new(),
        tool_calls: reply.calls.iter().enumerate().map(call).collect::<Result<_, _>>()?,
    })
}

fn deltas(message: &AssistantMessage, chunks: usize) -> Vec<Delta> {
    let mut deltas = Vec::new();
    if !message.reasoning.is_empty() {
        deltas.push(Delta::Reasoning { text: message.reasoning.clone() });
    }
    let piece_chars = message.text.chars().count().div_ceil(chunks);
    deltas.extend(chunked(&message.text, piece_chars).map(|text| Delta::Text { text: text.to_owned() }));
    for (index, call) in (0..).zip(&message.tool_calls) {
        deltas.push(Delta::ToolCall { index, id: call.id.clone(), name: call.name.clone() });
        let fragment = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
        let piece_chars = fragment.chars().count().div_ceil(chunks);
        deltas.extend(
            chunked(&fragment, piece_chars).map(|piece| Delta::Arguments { index, fragment: piece.to_owned() }),
        );
    }
    deltas
}

/// The scenario and the request do not fit, and a retry would not change that.
fn wrong(message: String) -> ModelError {
    ModelError { class: ErrorClass::BadRequest, message, retry_after_ms: None }
}

#[cfg(test)]
mod tests;

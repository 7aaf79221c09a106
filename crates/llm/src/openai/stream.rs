//! The events of an answer by OpenAI or by a server like it.

use super::DONE;
use super::tags::{Said, Tags};
use crate::assembly::{Assembly, if_sensible};
use crate::classify::{failure_in, fault};
use crate::decode::{Progress, read_event};
use choir_proto::model::{ErrorClass, ModelError, StopReason, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What has to be remembered between two events.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) begun: bool,
    pub(crate) ended: bool,
    /// Call positions by the server's index; the two differ when a server gives every call the same one.
    calls: Vec<(u64, usize)>,
    tags: Tags,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "if_sensible")]
    usage: Option<Spent>,
}

#[derive(Deserialize)]
struct Choice {
    /// Streamed.
    delta: Option<Piece>,
    /// Not streamed.
    message: Option<Piece>,
    finish_reason: Option<String>,
    /// Moonshot puts it here.
    #[serde(default, deserialize_with = "if_sensible")]
    usage: Option<Spent>,
}

#[derive(Deserialize, Default)]
struct Piece {
    #[serde(default, deserialize_with = "words")]
    content: String,
    #[serde(default, deserialize_with = "or_default")]
    refusal: String,
    #[serde(default, deserialize_with = "or_default")]
    reasoning_content: String,
    #[serde(default, deserialize_with = "or_default")]
    reasoning: String,
    #[serde(default, deserialize_with = "or_default")]
    tool_calls: Vec<CallPiece>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    function: Function,
}

#[derive(Deserialize, Default)]
struct Function {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "json_text")]
    arguments: String,
}

#[derive(Deserialize, Default)]
struct Spent {
    #[serde(default, deserialize_with = "or_default")]
    prompt_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
    /// Moonshot.
    cached_tokens: Option<u64>,
    /// DeepSeek.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    /// OpenRouter, for models with a cache that must be written.
    cache_write_tokens: Option<u64>,
}

impl Stream {
    pub(crate) fn event(&mut self, data: &str, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        if data.trim() == DONE {
            self.ended |= self.begun;
            return Ok(Progress::Done);
        }
        let value: Value = read_event(data)?;
        self.whole(&value, assembly)?;
        Ok(Progress::More)
    }

    /// One event, or an answer that came as one document: they differ in one name only.
    pub(crate) fn whole(&mut self, body: &Value, assembly: &mut Assembly) -> Result<(), ModelError> {
        if let Some(error) = failure_in(body) {
            return Err(error);
        }
        let chunk = Chunk::deserialize(body).map_err(|_| {
            fault(ErrorClass::Garbage, &format!("the provider sent something that makes no sense: {body}"))
        })?;
        self.begun = true;
        spend(chunk.usage, assembly);
        // Only one answer was asked for.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(()) };
        self.ended |= choice.message.is_some();
        if let Some(piece) = choice.delta.or(choice.message) {
            self.extend(piece, assembly)?;
        }
        spend(choice.usage, assembly);
        self.stop(choice.finish_reason.as_deref(), assembly)
    }

    /// After the last event of an answer that came to its end.
    pub(crate) fn end(&mut self, assembly: &mut Assembly) -> Result<(), ModelError> {
        match self.tags.finish() {
            Some(said) => say(said, assembly),
            None => Ok(()),
        }
    }

    fn extend(&mut self, piece: Piece, assembly: &mut Assembly) -> Result<(), ModelError> {
        let reasoning = if piece.reasoning_content.is_empty() { &piece.reasoning } else { &piece.reasoning_content };
        assembly.reasoning(reasoning)?;
        if !piece.content.is_empty() {
            self.tags.push(&piece.content).into_iter().try_for_each(|said| say(said, assembly))?;
        }
        if !piece.refusal.is_empty() {
            assembly.text(&piece.refusal)?;
            assembly.stop = Some(StopReason::Refused);
        }
        piece.tool_calls.iter().try_for_each(|call| self.call(call, assembly))
    }

    fn call(&mut self, piece: &CallPiece, assembly: &mut Assembly) -> Result<(), ModelError> {
        let known = self.find(piece, assembly);
        let index = match known {
            Some(index) => {
                assembly.name_call(index, &piece.id, &piece.function.name)?;
                index
            }
            None => {
                let index = assembly.call(&piece.id, &piece.function.name)?;
                self.calls.push((piece.index.unwrap_or(index as u64), index));
                index
            }
        };
        assembly.arguments(index, &piece.function.arguments)
    }

    /// The call that a piece continues. Servers that number all calls alike, or not at all, still give each its own id.
    fn find(&self, piece: &CallPiece, assembly: &Assembly) -> Option<usize> {
        let same_index = |(index, _): &&(u64, usize)| piece.index.is_none_or(|wanted| *index == wanted);
        let (_, call) = self.calls.iter().rfind(same_index)?;
        let id = assembly.call_id(*call).unwrap_or_default();
        let other_id = !piece.id.is_empty() && !id.is_empty() && piece.id != id;
        let unnumbered_beginning = piece.index.is_none() && piece.id.is_empty() && !piece.function.name.is_empty();
        (!other_id && !unnumbered_beginning).then_some(*call)
    }

    fn stop(&mut self, reason: Option<&str>, assembly: &mut Assembly) -> Result<(), ModelError> {
        let Some(reason) = reason.filter(|reason| !reason.is_empty()) else { return Ok(()) };
        self.ended = true;
        let stop = match reason {
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::Length,
            "content_filter" | "sensitive" => StopReason::Refused,
            "error" | "network_error" => {
                return Err(fault(ErrorClass::Overloaded, "the provider failed while answering"));
            }
            _ => StopReason::Finished,
        };
        // A refusal in words ends with an ordinary reason.
        if assembly.stop != Some(StopReason::Refused) {
            assembly.stop = Some(stop);
        }
        Ok(())
    }
}

fn say(said: Said, assembly: &mut Assembly) -> Result<(), ModelError> {
    match said {
        Said::Reasoning(piece) => assembly.reasoning(&piece),
        Said::Text(piece) => assembly.text(&piece),
    }
}

/// Every report is a total; the last one holds. Cached tokens are part of the prompt's here.
fn spend(spent: Option<Spent>, assembly: &mut Assembly) {
    let Some(spent) = spent else { return };
    let details = spent.prompt_tokens_details.as_ref();
    let cached = details.and_then(|details| details.cached_tokens).or(spent.cached_tokens);
    let cached = cached.or(spent.prompt_cache_hit_tokens).unwrap_or(0);
    let written = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
    assembly.usage = Usage {
        input_tokens: spent.prompt_tokens.saturating_sub(cached).saturating_sub(written),
        output_tokens: spent.completion_tokens,
        cache_read_tokens: cached,
        cache_write_tokens: written,
        ..assembly.usage
    };
}

/// `null` means the same as nothing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Text, or a list of parts of which the texts count.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    })
}

/// Arguments as text; some servers send the object itself.
fn json_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

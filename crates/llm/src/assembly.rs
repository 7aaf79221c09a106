//! An answer while it is being put together, the same for every format.

use crate::arguments::{self, ARGUMENTS_BYTES_MAX};
use crate::classify::fault;
use choir_proto::model::{Answer, AssistantMessage, Delta, ErrorClass, ModelError, StopReason, ToolCall, Usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Most text, reasoning and arguments of one answer together. The longest windows of today write a tenth of it.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most tool calls in one answer; a model that wants more is looping.
pub const TOOL_CALLS_MAX: usize = 128;

/// Longest tool name or call id.
pub const NAME_BYTES_MAX: usize = 256;

/// Most tokens of one sort that a provider is believed to have counted for one answer: a hundred times the longest windows.
pub const USAGE_TOKENS_MAX: u64 = 1_000_000_000;

/// What a provider says that an answer took. Whoever counts beyond belief has said nothing, and is guessed at as those are:
/// no budget may be emptied, or turned over, by a number.
fn believed(usage: Usage) -> Usage {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } = usage;
    let counts = [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens];
    if counts.into_iter().all(|count| count <= USAGE_TOKENS_MAX) { usage } else { Usage::default() }
}

/// What is worth an answer only if it makes sense: what an answer took is guessed at rather than asked for once more, and paid twice.
pub(crate) fn if_sensible<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// What has arrived of an answer, and the pieces that nobody has fetched yet.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    text: String,
    reasoning: String,
    calls: Vec<PartialCall>,
    bytes: usize,
    deltas: Vec<Delta>,
    /// Set by the format when the reasoning is complete.
    pub(crate) signature: String,
    /// Each format keeps it up to date as reports arrive; the last one holds.
    pub(crate) usage: Usage,
    /// Nothing until the provider said why it stopped.
    pub(crate) stop: Option<StopReason>,
}

/// A call whose arguments still arrive.
#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    /// Whether its beginning went out; it waits for the name.
    announced: bool,
}

impl Assembly {
    pub(crate) fn text(&mut self, piece: &str) -> Result<(), ModelError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.grow(piece)?;
        self.text.push_str(piece);
        self.deltas.push(Delta::Text { text: piece.to_owned() });
        Ok(())
    }

    pub(crate) fn reasoning(&mut self, piece: &str) -> Result<(), ModelError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.grow(piece)?;
        self.reasoning.push_str(piece);
        self.deltas.push(Delta::Reasoning { text: piece.to_owned() });
        Ok(())
    }

    /// Begins a call and gives its position.
    pub(crate) fn call(&mut self, id: &str, name: &str) -> Result<usize, ModelError> {
        let index = self.calls.len();
        if index == TOOL_CALLS_MAX {
            return Err(oversized(&format!("the answer has more than {TOOL_CALLS_MAX} tool calls")));
        }
        self.calls.push(PartialCall::default());
        self.name_call(index, id, name)?;
        Ok(index)
    }

    /// Adds what was not known of a call when it began. What is known already stays: some servers repeat it.
    pub(crate) fn name_call(&mut self, index: usize, id: &str, name: &str) -> Result<(), ModelError> {
        if id.len() > NAME_BYTES_MAX || name.len() > NAME_BYTES_MAX {
            return Err(garbage("a tool call has an endless name or id"));
        }
        let Some(call) = self.calls.get_mut(index) else { return Ok(()) };
        if call.id.is_empty() && !call.announced {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        self.announce(index);
        Ok(())
    }

    pub(crate) fn call_id(&self, index: usize) -> Option<&str> {
        self.calls.get(index).map(|call| call.id.as_str())
    }

    pub(crate) fn arguments(&mut self, index: usize, fragment: &str) -> Result<(), ModelError> {
        if fragment.is_empty() {
            return Ok(());
        }
        self.grow(fragment)?;
        let Some(call) = self.calls.get_mut(index) else { return Ok(()) };
        if call.arguments.len() + fragment.len() > ARGUMENTS_BYTES_MAX {
            return Err(oversized(&format!("the arguments of a tool call exceed {ARGUMENTS_BYTES_MAX} bytes")));
        }
        call.arguments.push_str(fragment);
        if call.announced {
            self.deltas.push(Delta::Arguments { index: position(index), fragment: fragment.to_owned() });
        }
        Ok(())
    }

    /// What arrived since the last time.
    pub(crate) fn take_deltas(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas)
    }

    /// The whole answer. The caller has made sure that the stream came to its end.
    pub(crate) fn finish(mut self, model: String) -> Result<Answer, ModelError> {
        let calls = std::mem::take(&mut self.calls);
        let tool_calls = match self.stop {
            Some(StopReason::Finished | StopReason::ToolUse) => whole_calls(calls)?,
            // Cut off by the provider: what is not JSON as it stands is only a part of a call.
            Some(StopReason::Length | StopReason::Budget | StopReason::Refused) => {
                calls.into_iter().filter_map(PartialCall::strict).collect()
            }
            None => unexplained_calls(calls)?,
        };
        let stop = match self.stop {
            Some(cut @ (StopReason::Length | StopReason::Budget | StopReason::Refused)) => cut,
            // Servers disagree on what ends a turn with calls; the calls themselves decide.
            Some(StopReason::Finished | StopReason::ToolUse) | None if tool_calls.is_empty() => StopReason::Finished,
            Some(StopReason::Finished | StopReason::ToolUse) | None => StopReason::ToolUse,
        };
        if stop == StopReason::Finished && self.text.trim().is_empty() {
            return Err(garbage("the model answered with nothing"));
        }
        let message = AssistantMessage {
            text: self.text,
            reasoning: self.reasoning,
            reasoning_signature: self.signature,
            tool_calls,
        };
        Ok(Answer { message, stop, usage: believed(self.usage), model, window: None, free: None })
    }

    pub(crate) fn grow(&mut self, piece: &str) -> Result<(), ModelError> {
        self.bytes += piece.len();
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(oversized(&format!("the answer exceeds {ANSWER_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    fn announce(&mut self, index: usize) {
        let Some(call) = self.calls.get_mut(index) else { return };
        if call.announced || call.name.is_empty() {
            return;
        }
        call.announced = true;
        if call.id.is_empty() {
            call.id = format!("call_{index}");
        }
        let index = position(index);
        self.deltas.push(Delta::ToolCall { index, id: call.id.clone(), name: call.name.clone() });
        if !call.arguments.is_empty() {
            self.deltas.push(Delta::Arguments { index, fragment: call.arguments.clone() });
        }
    }
}

fn whole_calls(calls: Vec<PartialCall>) -> Result<Vec<ToolCall>, ModelError> {
    if calls.iter().any(|call| call.name.is_empty()) {
        return Err(garbage("a tool call has no name"));
    }
    Ok(calls.into_iter().map(PartialCall::lenient).collect())
}

/// Some servers end without a reason, and some proxies end so when the server behind them died: nothing is mended then.
fn unexplained_calls(calls: Vec<PartialCall>) -> Result<Vec<ToolCall>, ModelError> {
    let whole: Option<_> = calls.into_iter().map(PartialCall::strict).collect();
    whole.ok_or_else(|| fault(ErrorClass::Truncated, "the provider's answer broke off in a tool call"))
}

impl PartialCall {
    fn lenient(self) -> ToolCall {
        let (arguments, malformed) = match arguments::parse(&self.arguments) {
            Ok(arguments) => (arguments, None),
            Err(malformed) => (Value::Null, Some(malformed)),
        };
        ToolCall { id: self.id, name: self.name, arguments, malformed }
    }

    fn strict(self) -> Option<ToolCall> {
        let arguments = arguments::parse_strict(&self.arguments)?;
        self.announced.then_some(ToolCall { id: self.id, name: self.name, arguments, malformed: None })
    }
}

/// The number of calls is bounded far below this.
fn position(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn garbage(message: &str) -> ModelError {
    fault(ErrorClass::Garbage, message)
}

fn oversized(message: &str) -> ModelError {
    fault(ErrorClass::Oversized, message)
}

/// A text in pieces of so many characters; nothing for an empty text.
pub(crate) fn chunked(text: &str, chars: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(chars.max(1)).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

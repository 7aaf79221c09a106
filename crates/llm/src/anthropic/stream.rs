//! The events of an answer by Anthropic.

use super::thoughts::{self, Thought};
use crate::assembly::{Assembly, if_sensible};
use crate::classify::{failure_in, fault};
use crate::decode::{Progress, read_event};
use choir_proto::model::{ErrorClass, ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What has to be remembered between two events.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) begun: bool,
    pub(crate) ended: bool,
    /// Open and closed blocks by the provider's index.
    blocks: BTreeMap<u64, Block>,
}

/// A content block. Each is bounded by the answer's own bounds, their number by [`BLOCKS_MAX`].
#[derive(Debug)]
enum Block {
    Text,
    /// Position among the calls, and arguments that came with the beginning and hold if nothing follows.
    Call {
        index: usize,
        whole: String,
        streamed: bool,
    },
    Thought(Thought),
    /// A kind that is newer than this code, or that only concerns the provider's own tools.
    Other,
}

/// Most blocks in an answer.
const BLOCKS_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Content,
    },
    ContentBlockDelta {
        index: u64,
        delta: Piece,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default, deserialize_with = "if_sensible")]
        usage: Option<Spent>,
    },
    MessageStop,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default, deserialize_with = "if_sensible")]
    usage: Option<Spent>,
}

#[derive(Deserialize)]
struct Ending {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Spent {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Whole {
    content: Vec<Content>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "if_sensible")]
    usage: Option<Spent>,
}

impl Stream {
    pub(crate) fn event(&mut self, data: &str, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        let value: Value = read_event(data)?;
        if value.get("type").is_none_or(|kind| kind == "error")
            && let Some(error) = failure_in(&value)
        {
            return Err(error);
        }
        self.begun = true;
        let event = Event::deserialize(&value).map_err(|_| senseless(data))?;
        match event {
            Event::MessageStart { message } => spend(message.usage, assembly),
            Event::ContentBlockStart { index, content_block } => self.open(index, content_block, assembly)?,
            Event::ContentBlockDelta { index, delta } => self.extend(index, delta, assembly)?,
            Event::MessageDelta { delta, usage } => {
                spend(usage, assembly);
                self.stop(delta.stop_reason.as_deref(), assembly);
            }
            Event::MessageStop => {
                self.ended = true;
                return Ok(Progress::Done);
            }
            Event::Other => {}
        }
        Ok(Progress::More)
    }

    /// An answer that came as one document.
    pub(crate) fn whole(&mut self, body: &Value, assembly: &mut Assembly) -> Result<(), ModelError> {
        if let Some(error) = failure_in(body) {
            return Err(error);
        }
        let whole = Whole::deserialize(body).map_err(|_| senseless(&body.to_string()))?;
        for (index, content) in (0..).zip(whole.content) {
            self.open(index, content, assembly)?;
        }
        spend(whole.usage, assembly);
        self.stop(whole.stop_reason.as_deref(), assembly);
        self.ended = true;
        Ok(())
    }

    /// After the last event of an answer that came to its end.
    pub(crate) fn end(&mut self, assembly: &mut Assembly) -> Result<(), ModelError> {
        let mut signed = Vec::new();
        for block in std::mem::take(&mut self.blocks).into_values() {
            match block {
                Block::Call { index, whole, streamed: false } => assembly.arguments(index, &whole)?,
                Block::Thought(Thought::Signed { signature, .. }) if signature.is_empty() => {}
                Block::Thought(thought) => signed.push(thought),
                Block::Call { .. } | Block::Text | Block::Other => {}
            }
        }
        assembly.signature = thoughts::token(&signed);
        Ok(())
    }

    fn open(&mut self, index: u64, content: Content, assembly: &mut Assembly) -> Result<(), ModelError> {
        if self.blocks.len() == BLOCKS_MAX {
            return Err(fault(ErrorClass::Oversized, &format!("the answer has more than {BLOCKS_MAX} blocks")));
        }
        let block = match content {
            Content::Text { text } => {
                assembly.text(&text)?;
                Block::Text
            }
            Content::ToolUse { id, name, input } => Block::call(assembly.call(&id, &name)?, &input),
            Content::Thinking { thinking, signature } => {
                assembly.reasoning(&thinking)?;
                assembly.grow(&signature)?;
                Block::Thought(Thought::Signed { bytes: thinking.len(), signature })
            }
            Content::RedactedThinking { data } => {
                assembly.grow(&data)?;
                Block::Thought(Thought::Redacted { redacted: data })
            }
            Content::Other => Block::Other,
        };
        self.blocks.insert(index, block);
        Ok(())
    }

    fn extend(&mut self, index: u64, piece: Piece, assembly: &mut Assembly) -> Result<(), ModelError> {
        match (self.blocks.get_mut(&index), piece) {
            (Some(Block::Text), Piece::TextDelta { text }) => assembly.text(&text),
            (Some(Block::Call { index, streamed, .. }), Piece::InputJsonDelta { partial_json }) => {
                *streamed |= !partial_json.is_empty();
                assembly.arguments(*index, &partial_json)
            }
            (Some(Block::Thought(Thought::Signed { bytes, .. })), Piece::ThinkingDelta { thinking }) => {
                *bytes += thinking.len();
                assembly.reasoning(&thinking)
            }
            (Some(Block::Thought(Thought::Signed { signature, .. })), Piece::SignatureDelta { signature: more }) => {
                assembly.grow(&more)?;
                signature.push_str(&more);
                Ok(())
            }
            (Some(Block::Other), _) | (Some(_), Piece::Other) => Ok(()),
            (Some(_) | None, _) => {
                Err(fault(ErrorClass::Garbage, "the provider continued a block that it never began"))
            }
        }
    }

    fn stop(&mut self, reason: Option<&str>, assembly: &mut Assembly) {
        let Some(reason) = reason else { return };
        // The end event may be lost behind some proxies; after the reason nothing of the answer follows.
        self.ended = true;
        assembly.stop = Some(match reason {
            "tool_use" => StopReason::ToolUse,
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => StopReason::Refused,
            _ => StopReason::Finished,
        });
    }
}

impl Block {
    /// Arguments stream as pieces, and the beginning carries an empty object. Servers that do not stream put them all
    /// into the beginning.
    fn call(index: usize, input: &Value) -> Self {
        let empty = input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty);
        let whole = if empty { String::new() } else { input.to_string() };
        Self::Call { index, whole, streamed: false }
    }
}

/// Later reports are totals: they replace what was said before, number by number.
fn spend(spent: Option<Spent>, assembly: &mut Assembly) {
    let Some(spent) = spent else { return };
    let old = assembly.usage;
    assembly.usage = Usage {
        input_tokens: spent.input_tokens.unwrap_or(old.input_tokens),
        output_tokens: spent.output_tokens.unwrap_or(old.output_tokens),
        cache_read_tokens: spent.cache_read_input_tokens.unwrap_or(old.cache_read_tokens),
        cache_write_tokens: spent.cache_creation_input_tokens.unwrap_or(old.cache_write_tokens),
        ..old
    };
}

fn senseless(data: &str) -> ModelError {
    fault(ErrorClass::Garbage, &format!("the provider sent something that makes no sense: {data}"))
}

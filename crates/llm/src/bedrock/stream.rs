//! The events of an answer by Bedrock. They are Anthropic's in other words, so that one reader of blocks serves both.

use crate::anthropic;
use crate::assembly::Assembly;
use crate::classify::fault;
use crate::decode::Progress;
use choir_proto::model::{ErrorClass, ModelError};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What has to be remembered between two events.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    blocks: anthropic::stream::Stream,
    /// Blocks that have begun. Text begins with its first piece, without a word before.
    open: BTreeSet<u64>,
    ended: bool,
}

impl Stream {
    pub(crate) fn event(&mut self, event: &Value, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        let Some((name, payload)) = event.as_object().and_then(|event| event.iter().next()) else {
            return Ok(Progress::More);
        };
        match name.as_str() {
            "error" => Err(exception(payload)),
            "contentBlockStart" => self.begin(payload, assembly),
            "contentBlockDelta" => self.extend(payload, assembly),
            "messageStop" => {
                let reason = payload["stopReason"].as_str().unwrap_or_default();
                let delta = json!({"stop_reason": stop_reason(reason)});
                self.say(json!({"type": "message_delta", "delta": delta}), assembly)
            }
            "metadata" => {
                self.ended = true;
                let usage = json!({
                    "input_tokens": payload["usage"]["inputTokens"],
                    "output_tokens": payload["usage"]["outputTokens"],
                    "cache_read_input_tokens": payload["usage"]["cacheReadInputTokens"],
                    "cache_creation_input_tokens": payload["usage"]["cacheWriteInputTokens"],
                });
                self.say(json!({"type": "message_delta", "delta": {}, "usage": usage}), assembly)?;
                Ok(Progress::Done)
            }
            _ => Ok(Progress::More),
        }
    }

    pub(crate) fn end(&mut self, assembly: &mut Assembly) -> Result<(), ModelError> {
        self.blocks.end(assembly)
    }

    pub(crate) fn begun(&self) -> bool {
        self.blocks.begun
    }

    /// After the reason nothing of the answer follows but the count of tokens.
    pub(crate) fn ended(&self) -> bool {
        self.ended || self.blocks.ended
    }

    fn begin(&mut self, payload: &Value, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        let tool = &payload["start"]["toolUse"];
        if tool.is_null() {
            return Ok(Progress::More);
        }
        let block = json!({"type": "tool_use", "id": tool["toolUseId"], "name": tool["name"]});
        self.open_block(payload, block, assembly)
    }

    fn extend(&mut self, payload: &Value, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        let (delta, index) = (&payload["delta"], &payload["contentBlockIndex"]);
        let (piece, block) = match delta {
            Value::Object(fields) if fields.contains_key("text") => {
                (json!({"type": "text_delta", "text": delta["text"]}), json!({"type": "text"}))
            }
            Value::Object(fields) if fields.contains_key("toolUse") => {
                (json!({"type": "input_json_delta", "partial_json": delta["toolUse"]["input"]}), Value::Null)
            }
            Value::Object(fields) if fields.contains_key("reasoningContent") => {
                (thought(&delta["reasoningContent"]), json!({"type": "thinking"}))
            }
            _ => return Ok(Progress::More),
        };
        if !block.is_null() && index.as_u64().is_none_or(|index| !self.open.contains(&index)) {
            self.open_block(payload, block, assembly)?;
        }
        self.say(json!({"type": "content_block_delta", "index": index, "delta": piece}), assembly)
    }

    fn open_block(&mut self, payload: &Value, block: Value, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        let index = &payload["contentBlockIndex"];
        self.open.extend(index.as_u64());
        self.say(json!({"type": "content_block_start", "index": index, "content_block": block}), assembly)
    }

    fn say(&mut self, event: Value, assembly: &mut Assembly) -> Result<Progress, ModelError> {
        self.blocks.event(&event.to_string(), assembly)
    }
}

fn thought(reasoning: &Value) -> Value {
    match reasoning.get("signature") {
        Some(signature) => json!({"type": "signature_delta", "signature": signature}),
        None if reasoning.get("text").is_some() => json!({"type": "thinking_delta", "thinking": reasoning["text"]}),
        // What only the provider can read is not kept: it cannot be told apart from a block of its own here.
        None => json!({"type": "redacted"}),
    }
}

fn stop_reason(reason: &str) -> &str {
    match reason {
        "guardrail_intervened" | "content_filtered" => "refusal",
        other => other,
    }
}

fn exception(payload: &Value) -> ModelError {
    let (kind, message) =
        (payload["type"].as_str().unwrap_or_default(), payload["message"].as_str().unwrap_or_default());
    let class = match kind {
        "throttlingException" => ErrorClass::RateLimit,
        "modelTimeoutException" => ErrorClass::Timeout,
        "validationException" if message.contains("too long") => ErrorClass::TooLong,
        "validationException" => ErrorClass::BadRequest,
        "accessDeniedException" => ErrorClass::Auth,
        _ => ErrorClass::Overloaded,
    };
    fault(class, &format!("the provider failed while answering: {message}"))
}

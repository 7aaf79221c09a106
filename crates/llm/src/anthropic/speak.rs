//! The wire bytes of an answer, as Anthropic would stream them.

use super::thoughts;
use crate::assembly::chunked;
use choir_proto::model::{Answer, StopReason, ToolCall};
use serde_json::{Value, json};

pub(crate) fn stream(answer: &Answer, chunk_chars: usize) -> Vec<u8> {
    let mut wire = Wire { bytes: Vec::new(), blocks: 0, chunk_chars };
    wire.event("message_start", json!({"message": message_start(answer)}));
    wire.event("ping", json!({}));
    for block in thoughts::blocks(&answer.message.reasoning, &answer.message.reasoning_signature) {
        wire.thought(&block);
    }
    if answer.message.reasoning_signature.is_empty() && !answer.message.reasoning.is_empty() {
        wire.thought(&json!({"type": "thinking", "thinking": answer.message.reasoning, "signature": ""}));
    }
    if !answer.message.text.is_empty() {
        wire.text(&answer.message.text);
    }
    for call in &answer.message.tool_calls {
        wire.call(call);
    }
    let usage = json!({"output_tokens": answer.usage.output_tokens});
    let delta = json!({"stop_reason": stop_reason(answer.stop), "stop_sequence": null});
    wire.event("message_delta", json!({"delta": delta, "usage": usage}));
    wire.event("message_stop", json!({}));
    wire.bytes
}

struct Wire {
    bytes: Vec<u8>,
    blocks: usize,
    chunk_chars: usize,
}

impl Wire {
    fn event(&mut self, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        self.bytes.extend(format!("event: {kind}\ndata: {data}\n\n").into_bytes());
    }

    fn block(&mut self, start: Value, deltas: impl IntoIterator<Item = Value>) {
        let index = self.blocks;
        self.blocks += 1;
        self.event("content_block_start", json!({"index": index, "content_block": start}));
        for delta in deltas {
            self.event("content_block_delta", json!({"index": index, "delta": delta}));
        }
        self.event("content_block_stop", json!({"index": index}));
    }

    fn text(&mut self, text: &str) {
        let delta = |piece| json!({"type": "text_delta", "text": piece});
        self.block(json!({"type": "text", "text": ""}), chunked(text, self.chunk_chars).map(delta));
    }

    fn thought(&mut self, block: &Value) {
        if block["type"] == "redacted_thinking" {
            return self.block(block.clone(), []);
        }
        let text = block["thinking"].as_str().unwrap_or_default();
        let delta = |piece| json!({"type": "thinking_delta", "thinking": piece});
        let signature = json!({"type": "signature_delta", "signature": block["signature"]});
        let deltas = chunked(text, self.chunk_chars).map(delta).chain([signature]);
        self.block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }

    fn call(&mut self, call: &ToolCall) {
        let arguments = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
        let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        self.block(start, chunked(&arguments, self.chunk_chars).map(delta));
    }
}

fn message_start(answer: &Answer) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": answer.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": answer.usage.input_tokens,
            "cache_read_input_tokens": answer.usage.cache_read_tokens,
            "cache_creation_input_tokens": answer.usage.cache_write_tokens,
            "output_tokens": 1
        }
    })
}

fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Finished => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::Length | StopReason::Budget => "max_tokens",
        StopReason::Refused => "refusal",
    }
}

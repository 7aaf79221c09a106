//! The wire bytes of an answer, as Bedrock would stream them.

use super::frames::frame;
use crate::assembly::chunked;
use choir_proto::model::{Answer, StopReason, ToolCall};
use serde_json::{Value, json};

pub(crate) fn stream(answer: &Answer, chunk_chars: usize) -> Vec<u8> {
    let mut wire = Wire { bytes: Vec::new(), blocks: 0, chunk_chars };
    wire.event("messageStart", json!({"role": "assistant"}));
    if !answer.message.reasoning.is_empty() {
        wire.thought(&answer.message.reasoning, &answer.message.reasoning_signature);
    }
    if !answer.message.text.is_empty() {
        wire.block(None, chunked(&answer.message.text, chunk_chars).map(|piece| json!({ "text": piece })));
    }
    for call in &answer.message.tool_calls {
        wire.call(call);
    }
    wire.event("messageStop", json!({"stopReason": stop_reason(answer.stop)}));
    let usage = &answer.usage;
    wire.event(
        "metadata",
        json!({"usage": {
            "inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens,
            "cacheReadInputTokens": usage.cache_read_tokens, "cacheWriteInputTokens": usage.cache_write_tokens,
        }, "metrics": {"latencyMs": 1}}),
    );
    wire.bytes
}

struct Wire {
    bytes: Vec<u8>,
    blocks: usize,
    chunk_chars: usize,
}

impl Wire {
    fn event(&mut self, name: &str, payload: Value) {
        self.bytes.extend(frame("event", name, &payload));
    }

    fn block(&mut self, start: Option<Value>, deltas: impl IntoIterator<Item = Value>) {
        let index = self.blocks;
        self.blocks += 1;
        if let Some(start) = start {
            self.event("contentBlockStart", json!({"contentBlockIndex": index, "start": start}));
        }
        for delta in deltas {
            self.event("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
        }
        self.event("contentBlockStop", json!({"contentBlockIndex": index}));
    }

    fn thought(&mut self, text: &str, signature: &str) {
        let pieces = chunked(text, self.chunk_chars).map(|piece| json!({"reasoningContent": {"text": piece}}));
        let signed = (!signature.is_empty()).then(|| json!({"reasoningContent": {"signature": signature}}));
        self.block(None, pieces.chain(signed).collect::<Vec<_>>());
    }

    fn call(&mut self, call: &ToolCall) {
        let arguments = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
        let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
        let pieces = chunked(&arguments, self.chunk_chars).map(|piece| json!({"toolUse": {"input": piece}}));
        self.block(Some(start), pieces.collect::<Vec<_>>());
    }
}

fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Finished => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::Length | StopReason::Budget => "max_tokens",
        StopReason::Refused => "content_filtered",
    }
}

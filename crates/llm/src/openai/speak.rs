//! The wire bytes of an answer, as OpenAI would stream them.

use super::DONE;
use crate::assembly::chunked;
use choir_proto::model::{Answer, StopReason, ToolCall, Usage};
use serde_json::{Value, json};

pub(crate) fn stream(answer: &Answer, chunk_chars: usize) -> Vec<u8> {
    let mut wire = Wire { bytes: Vec::new(), model: &answer.model, chunk_chars };
    wire.delta(json!({"role": "assistant", "content": ""}));
    for piece in chunked(&answer.message.reasoning, chunk_chars) {
        wire.delta(json!({"reasoning_content": piece}));
    }
    for piece in chunked(&answer.message.text, chunk_chars) {
        wire.delta(json!({"content": piece}));
    }
    for (index, call) in answer.message.tool_calls.iter().enumerate() {
        wire.call(index, call);
    }
    wire.chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(answer.stop)}]), Value::Null);
    wire.chunk(json!([]), usage(&answer.usage));
    wire.bytes.extend(format!("data: {DONE}\n\n").into_bytes());
    wire.bytes
}

struct Wire<'a> {
    bytes: Vec<u8>,
    model: &'a str,
    chunk_chars: usize,
}

impl Wire<'_> {
    fn chunk(&mut self, choices: Value, usage: Value) {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": choices, "usage": usage,
        });
        self.bytes.extend(format!("data: {chunk}\n\n").into_bytes());
    }

    fn delta(&mut self, delta: Value) {
        self.chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null);
    }

    fn call(&mut self, index: usize, call: &ToolCall) {
        let function = json!({"name": call.name, "arguments": ""});
        let begin = json!({"index": index, "id": call.id, "type": "function", "function": function});
        self.delta(json!({"tool_calls": [begin]}));
        let arguments = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
        for piece in chunked(&arguments, self.chunk_chars) {
            self.delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
    }
}

fn usage(usage: &Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens
        },
    })
}

fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Finished => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::Length | StopReason::Budget => "length",
        StopReason::Refused => "content_filter",
    }
}

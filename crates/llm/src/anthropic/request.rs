//! A request to Anthropic.

use super::thoughts;
use crate::conversation::{Incoming, Turn, arguments_object, turns, wire_name};
use crate::endpoint::{Endpoint, Outgoing, messages_url};
use choir_proto::model::{AssistantMessage, ModelRequest, Part, ToolResult, ToolSpec};
use serde_json::{Value, json};

const VERSION: &str = "2023-06-01";

/// Fewest tokens of reasoning that the provider accepts.
const REASONING_TOKENS_MIN: u32 = 1024;

pub(crate) fn encode(endpoint: &Endpoint<'_>, request: &ModelRequest) -> Outgoing {
    let mut outgoing = Outgoing::post(messages_url(endpoint.base_url), &body(endpoint, request));
    outgoing.headers.push(("anthropic-version", VERSION.to_owned()));
    if let Some(key) = endpoint.key {
        outgoing.headers.push(("x-api-key", key.expose().to_owned()));
    }
    outgoing
}

fn body(endpoint: &Endpoint<'_>, request: &ModelRequest) -> Value {
    let reasoning = endpoint.reasoning_tokens.map(|tokens| tokens.max(REASONING_TOKENS_MIN));
    let answer_tokens = request.tokens_max.max(1);
    let mut body = json!({
        "model": endpoint.model,
        // Reasoning counts towards the answer here; elsewhere it does not.
        "max_tokens": answer_tokens.saturating_add(reasoning.unwrap_or(0)),
        "stream": true,
        "messages": messages(request),
    });
    if let Some(tokens) = reasoning {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
    }
    if !request.system.trim().is_empty() {
        body["system"] = json!([cached(json!({"type": "text", "text": request.system}))]);
    }
    if !request.tools.is_empty() {
        body["tools"] = tools(&request.tools);
    }
    body
}

/// The provider caches everything up to a marked block. Marks stand after tools, after the standing instructions, and after
/// the newest turn, so that the next call finds the whole conversation.
fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

fn tools(tools: &[ToolSpec]) -> Value {
    let tool = |tool: &ToolSpec| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema});
    let mut list: Vec<Value> = tools.iter().map(tool).collect();
    mark_last(&mut list);
    Value::Array(list)
}

fn mark_last(blocks: &mut [Value]) {
    if let Some(last) = blocks.last_mut() {
        *last = cached(last.take());
    }
}

fn messages(request: &ModelRequest) -> Value {
    let turns = turns(&request.messages);
    let newest = turns.iter().rposition(|turn| matches!(turn, Turn::Incoming(_)));
    let message = |(index, turn): (usize, &Turn<'_>)| match turn {
        Turn::Incoming(Incoming { results, parts }) => {
            let mut content: Vec<Value> = results.iter().map(|(id, result)| tool_result(id, result)).collect();
            content.extend(parts.iter().map(|part| user_part(part)));
            if Some(index) == newest {
                mark_last(&mut content);
            }
            json!({"role": "user", "content": content})
        }
        Turn::Assistant { message, ids } => json!({"role": "assistant", "content": assistant(message, ids)}),
    };
    turns.iter().enumerate().map(message).collect()
}

fn tool_result(id: &str, result: &ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": result.content});
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

fn user_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image { media_type, data } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
        }
    }
}

fn assistant(message: &AssistantMessage, ids: &[String]) -> Vec<Value> {
    let mut content = thoughts::blocks(&message.reasoning, &message.reasoning_signature);
    if !message.text.trim().is_empty() {
        // Blanks at the end of the last assistant turn are refused.
        content.push(json!({"type": "text", "text": message.text.trim_end()}));
    }
    let call =
        |(call, id)| json!({"type": "tool_use", "id": id, "name": wire_name(call), "input": arguments_object(call)});
    content.extend(message.tool_calls.iter().zip(ids).map(call));
    content
}

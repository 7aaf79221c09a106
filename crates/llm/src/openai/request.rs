//! A request to OpenAI or to a server like it.

use crate::conversation::{Incoming, Turn, arguments_object, turns, wire_name};
use crate::endpoint::{Endpoint, Outgoing, Preset, completions_url};
use choir_proto::model::{AssistantMessage, ModelRequest, Part, ToolResult, ToolSpec};
use serde_json::{Value, json};

/// Stands before a result that is an error: the format has no other place to say so.
const FAILED: &str = "The tool failed:\n";

pub(crate) fn encode(endpoint: &Endpoint<'_>, request: &ModelRequest) -> Outgoing {
    let mut outgoing = Outgoing::post(completions_url(endpoint.base_url), &body(endpoint, request));
    if let Some(key) = endpoint.key {
        outgoing.headers.push(("authorization", format!("Bearer {}", key.expose())));
    }
    outgoing
}

fn body(endpoint: &Endpoint<'_>, request: &ModelRequest) -> Value {
    let mut body = json!({
        "model": endpoint.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages(endpoint.preset, request),
    });
    body[tokens_field(endpoint.preset)] = json!(request.tokens_max.max(1));
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
        if names_parallel_calls(endpoint.preset) {
            body["parallel_tool_calls"] = json!(true);
        }
    }
    body
}

/// OpenAI's newer models refuse the old name, and the others do not know the new one.
fn tokens_field(preset: Preset) -> &'static str {
    match preset {
        Preset::OpenAi => "max_completion_tokens",
        Preset::Plain | Preset::Zai | Preset::Kimi | Preset::OpenRouter | Preset::Ollama | Preset::LlamaCpp => {
            "max_tokens"
        }
    }
}

/// Who calls one tool at a time unless told otherwise, or takes the wish; the rest may refuse a field they do not know.
fn names_parallel_calls(preset: Preset) -> bool {
    match preset {
        Preset::OpenAi | Preset::OpenRouter | Preset::LlamaCpp => true,
        Preset::Plain | Preset::Zai | Preset::Kimi | Preset::Ollama => false,
    }
}

/// Under which name a provider wants its reasoning back between tool calls.
fn reasoning_field(preset: Preset) -> Option<&'static str> {
    match preset {
        Preset::Zai | Preset::Kimi | Preset::LlamaCpp => Some("reasoning_content"),
        Preset::OpenRouter | Preset::Ollama => Some("reasoning"),
        Preset::OpenAi | Preset::Plain => None,
    }
}

fn tool(tool: &ToolSpec) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.input_schema
    }})
}

fn messages(preset: Preset, request: &ModelRequest) -> Value {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for turn in turns(&request.messages) {
        match turn {
            Turn::Incoming(Incoming { results, parts }) => {
                messages.extend(results.iter().map(|(id, result)| tool_message(id, result)));
                if !parts.is_empty() {
                    messages.push(json!({"role": "user", "content": content(&parts)}));
                }
            }
            Turn::Assistant { message, ids } => messages.push(assistant(preset, message, &ids)),
        }
    }
    Value::Array(messages)
}

fn tool_message(id: &str, result: &ToolResult) -> Value {
    let content = if result.is_error { format!("{FAILED}{}", result.content) } else { result.content.clone() };
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// One text is a plain string: every server takes that, and not every one takes parts.
fn content(parts: &[&Part]) -> Value {
    match parts {
        [Part::Text { text }] => json!(text),
        several => several.iter().map(|part| content_part(part)).collect(),
    }
}

fn content_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image { media_type, data } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}})
        }
    }
}

fn assistant(preset: Preset, message: &AssistantMessage, ids: &[String]) -> Value {
    let content = if message.text.is_empty() { Value::Null } else { json!(message.text) };
    let mut wire = json!({"role": "assistant", "content": content});
    if let Some(field) = reasoning_field(preset).filter(|_| !message.reasoning.is_empty()) {
        wire[field] = json!(message.reasoning);
    }
    if !message.tool_calls.is_empty() {
        let call = |(call, id)| {
            let arguments = arguments_object(call).to_string();
            json!({"id": id, "type": "function", "function": {"name": wire_name(call), "arguments": arguments}})
        };
        wire["tool_calls"] = message.tool_calls.iter().zip(ids).map(call).collect();
    }
    wire
}

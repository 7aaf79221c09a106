//! A request to Bedrock.

use crate::conversation::{Incoming, Turn, arguments_object, turns, wire_name};
use crate::endpoint::{Endpoint, Outgoing};
use choir_proto::model::{AssistantMessage, ModelRequest, Part, ToolResult, ToolSpec};
use serde_json::{Value, json};

/// Models that keep what was asked before; others refuse to be told to.
const CACHING: [&str; 2] = ["anthropic.claude", "amazon.nova"];

pub(crate) fn encode(endpoint: &Endpoint<'_>, request: &ModelRequest) -> Outgoing {
    let base = endpoint.base_url.trim().trim_end_matches('/');
    let url = format!("{base}/model/{}/converse-stream", escape(endpoint.model));
    let mut outgoing = Outgoing::post(url, &body(endpoint.model, request));
    outgoing.headers.retain(|(name, _)| *name != "accept");
    outgoing.headers.push(("accept", "application/vnd.amazon.eventstream".to_owned()));
    if let Some(key) = endpoint.key {
        outgoing.headers.push(("authorization", format!("Bearer {}", key.expose())));
    }
    outgoing
}

fn body(model: &str, request: &ModelRequest) -> Value {
    let caches = CACHING.iter().any(|name| model.contains(name));
    let point = || caches.then(|| json!({"cachePoint": {"type": "default"}}));
    let mut body = json!({
        "messages": messages(request, caches),
        "inferenceConfig": {"maxTokens": request.tokens_max.max(1)},
    });
    if !request.system.trim().is_empty() {
        body["system"] = [json!({"text": request.system})].into_iter().chain(point()).collect();
    }
    if !request.tools.is_empty() {
        let tools: Value = request.tools.iter().map(tool).chain(point()).collect();
        body["toolConfig"] = json!({ "tools": tools });
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    let schema = json!({"json": tool.input_schema});
    json!({"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}})
}

fn messages(request: &ModelRequest, caches: bool) -> Value {
    let turns = turns(&request.messages);
    let newest = turns.iter().rposition(|turn| matches!(turn, Turn::Incoming(_)));
    let message = |(index, turn): (usize, &Turn<'_>)| match turn {
        Turn::Incoming(Incoming { results, parts }) => {
            let mut content: Vec<Value> = results.iter().map(|(id, result)| tool_result(id, result)).collect();
            content.extend(parts.iter().map(|part| user_part(part)));
            if caches && Some(index) == newest {
                content.push(json!({"cachePoint": {"type": "default"}}));
            }
            json!({"role": "user", "content": content})
        }
        Turn::Assistant { message, ids } => json!({"role": "assistant", "content": assistant(message, ids)}),
    };
    turns.iter().enumerate().map(message).collect()
}

fn tool_result(id: &str, result: &ToolResult) -> Value {
    // An empty text is refused.
    let text = if result.content.is_empty() { "(nothing)" } else { &result.content };
    let status = if result.is_error { "error" } else { "success" };
    json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": status}})
}

fn user_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ "text": text }),
        Part::Image { media_type, data } => {
            let format = media_type.rsplit('/').next().unwrap_or("png");
            json!({"image": {"format": format, "source": {"bytes": data}}})
        }
    }
}

fn assistant(message: &AssistantMessage, ids: &[String]) -> Vec<Value> {
    let mut content = Vec::new();
    if !message.reasoning_signature.is_empty() {
        let text = json!({"text": message.reasoning, "signature": message.reasoning_signature});
        content.push(json!({"reasoningContent": {"reasoningText": text}}));
    }
    if !message.text.trim().is_empty() {
        content.push(json!({"text": message.text.trim_end()}));
    }
    let call =
        |(call, id)| json!({"toolUse": {"toolUseId": id, "name": wire_name(call), "input": arguments_object(call)}});
    content.extend(message.tool_calls.iter().zip(ids).map(call));
    content
}

/// Model names have colons and slashes; a path has none of its own.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

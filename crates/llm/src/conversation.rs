//! A conversation as every provider wants it: turns alternate, results follow their calls, ids are unique.

use choir_proto::model::{AssistantMessage, Message, Part, ToolCall, ToolResult};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};

/// Longest id that every provider takes back.
const ID_BYTES_MAX: usize = 40;

/// Longest tool name that every provider takes back.
const NAME_CHARS_MAX: usize = 64;

/// A turn as it goes out.
pub(crate) enum Turn<'a> {
    /// From outside.
    Incoming(Incoming<'a>),
    /// From the model, with an id for each call.
    Assistant { message: &'a AssistantMessage, ids: Vec<String> },
}

/// Everything from outside since the model last spoke: what the tools answered, then what people said.
#[derive(Default)]
pub(crate) struct Incoming<'a> {
    pub(crate) results: Vec<(String, &'a ToolResult)>,
    pub(crate) parts: Vec<&'a Part>,
}

/// The turns of a conversation. Empty ones are left out, because providers refuse them.
pub(crate) fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut ids = Ids::default();
    let mut turns = Vec::new();
    let mut incoming = Incoming::default();
    for message in messages {
        match message {
            Message::User { parts } => incoming.parts.extend(parts.iter().filter(|part| !is_blank(part))),
            Message::Tools { results } => {
                incoming.results.extend(results.iter().map(|result| (ids.of_result(&result.call_id), result)));
            }
            Message::Assistant(message) if says_nothing(message) => {}
            Message::Assistant(message) => {
                turns.extend(incoming.take());
                turns.push(Turn::Assistant { message, ids: ids.of_calls(&message.tool_calls) });
            }
        }
    }
    turns.extend(incoming.take());
    turns
}

impl<'a> Incoming<'a> {
    /// What has come in, if anything has.
    fn take(&mut self) -> Option<Turn<'a>> {
        let all = std::mem::take(self);
        (!all.results.is_empty() || !all.parts.is_empty()).then_some(Turn::Incoming(all))
    }
}

fn is_blank(part: &Part) -> bool {
    matches!(part, Part::Text { text } if text.trim().is_empty())
}

fn says_nothing(message: &AssistantMessage) -> bool {
    message.text.trim().is_empty() && message.tool_calls.is_empty()
}

/// The arguments of an earlier call as an object, which is all that providers take back. A call that was malformed
/// shows what was written, so that the model can see its mistake.
pub(crate) fn arguments_object(call: &ToolCall) -> Value {
    match (&call.malformed, &call.arguments) {
        (Some(text), _) => json!({ "malformed": text }),
        (None, Value::Null) => json!({}),
        (None, Value::Object(fields)) => Value::Object(fields.clone()),
        (None, other) => json!({ "arguments": other }),
    }
}

/// A model may call a tool by an impossible name; providers refuse to hear it again.
pub(crate) fn wire_name(call: &ToolCall) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = call.name.chars().map(allowed).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Ids of calls on the wire. A provider's ids are unique only within its answer, may be of any shape, and the next
/// provider may not take them; the conversation goes on all the same.
#[derive(Default)]
struct Ids {
    used: HashSet<String>,
    /// From the latest answer's own ids, in order where several calls have the same one.
    latest: HashMap<String, VecDeque<String>>,
    answers: usize,
}

impl Ids {
    fn of_calls(&mut self, calls: &[ToolCall]) -> Vec<String> {
        self.answers += 1;
        self.latest.clear();
        let mut ids = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let id = self.unused(&call.id, index);
            self.used.insert(id.clone());
            self.latest.entry(call.id.clone()).or_default().push_back(id.clone());
            ids.push(id);
        }
        ids
    }

    /// Results come in the order of their calls; the last id stays, for one that is told twice.
    fn of_result(&mut self, call_id: &str) -> String {
        let id = match self.latest.get_mut(call_id) {
            Some(ids) if ids.len() > 1 => ids.pop_front(),
            Some(ids) => ids.front().cloned(),
            None => None,
        };
        id.unwrap_or_else(|| call_id.to_owned())
    }

    fn unused(&self, id: &str, index: usize) -> String {
        if acceptable(id) && !self.used.contains(id) {
            return id.to_owned();
        }
        let mut made = format!("call_{}_{index}", self.answers);
        while self.used.contains(&made) {
            made.push('_');
        }
        made
    }
}

fn acceptable(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(allowed)
}

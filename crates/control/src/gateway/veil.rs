//! A provider that says the key it was given: nobody further in sees it, neither piece by piece nor whole.

use choir_llm::{REDACTED, Secret};
use choir_proto::model::{Answer, Delta};
use serde_json::Value;
use std::collections::BTreeMap;

/// Shorter ones are no secrets but words that a server without keys is given, like its own name.
const KEY_BYTES_MIN: usize = 12;

/// Takes one key out of one answer.
#[derive(Debug)]
pub(super) struct Veil<'key> {
    key: Option<&'key str>,
    /// Ends that may be the beginning of the key, until what follows shows whether they are. None is as long as the key.
    held: BTreeMap<Channel, String>,
}

/// Pieces of one channel follow each other, whatever comes between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    Text,
    Reasoning,
    Arguments(u32),
}

impl<'key> Veil<'key> {
    pub(super) fn of(key: Option<&'key Secret>) -> Self {
        Self { key: key.and_then(to_hide), held: BTreeMap::new() }
    }

    /// A piece as far as it can be shown.
    pub(super) fn pass(&mut self, delta: Delta) -> Option<Delta> {
        let Some(key) = self.key else { return Some(delta) };
        let (channel, piece) = match delta {
            Delta::Text { text } => (Channel::Text, text),
            Delta::Reasoning { text } => (Channel::Reasoning, text),
            Delta::Arguments { index, fragment } => (Channel::Arguments(index), fragment),
            // These come whole.
            Delta::ToolCall { index, mut id, mut name } => {
                hide(&mut id, key);
                hide(&mut name, key);
                return Some(Delta::ToolCall { index, id, name });
            }
        };
        let mut text = self.held.remove(&channel).unwrap_or_default() + &piece;
        text = text.replace(key, REDACTED);
        let end = text.split_off(text.len() - beginning_at_end(&text, key));
        if !end.is_empty() {
            self.held.insert(channel, end);
        }
        (!text.is_empty()).then(|| shown(channel, text))
    }

    /// What turned out to be no key after all, when nothing follows.
    pub(super) fn rest(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.held).into_iter().map(|(channel, text)| shown(channel, text)).collect()
    }

    /// The whole answer without it.
    pub(super) fn clean(&self, mut answer: Answer) -> Answer {
        let Some(key) = self.key else { return answer };
        let message = &mut answer.message;
        hide(&mut message.text, key);
        hide(&mut message.reasoning, key);
        hide(&mut message.reasoning_signature, key);
        for call in &mut message.tool_calls {
            hide(&mut call.id, key);
            hide(&mut call.name, key);
            hide_in(&mut call.arguments, key);
            call.malformed.iter_mut().for_each(|raw| hide(raw, key));
        }
        answer
    }
}

fn shown(channel: Channel, text: String) -> Delta {
    match channel {
        Channel::Text => Delta::Text { text },
        Channel::Reasoning => Delta::Reasoning { text },
        Channel::Arguments(index) => Delta::Arguments { index, fragment: text },
    }
}

/// How many bytes at the end of a text are a beginning of the key.
fn beginning_at_end(text: &str, key: &str) -> usize {
    (1..key.len()).rev().find(|length| text.ends_with(&key[..*length])).unwrap_or(0)
}

/// What of a secret is to be hidden, if it is one.
pub(crate) fn to_hide(secret: &Secret) -> Option<&str> {
    Some(secret.expose()).filter(|key| key.len() >= KEY_BYTES_MIN)
}

/// Takes a key out of a text.
pub(crate) fn hide(text: &mut String, key: &str) {
    if text.contains(key) {
        *text = text.replace(key, REDACTED);
    }
}

/// Takes a key out of everything in a value, names of fields among it.
pub(crate) fn hide_in(value: &mut Value, key: &str) {
    match value {
        Value::String(text) => hide(text, key),
        Value::Array(values) => values.iter_mut().for_each(|value| hide_in(value, key)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| hide_in(value, key));
            if fields.keys().any(|name| name.contains(key)) {
                let named = std::mem::take(fields).into_iter();
                *fields = named.map(|(name, value)| (name.replace(key, REDACTED), value)).collect();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-canary-0123456789";

    fn said(veil: &mut Veil<'_>, pieces: &[&str]) -> String {
        let piece = |text: &&str| Delta::Text { text: (*text).to_owned() };
        let mut shown: Vec<Delta> = pieces.iter().filter_map(|text| veil.pass(piece(text))).collect();
        shown.extend(veil.rest());
        let text = |delta| if let Delta::Text { text } = delta { text } else { panic!("{delta:?}") };
        shown.into_iter().map(text).collect()
    }

    #[test]
    fn a_key_does_not_pass_wherever_it_is_cut() {
        let secret = Secret::parse(KEY).unwrap();
        let whole = format!("It is {KEY}, I think: sk-can");
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                let heard = said(&mut Veil::of(Some(&secret)), &pieces);
                assert_eq!(heard, "It is [redacted], I think: sk-can", "{pieces:?}");
            }
        }
    }

    #[test]
    fn what_is_no_key_passes_at_once() {
        let secret = Secret::parse(KEY).unwrap();
        let mut veil = Veil::of(Some(&secret));
        let delta = Delta::Text { text: "naïve words.".to_owned() };
        assert_eq!(veil.pass(delta.clone()), Some(delta));
        let word = Secret::parse("ollama").unwrap();
        assert_eq!(said(&mut Veil::of(Some(&word)), &["I am ollama"]), "I am ollama");
    }

    #[test]
    fn a_key_does_not_pass_in_a_name_either() {
        use choir_proto::model::{AssistantMessage, StopReason, ToolCall, Usage};
        let secret = Secret::parse(KEY).unwrap();
        let mut veil = Veil::of(Some(&secret));
        let named = |what: &str| format!("{what}-{KEY}");
        let begun = veil.pass(Delta::ToolCall { index: 0, id: named("id"), name: named("tool") });
        let shown = Delta::ToolCall { index: 0, id: "id-[redacted]".into(), name: "tool-[redacted]".into() };
        assert_eq!(begun, Some(shown));
        let arguments = serde_json::json!({"deep": [{named("field"): 1, "other": 2}]});
        let call = ToolCall { id: named("id"), name: named("tool"), arguments, malformed: None };
        let message = AssistantMessage {
            text: String::new(),
            reasoning: String::new(),
            reasoning_signature: named("signed"),
            tool_calls: vec![call],
        };
        let (model, usage) = ("a/b".to_owned(), Usage::default());
        let cleaned = veil.clean(Answer { model, message, stop: StopReason::ToolUse, usage, window: None, free: None });
        let text = serde_json::to_string(&cleaned.message).unwrap();
        assert!(!text.contains(KEY), "{text}");
        let arguments = serde_json::json!({"deep": [{"field-[redacted]": 1, "other": 2}]});
        assert_eq!(cleaned.message.tool_calls[0].arguments, arguments);
    }
}

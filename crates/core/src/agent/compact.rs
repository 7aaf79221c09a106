//! Keeping a conversation within the model's window. What is shortened here stays whole in the log.

use choir_proto::event::ContextCompacted;
use choir_proto::model::{Message, Part, ToolCall};
use serde_json::Value;

/// What is assumed of a model that nobody has told the window of, in tokens.
const WINDOW_TOKENS: u64 = 120_000;

/// A token has four bytes in English and fewer in code; three err on the careful side.
const BYTES_PER_TOKEN: u64 = 3;

/// What a large picture takes, in tokens.
const IMAGE_TOKENS: u64 = 1600;

/// The newest messages, which the model is working with right now.
const KEPT_NEWEST: usize = 6;

/// How much of each old text is left, from mild to harsh, in bytes.
const STAGES: [u32; 3] = [2048, 256, 64];

/// Longest note about what was left out: a text that is shorter than its note would be gains nothing.
const NOTE_BYTES_MAX: usize = 96;

/// What to shorten, if the conversation comes near the window; nothing where nothing more can be gained.
pub(super) fn plan(turn: u32, conversation: &[Message], window: Option<u64>) -> Option<ContextCompacted> {
    let window = window.unwrap_or(WINDOW_TOKENS);
    let before_tokens = tokens(conversation);
    if before_tokens <= window / 4 * 3 {
        return None;
    }
    let messages = conversation.len().saturating_sub(KEPT_NEWEST).max(1) as u32;
    let mut best = None;
    for text_bytes in STAGES {
        let mut shorter = conversation.to_vec();
        apply(&mut shorter, messages, text_bytes);
        let after_tokens = tokens(&shorter);
        if after_tokens < before_tokens {
            best = Some(ContextCompacted { turn, messages, text_bytes, before_tokens, after_tokens });
        }
        if after_tokens <= window / 2 {
            break;
        }
    }
    best
}

/// What to shorten of a conversation that a model has refused as too long, whatever was known of its window.
pub(super) fn squeeze(turn: u32, conversation: &[Message]) -> Option<ContextCompacted> {
    plan(turn, conversation, Some(tokens(conversation)))
}

/// Shortens the first so many messages after the brief.
pub(super) fn apply(conversation: &mut [Message], messages: u32, text_bytes: u32) {
    for message in conversation.iter_mut().take(messages as usize).skip(1) {
        match message {
            Message::User { parts } => parts.iter_mut().for_each(|part| shorten_part(part, text_bytes)),
            Message::Tools { results } => {
                results.iter_mut().for_each(|result| shorten(&mut result.content, text_bytes));
            }
            Message::Assistant(said) => {
                shorten(&mut said.text, text_bytes);
                // Providers that sign reasoning want it back whole or not at all.
                said.reasoning.clear();
                said.reasoning_signature.clear();
                said.tool_calls.iter_mut().for_each(|call| shorten_value(&mut call.arguments, text_bytes));
            }
        }
    }
}

fn shorten_part(part: &mut Part, text_bytes: u32) {
    match part {
        Part::Text { text } => shorten(text, text_bytes),
        Part::Image { .. } => *part = Part::Text { text: "(A picture was here.)".to_owned() },
    }
}

fn shorten_value(value: &mut Value, text_bytes: u32) {
    match value {
        Value::String(text) => shorten(text, text_bytes),
        Value::Array(values) => values.iter_mut().for_each(|value| shorten_value(value, text_bytes)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shorten_value(value, text_bytes)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Head and tail of a text that is worth shortening.
fn shorten(text: &mut String, text_bytes: u32) {
    let keep = text_bytes as usize;
    if text.len() <= keep + NOTE_BYTES_MAX {
        return;
    }
    let head = text.floor_char_boundary(keep / 2);
    let tail = text.ceil_char_boundary(text.len() - keep / 2);
    let left_out = tail - head;
    *text = format!("{}\n… {left_out} bytes were left out here; the log has them …\n{}", &text[..head], &text[tail..]);
}

fn tokens(conversation: &[Message]) -> u64 {
    bytes(conversation).div_ceil(BYTES_PER_TOKEN)
}

/// What a conversation takes; a picture counts as what it is worth.
pub(super) fn bytes(conversation: &[Message]) -> u64 {
    conversation.iter().map(message_bytes).sum()
}

fn message_bytes(message: &Message) -> u64 {
    let call = |call: &ToolCall| call.name.len() + call.arguments.to_string().len();
    let bytes = match message {
        Message::User { parts } => return parts.iter().map(part_bytes).sum(),
        Message::Tools { results } => results.iter().map(|result| result.content.len()).sum::<usize>(),
        Message::Assistant(said) => {
            said.text.len() + said.reasoning.len() + said.tool_calls.iter().map(call).sum::<usize>()
        }
    };
    bytes as u64
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text { text } => text.len() as u64,
        Part::Image { .. } => IMAGE_TOKENS * BYTES_PER_TOKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::model::{AssistantMessage, ToolResult};

    fn conversation(turns: usize, bytes: usize) -> Vec<Message> {
        let mut messages = vec![Message::user("the brief ".repeat(100))];
        for turn in 0..turns {
            let arguments = serde_json::json!({"content": "w".repeat(bytes)});
            let call = ToolCall { id: format!("c{turn}"), name: "write_file".into(), arguments, malformed: None };
            messages.push(Message::Assistant(AssistantMessage { tool_calls: vec![call], ..Default::default() }));
            let content = format!("begin {turn} {} end {turn}", "ä".repeat(bytes / 2));
            let result = ToolResult { call_id: format!("c{turn}"), content, is_error: false };
            messages.push(Message::Tools { results: vec![result] });
        }
        messages
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(plan(1, &conversation(3, 1000), Some(4000)), None);
    }

    #[test]
    fn old_texts_are_shortened_until_half_of_the_window_is_free() {
        let mut long = conversation(20, 3000);
        let before = long.clone();
        let plan = plan(7, &long, Some(30_000)).expect("it is too long");
        assert!(plan.before_tokens > 30_000 && plan.after_tokens <= 15_000, "{plan:?}");
        apply(&mut long, plan.messages, plan.text_bytes);
        assert_eq!(tokens(&long), plan.after_tokens);
        assert!(long[0] == before[0], "the brief stays whole");
        assert!(long[35..] == before[35..], "so does what the model works with");
        let Message::Tools { results } = &long[2] else { panic!("results follow calls") };
        assert!(results[0].content.starts_with("begin 0") && results[0].content.ends_with("end 0"), "{results:?}");
        assert!(results[0].content.contains("the log has them"));
        let again = apply_again(&long, plan.messages, plan.text_bytes);
        assert!(again == long, "shortening what is short changes nothing");
    }

    fn apply_again(conversation: &[Message], messages: u32, text_bytes: u32) -> Vec<Message> {
        let mut again = conversation.to_vec();
        apply(&mut again, messages, text_bytes);
        again
    }

    #[test]
    fn where_nothing_can_be_gained_nothing_is_done() {
        let huge = vec![Message::user("x".repeat(100_000))];
        assert_eq!(plan(1, &huge, Some(1000)), None);
    }
}

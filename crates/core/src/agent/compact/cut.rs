//! How messages are made shorter: head and tail of each text stay, every call keeps its result, and no message goes away.

use crate::fence;
use choir_proto::event::ContextCompacted;
use choir_proto::model::{AssistantMessage, LATE_RESULT, Message, Part, ToolResult};
use serde_json::Value;

/// Longest note about what was left out: a text that is shorter than its note would be gains nothing.
const NOTE_BYTES_MAX: usize = 96;

/// Shortens a conversation as the log says that it was shortened.
pub(crate) fn apply(conversation: &mut [Message], how: &ContextCompacted) {
    let old = conversation.len().min(how.messages as usize).max(1);
    for message in conversation.iter_mut().take(old).skip(1) {
        shorten_old(message, how);
    }
    if let Some(keep) = how.newest_bytes {
        conversation.iter_mut().skip(old).for_each(|message| shorten_newest(message, keep));
    }
    if let Some(keep) = how.data_bytes {
        conversation.iter_mut().for_each(|message| shorten_data(message, keep));
    }
}

fn shorten_old(message: &mut Message, how: &ContextCompacted) {
    let keep = how.text_bytes;
    match message {
        Message::User { parts } if how.spares_words => parts.iter_mut().for_each(|part| shorten_news(part, keep)),
        Message::User { parts } => parts.iter_mut().for_each(|part| shorten_part(part, keep)),
        Message::Tools { results } => shorten_results(results, keep),
        Message::Assistant(said) => {
            shorten_said(said, keep);
            // Providers that sign reasoning want it back whole or not at all.
            said.reasoning.clear();
            said.reasoning_signature.clear();
        }
    }
}

/// What the model works with right now. Its reasoning about that stays, and so do the words of persons.
fn shorten_newest(message: &mut Message, keep: u32) {
    match message {
        Message::User { parts } => parts.iter_mut().for_each(|part| shorten_news(part, keep)),
        Message::Tools { results } => shorten_results(results, keep),
        Message::Assistant(said) => shorten_said(said, keep),
    }
}

/// The data that goes along with somebody's words.
fn shorten_data(message: &mut Message, keep: u32) {
    let Message::User { parts } = message else { return };
    for part in parts {
        if let Part::Text { text } = part {
            *text = fence::each_inside(text, |inside| {
                let mut inside = inside.to_owned();
                shorten(&mut inside, keep);
                inside
            });
        }
    }
}

fn shorten_results(results: &mut [ToolResult], keep: u32) {
    results.iter_mut().for_each(|result| shorten(&mut result.content, keep));
}

fn shorten_said(said: &mut AssistantMessage, keep: u32) {
    shorten(&mut said.text, keep);
    said.tool_calls.iter_mut().for_each(|call| shorten_value(&mut call.arguments, keep));
}

/// What came of a call that was at work is told as words, and is data all the same.
fn shorten_news(part: &mut Part, keep: u32) {
    let is_words = matches!(part, Part::Text { text } if !text.starts_with(LATE_RESULT));
    if !is_words {
        shorten_part(part, keep);
    }
}

fn shorten_part(part: &mut Part, keep: u32) {
    match part {
        Part::Text { text } => shorten(text, keep),
        Part::Image { .. } => *part = Part::Text { text: "(A picture was here.)".to_owned() },
    }
}

fn shorten_value(value: &mut Value, keep: u32) {
    match value {
        Value::String(text) => shorten(text, keep),
        Value::Array(values) => values.iter_mut().for_each(|value| shorten_value(value, keep)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shorten_value(value, keep)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Head and tail of a text that is worth shortening.
fn shorten(text: &mut String, keep: u32) {
    let keep = keep as usize;
    if text.len() <= keep + NOTE_BYTES_MAX {
        return;
    }
    let head = text.floor_char_boundary(keep / 2);
    let tail = text.ceil_char_boundary(text.len() - keep / 2);
    let left_out = tail - head;
    *text = format!("{}\n… {left_out} bytes were left out here; the log has them …\n{}", &text[..head], &text[tail..]);
}

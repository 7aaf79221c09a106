//! Endless answers end, and are called what they are.

use choir_llm::{
    ANSWER_BYTES_MAX, ARGUMENTS_BYTES_MAX, BODY_BYTES_MAX, Decoder, EVENT_BYTES_MAX, Format, NAME_BYTES_MAX,
    TOOL_CALLS_MAX, USAGE_TOKENS_MAX, encode_stream,
};
use choir_proto::model::{Answer, AssistantMessage, ErrorClass, ModelError, StopReason, Usage};
use serde_json::{Value, json};

fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn openai(delta: &Value) -> Vec<u8> {
    event(&json!({"choices": [{"delta": delta}]}))
}

fn call(index: usize, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": {"name": "x", "arguments": arguments}}]})
}

/// Pushes the same bytes again and again until they are refused; how often they were taken.
fn push_until_refused(format: Format, start: &[u8], bytes: &[u8], most: usize) -> (usize, ModelError) {
    let mut decoder = Decoder::new(format, "a/b");
    decoder.push(start).unwrap();
    for taken in 0..=most {
        if let Err(error) = decoder.push(bytes) {
            assert_eq!(decoder.finish().unwrap_err(), error);
            return (taken, error);
        }
    }
    panic!("{most} pushes were taken");
}

#[test]
fn endless_text() {
    let piece = "x".repeat(64 * 1024);
    let (taken, error) = push_until_refused(
        Format::OpenAi,
        b"",
        &openai(&json!({ "content": piece })),
        2 * ANSWER_BYTES_MAX / piece.len(),
    );
    assert_eq!(taken, ANSWER_BYTES_MAX / piece.len());
    assert_eq!(error.class, ErrorClass::Oversized);
}

/// A number that no answer takes is nobody's bill: it is as if nothing had been said, in every format.
#[test]
fn tokens_beyond_belief_are_not_counted() {
    for format in Format::ALL {
        for (said, believed) in [(u64::MAX, 0), (1 << 63, 0), (USAGE_TOKENS_MAX + 1, 0), (7, 7)] {
            let message = AssistantMessage { text: "Hello.".to_owned(), ..AssistantMessage::default() };
            let usage = Usage { input_tokens: 7, output_tokens: said, ..Usage::default() };
            let (stop, model) = (StopReason::Finished, String::new());
            let answer = Answer { message, stop, usage, model, window: None, free: None };
            let mut decoder = Decoder::new(*format, "a/b");
            decoder.push(&encode_stream(*format, &answer, 100)).unwrap();
            let heard = decoder.finish().unwrap().usage;
            assert_eq!((heard.input_tokens, heard.output_tokens), (believed, believed), "{format:?}: {said}");
        }
    }
}

/// An answer is whole whatever is said of its price.
#[test]
fn a_count_that_makes_no_sense_costs_no_answer() {
    let said = json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]});
    for usage in [json!({"prompt_tokens": -5}), json!({"prompt_tokens": 5.5}), json!("none"), json!([1])] {
        let mut decoder = Decoder::new(Format::OpenAi, "a/b");
        decoder.push(&event(&said)).unwrap();
        decoder.push(&event(&json!({"choices": [], "usage": usage}))).unwrap();
        decoder.push(b"data: [DONE]\n\n").unwrap();
        let answer = decoder.finish().unwrap();
        assert_eq!((answer.message.text.as_str(), answer.usage), ("Hello.", Usage::default()), "{usage}");
        let mut decoder = Decoder::new(Format::Anthropic, "a/b");
        let text = json!({"type": "text", "text": "Hello."});
        for said in [
            json!({"type": "message_start", "message": {"usage": usage}}),
            json!({"type": "content_block_start", "index": 0, "content_block": text}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": -1}}),
            json!({"type": "message_stop"}),
        ] {
            decoder.push(&event(&said)).unwrap();
        }
        assert_eq!(decoder.finish().unwrap().usage, Usage::default(), "{usage}");
    }
}

#[test]
fn endless_reasoning_and_signatures() {
    let start =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}});
    for piece in [
        json!({"type": "thinking_delta", "thinking": "x".repeat(64 * 1024)}),
        json!({"type": "signature_delta", "signature": "x".repeat(64 * 1024)}),
    ] {
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": piece});
        let (taken, error) = push_until_refused(Format::Anthropic, &event(&start), &event(&delta), 1000);
        assert_eq!(taken, ANSWER_BYTES_MAX / (64 * 1024));
        assert_eq!(error.class, ErrorClass::Oversized);
    }
}

#[test]
fn endless_arguments() {
    let piece = "x".repeat(64 * 1024);
    let (taken, error) = push_until_refused(Format::OpenAi, b"", &openai(&call(0, &piece)), 1000);
    assert_eq!(taken, ARGUMENTS_BYTES_MAX / piece.len());
    assert!(error.message.contains("arguments"), "{error}");
}

#[test]
fn endless_calls() {
    let mut decoder = Decoder::new(Format::OpenAi, "a/b");
    for index in 0..TOOL_CALLS_MAX {
        decoder.push(&openai(&call(index, ""))).unwrap();
    }
    let error = decoder.push(&openai(&call(TOOL_CALLS_MAX, ""))).unwrap_err();
    assert_eq!(error.class, ErrorClass::Oversized);
}

#[test]
fn endless_names() {
    let name = "x".repeat(NAME_BYTES_MAX + 1);
    let start = json!({"type": "tool_use", "id": "a", "name": name, "input": {}});
    let begin = json!({"type": "content_block_start", "index": 0, "content_block": start});
    let mut decoder = Decoder::new(Format::Anthropic, "a/b");
    assert_eq!(decoder.push(&event(&begin)).unwrap_err().class, ErrorClass::Garbage);
}

#[test]
fn endless_blocks() {
    let mut decoder = Decoder::new(Format::Anthropic, "a/b");
    let refused = (0..10_000u64).any(|index| {
        let block = json!({"type": "text", "text": ""});
        decoder.push(&event(&json!({"type": "content_block_start", "index": index, "content_block": block}))).is_err()
    });
    assert!(refused);
}

#[test]
fn a_line_of_ten_megabytes() {
    for &format in Format::ALL {
        let line = vec![b'x'; 64 * 1024];
        let (taken, error) = push_until_refused(format, b"data: ", &line, 10 * 1024 * 1024 / line.len());
        assert!(taken <= EVENT_BYTES_MAX / line.len());
        // Frames say beforehand how long they are, and such a length is none.
        assert!(matches!(error.class, ErrorClass::Oversized | ErrorClass::Garbage), "{error:?}");
    }
}

#[test]
fn a_document_or_page_of_any_length() {
    for first in [b'{', b'<'] {
        let bytes = vec![first; 64 * 1024];
        let (taken, error) = push_until_refused(Format::OpenAi, b"", &bytes, 2 * BODY_BYTES_MAX / bytes.len());
        assert_eq!(taken, BODY_BYTES_MAX / bytes.len());
        assert_eq!(error.class, ErrorClass::Oversized);
    }
}

#[test]
fn keep_alives_take_no_memory_and_mean_nothing() {
    let mut decoder = Decoder::new(Format::OpenAi, "a/b");
    for _ in 0..10_000 {
        assert!(decoder.push(b": keep-alive\n\n").unwrap().is_empty());
    }
    assert_eq!(decoder.finish().unwrap_err().class, ErrorClass::Truncated);
}

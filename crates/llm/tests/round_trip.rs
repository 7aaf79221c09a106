//! Whatever the fake servers say through `encode_stream`, the decoder hears.

use choir_llm::{Decoder, Format, encode_stream};
use choir_proto::model::{Answer, AssistantMessage, StopReason, ToolCall, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(format: Format, bytes: &[u8], model: &str) -> Answer {
    let mut decoder = Decoder::new(format, model);
    decoder.push(bytes).unwrap();
    decoder.finish().unwrap()
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let arguments = prop::collection::btree_map(any::<String>(), any_value(), 0..4);
    ("[a-zA-Z0-9_-]{1,20}", "[a-z_]{1,10}", arguments, any::<bool>()).prop_map(|(id, name, arguments, good)| ToolCall {
        id,
        name,
        arguments: if good { Value::Object(arguments.into_iter().collect()) } else { Value::Null },
        malformed: (!good).then(|| "{not: json}".to_owned()),
    })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let calls = prop::collection::vec(any_call(), 0..4);
    let counts = (0..1_000_000u64, 0..1_000_000u64, 0..1_000_000u64, 0..1_000_000u64);
    (any::<String>(), any::<String>(), calls, counts, any::<bool>()).prop_map(
        |(text, reasoning, mut tool_calls, counts, cut)| {
            // Ids are unique within an answer.
            for (index, call) in tool_calls.iter_mut().enumerate() {
                call.id = format!("{}-{index}", call.id);
            }
            let stop = match (cut, tool_calls.is_empty()) {
                (true, _) => StopReason::Length,
                (false, true) => StopReason::Finished,
                (false, false) => StopReason::ToolUse,
            };
            if cut {
                tool_calls.retain(|call| call.malformed.is_none());
            }
            let (input_tokens, output_tokens, cache_read_tokens, cache_write_tokens) = counts;
            Answer {
                message: AssistantMessage {
                    text: format!("Text: {text}"),
                    reasoning,
                    reasoning_signature: String::new(),
                    tool_calls,
                },
                stop,
                usage: Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, ..Usage::default() },
                model: "some/model".to_owned(),
                window: None,
                free: None,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_spoken_is_heard(answer in any_answer(), chunk_chars in 0usize..40, signed in any::<bool>()) {
        for &format in Format::ALL {
            let mut answer = answer.clone();
            // Only one of the formats signs.
            if format == Format::Anthropic && signed && !answer.message.reasoning.is_empty() {
                answer.message.reasoning_signature = "c2lnbmF0dXJl".to_owned();
            }
            let bytes = encode_stream(format, &answer, chunk_chars);
            prop_assert_eq!(decode(format, &bytes, &answer.model), answer);
        }
    }
}

#[test]
fn several_signed_thoughts_survive() {
    let signature =
        json!([{"bytes": 2, "signature": "a"}, {"redacted": "r"}, {"bytes": 1, "signature": "b"}]).to_string();
    let answer = Answer {
        message: AssistantMessage {
            text: "t".to_owned(),
            reasoning: "abc".to_owned(),
            reasoning_signature: signature,
            tool_calls: Vec::new(),
        },
        stop: StopReason::Finished,
        usage: Usage::default(),
        model: "some/model".to_owned(),
        window: None,
        free: None,
    };
    let bytes = encode_stream(Format::Anthropic, &answer, 1);
    assert_eq!(decode(Format::Anthropic, &bytes, "some/model"), answer);
}

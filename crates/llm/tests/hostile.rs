//! Any file and any bytes get an answer or an error that names the place, never a panic.

use choir_llm::scripted::{Scenario, ScenarioError};
use choir_llm::{Format, MESSAGE_CHARS_MAX, Secret, classify, price, redact};
use choir_proto::Role;
use choir_proto::model::{Message, ModelRequest};
use proptest::prelude::*;
use serde_json::{Value, json};

fn request(prompt: &str) -> ModelRequest {
    let messages = vec![Message::user(prompt)];
    ModelRequest { model: None, role: Role::Writer, system: String::new(), messages, tools: Vec::new(), tokens_max: 9 }
}

/// JSON that is often nearly a scenario.
fn nearly_scenario() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "roles",
        "turns",
        "scenarios",
        "writer",
        "text",
        "answer",
        "when",
        "contains",
        "turn",
        "error",
        "class",
        "chunks",
        "tool_calls",
        "name",
        "arguments",
        "times",
        "stop",
        "usage",
        "when_prompt_contains",
    ]);
    let text = prop_oneof![
        any::<String>(),
        Just("{{prompt}}".to_owned()),
        Just("{{results.1.a}}".to_owned()),
        Just("writer".to_owned()),
        Just("timeout".to_owned()),
    ];
    let leaf = prop_oneof![text.prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(6, 64, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_scenario_file_plays_or_names_its_fault(file in nearly_scenario(), prompt in any::<String>()) {
        match Scenario::parse(&file.to_string()) {
            Ok(scenario) => prop_assert_eq!(scenario.answer(&request(&prompt)), scenario.answer(&request(&prompt))),
            Err(ScenarioError::Meaning { place, problem }) => prop_assert!(!place.is_empty() && !problem.is_empty()),
            Err(ScenarioError::Json(_) | ScenarioError::Long) => prop_assert!(false, "it is JSON, and short"),
        }
    }

    #[test]
    fn any_text_streams_in_pieces_that_add_up(text in "\\PC{1,80}", chunks in 1u32..50) {
        prop_assume!(!text.contains("{{"));
        let file = json!({"roles": {"writer": [{"text": text, "chunks": chunks}]}});
        let script = Scenario::parse(&file.to_string()).unwrap().answer(&request("x")).unwrap();
        prop_assert!(script.deltas.len() <= chunks as usize);
        let whole: String = script.deltas.iter().map(|delta| match delta {
            choir_proto::model::Delta::Text { text } => text.as_str(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(whole, script.result.unwrap().message.text);
    }

    #[test]
    fn any_failure_is_classified_in_one_short_line(status in any::<u16>(), wait in any::<String>(), body in prop::collection::vec(any::<u8>(), 0..300)) {
        for &format in Format::ALL {
            let error = classify(format, status, &[("retry-after", &wait)], &body);
            prop_assert!(error.message.chars().count() <= MESSAGE_CHARS_MAX);
            prop_assert!(!error.message.chars().any(char::is_control));
        }
    }

    #[test]
    fn a_key_is_in_no_message(key in "[!-~]{4,60}", before in any::<String>(), after in any::<String>()) {
        let secret = Secret::parse(&key).unwrap();
        let text = format!("{before}{key}{after}");
        prop_assume!(!"[redacted]".contains(&key) && !format!("{before} {after}").contains(&key));
        prop_assert!(!secret.redact(&text).contains(&key));
        let printed = format!("{secret:?}{secret}");
        prop_assert!(!printed.contains(&key) || "Secret([redacted])[redacted]".contains(&key));
    }

    #[test]
    fn what_looks_like_a_key_is_in_no_message(key in "sk-[a-zA-Z0-9]{20,60}", before in "[a-z :'\"]{0,20}", after in "[ .,'\"]{0,5}") {
        let text = format!("{before} {key}{after}");
        prop_assert!(!redact(&text).contains(&key));
    }

    #[test]
    fn any_price_table_is_read_or_refused(text in "\\PC{0,100}") {
        if let Err(error) = price::Table::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

use super::*;
use choir_proto::model::ToolResult;
use serde_json::json;

fn request(role: Role, messages: Vec<Message>) -> ModelRequest {
    ModelRequest { model: None, role, system: String::new(), messages, tools: Vec::new(), tokens_max: 100 }
}

fn said(text: &str) -> Message {
    Message::Assistant(AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() })
}

fn tools(contents: &[&str]) -> Message {
    let result =
        |content: &&str| ToolResult { call_id: "any".to_owned(), content: (*content).to_owned(), is_error: false };
    Message::Tools { results: contents.iter().map(result).collect() }
}

fn scenario(json: &Value) -> Scenario {
    Scenario::parse(&json.to_string()).unwrap()
}

fn text(scenario: &Scenario, role: Role, messages: Vec<Message>) -> Result<String, String> {
    let script = scenario.answer(&request(role, messages)).map_err(|error| error.message)?;
    script.result.map(|answer| answer.message.text).map_err(|error| error.message)
}

#[test]
fn a_role_plays_its_list_by_the_answers_already_given() {
    let scenario =
        scenario(&json!({"roles": {"terminal": [{"text": "one"}, {"text": "two"}], "writer": [{"text": "w"}]}}));
    assert_eq!(text(&scenario, Role::Terminal, vec![Message::user("go")]).unwrap(), "one");
    let second = vec![Message::user("go"), said("one"), tools(&["ok"])];
    assert_eq!(text(&scenario, Role::Terminal, second.clone()).unwrap(), "two");
    assert_eq!(text(&scenario, Role::Terminal, second).unwrap(), "two", "asking again changes nothing");
    assert_eq!(text(&scenario, Role::Writer, vec![Message::user("go")]).unwrap(), "w");
    let third = vec![Message::user("go"), said("one"), said("two")];
    assert_eq!(
        text(&scenario, Role::Terminal, third).unwrap_err(),
        "the scenario has no turn for call 3 of the role terminal"
    );
    assert_eq!(
        text(&scenario, Role::Researcher, vec![]).unwrap_err(),
        "the scenario has nothing for the role researcher and this prompt"
    );
}

#[test]
fn the_first_turn_whose_conditions_all_hold_answers() {
    let scenario = scenario(&json!({
        "turns": [
            {"when": {"role": "terminal", "contains": "error", "turn": 2}, "answer": {"text": "mend"}},
            {"when": {"prompt_contains": "poem"}, "answer": {"text": "verse"}},
            {"answer": {"text": "any first"}},
            {"answer": {"text": "any second"}}
        ],
        "roles": {"terminal": [{"text": "never: the list above answers"}, {"text": "nor this"}, {"text": "third"}]}
    }));
    let start = |words: &str| vec![Message::user(words)];
    let then = |result: &str| vec![Message::user("go"), said("x"), tools(&[result])];
    assert_eq!(text(&scenario, Role::Terminal, start("go")).unwrap(), "any first");
    assert_eq!(text(&scenario, Role::Terminal, then("error: 1")).unwrap(), "mend");
    assert_eq!(text(&scenario, Role::Writer, then("error: 1")).unwrap(), "any second");
    assert_eq!(text(&scenario, Role::Terminal, then("fine")).unwrap(), "any second");
    assert_eq!(text(&scenario, Role::Terminal, start("a poem with an error")).unwrap(), "verse");
    let third = vec![Message::user("go"), said("x"), said("y")];
    assert_eq!(text(&scenario, Role::Terminal, third).unwrap(), "third");
}

#[test]
fn the_newest_message_counts_and_not_an_older_one() {
    let scenario = scenario(&json!({"turns": [
        {"when": {"contains": "stop"}, "answer": {"text": "stopped"}},
        {"when": {"role": "writer", "turn": 2}, "answer": {"text": "went on"}}
    ]}));
    let messages = vec![Message::user("stop?"), said("no"), Message::user("go")];
    assert_eq!(text(&scenario, Role::Writer, messages).unwrap(), "went on");
}

#[test]
fn a_file_holds_several_scenarios() {
    let scenario = scenario(&json!({"scenarios": [
        {"when_prompt_contains": "rounding", "roles": {"conductor": [{"text": "fix"}]}},
        {"when_prompt_contains": "compare", "roles": {"conductor": [{"text": "research"}]}},
        {"roles": {"terminal": [{"text": "shared"}], "conductor": [{"text": "no idea"}]}}
    ]}));
    let ask = |role, prompt: &str| text(&scenario, role, vec![Message::user(prompt)]).unwrap();
    assert_eq!(ask(Role::Conductor, "mend the rounding"), "fix");
    assert_eq!(ask(Role::Conductor, "compare a and b"), "research");
    assert_eq!(ask(Role::Conductor, "hello"), "no idea");
    assert_eq!(ask(Role::Terminal, "mend the rounding"), "shared");
}

#[test]
fn calls_get_stable_ids_and_filled_arguments() {
    let scenario = scenario(&json!({"roles": {"conductor": [
        {"text": "a"},
        {"tool_calls": [
            {"name": "wait", "arguments": {"task": "{{last_result.id}}", "deep": [{"why": "for {{prompt}}"}], "n": 1}},
            {"name": "noop"},
            {"name": "broken", "arguments_text": "{\"a\": oops", "id": "mine"}
        ], "usage": {"input_tokens": 5, "output_tokens": 2}}
    ]}}));
    let messages = vec![Message::user("you"), said("a"), tools(&["x", r#"{"id": "t-1"}"#])];
    let script = scenario.answer(&request(Role::Conductor, messages)).unwrap();
    let answer = script.result.unwrap();
    let calls = &answer.message.tool_calls;
    assert_eq!(calls[0].id, "call_2_0");
    assert_eq!(calls[0].arguments, json!({"task": "t-1", "deep": [{"why": "for you"}], "n": 1}));
    assert_eq!((calls[1].id.as_str(), &calls[1].arguments), ("call_2_1", &json!({})));
    assert_eq!((calls[2].id.as_str(), &calls[2].arguments), ("mine", &Value::Null));
    assert_eq!(calls[2].malformed.as_deref(), Some("{\"a\": oops"));
    assert_eq!(answer.stop, StopReason::ToolUse);
    assert_eq!(answer.usage.tokens(), 7);
    assert_eq!(answer.model, "scripted/scenario");
    let named = Delta::ToolCall { index: 1, id: "call_2_1".to_owned(), name: "noop".to_owned() };
    assert!(script.deltas.contains(&named));
}

#[test]
fn text_is_streamed_in_the_wanted_pieces() {
    let scenario = scenario(&json!({"roles": {"writer": [{"reasoning": "hm", "text": "äbcdefg", "chunks": 3}]}}));
    let script = scenario.answer(&request(Role::Writer, vec![])).unwrap();
    let pieces: Vec<String> = script.deltas.iter().map(|delta| format!("{delta:?}")).collect();
    assert_eq!(
        pieces,
        [r#"Reasoning { text: "hm" }"#, r#"Text { text: "äbc" }"#, r#"Text { text: "def" }"#, r#"Text { text: "g" }"#]
    );
}

#[test]
fn failures_come_after_the_text_or_so_many_times() {
    let scenario = scenario(&json!({"roles": {
        "writer": [{"text": "half", "error": {"class": "truncated", "message": "cut"}}],
        "terminal": [{"text": "whole", "error": {"class": "rate_limit", "retry_after_ms": 20, "times": 2}}]
    }}));
    let cut = scenario.answer(&request(Role::Writer, vec![])).unwrap();
    assert_eq!(cut.deltas, [Delta::Text { text: "half".to_owned() }]);
    assert_eq!(cut.result.unwrap_err().class, ErrorClass::Truncated);

    let terminal = request(Role::Terminal, vec![]);
    for failures in 0..2 {
        let script = scenario.answer_after(&terminal, failures).unwrap();
        assert!(script.deltas.is_empty());
        assert_eq!(script.result.unwrap_err().retry_after_ms, Some(20));
    }
    let third = scenario.answer_after(&terminal, 2).unwrap();
    assert_eq!(third.result.unwrap().message.text, "whole");
}

#[test]
fn a_placeholder_without_a_value_names_its_turn() {
    let scenario = scenario(&json!({"roles": {"writer": [{"text": "{{last_result}}"}]}}));
    assert_eq!(
        text(&scenario, Role::Writer, vec![]).unwrap_err(),
        "roles.writer[0]: the conversation has nothing for {{last_result}}"
    );
}

#[test]
fn a_bad_file_is_refused_with_the_place() {
    let check = |json: Value, message: &str| {
        let problem = Scenario::parse(&json.to_string()).unwrap_err().to_string();
        assert!(problem.contains(message), "{problem}");
    };
    check(json!([]), "at the top: invalid type");
    check(json!({}), "at the top: it has neither");
    check(json!({"rolls": {}}), "at the top: unknown field `rolls`");
    check(json!({"roles": {"pilot": [{"text": "x"}]}}), "at roles.pilot: unknown variant `pilot`");
    check(json!({"roles": {"writer": [{"text": "x"}, {"tex": "x"}]}}), "at roles.writer[1]: unknown field `tex`");
    check(json!({"roles": {"writer": [{}]}}), "at roles.writer[0]: an answer needs");
    check(json!({"roles": {"writer": [{"text": "x", "chunks": 0}]}}), "`chunks` is from 1");
    check(json!({"roles": {"writer": [{"text": "{{promt}}"}]}}), "at roles.writer[0]: {{promt}} is no placeholder");
    check(
        json!({"roles": {"writer": [{"tool_calls": [{"name": "a"}, {"name": "b", "arguments": {"x": ["{{nope}}"]}}]}]}}),
        "at roles.writer[0].tool_calls[1]: {{nope}}",
    );
    check(json!({"roles": {"writer": [{"tool_calls": [{"name": ""}]}]}}), "tool_calls[0]: `name` is empty");
    check(
        json!({"roles": {"writer": [{"tool_calls": [{"name": "a", "arguments": "text"}]}]}}),
        "tool_calls[0]: invalid type: string",
    );
    check(json!({"turns": [{"when": {"turn": 0}, "answer": {"text": "x"}}]}), "at turns[0].when: `turn` counts");
    check(json!({"turns": [{"when": {"contains": ""}, "answer": {"text": "x"}}]}), "`contains` is empty");
    check(json!({"turns": [{"answer": {"error": {"class": "sad"}}}]}), "at turns[0].answer: unknown variant `sad`");
    check(json!({"turns": [{"answer": {"error": {"class": "auth", "times": 1}}}]}), "without `times`");
    check(json!({"scenarios": []}), "at scenarios: it is empty");
    check(json!({"scenarios": [{"roles": {"writer": [{}]}}]}), "at scenarios[0].roles.writer[0]: an answer");
    check(json!({"scenarios": [{"roles": {"writer": [{"text": "x"}]}}], "roles": {}}), "unknown field `roles`");
    let problem = Scenario::parse("{\n  \"roles\": nope}").unwrap_err().to_string();
    assert!(problem.contains("line 2"), "{problem}");
    let long = " ".repeat(SCENARIO_BYTES_MAX + 1);
    assert!(matches!(Scenario::parse(&long), Err(ScenarioError::Long)));
}

#[test]
fn the_documented_example_plays() {
    let scenario = Scenario::parse(include_str!("example.json")).unwrap();
    let first = scenario.answer(&request(Role::Conductor, vec![Message::user("how many?")])).unwrap();
    assert_eq!(first.result.unwrap().message.tool_calls[0].arguments, json!({"objective": "count files"}));
    let then = vec![Message::user("how many?"), said(""), tools(&[r#"{"count": 3}"#])];
    assert_eq!(text(&scenario, Role::Conductor, then).unwrap(), "There are 3 files.");
    let then = vec![Message::user("count files"), said("I look."), tools(&["3"])];
    assert_eq!(text(&scenario, Role::Terminal, then).unwrap(), "3");
}

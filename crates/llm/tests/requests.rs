//! What leaves: addresses, headers, keys, and conversations that no provider refuses.

use choir_llm::{Endpoint, Format, Outgoing, Preset, Secret, encode};
use choir_proto::Role;
use choir_proto::model::{AssistantMessage, Message, ModelRequest, ToolCall, ToolResult};
use serde_json::{Value, json};

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { model: None, role: Role::Writer, system: String::new(), messages, tools: Vec::new(), tokens_max: 50 }
}

fn send(format: Format, preset: Preset, messages: Vec<Message>) -> Value {
    let base_url = "http://127.0.0.1:1";
    let endpoint = Endpoint { base_url, model: "m", key: None, preset, reasoning_tokens: None };
    serde_json::from_slice(&encode(format, &endpoint, &request(messages)).body).unwrap()
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "bash".to_owned(), arguments: json!({}), malformed: None }
}

fn calls(ids: &[&str]) -> Message {
    let tool_calls = ids.iter().map(|id| call(id)).collect();
    Message::Assistant(AssistantMessage { tool_calls, ..AssistantMessage::default() })
}

fn results(ids: &[&str]) -> Message {
    let result = |id: &&str| ToolResult { call_id: (*id).to_owned(), content: String::new(), is_error: false };
    Message::Tools { results: ids.iter().map(result).collect() }
}

fn header<'a>(outgoing: &'a Outgoing, wanted: &str) -> Option<&'a str> {
    outgoing.headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str())
}

#[test]
fn the_key_goes_into_one_header_and_prints_nowhere() {
    let key = Secret::parse("sk-very-secret").unwrap();
    let base_url = "https://example.org/v1";
    let endpoint = Endpoint { base_url, model: "m", key: Some(&key), preset: Preset::Plain, reasoning_tokens: None };
    let anthropic = encode(Format::Anthropic, &endpoint, &request(vec![]));
    assert_eq!(header(&anthropic, "x-api-key"), Some("sk-very-secret"));
    assert_eq!(header(&anthropic, "anthropic-version"), Some("2023-06-01"));
    assert_eq!(anthropic.url, "https://example.org/v1/messages");
    let openai = encode(Format::OpenAi, &endpoint, &request(vec![]));
    assert_eq!(header(&openai, "authorization"), Some("Bearer sk-very-secret"));
    assert_eq!(openai.url, "https://example.org/v1/chat/completions");
    for outgoing in [anthropic, openai] {
        assert_eq!(outgoing.method, "POST");
        assert_eq!(header(&outgoing, "content-type"), Some("application/json"));
        assert!(!format!("{outgoing:?} {endpoint:?}").contains("very-secret"));
    }
}

#[test]
fn no_key_no_header() {
    let base_url = "http://127.0.0.1:8080";
    let endpoint = Endpoint { base_url, model: "m", key: None, preset: Preset::LlamaCpp, reasoning_tokens: None };
    for &format in Format::ALL {
        let outgoing = encode(format, &endpoint, &request(vec![]));
        assert_eq!(header(&outgoing, "x-api-key").or(header(&outgoing, "authorization")), None);
    }
}

/// Ids repeat between answers of small servers, may be empty, and may be too strange for the next provider.
#[test]
fn ids_of_calls_are_made_fit_and_unique_and_results_follow() {
    let messages = vec![
        calls(&["call_0", "functions.bash:0", ""]),
        results(&["call_0", "functions.bash:0", ""]),
        calls(&["call_0"]),
        results(&["call_0"]),
    ];
    let sent = send(Format::Anthropic, Preset::Plain, messages.clone());
    let ids = |message: usize, field: &str| -> Vec<String> {
        let blocks = sent["messages"][message]["content"].as_array().unwrap();
        blocks.iter().map(|block| block[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(0, "id"), ["call_0", "call_1_1", "call_1_2"]);
    assert_eq!(ids(1, "tool_use_id"), ids(0, "id"));
    assert_eq!(ids(2, "id"), ["call_2_0"]);
    assert_eq!(ids(3, "tool_use_id"), ["call_2_0"]);

    let sent = send(Format::OpenAi, Preset::Plain, messages);
    assert_eq!(sent["messages"][0]["tool_calls"][1]["id"], "call_1_1");
    assert_eq!(sent["messages"][2]["tool_call_id"], "call_1_1");
    assert_eq!(sent["messages"][5]["tool_call_id"], "call_2_0");
}

/// Some give every call of an answer the same id.
#[test]
fn each_of_two_calls_with_the_same_id_has_its_own_result() {
    let messages = vec![calls(&["call_1", "call_1"]), results(&["call_1", "call_1"])];
    let sent = send(Format::OpenAi, Preset::Plain, messages);
    let asked = |index: usize| &sent["messages"][0]["tool_calls"][index]["id"];
    assert_ne!(asked(0), asked(1));
    assert_eq!([&sent["messages"][1]["tool_call_id"], &sent["messages"][2]["tool_call_id"]], [asked(0), asked(1)]);
}

#[test]
fn turns_alternate_and_empty_ones_are_left_out() {
    let empty = Message::Assistant(AssistantMessage::default());
    let messages =
        vec![Message::user("a"), empty, Message::user(" "), Message::user("b"), Message::Tools { results: vec![] }];
    let sent = send(Format::Anthropic, Preset::Plain, messages);
    let texts: Vec<&Value> =
        sent["messages"][0]["content"].as_array().unwrap().iter().map(|part| &part["text"]).collect();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1);
    assert_eq!(texts, ["a", "b"]);
}

#[test]
fn arguments_that_are_no_object_become_one() {
    let odd = |arguments: Value| {
        let call = ToolCall { arguments, ..call("a") };
        Message::Assistant(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
    };
    let input = |arguments| {
        send(Format::Anthropic, Preset::Plain, vec![odd(arguments)])["messages"][0]["content"][0]["input"].clone()
    };
    assert_eq!(input(json!([1])), json!({"arguments": [1]}));
    assert_eq!(input(Value::Null), json!({}));
}

#[test]
fn impossible_tool_names_become_possible() {
    let named = |name: &str| {
        let call = ToolCall { name: name.to_owned(), ..call("a") };
        Message::Assistant(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() })
    };
    for (name, wire) in
        [("bash", "bash"), ("mcp.do it", "mcp_do_it"), ("", "unknown"), (&"ä".repeat(99), &"_".repeat(64))]
    {
        let sent = send(Format::Anthropic, Preset::Plain, vec![named(name)]);
        assert_eq!(sent["messages"][0]["content"][0]["name"], wire);
        let sent = send(Format::OpenAi, Preset::Plain, vec![named(name)]);
        assert_eq!(sent["messages"][0]["tool_calls"][0]["function"]["name"], wire);
    }
}

#[test]
fn reasoning_goes_back_only_where_it_is_wanted() {
    let thought = AssistantMessage { text: "t".to_owned(), reasoning: "r".to_owned(), ..AssistantMessage::default() };
    let sent = |preset| send(Format::OpenAi, preset, vec![Message::Assistant(thought.clone())])["messages"][0].clone();
    assert_eq!(sent(Preset::Kimi)["reasoning_content"], "r");
    assert_eq!(sent(Preset::OpenRouter)["reasoning"], "r");
    assert_eq!(sent(Preset::OpenAi), json!({"role": "assistant", "content": "t"}));
    // Anthropic refuses reasoning that it has not signed.
    let blocks =
        send(Format::Anthropic, Preset::Plain, vec![Message::Assistant(thought)])["messages"][0]["content"].clone();
    assert_eq!(blocks, json!([{"type": "text", "text": "t"}]));
}

#[test]
fn reasoning_is_asked_for_on_top_of_the_answer() {
    let base_url = "http://127.0.0.1:1";
    let endpoint = Endpoint { base_url, model: "m", key: None, preset: Preset::Plain, reasoning_tokens: Some(10) };
    let body: Value = serde_json::from_slice(&encode(Format::Anthropic, &endpoint, &request(vec![])).body).unwrap();
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 1024}));
    assert_eq!(body["max_tokens"], 1074);
}

#[test]
fn the_same_request_gives_the_same_bytes() {
    let messages = vec![Message::user("a"), calls(&["x", "x"]), results(&["x"])];
    let base_url = "http://127.0.0.1:1";
    let endpoint = Endpoint { base_url, model: "m", key: None, preset: Preset::Plain, reasoning_tokens: None };
    for &format in Format::ALL {
        let send = || encode(format, &endpoint, &request(messages.clone()));
        assert_eq!(send(), send());
    }
}

//! Providers that misbehave in every way, at the other end of a real instance: each costs patience, none costs data.

use crate::support::Instance;
use choir_llm::{Format, encode_stream};
use choir_proto::model::{Answer, AssistantMessage, StopReason, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How often each case was asked.
type Asked = Arc<Mutex<BTreeMap<String, u32>>>;

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// What a case does when it is asked for the nth time, from 0.
fn behave(case: &str, nth: u32) -> Vec<u8> {
    let refuse = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
        format!("{head}{body}").into_bytes()
    };
    match (case, nth) {
        ("rate_limit_with_time", 0) => refuse("429 Too Many Requests", "retry-after: 0\r\n", ""),
        ("rate_limit", 0) => refuse("429 Too Many Requests", "", "slow down"),
        ("failure", 0) => refuse("500 Internal Server Error", "", "<html>oops</html>"),
        ("truncated", 0) => format!("{STREAM}data: {}\n\n", chunk(json!({"content": "half an"}), None)).into_bytes(),
        ("garbage", 0) => format!("{STREAM}data: }}{{ nonsense\n\ndata: [DONE]\n\n").into_bytes(),
        ("rate_limit_with_date", 0) => {
            refuse("429 Too Many Requests", "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "")
        }
        ("huge", 0) | ("always_huge", _) => answer(json!({"content": "x".repeat(10 << 20)}), "stop"),
        ("wrong_tool", 0) => calls("sing", r#"{"song":"x"}"#),
        ("wrong_arguments", 0) => calls("answer", r#"{"text": 7"#),
        ("endless", _) => calls("answer", r#"{"text":"again"}"#),
        ("wrong_key", _) => {
            refuse("401 Unauthorized", "", r#"{"error":{"message":"Incorrect API key: sk-secret-0123456789"}}"#)
        }
        ("unknown_model", _) => refuse(
            "404 Not Found",
            "",
            r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#,
        ),
        ("too_long", 0..8) => calls("answer", &json!({"text": "z".repeat(4000)}).to_string()),
        ("too_long", 8) => refuse(
            "400 Bad Request",
            "",
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","code":"context_length_exceeded"}}"#,
        ),
        ("blind", _) => refuse("400 Bad Request", "", r#"{"error":{"message":"No image input here."}}"#),
        ("empty", 0) => Vec::new(),
        _ => answer(json!({"content": "Fine."}), "stop"),
    }
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn answer(delta: Value, finish: &str) -> Vec<u8> {
    let (said, end) = (chunk(delta, None), chunk(json!({}), Some(finish)));
    format!("{STREAM}data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n").into_bytes()
}

fn calls(name: &str, arguments: &str) -> Vec<u8> {
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}});
    answer(json!({"tool_calls": [call]}), "tool_calls")
}

/// A server whose behaviour is named by the prompt: `case:NAME.`
fn serve(asked: Asked) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = Arc::clone(&asked);
            std::thread::spawn(move || exchange(stream, &asked));
        }
    });
    port
}

fn exchange(stream: TcpStream, asked: &Asked) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let target = line.clone();
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body);
    let case = match body.split_once("case:").and_then(|(_, rest)| rest.split_once('.')) {
        Some((case, _)) => case.to_owned(),
        None if target.contains("/locked/") => "wrong_key".to_owned(),
        None => "models".to_owned(),
    };
    let nth = {
        let mut asked = asked.lock().unwrap();
        let count = asked.entry(case.clone()).or_default();
        *count += 1;
        *count - 1
    };
    let mut stream = stream;
    if case == "hang" {
        // Until the other side lets go.
        return stream.read(&mut [0]).ok().map(drop);
    }
    if case == "models" {
        let list = r#"{"data":[{"id":"m"}]}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", list.len());
        return stream.write_all(format!("{head}{list}").as_bytes()).ok();
    }
    if case == "picture" {
        return stream.write_all(&look(&target, &body)?).ok();
    }
    stream.write_all(&behave(&case, nth)).ok()
}

/// The picture that is looked for, as each format puts it.
const GIF: &str = "GIF89a\u{1}\0\u{1}\0\0\0\0;";

/// A model that sees, in the format that it is asked in: it says so only where the picture stands as that format wants it.
fn look(target: &str, body: &str) -> Option<Vec<u8>> {
    let data = "R0lGODlhAQABAAAAADs=";
    let (format, name, picture) = match target {
        target if target.contains("/v1/messages") => {
            (Format::Anthropic, "source", json!({"type": "base64", "media_type": "image/gif", "data": data}))
        }
        target if target.contains("/chat/completions") => {
            (Format::OpenAi, "image_url", json!({"url": format!("data:image/gif;base64,{data}")}))
        }
        #[cfg(feature = "bedrock")]
        target if target.contains("/converse-stream") => {
            (Format::Bedrock, "image", json!({"format": "gif", "source": {"bytes": data}}))
        }
        _ => return None,
    };
    let body: Value = serde_json::from_str(body).ok()?;
    let asked = body["messages"].as_array()?.iter().find(|message| message["role"] == "user")?;
    let sees = asked["content"].as_array().is_some_and(|parts| parts.iter().any(|part| part[name] == picture));
    let text = if sees { "A white dot." } else { "There is no picture." }.to_owned();
    let message = AssistantMessage { text, ..AssistantMessage::default() };
    let (stop, usage) = (StopReason::Finished, Usage::default());
    let answer = Answer { message, stop, usage, model: String::new(), window: None, free: None };
    let mut said = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    said.extend(encode_stream(format, &answer, 100));
    Some(said)
}

fn instance() -> (Instance, Asked) {
    let asked = Asked::default();
    let port = serve(Arc::clone(&asked));
    let directory = tempfile::tempdir().unwrap();
    let config = format!(
        "[models]\ndefault = \"local/m\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
         [providers.locked]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/locked/v1\"\n\
         [providers.paid]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
         usd_per_million = {{ input = 1000.0, output = 1000.0 }}\n\
         [providers.claude]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:{port}\"\n{}\
         [providers.gone]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\n",
        match cfg!(feature = "bedrock") {
            true => format!("[providers.aws]\nkind = \"bedrock\"\nbase_url = \"http://127.0.0.1:{port}\"\n"),
            false => String::new(),
        }
    );
    std::fs::write(directory.path().join("choir.toml"), config).unwrap();
    (Instance::start_on(directory), asked)
}

#[test]
fn each_misbehaviour_of_a_provider_has_its_ending() {
    let (instance, asked) = instance();
    // Case, budget, how it ends, how often the provider is asked (0: however often), what is said.
    let cases = [
        ("fine", json!({}), "completed", 1, ""),
        ("rate_limit_with_time", json!({}), "completed", 2, ""),
        ("rate_limit", json!({}), "completed", 2, ""),
        ("failure", json!({}), "completed", 2, ""),
        ("truncated", json!({}), "completed", 2, ""),
        ("garbage", json!({}), "completed", 2, ""),
        ("empty", json!({}), "completed", 2, ""),
        ("huge", json!({}), "completed", 2, ""),
        ("always_huge", json!({}), "failed", 2, "more than"),
        ("rate_limit_with_date", json!({}), "completed", 2, ""),
        ("wrong_tool", json!({}), "completed", 2, ""),
        ("wrong_arguments", json!({}), "completed", 2, ""),
        ("too_long", json!({}), "completed", 10, ""),
        ("endless", json!({"steps": 5}), "out_of_steps", 5, "All 5 steps"),
        ("hang", json!({"time_s": 0.3}), "out_of_time", 1, "time"),
        ("wrong_key", json!({}), "failed", 1, "key"),
        ("unknown_model", json!({}), "failed", 1, "does not exist"),
    ];
    let begun = cases.each_ref().map(|(case, budget, ..)| {
        let (status, run) =
            instance.api("POST /api/runs", &json!({"prompt": format!("case:{case}."), "budget": budget}));
        assert_eq!(status, 202, "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    });
    for (id, (case, _, ending, times, said)) in begun.iter().zip(&cases) {
        let run = ended(&instance, id);
        assert_eq!(run["status"], *ending, "{case}: {run}");
        assert!(run["reason"].as_str().unwrap_or_default().contains(said), "{case}: {run}");
        assert_eq!(asked.lock().unwrap()[*case], *times, "{case}");
        assert!(!run.to_string().contains("sk-secret-0123456789"), "{case}: a key is in the run");
    }
    let log = crate::support::stdout(&instance.choir(&["events", "--json"]));
    assert!(!log.contains("sk-secret-0123456789"), "what a provider echoes is in the log");
    for class in ["rate_limit", "oversized", "overloaded", "truncated", "garbage", "auth", "bad_request"] {
        assert!(log.contains(&format!("\"class\":\"{class}\"")), "{class} is in the log");
    }
}

fn ended(instance: &Instance, id: &str) -> Value {
    instance.follow(|event| event["kind"] == "run.ended" && event["run"] == *id);
    instance.api(&format!("GET /api/runs/{id}"), &Value::Null).1
}

#[test]
fn a_picture_that_the_person_points_at_reaches_the_model_and_one_that_takes_none_says_so() {
    let (instance, _) = instance();
    let bearer = format!("authorization: Bearer {}\r\n", instance.token("admin"));
    let headers = format!("{bearer}content-type: image/gif\r\n");
    let answer = instance.http("POST /api/artifacts", &headers, GIF);
    let (_, artifact) = answer.split_once("\r\n\r\n").unwrap();
    let artifact: Value = serde_json::from_str(artifact).unwrap();
    let brought_in = json!({"artifact_id": artifact["artifact_id"]});
    // A file of the workspace is a picture by what is in it, whatever it is called.
    let put = format!("{bearer}content-type: application/octet-stream\r\n");
    for (path, content) in [("dot", GIF), ("words.gif", "no picture at all")] {
        assert!(instance.http(&format!("PUT /api/files?path={path}"), &put, content).starts_with("HTTP/1.1 200"));
    }
    let mut cases = vec![
        ("local/m", "blind", brought_in.clone(), "failed"),
        ("local/m", "picture", json!({"path": "words.gif"}), "no picture"),
    ];
    let formats = [("local/m", true), ("claude/m", true), ("aws/m", cfg!(feature = "bedrock"))];
    for (model, _) in formats.into_iter().filter(|(_, is_built)| *is_built) {
        for context in [brought_in.clone(), json!({"path": "dot"})] {
            cases.push((model, "picture", context, "white dot"));
        }
    }
    for (model, case, context, said) in cases {
        let new = json!({"prompt": format!("case:{case}."), "context": [context], "model": model});
        let (status, run) = instance.api("POST /api/runs", &new);
        assert_eq!(status, 202, "{run}");
        let run = ended(&instance, run["run_id"].as_str().unwrap());
        let told = run["reason"].as_str().unwrap_or_default();
        let as_wanted = match said {
            "failed" => run["status"] == "failed" && told.contains("holds a picture"),
            said => run["status"] == "completed" && run.to_string().contains(said),
        };
        assert!(as_wanted, "{model}, {new}: {run}");
    }
}

#[test]
fn what_broke_off_is_on_the_receipt() {
    let (instance, _) = instance();
    let new = json!({"prompt": "case:truncated.", "model": "paid/m"});
    let (_, run) = instance.api("POST /api/runs", &new);
    let id = run["run_id"].as_str().unwrap().to_owned();
    let run = ended(&instance, &id);
    let log = crate::support::stdout(&instance.choir(&["events", "--json"]));
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().find(|event| event["kind"] == kind && event["run"] == *id).unwrap();
    let answered = of("model.called")["payload"]["usage"]["usd"].as_f64().unwrap();
    let unanswered = of("run.ended")["payload"]["unanswered"]["usd"].as_f64().unwrap_or_default();
    assert!(answered > 0.0 && unanswered > 0.0, "{run}");
    let receipt = run["usage"]["usd"].as_f64().unwrap();
    assert!((receipt - answered - unanswered).abs() < 1e-6, "{receipt} is not {answered} and {unanswered}");
}

/// A task that nobody's run asked for has a receipt of its own.
#[test]
fn what_broke_off_is_on_the_receipt_of_a_task_of_its_own() {
    let (instance, _) = instance();
    let result = instance.task(&json!({"kind": "research", "instruction": "case:truncated."}));
    assert_eq!(result["status"], "ok", "{result}");
    let answers: Vec<Value> = instance.events().into_iter().filter(|event| event["kind"] == "model.called").collect();
    let tokens = |answer: &Value| {
        let usage = &answer["payload"]["usage"];
        ["input_tokens", "output_tokens"].iter().filter_map(|sort| usage[sort].as_u64()).sum::<u64>()
    };
    let answered: u64 = answers.iter().map(tokens).sum();
    assert!(result["usage"]["tokens"].as_u64().unwrap() > answered, "{answered} of {result}");
}

#[test]
fn a_server_that_is_not_there_costs_patience_and_then_the_budget() {
    let (instance, _) = instance();
    let new = json!({"prompt": "case:gone.", "model": "gone/m", "budget": {"time_s": 1.0}});
    let (_, run) = instance.api("POST /api/runs", &new);
    let run = ended(&instance, run["run_id"].as_str().unwrap());
    assert_eq!(run["status"], "out_of_time", "{run}");
    let log = crate::support::stdout(&instance.choir(&["events", "--json"]));
    assert!(log.contains("cannot be reached"), "{log}");
}

#[test]
fn trying_a_provider_answers_in_plain_words() {
    let (instance, _) = instance();
    for (name, ok, said) in [("local", true, "answers"), ("locked", false, "key"), ("gone", false, "cannot be reached")]
    {
        let (status, tried) = instance.api(&format!("POST /api/providers/{name}/test"), &json!({}));
        assert_eq!((status, tried["ok"].as_bool()), (200, Some(ok)), "{name}: {tried}");
        let message = tried["message"].as_str().unwrap();
        assert!(message.contains(said) && message.ends_with('.'), "{name}: {message}");
        assert!(!message.contains("sk-secret"), "{message}");
    }
    assert_eq!(instance.api("POST /api/providers/nobody/test", &json!({})).0, 404);
}

#[test]
fn a_run_is_replayed_and_kept_as_a_transcript_without_keys() {
    let scenario = r#"{"roles": {"conductor": [
        {"tool_calls": [{"name": "answer", "arguments": {"text": "the key is sk-live-0123456789abcdef"}}]},
        {"tool_calls": [{"name": "finish", "arguments": {"summary": "done"}}]}]}}"#;
    let instance = Instance::start(scenario);
    let (_, run) = instance.api("POST /api/runs", &json!({"prompt": "say it"}));
    let id = run["run_id"].as_str().unwrap().to_owned();
    ended(&instance, &id);
    let file = instance.directory.path().join("run.jsonl");
    let path = file.to_str().unwrap();
    let replayed = instance.choir(&["replay", &id, "--json", "--save", path]);
    let said: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(
        (replayed.status.code(), &said["turns"], &said["model_calls"]),
        (Some(0), &json!(2), &json!(0)),
        "{said}"
    );
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(!kept.contains("sk-live") && kept.contains("[redacted]"), "{kept}");
    let again = instance.choir(&["replay", "--from", path]);
    assert_eq!(again.status.code(), Some(0), "{}{}", crate::support::stdout(&again), crate::support::stderr(&again));

    let changed = kept.replacen("\"turn\":2", "\"turn\":9", 1);
    assert_ne!(changed, kept);
    std::fs::write(&file, changed).unwrap();
    let elsewhere = instance.choir(&["replay", "--from", path]);
    assert_eq!(elsewhere.status.code(), Some(3));
    assert!(crate::support::stdout(&elsewhere).contains("turn 9"), "{}", crate::support::stdout(&elsewhere));
    assert_eq!(instance.choir(&["replay", "00000000-0000-0000-0000-000000000000"]).status.code(), Some(1));
}

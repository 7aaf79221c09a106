//! A provider on loopback in every wire format, whose models each have one case to play: who asks says the model's name, and what
//! the conversation already holds says how far its run has come.

use super::{Case, Fault, MOMENTS, STEPS};
use choir_llm::{Format, encode_stream};
use choir_proto::model::{Answer, AssistantMessage, StopReason, ToolCall, Usage};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When to come back, as it is said.
const COME_BACK: Duration = Duration::from_secs(1);

/// What a clock that is read on two sides of a connection may differ by.
const TOLERANCE: Duration = Duration::from_millis(20);

/// An answer that is far too long.
const HUGE_BYTES: usize = 10 << 20;

/// Characters of each piece of an answer.
const PIECE_CHARS: usize = 64 << 10;

/// The longest question that is listened to.
const QUESTION_BYTES_MAX: usize = 64 << 20;

/// What the worker is told; nobody else says that.
const OBJECTIVE: &str = "leave one mark for each step";

/// The model that plays a case.
pub(super) fn name(index: usize) -> String {
    format!("played-{index}")
}

/// Where the steps of a case leave their marks.
pub(super) fn file(index: usize) -> String {
    format!("steps-{index}.txt")
}

/// One model and what it remembers.
#[derive(Debug)]
pub(super) struct Model {
    case: Case,
    always: bool,
    /// When it failed first.
    failed: Option<Instant>,
    too_soon: bool,
}

impl Model {
    pub(super) fn new(case: Case, always: bool) -> Self {
        Self { case, always, failed: None, too_soon: false }
    }

    /// Whether it fails now.
    fn fails(&mut self, moment: u64) -> bool {
        if moment != self.case.moment {
            return false;
        }
        let Some(first) = self.failed else {
            self.failed = Some(Instant::now());
            return true;
        };
        self.too_soon |= self.case.fault == Fault::RateLimitTimed && first.elapsed() + TOLERANCE < COME_BACK;
        self.always
    }
}

/// Runs until this process ends; nothing of it is worth ending before.
pub(super) struct Server {
    address: SocketAddr,
    models: Arc<Mutex<Vec<Model>>>,
}

impl Server {
    pub(super) fn start(models: Vec<Model>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let models = Arc::new(Mutex::new(models));
        let shared = Arc::clone(&models);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let models = Arc::clone(&shared);
                // Whoever asks may break off at any time.
                std::thread::spawn(move || exchange(stream, &models));
            }
        });
        Ok(Self { address, models })
    }

    /// A provider of each format, by its name.
    pub(super) fn config(&self, formats: &[Format]) -> String {
        let section = |format: &Format| {
            let (name, path) = (format.name(), if *format == Format::OpenAi { "/v1" } else { "" });
            format!("[providers.{name}]\nkind = \"{name}\"\nbase_url = \"http://{}{path}\"\n", self.address)
        };
        formats.iter().map(section).collect()
    }

    /// Whether a case has failed at all: its run's time may have been over before.
    pub(super) fn has_failed(&self, index: usize) -> bool {
        lock(&self.models).get(index).is_some_and(|model| model.failed.is_some())
    }

    /// Whether a case was asked again before the time that it had said.
    pub(super) fn was_too_soon(&self, index: usize) -> bool {
        lock(&self.models).get(index).is_some_and(|model| model.too_soon)
    }
}

fn lock(models: &Mutex<Vec<Model>>) -> MutexGuard<'_, Vec<Model>> {
    models.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing where whoever asks has gone or makes no sense: they see a connection that ends.
fn exchange(mut stream: TcpStream, models: &Mutex<Vec<Model>>) -> Option<()> {
    let (target, body) = question(&stream)?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    let model = body["model"].as_str().or_else(|| target.split('/').skip_while(|part| *part != "model").nth(1))?;
    let index: usize = model.strip_prefix("played-")?.parse().ok()?;
    let (case, fails, moment) = {
        let mut models = lock(models);
        let model = models.get_mut(index)?;
        let moment = moment(&body, &model.case);
        (model.case, model.fails(moment), moment)
    };
    let bytes = match fails {
        true => misbehave(&case, moment, index)?,
        false => whole(case.format, &answer(&case, moment, index)),
    };
    match (fails, case.fault) {
        // Until the other side lets go.
        (true, Fault::Hang) => stream.read(&mut [0]).ok().map(drop),
        (true, Fault::Truncated) => stream.write_all(&bytes[..bytes.len() * 2 / 3]).ok(),
        _ => stream.write_all(&bytes).ok(),
    }
}

/// A request's target and its body.
fn question(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    while !line.trim().is_empty() {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok().filter(|length| *length <= QUESTION_BYTES_MAX)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((target, body))
}

/// How far a run has come, by what it has been told to do so far.
fn moment(body: &Value, case: &Case) -> u64 {
    let (offered, said) = (body.to_string(), body["messages"].to_string());
    if !offered.contains("search_files") {
        return if said.contains(OBJECTIVE) { MOMENTS - 1 } else { 0 };
    }
    let times = if case.twice { 2 } else { 1 };
    let is_done = |step: &u64| said.matches(&format!("step={step};")).count() >= times;
    1 + (1..=STEPS).take_while(is_done).count() as u64
}

/// What a model that works says at a moment.
fn answer(case: &Case, moment: u64, index: usize) -> Answer {
    let step = format!("step={moment}; echo mark=$step >> {0}; cat {0}", file(index));
    match moment {
        0 => calls("delegate", json!({"role": "terminal", "objective": OBJECTIVE}), None),
        1..=STEPS => calls("bash", json!({"command": step}), None),
        _ => calls("finish", json!({"summary": format!("done in {}", case.format.name())}), None),
    }
}

fn calls(name: &str, arguments: Value, malformed: Option<String>) -> Answer {
    let call = ToolCall { id: "call-1".into(), name: name.into(), arguments, malformed };
    let text = "Let me see.".to_owned();
    said(AssistantMessage { text, tool_calls: vec![call], ..AssistantMessage::default() }, StopReason::ToolUse)
}

fn said(message: AssistantMessage, stop: StopReason) -> Answer {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    Answer { message, stop, usage, model: String::new(), window: None, free: None }
}

fn whole(format: Format, answer: &Answer) -> Vec<u8> {
    let kind = match format {
        Format::Bedrock => "application/vnd.amazon.eventstream",
        Format::Anthropic | Format::OpenAi => "text/event-stream",
    };
    let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n").into_bytes();
    bytes.extend(encode_stream(format, answer, PIECE_CHARS));
    bytes
}

/// What is sent in place of an answer; nothing at all for a connection that just ends.
fn misbehave(case: &Case, moment: u64, index: usize) -> Option<Vec<u8>> {
    let refuse = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
        Some(format!("{head}{body}").into_bytes())
    };
    let is_worker = (1..MOMENTS - 1).contains(&moment);
    let speak = |answer: &Answer| Some(whole(case.format, answer));
    match case.fault {
        Fault::RateLimitTimed => {
            refuse("429 Too Many Requests", &format!("retry-after: {}\r\n", COME_BACK.as_secs()), "")
        }
        Fault::RateLimit => refuse("429 Too Many Requests", "", "slow down"),
        Fault::Failure => refuse("500 Internal Server Error", "", "<html>oops</html>"),
        Fault::Overloaded => refuse("503 Service Unavailable", "", r#"{"message":"busy"}"#),
        Fault::Hang => Some(Vec::new()),
        Fault::Empty => None,
        Fault::Truncated => speak(&answer(case, moment, index)),
        Fault::Garbage => {
            let mut bytes = whole(case.format, &answer(case, moment, index));
            let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
            bytes.truncate(at);
            bytes.extend_from_slice("data: }{ nonsense \u{1b}[2J\n\ndata: [DONE]\n\n".as_bytes());
            Some(bytes)
        }
        Fault::Huge => {
            let text = "x".repeat(HUGE_BYTES);
            speak(&said(AssistantMessage { text, ..AssistantMessage::default() }, StopReason::Finished))
        }
        Fault::WrongTool => speak(&calls("sing", json!({"song": "x"}), None)),
        Fault::WrongArguments if is_worker => speak(&calls("bash", json!({"order": 7}), None)),
        Fault::WrongArguments => speak(&calls("delegate", Value::Null, Some(r#"{"role": "#.into()))),
        Fault::Endless if is_worker => speak(&calls("list_files", json!({"path": "."}), None)),
        Fault::Endless => speak(&calls("answer", json!({"text": "again"}), None)),
    }
}

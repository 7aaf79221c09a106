//! A server at an address. The person has named it, so it may be near; it is asked at the address that was decided about,
//! without cookies, proxies or redirects, and what it answers with ends somewhere.

use super::program::MESSAGE_BYTES_MAX;
use super::session::{LastWords, Trouble, Wire};
use crate::egress::{self, Decision};
use choir_llm::{EventParser, Secret};
use choir_proto::TaskId;
use reqwest::{Client, RequestBuilder, Response, Url};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a server may take to be found and to answer the handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// No answer is worth more; a call has its own wall.
const TOTAL: Duration = Duration::from_secs(3600);
/// Messages that may wait to be read.
const QUEUE_MAX: usize = 64;
/// By which a server knows its conversations apart.
const SESSION: &str = "mcp-session-id";
/// Longest name of a conversation.
const SESSION_BYTES_MAX: usize = 1024;
/// What both have agreed to speak, in every message after that.
const VERSION: &str = "mcp-protocol-version";
/// A version is a date.
const VERSION_BYTES_MAX: usize = 32;

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the server cannot be reached")]
    Unreachable(#[source] reqwest::Error),
}

/// Decides about the address, tells it, and speaks to it.
pub(super) async fn speak(
    url: &str,
    token: Option<&Secret>,
    task: TaskId,
    decisions: &mpsc::Sender<Decision>,
) -> Result<Wire<Web>, Trouble> {
    let wrong = |why: String| Trouble::new(format!("cannot be reached: {why}"));
    let url = Url::parse(url).map_err(|_| wrong("its address is none".to_owned()))?;
    let (host, port) = egress::host_and_port(&url).map_err(|error| wrong(error.to_string()))?;
    let named = egress::Ceiling::new(vec![format!("{host}:{port}")], []);
    let decided = egress::decide(&host, port, &named).await;
    let outcome = decided.as_ref().map(|(rule, _)| rule.clone()).map_err(ToString::to_string);
    // Nobody keeps decisions any more: control is stopping.
    decisions.send(Decision { task: Some(task), host: host.to_string(), port, outcome }).await.ok();
    let (_, address) = decided.map_err(|error| wrong(error.to_string()))?;
    // The first caller wins; every later one finds what it wanted.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = Client::builder()
        .resolve(url.host_str().unwrap_or_default(), address)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        .timeout(TOTAL)
        .user_agent(concat!("choir/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let (sender, messages) = mpsc::channel(QUEUE_MAX);
    let last_words = LastWords::default();
    let line =
        Line { client, url, token: token.cloned(), agreed: Arc::default(), last_words: last_words.clone(), sender };
    Ok(Wire { transport: Web { line, messages }, last_words })
}

/// The transport: each message is a request of its own.
pub(super) struct Web {
    line: Line,
    messages: mpsc::Receiver<Said>,
}

/// A message, or that an answer broke off.
type Said = Option<RxJsonRpcMessage<RoleClient>>;

/// What a conversation has, once the server has said it.
#[derive(Default)]
struct Agreed {
    session: Option<String>,
    version: Option<String>,
}

/// As much of an answer to the handshake as the transport has to know.
#[derive(serde::Deserialize)]
struct Handshake {
    result: HandshakeResult,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandshakeResult {
    protocol_version: String,
}

#[derive(Clone)]
struct Line {
    client: Client,
    url: Url,
    token: Option<Secret>,
    agreed: Arc<Mutex<Agreed>>,
    last_words: LastWords,
    sender: mpsc::Sender<Said>,
}

impl Transport<RoleClient> for Web {
    type Error = WebError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), WebError>> + Send + 'static {
        let line = self.line.clone();
        async move { line.send(message).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await.flatten()
    }

    async fn close(&mut self) -> Result<(), WebError> {
        self.messages.close();
        Ok(())
    }
}

impl Line {
    async fn send(self, message: TxJsonRpcMessage<RoleClient>) -> Result<(), WebError> {
        let is_request = matches!(message, TxJsonRpcMessage::<RoleClient>::Request(_));
        let mut request = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(serde_json::to_vec(&message).unwrap_or_default());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        request = self.agreed().stamp(request);
        let answer = request.send().await.map_err(|error| {
            self.last_words.say("cannot be reached");
            WebError::Unreachable(error.without_url())
        })?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            self.last_words.say(match status {
                401 | 403 => format!("did not accept the token (status {status})"),
                _ => format!("answered with status {status}"),
            });
            return Err(WebError::Status(status));
        }
        let named = answer.headers().get(SESSION).and_then(|name| name.to_str().ok());
        if let Some(name) = named.filter(|name| name.len() <= SESSION_BYTES_MAX) {
            self.agreed().session = Some(name.to_owned());
        }
        if is_request {
            tokio::spawn(async move {
                let sender = self.sender.clone();
                tokio::select! {
                    () = self.hear(answer) => {}
                    // Nobody listens any more: the connection goes too.
                    () = sender.closed() => {}
                }
            });
        }
        Ok(())
    }

    fn agreed(&self) -> std::sync::MutexGuard<'_, Agreed> {
        self.agreed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Passes on what is in an answer. One that ends without a word ends the conversation: nobody shall wait for it.
    async fn hear(self, answer: Response) {
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let heard = if kind.starts_with("text/event-stream") {
            self.hear_events(answer).await
        } else {
            self.hear_one(answer).await
        };
        if let Err(why) = heard {
            self.last_words.say(why);
            // Whoever would hear it has gone.
            self.sender.send(None).await.ok();
        }
    }

    async fn hear_one(&self, mut answer: Response) -> Result<(), String> {
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|_| BROKE_OFF.to_owned())? {
            body.extend_from_slice(&piece);
            if body.len() > MESSAGE_BYTES_MAX {
                return Err("sent a message that is too long".to_owned());
            }
        }
        self.pass(&body).await.map(drop)
    }

    async fn hear_events(&self, mut answer: Response) -> Result<(), String> {
        let (mut parser, mut total) = (EventParser::up_to(MESSAGE_BYTES_MAX), 0);
        while let Some(piece) = answer.chunk().await.map_err(|_| BROKE_OFF.to_owned())? {
            total += piece.len();
            if total > MESSAGE_BYTES_MAX {
                return Err("sent a message that is too long".to_owned());
            }
            let mut rest = &piece[..];
            while let Some(event) = parser.next(&mut rest).map_err(|_| NONSENSE.to_owned())? {
                if event.is_empty() {
                    continue;
                }
                if self.pass(event.as_bytes()).await? {
                    return Ok(());
                }
            }
        }
        Err(BROKE_OFF.to_owned())
    }

    /// Whether this was the answer that was waited for.
    async fn pass(&self, message: &[u8]) -> Result<bool, String> {
        // Known before anybody hears the answer: whatever they say to it has to carry it.
        self.agreed().hear(message);
        let message: RxJsonRpcMessage<RoleClient> = serde_json::from_slice(message).map_err(|_| NONSENSE.to_owned())?;
        let is_last =
            matches!(message, RxJsonRpcMessage::<RoleClient>::Response(_) | RxJsonRpcMessage::<RoleClient>::Error(_));
        // Whoever would hear it has gone.
        self.sender.send(Some(message)).await.ok();
        Ok(is_last)
    }
}

impl Agreed {
    fn stamp(&self, mut request: RequestBuilder) -> RequestBuilder {
        for (name, value) in [(SESSION, &self.session), (VERSION, &self.version)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request
    }

    /// The first answer is the one to the handshake, and says which version it is.
    fn hear(&mut self, message: &[u8]) {
        if self.version.is_some() {
            return;
        }
        let is_version = |version: &String| {
            version.len() <= VERSION_BYTES_MAX && version.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let handshake = serde_json::from_slice(message).ok().map(|heard: Handshake| heard.result.protocol_version);
        self.version = handshake.filter(is_version);
    }
}

const BROKE_OFF: &str = "broke off in the middle of an answer";
const NONSENSE: &str = "answered with something that is not MCP";

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::response::{IntoResponse, Response as Answered};
    use serde_json::{Value, json};
    use std::sync::mpsc::{Receiver, channel};

    const TEXT_BYTES: usize = 5 << 20;

    /// A server that answers by events, and which version each message was said to be in.
    async fn server() -> (String, Receiver<(String, Option<String>)>) {
        let (heard, messages) = channel();
        let answer = async move |headers: http::HeaderMap, body: String| -> Answered {
            let message: Value = serde_json::from_str(&body).unwrap();
            let version = headers.get(VERSION).map(|version| version.to_str().unwrap().to_owned());
            let method = message["method"].as_str().unwrap().to_owned();
            heard.send((method.clone(), version)).unwrap();
            let result = match method.as_str() {
                "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {},
                    "serverInfo": {"name": "far", "version": "1"}}),
                "tools/call" => json!({"content": [{"type": "text", "text": "x".repeat(TEXT_BYTES)}]}),
                _ => return http::StatusCode::ACCEPTED.into_response(),
            };
            let said = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            ([("content-type", "text/event-stream")], format!("data: {said}\n\n")).into_response()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        (url, messages)
    }

    async fn ask(web: &mut Web, message: Value) -> Option<Value> {
        let is_request = message.get("id").is_some();
        web.send(serde_json::from_value(message).unwrap()).await.unwrap();
        if !is_request {
            return None;
        }
        web.receive().await.map(|answer| serde_json::to_value(answer).unwrap())
    }

    #[tokio::test]
    async fn every_message_says_which_version_was_agreed_on_and_a_long_answer_by_events_is_heard() {
        let (url, messages) = server().await;
        let (decisions, _decided) = mpsc::channel(8);
        let task = TaskId::from([1; 16]);
        let mut web = speak(&url, None, task, &decisions).await.map_err(|_| "no wire").unwrap().transport;
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "choir", "version": "1"}}});
        ask(&mut web, hello).await.expect("a handshake");
        ask(&mut web, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "print"}});
        let answer = ask(&mut web, call).await.expect("an answer");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.len(), TEXT_BYTES);
        let agreed = || Some("2025-06-18".to_owned());
        let versions: Vec<_> = messages.try_iter().collect();
        let said = [("initialize", None), ("notifications/initialized", agreed()), ("tools/call", agreed())];
        assert_eq!(versions, said.map(|(method, version)| (method.to_owned(), version)));
    }
}

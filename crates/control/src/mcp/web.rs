//! A server at an address. The person has named it, so it may be near; it is asked at the address that was decided about,
//! without cookies, proxies or redirects, and what it answers with ends somewhere.

use super::program::MESSAGE_BYTES_MAX;
use super::session::{LastWords, Trouble, Wire};
use crate::egress::{self, Decision};
use choir_llm::{EventParser, Secret};
use choir_proto::TaskId;
use reqwest::{Client, Response, Url};
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
        Line { client, url, token: token.cloned(), session: Arc::default(), last_words: last_words.clone(), sender };
    Ok(Wire { transport: Web { line, messages }, last_words })
}

/// The transport: each message is a request of its own.
pub(super) struct Web {
    line: Line,
    messages: mpsc::Receiver<Said>,
}

/// A message, or that an answer broke off.
type Said = Option<RxJsonRpcMessage<RoleClient>>;

#[derive(Clone)]
struct Line {
    client: Client,
    url: Url,
    token: Option<Secret>,
    session: Arc<Mutex<Option<String>>>,
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
        if let Some(session) = self.session().clone() {
            request = request.header(SESSION, session);
        }
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
            *self.session() = Some(name.to_owned());
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

    fn session(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
        let (mut parser, mut total) = (EventParser::default(), 0);
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
        let message: RxJsonRpcMessage<RoleClient> = serde_json::from_slice(message).map_err(|_| NONSENSE.to_owned())?;
        let is_last =
            matches!(message, RxJsonRpcMessage::<RoleClient>::Response(_) | RxJsonRpcMessage::<RoleClient>::Error(_));
        // Whoever would hear it has gone.
        self.sender.send(Some(message)).await.ok();
        Ok(is_last)
    }
}

const BROKE_OFF: &str = "broke off in the middle of an answer";
const NONSENSE: &str = "answered with something that is not MCP";

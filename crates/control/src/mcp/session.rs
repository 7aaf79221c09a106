//! One conversation with one server.

use super::definition::{self, Definitions};
use crate::gateway::veil;
use choir_llm::Secret;
use choir_proto::Hash;
use choir_proto::event::OfferedTool;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, Implementation, ListToolsRequest, PaginatedRequestParams, ResourceContents, ServerResult, Tool,
};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, serve_client};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a server may take until it can be spoken to, and for a list of its tools.
const START_TIME: Duration = Duration::from_secs(10);
/// Pages of a list of tools.
const PAGES_MAX: usize = 16;
/// Of what a server says about a failure.
const WORDS_CHARS_MAX: usize = 500;

/// What is wrong with a server, to follow its name in a sentence.
#[derive(Debug, Clone)]
pub(super) struct Trouble(String);

impl Trouble {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a transport knows of the end of its server; shared with whoever asks why.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<Option<String>>>);

impl LastWords {
    /// The first reason counts; later ones follow from it.
    pub(super) fn say(&self, words: impl Into<String>) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(words.into());
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// A transport, and where it says why it ended.
pub(super) struct Wire<T> {
    pub(super) transport: T,
    pub(super) last_words: LastWords,
}

/// A conversation that was begun. Dropped, it is over.
pub(super) struct Session {
    name: String,
    /// What it may not say of its tools.
    token: Option<Secret>,
    running: RunningService<RoleClient, Ears>,
    last_words: LastWords,
    definitions: Definitions,
    changed: Arc<AtomicBool>,
}

/// What a server may tell us. It may ask for nothing.
struct Ears {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("choir", env!("CARGO_PKG_VERSION")))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::SeqCst);
    }
}

impl Session {
    /// Says hello. A server that does not answer in time is none.
    pub(super) async fn begin<T>(name: &str, token: Option<Secret>, wire: Wire<T>) -> Result<Self, Trouble>
    where
        T: Transport<RoleClient> + 'static,
    {
        let Wire { transport, last_words } = wire;
        let changed = Arc::new(AtomicBool::new(true));
        let hello = serve_client(Ears { changed: Arc::clone(&changed) }, transport);
        let running = match tokio::time::timeout(START_TIME, hello).await {
            Ok(Ok(running)) => running,
            Ok(Err(error)) => {
                let said = || format!("does not speak MCP ({})", plain(token.as_ref(), &error.to_string()));
                return Err(Trouble(last_words.get().unwrap_or_else(said)));
            }
            Err(_) => return Err(Trouble(format!("did not answer within {} s", START_TIME.as_secs()))),
        };
        Ok(Self { name: name.to_owned(), token, running, last_words, definitions: Definitions::default(), changed })
    }

    pub(super) fn is_over(&self) -> bool {
        self.running.is_closed() || self.running.peer().is_transport_closed()
    }

    /// Why it is over.
    pub(super) fn trouble(&self) -> Trouble {
        Trouble(self.last_words.get().unwrap_or_else(|| "broke off".to_owned()))
    }

    pub(super) fn offered(&self) -> Vec<OfferedTool> {
        self.definitions.tools.clone()
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.definitions.problem.clone()
    }

    /// Asks for the tools, unless they are known and nothing was said of others.
    pub(super) async fn list_if_changed(&mut self) -> Result<(), Trouble> {
        if self.changed.load(Ordering::SeqCst) { self.list().await } else { Ok(()) }
    }

    /// Asks for the tools. Not by the library's own way, which believes a server about how long its word holds.
    pub(super) async fn list(&mut self) -> Result<(), Trouble> {
        self.changed.store(false, Ordering::SeqCst);
        let listed = tokio::time::timeout(START_TIME, self.pages()).await;
        let silent = || Trouble(format!("did not say within {} s which tools it has", START_TIME.as_secs()));
        self.definitions = definition::read(&self.name, self.token.as_ref(), listed.map_err(|_| silent())??);
        Ok(())
    }

    async fn pages(&self) -> Result<Vec<Tool>, Trouble> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..ListToolsRequest::default() };
            let answer = self.running.peer().send_request(ClientRequest::ListToolsRequest(request)).await;
            let ServerResult::ListToolsResult(page) = answer.map_err(|error| self.failed(error))? else {
                return Err(Trouble::new("answered something else than its tools"));
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(Trouble::new("has an endless list of tools"))
    }

    /// The tool that was offered, or why there is no such one any more.
    pub(super) fn find(&self, name: &str, definition: Hash) -> Result<Callable, String> {
        let Some(tool) = self.definitions.tools.iter().find(|tool| tool.name == name) else {
            return Err(format!("The server `{}` has no tool `{name}` any more.", self.name));
        };
        if tool.definition != definition {
            return Err(format!(
                "The server `{}` has changed what `{name}` is since it was offered. It was not called. Look at it as it is \
                 now, and ask again.",
                self.name
            ));
        }
        let plain = name.split_once(definition::BETWEEN).and_then(|(_, rest)| rest.split_once(definition::BETWEEN));
        let plain = plain.map_or(name, |(_, plain)| plain).to_owned();
        let (peer, last_words) = (self.running.peer().clone(), self.last_words.clone());
        Ok(Callable { plain, token: self.token.clone(), peer, last_words })
    }

    fn failed(&self, error: ServiceError) -> Trouble {
        failed(self.token.as_ref(), &self.last_words, error)
    }
}

/// A tool that may be called.
pub(super) struct Callable {
    plain: String,
    token: Option<Secret>,
    peer: Peer<RoleClient>,
    last_words: LastWords,
}

impl Callable {
    /// Calls it; text, and whether it says that it failed. An error means that nobody knows what came of it.
    pub(super) async fn call(self, arguments: serde_json::Value, wall: Duration) -> Result<(String, bool), Trouble> {
        let serde_json::Value::Object(arguments) = arguments else {
            return Ok(("The arguments are no object.".to_owned(), true));
        };
        let params = CallToolRequestParams::new(self.plain).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match tokio::time::timeout(wall, self.peer.send_request(request)).await {
            Err(_) => Err(Trouble(format!("did not answer within {} s", wall.as_secs_f64()))),
            Ok(Ok(ServerResult::CallToolResult(result))) => Ok(read(result)),
            Ok(Ok(_)) => Err(Trouble::new("answered something else than what the tool said")),
            // The server refuses in the words of the protocol: that is an answer.
            Ok(Err(ServiceError::McpError(error))) => {
                Ok((format!("The server refused: {}", plain(self.token.as_ref(), &error.message)), true))
            }
            Ok(Err(error)) => Err(failed(self.token.as_ref(), &self.last_words, error)),
        }
    }
}

fn failed(token: Option<&Secret>, last_words: &LastWords, error: ServiceError) -> Trouble {
    Trouble(last_words.get().unwrap_or_else(|| match error {
        ServiceError::McpError(error) => format!("refused: {}", plain(token, &error.message)),
        ServiceError::UnexpectedResponse => "answered something that is not asked for".to_owned(),
        other => format!("broke off ({})", plain(token, &other.to_string())),
    }))
}

/// What a tool said, as text. What is no text is told of.
fn read(result: CallToolResult) -> (String, bool) {
    let is_error = result.is_error.unwrap_or(false);
    let mut parts: Vec<String> = result.content.into_iter().map(part).collect();
    if parts.is_empty()
        && let Some(structured) = result.structured_content
    {
        parts.push(structured.to_string());
    }
    (parts.join("\n"), is_error)
}

fn part(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => {
            format!("(A picture of type {}, {} characters.)", image.mime_type, image.data.len())
        }
        ContentBlock::Audio(audio) => {
            format!("(A sound of type {}, {} characters.)", audio.mime_type, audio.data.len())
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            _ => "(Bytes that are no text.)".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("(A link: {})", link.uri),
        _ => "(Something that is no text.)".to_owned(),
    }
}

/// Without the token before it is cut: of what is cut, a part would be left.
fn plain(token: Option<&Secret>, text: &str) -> String {
    let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
    if let Some(token) = token.and_then(veil::to_hide) {
        veil::hide(&mut text, token);
    }
    text.chars().take(WORDS_CHARS_MAX).collect()
}

//! Tools of MCP servers. A program runs inside of the task's sandbox and is spoken to through its standard input and
//! output; an address is spoken to from here, like every other one outside.
//!
//! Whatever a server says is data: which tools it has, what they are for, and what they answer. It gets no answer to what
//! it asks of us. A call needs what every call needs, and is bound to the tool as it was offered.

mod definition;
mod program;
mod router;
mod session;
mod web;

pub use router::service;

use crate::config::McpServer;
use crate::db::{self, Db};
use crate::egress::Decision;
use crate::gateway::{Gateway, veil};
use crate::inbox::{Bound, Judge};
use crate::sandboxes::{self, Sandboxes};
use choir_llm::{Secret, SecretError};
use choir_proto::TaskId;
use choir_proto::event::ToolsOffered;
use choir_proto::wire::mcp::{CallTool, Called, Offers, WhatTools};
use choir_sandbox::protocol::{EffectId, Ending, Exit};
use choir_sandbox::record::RecordError;
use session::{Session, Trouble};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// How long one call may take when nobody says.
const CALL_TIME: Duration = Duration::from_secs(60);
/// How often a server is started for one task: one that dies again and again is left alone.
const STARTS_MAX: u32 = 4;
/// Conversations that are kept; the oldest goes first, and its task begins another one.
const SLOTS_MAX: usize = 256;

/// A handle; cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Parts>);

struct Parts {
    servers: BTreeMap<String, Server>,
    sandboxes: Sandboxes,
    judge: Judge,
    decisions: mpsc::Sender<Decision>,
    slots: StdMutex<Slots>,
}

/// A server as it is configured, with the token for it.
pub(super) struct Server {
    name: String,
    config: McpServer,
    token: Option<Secret>,
}

impl Server {
    /// What it says, without the token that it was given.
    fn veiled(&self, mut said: String) -> String {
        if let Some(token) = self.token.as_ref().and_then(veil::to_hide) {
            veil::hide(&mut said, token);
        }
        said
    }
}

#[derive(Default)]
struct Slots {
    /// Counts up, so that the oldest is known.
    next: u64,
    all: HashMap<(TaskId, String), Kept>,
}

/// A conversation, and when it was last needed.
#[derive(Default)]
struct Kept {
    used: u64,
    slot: Arc<Mutex<Slot>>,
}

/// One task's conversation with one server. Held while it is begun or asked for its tools, not while a tool works.
#[derive(Default)]
struct Slot {
    starts: u32,
    session: Option<Session>,
    /// What was wrong the last time.
    trouble: Option<Trouble>,
}

/// Why a configured server cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("the environment variable `{variable}` of the server `{name}` holds no token")]
pub struct TokenError {
    name: String,
    variable: String,
    source: SecretError,
}

/// Why a tool was not called.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("there is no server for the tool `{0}`")]
    NoServer(String),
    #[error("the person has not allowed this")]
    NotAllowed,
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Sandboxes(#[from] sandboxes::Error),
    #[error(transparent)]
    Db(#[from] db::Error),
}

impl Servers {
    /// The configured servers. None is started before a task wants its tools.
    pub fn new(
        config: BTreeMap<String, McpServer>,
        sandboxes: Sandboxes,
        db: Db,
        gateway: Gateway,
        decisions: mpsc::Sender<Decision>,
    ) -> Result<Self, TokenError> {
        let mut servers = BTreeMap::new();
        for (name, config) in config {
            let token = token(&name, config.token_env.as_deref())?;
            servers.insert(name.clone(), Server { name, config, token });
        }
        let judge = Judge::new(db, gateway);
        Ok(Self(Arc::new(Parts { servers, sandboxes, judge, decisions, slots: StdMutex::default() })))
    }

    /// What every server that is meant for a role offers to a task, or why it does not.
    async fn offers(&self, what: WhatTools) -> Offers {
        let meant = self.0.servers.values().filter(|server| server.config.is_for(what.role));
        let all = meant.map(|server| self.offer(server, what.task));
        Offers { offers: futures_util::future::join_all(all).await }
    }

    async fn offer(&self, server: &Server, task: TaskId) -> ToolsOffered {
        let slot = self.slot(task, &server.name);
        let mut slot = slot.lock().await;
        let name = server.name.clone();
        match self.listed(server, task, &mut slot, Listing::WhenChanged).await {
            Ok(session) => {
                let problem = session.problem().map(|problem| server.veiled(problem));
                ToolsOffered { server: name, tools: session.offered(), problem }
            }
            Err(trouble) => {
                let problem = Some(server.veiled(format!("The server `{name}` {trouble}.")));
                ToolsOffered { server: name, tools: Vec::new(), problem }
            }
        }
    }

    /// A conversation in which the server has said which tools it has.
    async fn listed<'a>(
        &self,
        server: &Server,
        task: TaskId,
        slot: &'a mut Slot,
        listing: Listing,
    ) -> Result<&'a Session, Trouble> {
        if slot.session.as_ref().is_none_or(Session::is_over) {
            if let Some(over) = slot.session.take() {
                slot.trouble = Some(over.trouble());
            }
            if slot.starts >= STARTS_MAX {
                return Err(slot.trouble.clone().unwrap_or_else(|| Trouble::new("does not start")));
            }
            slot.starts += 1;
            let begun = self.begin(server, task, slot.starts).await;
            slot.session = Some(begun.inspect_err(|trouble| slot.trouble = Some(trouble.clone()))?);
        }
        let Some(session) = slot.session.as_mut() else { return Err(Trouble::new("does not start")) };
        let listed = match listing {
            Listing::WhenChanged => session.list_if_changed().await,
            Listing::Now => session.list().await,
        };
        match listed {
            Ok(()) => {}
            Err(trouble) => {
                // One that does not say what it has is of no use; the next one may be.
                slot.session = None;
                slot.trouble = Some(trouble.clone());
                return Err(trouble);
            }
        }
        slot.session.as_ref().ok_or_else(|| Trouble::new("does not start"))
    }

    async fn begin(&self, server: &Server, task: TaskId, nth: u32) -> Result<Session, Trouble> {
        match (&server.config.command, &server.config.url) {
            (Some(command), _) => {
                let parts = std::iter::once(command).chain(&server.config.args).cloned().collect();
                let named = format!("mcp:{task}:{}:{nth}:{}", server.name, hex(crate::secret::random_bytes()));
                let begun = self.0.sandboxes.exec_server(task, named, parts, server.config.env.clone()).await;
                let running = begun.map_err(|error| Trouble::new(format!("cannot be started: {error}")))?;
                Session::begin(&server.name, server.token.clone(), program::speak(running)).await
            }
            (None, Some(url)) => {
                let wire = web::speak(url, server.token.as_ref(), task, &self.0.decisions).await?;
                Session::begin(&server.name, server.token.clone(), wire).await
            }
            (None, None) => Err(Trouble::new("is not configured")),
        }
    }

    /// Calls a tool, and passes on what it says without the token that it was given.
    async fn call(&self, call: CallTool) -> Result<Called, Error> {
        let server = server_of(&call.tool).and_then(|name| self.0.servers.get(name));
        let server = server.ok_or_else(|| Error::NoServer(call.tool.clone()))?;
        Ok(match self.call_of(server, call).await? {
            Called::Answered { content, is_error } => Called::Answered { content: server.veiled(content), is_error },
            Called::Failed { message } => Called::Failed { message: server.veiled(message) },
            Called::Unknown { message } => Called::Unknown { message: server.veiled(message) },
        })
    }

    /// If it may be called, if it is still the one that was offered, and once.
    async fn call_of(&self, server: &Server, call: CallTool) -> Result<Called, Error> {
        let subject = call.arguments.to_string();
        let said = self
            .0
            .judge
            .says(&call.tool, &subject, Bound::Definition(call.definition), call.inbox_id, call.run)
            .await?;
        if said.verdict() != Some(true) {
            return Err(Error::NotAllowed);
        }
        let effect = EffectId::parse(call.effect_id).map_err(sandboxes::Error::from)?;
        let slot = self.slot(call.task, &server.name);
        let tool = {
            let mut slot = slot.lock().await;
            let session = match self.listed(server, call.task, &mut slot, Listing::Now).await {
                Ok(session) => session,
                Err(trouble) => {
                    return Ok(Called::Failed { message: format!("The server `{}` {trouble}.", server.name) });
                }
            };
            match session.find(&call.tool, call.definition) {
                Ok(tool) => tool,
                Err(message) => return Ok(Called::Failed { message }),
            }
        };
        let record = self.0.sandboxes.record();
        record.started(&effect).await?;
        let began = Instant::now();
        let wall = server.config.timeout_s.map_or(CALL_TIME, Duration::from_secs);
        let answer = tool.call(call.arguments, wall.min(Duration::from_millis(call.timeout_ms))).await;
        match answer {
            Ok((content, is_error)) => {
                let exit =
                    Exit { ending: Ending::Code(is_error.into()), duration_ms: began.elapsed().as_millis() as u64 };
                record.exited(&effect, exit).await?;
                Ok(Called::Answered { content, is_error })
            }
            Err(trouble) => {
                // It may hang or lie in ruins: the next call begins with another one.
                let mut slot = slot.lock().await;
                slot.session = None;
                slot.trouble = Some(trouble.clone());
                let message = format!("The server `{}` {trouble}. Nobody knows what the call did.", server.name);
                Ok(Called::Unknown { message })
            }
        }
    }

    fn slot(&self, task: TaskId, server: &str) -> Arc<Mutex<Slot>> {
        let mut slots = self.0.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.next += 1;
        let now = slots.next;
        let kept = slots.all.entry((task, server.to_owned())).or_default();
        kept.used = now;
        let found = Arc::clone(&kept.slot);
        if slots.all.len() > SLOTS_MAX
            && let Some(oldest) = slots.all.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone())
        {
            slots.all.remove(&oldest);
        }
        found
    }
}

/// When a server is asked for its tools again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// It is new, or has said that they are others now.
    WhenChanged,
    /// Whatever it has said: a call is about to be made.
    Now,
}

/// Programs of two starts of control must not share a name.
fn hex(bytes: [u8; 8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server in `mcp__SERVER__TOOL`.
fn server_of(tool: &str) -> Option<&str> {
    tool.strip_prefix(definition::PREFIX)?.split_once(definition::BETWEEN).map(|(server, _)| server)
}

/// Whether the tokens of all servers are some.
pub(crate) fn examine(servers: &BTreeMap<String, McpServer>) -> Result<(), TokenError> {
    servers.iter().try_for_each(|(name, server)| token(name, server.token_env.as_deref()).map(drop))
}

fn token(name: &str, variable: Option<&str>) -> Result<Option<Secret>, TokenError> {
    let Some(variable) = variable else { return Ok(None) };
    let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) else { return Ok(None) };
    let wrong = |source| TokenError { name: name.to_owned(), variable: variable.to_owned(), source };
    Secret::parse(&value).map(Some).map_err(wrong)
}

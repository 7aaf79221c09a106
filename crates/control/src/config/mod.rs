//! `choir.toml`: one struct, read once. Every key is optional; an unknown key or a bad value stops the start.

mod read;

pub use read::{Error, load};
pub(crate) use read::{PROVIDER_NAME, is_provider_name};

use crate::inbox::Tools;
use choir_llm::price::Rates;
use choir_proto::{Role, Usd};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that can be configured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How sandboxes are made.
    pub runtime: Runtime,
    /// Which model does what.
    pub models: Models,
    /// Who offers models.
    pub providers: BTreeMap<String, Provider>,
    /// Their names in the order of the file: the first that can be asked is asked where nobody chose.
    #[serde(skip)]
    pub provider_order: Vec<String>,
    /// Walls for every run.
    pub budget: Budget,
    /// Derived commits.
    pub git: Git,
    /// What tasks may reach without asking.
    pub egress: Egress,
    /// Places of repositories that want a credential.
    pub broker: BTreeMap<String, BrokerEndpoint>,
    /// Which tool calls need a yes.
    pub tools: Tools,
    /// Servers that offer tools.
    pub mcp: BTreeMap<String, McpServer>,
    /// Where blobs go.
    pub storage: Storage,
    /// Where events are relayed to.
    pub nats: Nats,
    /// Where the researcher searches.
    pub search: Search,
    /// Confidential computing.
    pub tee: Tee,
}

/// `[runtime]`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// Which one.
    pub mode: RuntimeMode,
}

/// How a sandbox is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeMode {
    /// Namespaces of this kernel.
    #[default]
    Process,
    /// A container runtime.
    Container,
    /// A virtual machine.
    Microvm,
    /// A virtual machine that the host cannot look into.
    Tee,
}

impl std::str::FromStr for RuntimeMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [("process", Self::Process), ("container", Self::Container), ("microvm", Self::Microvm)];
        let found = all.into_iter().find(|(name, _)| *name == word);
        found.map(|(_, mode)| mode).ok_or_else(|| "the runtimes are process, container and microvm".to_owned())
    }
}

/// `[models]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Models {
    /// `PROVIDER/MODEL`; empty means the first provider found.
    pub default: String,
    /// For single roles.
    pub roles: BTreeMap<Role, String>,
    /// Asked in this order when the chosen one fails again and again.
    pub fallback: Vec<String>,
}

/// `[providers.NAME]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Which wire format it speaks.
    pub kind: ProviderKind,
    /// Where it is; nothing means the format's own place.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// For `scripted`: the scenario file.
    #[serde(default)]
    pub script: Option<PathBuf>,
    /// How many tokens its models read at once; conversations are kept within it.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// How often it may be asked in a minute; nothing for no limit but its own.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// How many tokens may be sent and received in a minute.
    #[serde(default)]
    pub tokens_per_minute: Option<u64>,
    /// What its models cost, in dollars for a million tokens; holds before the table that is checked in.
    #[serde(default)]
    pub usd_per_million: Option<Rates>,
}

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    Openai,
    /// AWS Bedrock Converse.
    Bedrock,
    /// A scenario file.
    Scripted,
}

impl ProviderKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::Bedrock, Self::Scripted];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Bedrock => "bedrock",
            Self::Scripted => "scripted",
        }
    }

    /// By its word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// `[budget]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Checked before every call to a model.
    pub usd_per_run: Usd,
}

impl Default for Budget {
    fn default() -> Self {
        Self { usd_per_run: Usd(5_000_000) }
    }
}

/// `[git]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Git {
    /// Seconds between automatic checkpoints. Read and without effect until checkpoints exist, and `choir doctor` says so.
    pub auto_commit_interval_s: u64,
    /// Events between automatic checkpoints. Without effect, like the interval.
    pub auto_commit_threshold: u64,
    /// Where commits are pushed to.
    pub remote_template: String,
}

impl Default for Git {
    fn default() -> Self {
        Self { auto_commit_interval_s: 300, auto_commit_threshold: 50, remote_template: String::new() }
    }
}

/// `[egress]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Named profiles or `host:port`.
    pub ceiling: Vec<String>,
}

impl Default for Egress {
    fn default() -> Self {
        Self { ceiling: vec!["git".into(), "registries".into()] }
    }
}

/// `[broker.NAME]`: repositories that tasks fetch as `http://broker/NAME/…`, by a credential that none of them sees.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerEndpoint {
    /// Where they are: a host, or what lies beneath a path of it. Git is led from there to the broker.
    pub url: String,
    /// The environment variable that holds the token for it.
    #[serde(default)]
    pub token_env: Option<String>,
    /// As whom the token is shown.
    #[serde(default)]
    pub user: Option<String>,
}

/// `[mcp.NAME]`: a program that is started inside of each task's sandbox, or an address that control speaks to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// A program to start; it speaks MCP on its standard input and output.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, beyond what every command of a sandbox has. Whoever runs in the sandbox can read it.
    pub env: BTreeMap<String, String>,
    /// Where a server is; it speaks MCP over HTTP.
    pub url: Option<String>,
    /// The environment variable that holds the token for it.
    pub token_env: Option<String>,
    /// How long one call may take.
    pub timeout_s: Option<u64>,
    /// Who may use it; a terminal where nobody says.
    pub roles: Option<Vec<Role>>,
}

impl McpServer {
    /// Whether an agent of a role may use it.
    pub fn is_for(&self, role: Role) -> bool {
        self.roles.as_ref().map_or(role == Role::Terminal, |roles| roles.contains(&role))
    }
}

/// `[storage]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// `s3://bucket/prefix`; empty means local.
    pub blobs_url: String,
}

/// `[nats]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// Empty means none.
    pub url: String,
}

/// `[search]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// Asked in this order.
    pub engines: Vec<Engine>,
    /// Empty means embedded.
    pub qdrant_url: String,
}

/// One search engine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Which.
    pub kind: EngineKind,
    /// Where.
    pub url: String,
}

/// Search engines that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// A SearXNG instance.
    Searxng,
}

/// `[tee]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tee {
    /// Who attests.
    pub attestation_server: String,
    /// Who releases keys.
    pub key_server: String,
}

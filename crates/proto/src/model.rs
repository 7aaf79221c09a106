//! What is said to a model and what comes back: provider-neutral, logged, and sent between computer and control.

use crate::Usd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What an agent is for. Roles differ by prompt, tools, budget and grants, never by loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Plans and delegates; has no tool that touches the world.
    Conductor,
    /// Decides the words of a document.
    Writer,
    /// Runs commands and edits files in an associate.
    Terminal,
    /// Reads sources and cites them.
    Researcher,
}

impl Role {
    /// Every role, in the order in which people meet them.
    pub const ALL: [Self; 4] = [Self::Conductor, Self::Writer, Self::Terminal, Self::Researcher];

    /// The word for it in configuration, events and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conductor => "conductor",
            Self::Writer => "writer",
            Self::Terminal => "terminal",
            Self::Researcher => "researcher",
        }
    }
}

/// One turn of a conversation. Named from outside: a tag within would be looked for through all of it first, at every step
/// of an agent and for every turn before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From a person or from the harness on a person's behalf.
    User {
        /// Text and pictures, in order.
        parts: Vec<Part>,
    },
    /// From the model.
    Assistant(AssistantMessage),
    /// From the tools that the previous answer called, all of them, in the order of the calls.
    Tools {
        /// One result for each call.
        results: Vec<ToolResult>,
    },
}

impl Message {
    /// A turn of plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { parts: vec![Part::Text { text: text.into() }] }
    }
}

/// A piece of a user's turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// UTF-8.
        text: String,
    },
    /// A picture.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Base64, standard alphabet, padded.
        data: String,
    },
}

/// What a model said in one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AssistantMessage {
    /// Words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Reasoning, kept apart: never shown as an answer, never quoted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// An opaque token that some providers want back together with their reasoning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning_signature: String,
    /// Tools it wants called; independent calls run in parallel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// One tool that a model wants called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolCall {
    /// The provider's id, echoed with the result. Unique only within its answer.
    pub id: String,
    /// The tool's name as the model wrote it; it may name no tool at all.
    pub name: String,
    /// Parsed arguments; `null` when they could not be parsed.
    pub arguments: serde_json::Value,
    /// The text that was not JSON, and could not be repaired without guessing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

/// Said in place of a result while whoever was asked is still at work.
pub const STILL_AT_WORK: &str = "Still at work. You will be told what came of it.";

/// How the words begin by which such a result is told later: then the call's id, a colon, and the result.
pub const LATE_RESULT: &str = "Result of call ";

/// The lines between which data stands.
pub const DATA: (&str, &str) = ("<data>", "</data>");

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolResult {
    /// Which call this answers.
    pub call_id: String,
    /// Text for the model: data, never an instruction.
    pub content: String,
    /// Whether the tool failed.
    #[serde(default)]
    pub is_error: bool,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolSpec {
    /// Unique in a request.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: serde_json::Value,
}

/// One call to a model, provider-neutral.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelRequest {
    /// `PROVIDER/MODEL`, or nothing for the role's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose model, prompt and budget apply.
    pub role: Role,
    /// Standing instructions: ours alone, no content from outside.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// What may be called.
    pub tools: Vec<ToolSpec>,
    /// Longest answer wanted.
    pub tokens_max: u32,
}

/// A piece of an answer while it arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More words.
    Text {
        /// To append.
        text: String,
    },
    /// More reasoning.
    Reasoning {
        /// To append.
        text: String,
    },
    /// A tool call begins.
    ToolCall {
        /// Position among the answer's calls.
        index: u32,
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments, as unparsed text.
    Arguments {
        /// Position among the answer's calls.
        index: u32,
        /// To append.
        fragment: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Answer {
    /// What was said.
    pub message: AssistantMessage,
    /// Why it ended.
    pub stop: StopReason,
    /// What it took.
    pub usage: Usage,
    /// `PROVIDER/MODEL` that answered.
    pub model: String,
    /// How many tokens the model can read at once, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The tools among its calls that nobody has to be asked about, where whoever passes the answer on knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<BTreeSet<String>>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had no more to say.
    Finished,
    /// It waits for tools.
    ToolUse,
    /// `tokens_max` was reached.
    Length,
    /// The same, where what is left of the money allowed for no more.
    Budget,
    /// The provider or the model refused.
    Refused,
}

/// Tokens and money of one or many calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Read by the model, cached ones not counted.
    #[serde(default)]
    pub input_tokens: u64,
    /// Written by the model.
    #[serde(default)]
    pub output_tokens: u64,
    /// Read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// What it cost by the price table.
    #[serde(default)]
    pub usd: Usd,
    /// How much of that was counted at a price that nobody knows: the dearest one is assumed then.
    #[serde(default, skip_serializing_if = "Usd::is_nothing")]
    pub usd_assumed: Usd,
    /// How much of it was for tokens that nobody counted: those of answers that broke off are guessed.
    #[serde(default, skip_serializing_if = "Usd::is_nothing")]
    pub usd_guessed: Usd,
}

impl Usage {
    /// Whether nothing was taken.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Every token that was paid for in some way.
    pub const fn tokens(&self) -> u64 {
        // A number beyond all others is a wall, and never starts again at nothing.
        let said = self.input_tokens.saturating_add(self.output_tokens);
        said.saturating_add(self.cache_read_tokens).saturating_add(self.cache_write_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.usd = self.usd + other.usd;
        self.usd_assumed = self.usd_assumed + other.usd_assumed;
        self.usd_guessed = self.usd_guessed + other.usd_guessed;
    }
}

/// Tokens and money in all, as control has counted them for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Paid {
    /// Every token that was paid for in some way.
    pub tokens: u64,
    /// What that cost.
    pub usd: Usd,
    /// How many of the tokens are known to have been written, and not read.
    #[serde(default, skip_serializing_if = "is_none_written")]
    pub output_tokens: u64,
}

fn is_none_written(tokens: &u64) -> bool {
    *tokens == 0
}

impl Paid {
    /// What is more than this; nothing where it is not.
    pub fn beyond(self, known: &Usage) -> Option<Self> {
        let tokens = self.tokens.saturating_sub(known.tokens());
        let usd = Usd(self.usd.0.saturating_sub(known.usd.0));
        (tokens > 0 || usd > Usd(0)).then_some(Self { tokens, usd, output_tokens: 0 })
    }
}

impl From<Paid> for Usage {
    /// Where nobody has said which of the tokens were written, most were the question; how many there were is a guess, and so is
    /// the money.
    fn from(paid: Paid) -> Self {
        let output_tokens = paid.output_tokens.min(paid.tokens);
        let input_tokens = paid.tokens - output_tokens;
        Self { input_tokens, output_tokens, usd: paid.usd, usd_guessed: paid.usd, ..Self::default() }
    }
}

/// Why a call to a model failed, by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub class: ErrorClass,
    /// A sentence for a person; carries no secret.
    pub message: String,
    /// How long the provider asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Kinds of failure. The policy for each is a decision in `core`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// No provider is configured for this role.
    NoModel,
    /// Too many requests.
    RateLimit,
    /// The provider is overloaded or failing (5xx, connection refused or reset).
    Overloaded,
    /// No answer, or none that ended, in time.
    Timeout,
    /// The stream ended in the middle.
    Truncated,
    /// The provider declined to answer this content.
    Refused,
    /// The conversation does not fit the model's window.
    TooLong,
    /// The request is wrong and will stay wrong.
    BadRequest,
    /// The key is missing, wrong or not allowed.
    Auth,
    /// The answer made no sense.
    Garbage,
    /// The answer is longer than anybody reads.
    Oversized,
    /// The budget does not allow the call.
    Budget,
}

//! What a run did, as spans: from the prompt through agents and models to every tool call. Folded by `core` from the log.

use crate::model::Usage;
use crate::{Role, RunId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// The answer of `GET /api/runs/{id}/trace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Trace {
    /// Which run.
    pub run_id: RunId,
    /// Parents before children, in the order in which they began; the first is the run itself.
    pub spans: Vec<Span>,
    /// Whether the run did more than is shown.
    pub truncated: bool,
    /// The last event that is in it.
    pub upto: Seq,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Span {
    /// Unique within the trace: a run's, a task's, an effect's or an event's name.
    pub span_id: String,
    /// What it happened within; only the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it is.
    pub kind: SpanKind,
    /// The role, the model or the tool.
    pub name: String,
    /// A line about it: the prompt, the objective, the arguments. Cut where it is long.
    pub detail: String,
    /// Which agent, where one did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How it stands or ended: a run's or task's status, a tool's outcome, `ok` or `failed` of a model,
    /// `ok` of a wait that is over.
    pub status: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; nothing while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Tokens and money of this span and everything within it.
    pub usage: Usage,
    /// The event that began it.
    pub seq: Seq,
}

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// The whole run.
    Run,
    /// One agent at work.
    Task,
    /// One question to a model.
    Model,
    /// One tool call.
    Tool,
    /// An agent that waits: for its turn, for a model that says nothing, for another attempt.
    Wait,
}

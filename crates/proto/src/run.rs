//! A run as people and programs see it: the view that `core` folds from the log.

use crate::event::BlockedOn;
use crate::model::Usage;
use crate::task::{Budget, TaskStatus, Verify};
use crate::{DocumentId, Role, RunId, Seq, TaskId, Timestamp};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How a run stands or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// In the log; nobody works on it yet.
    Accepted,
    /// Agents work.
    Running,
    /// A person said wait.
    Paused,
    /// Waits for the inbox or for a model.
    Blocked,
    /// Done; nobody checked.
    Completed,
    /// Done, and a check that the worker did not write passed.
    Verified,
    /// Did not succeed.
    Failed,
    /// Stopped by a person.
    Cancelled,
    /// The time ran out.
    OutOfTime,
    /// The turns ran out.
    OutOfSteps,
    /// Tokens or money ran out.
    OutOfBudget,
    /// Nobody can honestly say.
    Unknown,
}

impl RunStatus {
    /// Whether nothing more will happen.
    pub const fn is_ending(self) -> bool {
        !matches!(self, Self::Accepted | Self::Running | Self::Paused | Self::Blocked)
    }

    /// The word in events, API and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Verified => "verified",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::OutOfTime => "out_of_time",
            Self::OutOfSteps => "out_of_steps",
            Self::OutOfBudget => "out_of_budget",
            Self::Unknown => "unknown",
        }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its name.
    pub run_id: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// The person's words.
    pub prompt: String,
    /// The document it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<DocumentId>,
    /// The short answer, where a document would be too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it waits or how it ended, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it waits for, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_on: Option<BlockedOn>,
    /// The part of the document that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// `PROVIDER/MODEL`, where the person chose one for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its agents, in the order in which they were asked.
    pub tasks: Vec<TaskSummary>,
    /// Tokens and money so far, all agents together.
    pub usage: Usage,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// When a person put it into the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
    /// When a person put its card away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_at: Option<Timestamp>,
    /// Where it began in the log.
    pub seq: Seq,
    /// The last event that is folded in: folding an event again changes nothing.
    #[serde(default)]
    pub upto: Seq,
}

/// One agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskSummary {
    /// Its name.
    pub task_id: TaskId,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What was asked.
    pub objective: String,
    /// How it stands.
    pub status: TaskStatus,
    /// What it waits for, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// What it said in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Whether checks that its worker neither chose nor touched have passed on what it left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verified: bool,
    /// Checks that passed, but that its worker touched: it is verified when a person accepts these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks_changed: Vec<String>,
}

/// What a person wants done: the body of `POST /api/runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The person's words.
    pub prompt: String,
    /// Continue this document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<DocumentId>,
    /// What the agents should look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Context>,
    /// Hold the plan before the first delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_first: Option<bool>,
    /// Walls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// `PROVIDER/MODEL` for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How the result is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Only this part of `document_id`; what comes of it appears in the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
}

impl NewRun {
    /// A person's words, and nothing else.
    pub fn new(prompt: String) -> Self {
        Self {
            prompt,
            document_id: None,
            context: Vec::new(),
            plan_first: None,
            budget: None,
            model: None,
            verify: None,
            selection: None,
        }
    }
}

/// A part of a document that a person selected, and what they want of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// First character.
    pub from: u64,
    /// After the last.
    pub to: u64,
    /// What is wanted.
    pub action: SelectionAction,
    /// The words there; filled in when the run is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}

/// What a person wants of a part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SelectionAction {
    /// Something is to be said about it.
    Ask,
    /// It is to be changed; every change waits for the person.
    Change,
    /// It is to be checked against sources.
    Verify,
}

/// Something the agents should look at: data with its origin, never an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Context {
    /// A document or a range of it.
    Document(DocumentContext),
    /// A file of the workspace.
    Path(PathContext),
    /// An artifact.
    Artifact(ArtifactContext),
    /// What another run made.
    Run(RunContext),
    /// A page.
    Url(UrlContext),
}

/// By the one field that says what it is, so that a wrong field is named instead of "no variant matched".
impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const NAMES: &[&str] = &["document_id", "path", "artifact_id", "run_id", "url"];
        let fields = serde_json::Map::<String, Value>::deserialize(deserializer)?;
        let name = NAMES.iter().find(|name| fields.contains_key(**name));
        let odd = fields.keys().next().cloned();
        let value = Value::Object(fields);
        match (name, odd) {
            (Some(&"document_id"), _) => DocumentContext::deserialize(value).map(Self::Document),
            (Some(&"path"), _) => PathContext::deserialize(value).map(Self::Path),
            (Some(&"artifact_id"), _) => ArtifactContext::deserialize(value).map(Self::Artifact),
            (Some(&"run_id"), _) => RunContext::deserialize(value).map(Self::Run),
            (Some(_), _) => UrlContext::deserialize(value).map(Self::Url),
            (None, Some(odd)) => return Err(D::Error::unknown_field(&odd, NAMES)),
            (None, None) => return Err(D::Error::custom("a context names a document, path, artifact, run or url")),
        }
        .map_err(D::Error::custom)
    }
}

/// A document or a range of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DocumentContext {
    /// Which.
    pub document_id: DocumentId,
    /// First character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// After the last character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PathContext {
    /// Relative to the workspace.
    pub path: String,
}

/// An artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ArtifactContext {
    /// Which.
    pub artifact_id: crate::ArtifactId,
}

/// What another run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunContext {
    /// Which.
    pub run_id: RunId,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UrlContext {
    /// Where.
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_field_of_a_context_is_named() {
        let refused = |json: &str| serde_json::from_str::<Context>(json).map(drop).unwrap_err().to_string();
        assert!(refused(r#"{"path": "a", "colour": 1}"#).contains("`colour`"));
        assert!(refused(r#"{"colour": 1}"#).contains("`colour`"));
        assert!(refused(r#"{"path": 7}"#).contains("string"));
        assert!(refused("{}").contains("document"));
        let page = Context::Url(UrlContext { url: "x".into() });
        assert_eq!(serde_json::from_str::<Context>(&serde_json::to_string(&page).unwrap()).unwrap(), page);
    }
}

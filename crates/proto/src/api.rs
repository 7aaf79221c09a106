//! Bodies and answers of the HTTP API that are not a view of their own.

use crate::task::{Diff, FileChange};
use crate::{ArtifactId, DocumentId, Envelope, EventId, Hash, RunId, Seq, TaskId, Timestamp, UndoId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer of `POST /api/runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunAccepted {
    /// The new run.
    pub run_id: RunId,
    /// Where it is in the log: acknowledged means on disk.
    pub seq: Seq,
}

/// The answer of `POST /api/tasks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskAccepted {
    /// The new task.
    pub task_id: TaskId,
    /// Where it is in the log.
    pub seq: Seq,
}

/// The answer of every command that changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// The log's position that covers the change.
    pub seq: Seq,
}

/// The body of `POST /api/runs/{id}/undo` and `POST /api/tasks/{id}/undo`; it may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewUndo {
    /// A name of the caller's choice: asking again under the same name changes nothing and answers the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_id: Option<UndoId>,
    /// Only what was done to this path; asked again, it takes that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Changes that were taken back as one new change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Undo {
    /// Its name.
    pub undo_id: UndoId,
    /// Where it is in the log.
    pub seq: Seq,
    /// In a sentence.
    pub summary: String,
    /// Before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<Hash>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_tree: Option<Hash>,
    /// Paths, as the keeper saw them.
    pub files_changed: Vec<FileChange>,
    /// Paths that had changed since and were left as they are.
    pub conflicts: Vec<String>,
    /// Of the paths, those that were so already: nothing was done to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already: Vec<String>,
    /// The change as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
}

/// The answer of `GET /api/runs/{id}/changes` and `GET /api/tasks/{id}/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Changes {
    /// In the order in which they were made.
    pub changes: Vec<Change>,
}

/// One change of the workspace: what a task made, or an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Change {
    /// Where it is in the log.
    pub seq: Seq,
    /// The task that made it, or whose change was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The undo that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_id: Option<UndoId>,
    /// Where it stands.
    pub state: ChangeState,
    /// Before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<Hash>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_tree: Option<Hash>,
    /// Paths, as the keeper saw them.
    pub files_changed: Vec<FileChange>,
    /// Paths that did not arrive, because both sides had changed them.
    pub conflicts: Vec<String>,
    /// Paths that were turned around one by one: taken back of what is in the workspace, brought in of what is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turned: Vec<String>,
    /// The change as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
}

/// Where a change stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// It is in the workspace.
    Merged,
    /// It was, and was taken back.
    Undone,
    /// It never was: the task did not end well.
    KeptOut,
    /// It waits for a person to look at it.
    Held,
}

/// The answer of `GET /api/events`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Events {
    /// In order.
    pub events: Vec<Envelope>,
    /// Ask again with `after` set to this.
    pub next: Seq,
    /// The newest position of the log.
    pub head: Seq,
}

/// The answer of `GET /api/search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchResults {
    /// Best first.
    pub results: Vec<SearchResult>,
}

/// One thing that holds the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchResult {
    /// What it is.
    #[serde(flatten)]
    pub found: Found,
    /// For people.
    pub title: String,
    /// A little of the text around the words.
    pub snippet: String,
    /// The kind of the event that says so.
    pub event_kind: String,
    /// Where that event is in the log.
    pub seq: Seq,
    /// When it was.
    pub at: Timestamp,
}

/// What a search can find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Found {
    /// A document, by its newest text.
    Document {
        /// Which.
        document_id: DocumentId,
    },
    /// A run, by its prompt.
    Run {
        /// Which.
        run_id: RunId,
    },
    /// Something that was brought in.
    Artifact {
        /// Which.
        artifact_id: ArtifactId,
    },
    /// A file of the workspace, by its path.
    File {
        /// Relative to the workspace.
        path: String,
    },
    /// Anything else that was said or done.
    Event {
        /// Which.
        event_id: EventId,
        /// The run it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
    },
}

/// The answer of `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, or `degraded` when a component is not.
    pub status: String,
    /// Of the binary.
    pub version: String,
    /// Each part and how it is.
    pub components: BTreeMap<String, Component>,
}

/// One part of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Component {
    /// `ok`, `degraded` or `off`.
    pub status: String,
    /// Why, and how to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The answer of `GET /api/supervision`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Supervision {
    /// Every actor; parents before children.
    pub actors: Vec<ActorInfo>,
}

/// One actor of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActorInfo {
    /// Its name under its supervisor.
    pub name: String,
    /// Unique in this process.
    pub id: String,
    /// Who restarts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `running`, `restarting` or `stopped`.
    pub state: String,
    /// How often it was restarted.
    pub restarts: u32,
}

/// The body of `POST /api/runs/{id}/steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Steer {
    /// What the person wants changed.
    pub text: String,
}

//! A living document as people and programs see it.

use crate::model::Usage;
use crate::trace::Span;
use crate::{ArtifactId, DocumentId, Hash, RunId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// What is known of a document without its text: the view that `core` folds from the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DocumentSummary {
    /// Its name.
    pub document_id: DocumentId,
    /// For people.
    pub title: String,
    /// The newest version's number.
    pub version: u32,
    /// The hash of the newest version's text.
    pub content_hash: Hash,
    /// Its length in bytes.
    pub size: u64,
    /// The run that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// Where it last changed in the log.
    pub seq: Seq,
    /// When a person put it into the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}

/// A whole document: the answer of `GET /api/documents/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Document {
    /// Its name.
    pub document_id: DocumentId,
    /// For people.
    pub title: String,
    /// The version shown.
    pub version: u32,
    /// Markdown.
    pub content: String,
    /// Evidence: sources whose words stand in the text.
    pub citations: Vec<Citation>,
    /// Quotations that stand in no source that is known.
    #[serde(default)]
    pub unsupported: Vec<Unsupported>,
    /// Changes that wait for a person.
    pub proposals: Vec<Proposal>,
    /// Figures and tables that commands made, as they stand in the text.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What was asked about parts of the text, newest first.
    #[serde(default)]
    pub threads: Vec<Thread>,
}

/// Something that was asked about a part of a document, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Thread {
    /// The run that answers.
    pub run_id: RunId,
    /// What was wanted.
    pub action: crate::run::SelectionAction,
    /// The person's words.
    pub prompt: String,
    /// The part that was selected, as it was then.
    pub quote: String,
    /// How the run stands.
    pub status: crate::RunStatus,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it waits or how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the part stands now; nothing when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// A figure or a table that a command made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Figure {
    /// Its name within the document.
    pub figure_id: String,
    /// What makes it, for `sh -c`.
    pub command: String,
    /// Whether it shows what is so.
    pub status: FigureStatus,
    /// The files that the command named, as they were.
    #[serde(default)]
    pub inputs: Vec<FigureInput>,
    /// Of what the command printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Hash>,
    /// The task that made it, or is making it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<crate::TaskId>,
    /// Why it is stale or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Where it stands in the document, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// Whether a figure shows what is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FigureStatus {
    /// Its command printed this, from inputs that are still the same.
    Fresh,
    /// An input has changed since.
    Stale,
    /// Its command runs.
    Running,
    /// Its command did not succeed.
    Failed,
    /// No command is known to have printed this.
    Unknown,
}

/// A file that a figure was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FigureInput {
    /// Relative to the workspace.
    pub path: String,
    /// Of its content then.
    pub hash: Hash,
}

/// Evidence under a claim: a range of a stored source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Citation {
    /// The source's bytes.
    pub source: Hash,
    /// First byte.
    pub from: u64,
    /// After the last byte.
    pub to: u64,
    /// Of the quoted bytes.
    pub hash: Hash,
    /// The words themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The artifact that the source is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<ArtifactId>,
    /// The run that cited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Where the words stand in the document, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// A range of a document's text, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Place {
    /// First.
    pub from: u64,
    /// After the last.
    pub to: u64,
}

/// A quotation that no citation holds word for word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Unsupported {
    /// First character of the words.
    pub from: u64,
    /// After the last.
    pub to: u64,
    /// The words.
    pub text: String,
}

/// Where a range of a document comes from: the answer of `GET /api/documents/{id}/provenance`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Provenance {
    /// Which document.
    pub document_id: DocumentId,
    /// The version that was looked at.
    pub version: u32,
    /// In order; together they are the range.
    pub pieces: Vec<Origin>,
    /// Whether the range has more pieces than are shown.
    pub truncated: bool,
}

/// Where one piece of a text comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Origin {
    /// First character.
    pub from: u64,
    /// After the last.
    pub to: u64,
    /// Who wrote it.
    pub author: crate::event::Actor,
    /// When.
    pub at: Timestamp,
    /// The event that says so.
    pub seq: Seq,
    /// The run it was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The person's words that began that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tool call that wrote it: its span in the run's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Span>,
    /// What the model took to ask for that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Sources whose words stand in it.
    pub sources: Vec<Citation>,
}

/// A change that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Proposal {
    /// Its name within the document.
    pub proposal_id: String,
    /// What is there.
    pub old: String,
    /// What would be there.
    pub new: String,
    /// The version that it is against.
    #[serde(default)]
    pub version: u32,
    /// Where it begins in that version's text, in bytes.
    #[serde(default)]
    pub from: u64,
    /// The run that wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Whether somebody has written since where it would: then it can only be rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// A person's word on a proposal: the body of `POST /api/documents/{id}/proposals/{p}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Yes or no.
    pub decision: Decision,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The words change.
    Accept,
    /// They stay.
    Reject,
}

/// Words of an answer that a model was still saying when they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sketch {
    /// The agent's turn that the answer is.
    pub turn: u32,
    /// Whether they were taken back, because the answer never came or was not what it seemed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

/// One place of a text that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TextChange {
    /// Where it begins, in bytes of the text before.
    pub from: u64,
    /// How many bytes went.
    pub removed: u64,
    /// How many bytes came.
    pub inserted: u64,
    /// The words that came; absent where they are too long for an event, and a named version holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One version of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VersionSummary {
    /// Its number, from 1.
    pub version: u32,
    /// Who wrote it.
    pub author: crate::event::Actor,
    /// Why.
    pub reason: String,
    /// The hash of its text.
    pub content_hash: Hash,
    /// When.
    pub at: Timestamp,
    /// Where in the log.
    pub seq: Seq,
}

/// The body of `POST /api/documents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewDocument {
    /// For people.
    pub title: String,
    /// Markdown; may be empty.
    #[serde(default)]
    pub content: String,
}

/// The body of `PUT /api/documents/{id}`: merged against the head, never overwriting it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EditDocument {
    /// The version that was read.
    pub base_version: u32,
    /// The whole text wanted.
    pub content: String,
}

/// Something that was brought in: the answer of `POST /api/artifacts` and `GET /api/artifacts/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Artifact {
    /// Its name.
    pub artifact_id: ArtifactId,
    /// Its bytes: `GET /api/blobs/{hash}`.
    pub content_hash: Hash,
    /// Their number.
    pub size: u64,
    /// For example `text/html`; a claim of whoever brought it.
    pub media_type: String,
    /// A file name or URL; a claim, not a fact.
    pub origin: String,
    /// The text in it, where that had to be parsed out: this is what can be quoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Hash>,
    /// Why no text could be parsed out, where one should be in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// When it came.
    pub at: Timestamp,
    /// Where in the log.
    pub seq: Seq,
}

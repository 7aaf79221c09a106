//! The payloads about changes of the workspace: checked, and taken back.

use crate::task::{Diff, FileChange, VerifyResult, VerifySource};
use crate::{Hash, Seq, UndoId};
use serde::{Deserialize, Serialize};

/// A result is about to be checked by somebody else than its worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyStarted {
    /// Counts from 1 within the task; a crash makes it begin anew.
    pub attempt: u32,
    /// The tree that is checked.
    pub result_tree: Hash,
    /// Who chose the checks.
    pub source: VerifySource,
    /// The checks.
    pub commands: Vec<String>,
}

/// A result was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyFinished {
    /// Which attempt.
    pub attempt: u32,
    /// The tree that was checked.
    pub result_tree: Hash,
    /// What came of it.
    pub result: VerifyResult,
}

/// Merged changes are about to be taken back as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UndoStarted {
    /// Its name; asking again under it changes nothing.
    pub undo_id: UndoId,
    /// What is taken back, the oldest first.
    pub undoes: Vec<Undone>,
    /// Nothing but what they did to this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Changes were taken back, or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UndoFinished {
    /// Which intent this answers.
    pub undo_id: UndoId,
    /// How it went.
    pub outcome: UndoOutcome,
    /// In a sentence.
    pub summary: String,
    /// What was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<Hash>,
    /// The base with what arrived in the workspace.
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

/// One change that an undo takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Undone {
    /// The event that says that it was made.
    pub seq: Seq,
    /// Before it.
    pub base_tree: Hash,
    /// After it.
    pub result_tree: Hash,
}

/// How an undo went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UndoOutcome {
    /// What could be taken back was.
    Ok,
    /// It could not be tried, or broke off; it can be asked for again.
    Failed,
}

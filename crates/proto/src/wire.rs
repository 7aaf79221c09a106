//! What control and a computer say to each other over their private sockets. Identity is the socket, never a field.

pub mod frames;
pub mod mcp;

use crate::event::{Actor, Undone};
use crate::inbox::Waits;
use crate::model::{Answer, Delta, ModelError, ModelRequest, Usage};
use crate::task::{Egress, FileChange, LeftOut, Limit, Side};
use crate::{Hash, InboxId, RunId, Seq, TaskId, Usd};
use serde::{Deserialize, Serialize};

/// Header by which control tells the computer who asks. Only control holds the other end of the socket.
pub const ACTOR_HEADER: &str = "x-choir-actor";

/// The code of a refusal because a task's associate is gone: another one can be started over the same layer.
pub const NO_SANDBOX: &str = "no_sandbox";

/// A model call on behalf of a task: `POST /model`, answered by lines of [`ModelFrame`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// For accounting.
    pub run: RunId,
    /// For accounting.
    pub task: TaskId,
    /// How often this turn has failed before: control may ask another provider then.
    #[serde(default)]
    pub failures: u32,
    /// Whether the person has said since it failed that it is to go on: a model that wants to be left alone is asked once.
    #[serde(default)]
    pub insists: bool,
    /// What the run's own budget leaves; control's wall holds as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_left: Option<Usd>,
    /// What is asked.
    pub request: ModelRequest,
}

/// One line of the answer to a [`ModelCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ModelFrame {
    /// Somebody is asked now.
    Asked {
        /// `PROVIDER/MODEL`.
        model: String,
    },
    /// A piece, while it arrives.
    Delta(Delta),
    /// What an answer took that broke off; why, follows.
    Took {
        /// As far as that is known.
        usage: Usage,
    },
    /// The whole; nothing follows.
    Answer(Answer),
    /// No answer; nothing follows.
    Error(ModelError),
}

/// Whether prompts can be worked on: `GET /models`, and pushed to the computer when it changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// Whether at least one provider can be asked.
    pub available: bool,
}

/// How the person wants documents to be written: `GET /settings/documents`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DocumentSettings {
    /// Whether what agents would change of a person's words is accepted without asking.
    #[serde(default)]
    pub auto_accept: bool,
}

/// Whether a tool may be used without asking: `GET /settings/tools/{tool}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSettings {
    /// Whether nobody has to be asked.
    pub auto: bool,
}

/// How what tasks changed comes into the workspace: `GET /settings/changes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeSettings {
    /// Whether it waits until a person has looked at it.
    #[serde(default)]
    pub hold: bool,
}

/// Start an associate for a task: `PUT /associates/{task}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartAssociate {
    /// A wish; control clamps it to what the person allowed.
    pub egress: Option<Egress>,
    /// The run that the task belongs to: some approvals hold for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Over this tree instead of a snapshot of the live workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Hash>,
    /// Over a task's result instead of the live workspace, to check it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

/// A result to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What the task started from.
    pub base_tree: Hash,
    /// What it made.
    pub result_tree: Hash,
    /// Paths that are checked as they were before the task, or not at all if they were not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_base: Vec<String>,
}

/// Read files as they are in a tree: `POST /trees/{tree}/files`, answered by [`TreeFiles`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTree {
    /// Names of files wherever they stand; one `*` in a name fits anything.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whole paths.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// Files of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFiles {
    /// In the order of their paths.
    pub files: Vec<TreeFile>,
    /// Whether there were more than are told of.
    pub more: bool,
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFile {
    /// Relative to the workspace.
    pub path: String,
    /// Of its content.
    pub hash: Hash,
    /// What it says; nothing if it is long or not text.
    pub text: Option<String>,
}

/// What a task has made so far, its associate being ended: `POST /associates/{task}/capture`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociateCaptured {
    /// What it started from.
    pub base_tree: Hash,
    /// What it made.
    pub result_tree: Hash,
    /// Paths that differ between the two.
    #[serde(default)]
    pub files_changed: Vec<FileChange>,
}

/// An associate runs, or waits for a person's word about what it wants to reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociateStarted {
    /// The tree under its overlay.
    pub base_tree: Option<Hash>,
    /// What has to be decided first; while there is anything, nothing runs. Start it again then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waits>,
    /// Whether tasks run one at a time, because the workspace is large.
    #[serde(default)]
    pub alone: bool,
}

/// Run a command: `POST /associates/{task}/exec`, answered by lines of [`ExecFrame`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Under which the shim records start and exit.
    pub effect_id: String,
    /// For `sh -c`.
    pub command: String,
    /// Wall.
    pub timeout_ms: u64,
    /// The call of a tool that this is. Nothing for commands that a person gave, that their project brings as checks, or that only
    /// look: control knows each of them by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallOf>,
}

/// A tool call that wants something done, as control knows it from the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOf {
    /// The tool's name.
    pub tool: String,
    /// Under which it was asked about.
    pub inbox_id: InboxId,
    /// The run that it belongs to.
    pub run: RunId,
}

/// Write a file as an agent wants it: `POST /associates/{task}/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteFile {
    /// Of the call, as the model said them: what a person says yes to.
    pub arguments: serde_json::Value,
    /// The call that this is.
    pub call: CallOf,
}

/// Change one place of a file: `POST /associates/{task}/edit`, answered by [`Edited`]. Asked again under the same name, it
/// is done once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditFile {
    /// Under which control records that it was begun and done.
    pub effect_id: String,
    /// Of the tool, as the person was asked about them.
    pub arguments: serde_json::Value,
    /// The call of a tool that this is.
    pub call: CallOf,
}

/// What came of an [`EditFile`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edited", rename_all = "snake_case")]
pub enum Edited {
    /// The file is as it was wanted, or was when this was done before a crash.
    Done,
    /// It was not changed.
    Failed {
        /// Why, for the model.
        message: String,
    },
    /// It was begun before a crash, and the file is neither as it was before nor as it would be after.
    Unknown,
}

/// One line of the answer to an [`Exec`]. Bytes are base64, because output is not always text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ExecFrame {
    /// More output.
    Output {
        /// Which stream.
        stream: OutputStream,
        /// Base64.
        data: String,
    },
    /// It ended; nothing follows.
    Exit(Exit),
    /// It never began, or nobody knows; nothing follows.
    Failed {
        /// Why.
        message: String,
    },
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a command ended, as seen from outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 128 + signal for a command ended by a signal.
    pub code: Option<i32>,
    /// Whether the wall ended it.
    pub timed_out: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// The limit that it reached, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How many bytes of what it said were lost, because there was no room to keep them until they were taken.
    #[serde(default)]
    pub missed_bytes: u64,
}

/// What the shim knows of an effect: `GET /effects/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum EffectRecord {
    /// Never heard of: it did not start.
    Absent,
    /// It started; whether it ended is not known.
    Started,
    /// It ended.
    Exited(Exit),
}

/// End an associate: `POST /associates/{task}/finish`. With `merge` its changes go to the live workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishAssociate {
    /// Only an `ok` merges.
    pub merge: bool,
    /// The result that was checked: no other one is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<Hash>,
}

/// Bring in what a merge had left out, because a person decided so: `POST /associates/{task}/side`, answered by
/// [`AssociateFinished`]. Asked again under the same number, it does the rest and says the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeSide {
    /// Counts a person's words about this task's conflicts, from 0.
    pub attempt: u32,
    /// What they said.
    pub side: Side,
}

/// What the keeper saw of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociateFinished {
    /// The tree it left.
    pub result_tree: Option<Hash>,
    /// The base with what arrived in the workspace; nothing when nothing was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_tree: Option<Hash>,
    /// The base with what gave way to the result by a person's word; nothing where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_tree: Option<Hash>,
    /// Paths that came beside those that changed on both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Paths that differ from the base.
    pub files_changed: Vec<FileChange>,
    /// The change as text.
    pub diff: String,
    /// Paths that changed on both sides.
    pub conflicts: Vec<String>,
    /// Paths that nobody else changed, and that their permissions kept as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
    /// Files beside its own that somebody else had changed when it was merged; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<String>,
    /// What it made that no tree can hold, and what it could not see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// What it wanted to reach and may not; the first of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// Take changes back as one: `POST /changes/undo`. Asked again after a crash, it does the rest and answers for the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoChanges {
    /// The oldest first.
    pub undoes: Vec<Undone>,
    /// Nothing but what they did to this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// It was begun before: what is so already may be what it did then.
    #[serde(default)]
    pub again: bool,
}

/// What the keeper took back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesUndone {
    /// What was changed.
    pub base_tree: Option<Hash>,
    /// The base with what arrived in the workspace.
    pub result_tree: Option<Hash>,
    /// Paths that differ between the two.
    pub files_changed: Vec<FileChange>,
    /// The change as text.
    pub diff: String,
    /// Paths that had changed since and were left as they are.
    pub conflicts: Vec<String>,
    /// Paths that were so already: somebody else, or an undo that was cut off, had taken them back before. What somebody else
    /// did is no part of the change.
    #[serde(default)]
    pub already: Vec<String>,
}

/// Hear of changes in the live workspace: `POST /workspace/watch`, answered by lines of [`WatchFrame`] without end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchFiles {
    /// Files; a name that ends in `/` means every file in that directory.
    pub paths: Vec<String>,
}

/// One line of what is heard of the live workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum WatchFrame {
    /// How a file is: first all that are there, then whatever changes.
    File(LiveFile),
    /// Everything that is there was told.
    Ready,
    /// It broke off; nothing follows.
    Failed {
        /// Why.
        message: String,
    },
}

/// What stands at a path of the live workspace: `GET /workspace/live?path=P`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePath {
    /// Whether anything does.
    pub is_there: bool,
    /// What it says, as far as that is told; nothing if it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A file of the live workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFile {
    /// Relative to the workspace.
    pub path: String,
    /// Of its content; nothing when it is gone.
    pub hash: Option<Hash>,
    /// What it says; nothing if it is gone, long or not text.
    pub text: Option<String>,
    /// The task whose result brought it here; nothing when a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// Write a document's mirror: `PUT /workspace/mirror`, answered by [`Mirrored`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// `documents/NAME.md`.
    pub path: String,
    /// What it is to say; nothing takes it away.
    pub text: Option<String>,
    /// What it may have said before. Anything else is somebody's work, and stays.
    pub over: Option<Hash>,
}

/// What became of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrored {
    /// Whether it says what was wanted.
    pub written: bool,
}

/// Header that says where a page was in the end.
pub const PAGE_URL_HEADER: &str = "x-choir-page-url";

/// Get a page: `POST /fetch`, answered by its bytes, its type, and where it was in [`PAGE_URL_HEADER`]; or, with status 202,
/// by the [`Waits`] of what the person has to decide first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// On whose behalf; nothing for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The run that the task belongs to: some approvals hold for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Where.
    pub url: String,
}

/// Ask the person's search engine: `POST /search`, answered by [`SearchHits`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// On whose behalf.
    pub task: TaskId,
    /// What for.
    pub query: String,
}

/// What a search engine found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHits {
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// Nobody looked: the person has set no engine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unset: bool,
}

/// One page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHit {
    /// As it calls itself.
    pub title: String,
    /// Where.
    pub url: String,
    /// A little of it.
    pub snippet: String,
}

/// Something is published that is not in the log: a piece of a model's answer while it streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Which run.
    pub run: RunId,
    /// Which task.
    pub task: TaskId,
    /// Who.
    pub actor: Actor,
    /// What.
    pub delta: Delta,
}

/// The last position of a log that control has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Where.
    pub seq: Seq,
    /// The event's hash there.
    pub hash: Hash,
}

/// A fact that control knows first and the computer's log keeps a copy of: `POST /internal/record`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Who did it.
    pub actor: Actor,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Dotted name.
    pub kind: String,
    /// Of the payload.
    pub version: u16,
    /// What happened.
    pub payload: Box<serde_json::value::RawValue>,
}

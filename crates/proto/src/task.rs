//! The task contract: a typed envelope to a worker and what comes back. Stable for people and programs outside.

use crate::{Hash, Role, TaskId, Usd};
use serde::{Deserialize, Serialize};

/// What a worker is asked to do. Only `kind` and `instruction` are required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// What sort of work it is.
    pub kind: TaskKind,
    /// What is wanted, for a person or a model to read.
    pub instruction: String,
    /// What must hold for the work to be accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<String>,
    /// `head`, or the id of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// Run in order without a model, stopping at the first failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// A wish concerning checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_action: Option<GitAction>,
    /// Names of tools; nothing means all tools of the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Nothing means the default profiles; an empty list means no network at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// How the result is checked by somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Walls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What the answer should carry.
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
}

impl TaskRequest {
    /// What is required, and nothing else.
    pub fn new(kind: TaskKind, instruction: String) -> Self {
        Self {
            kind,
            instruction,
            acceptance_criteria: Vec::new(),
            base_ref: None,
            commands: Vec::new(),
            git_action: None,
            allowed_tools: None,
            egress: None,
            verify: None,
            budget: None,
            wanted: None,
        }
    }

    /// The tree to begin with; nothing for the live workspace as it is then.
    pub fn base(&self) -> Option<Hash> {
        self.base_ref.as_deref().and_then(|base| base.parse().ok())
    }
}

/// What sort of work a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Change files.
    Edit,
    /// Run commands.
    Run,
    /// Read sources.
    Research,
    /// A git action.
    Git,
    /// Look without changing.
    Inspect,
}

/// A wish concerning checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitAction {
    /// Which.
    pub action: GitVerb,
    /// A commit, branch or position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// For a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The four git actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GitVerb {
    /// Keep the present state.
    Checkpoint,
    /// Go back to a state.
    Reset,
    /// Look at a state.
    Checkout,
    /// Say what differs.
    Status,
}

/// Where a task may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Named profiles or `host:port`; empty means no network at all.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// How a result is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Which way.
    pub mode: VerifyMode,
    /// For mode `commands`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Ways of checking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifyMode {
    /// Do not check.
    None,
    /// A quick look.
    Smoke,
    /// Run the given or discovered commands.
    Commands,
}

/// Walls around an effort. A missing one means the default, never "unlimited".
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Model turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Tokens of any sort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
}

/// What a result should carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    /// The change as text.
    pub diff: bool,
    /// Output of the commands.
    pub logs: bool,
    /// The list of paths.
    pub files_changed: bool,
    /// Files produced.
    pub artifacts: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { diff: true, logs: true, files_changed: true, artifacts: false }
    }
}

impl Wanted {
    /// Leaves out of a result what nobody wants to be told.
    pub fn of(self, mut result: TaskResult) -> TaskResult {
        if !self.diff {
            result.diff = None;
        }
        if !self.files_changed {
            result.files_changed.clear();
        }
        if !self.logs {
            let checks = result.verify.iter_mut().flat_map(|verify| &mut verify.commands);
            for command in result.commands.iter_mut().chain(checks) {
                command.stdout.clear();
                command.stderr.clear();
            }
        }
        result
    }
}

/// How a task stands or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not ended.
    Running,
    /// Done as asked.
    Ok,
    /// Waits for an answer.
    NeedsInput,
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

impl TaskStatus {
    /// The word in events, API and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::NeedsInput => "needs_input",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::OutOfTime => "out_of_time",
            Self::OutOfSteps => "out_of_steps",
            Self::OutOfBudget => "out_of_budget",
            Self::Unknown => "unknown",
        }
    }
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskResult {
    /// Which task.
    pub task_id: TaskId,
    /// How it stands.
    pub status: TaskStatus,
    /// In a sentence or a few.
    pub summary: String,
    /// The tree it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<Hash>,
    /// The tree it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_tree: Option<Hash>,
    /// The base with what arrived in the workspace: the result without its conflicts. Nothing when nothing was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_tree: Option<Hash>,
    /// The base with what stood in the workspace where a person let the result's version take its place: what an undo goes back
    /// to. Nothing where nothing had to give way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_tree: Option<Hash>,
    /// Whether what it changed waits for a person to look at it, before anything of it is merged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The change as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
    /// Paths, as the keeper saw them.
    #[serde(default)]
    pub files_changed: Vec<FileChange>,
    /// What was run.
    #[serde(default)]
    pub commands: Vec<CommandResult>,
    /// What the verifier saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyResult>,
    /// Paths that changed on both sides.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// Paths that nobody else changed, and that their permissions, or those of a folder above them, kept as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
    /// What it made that no tree can hold, and what it could not see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Box<LeftOut>>,
    /// What the worker needs to know.
    #[serde(default)]
    pub questions: Vec<String>,
    /// What the worker would do next.
    #[serde(default)]
    pub suggested_next: Option<String>,
    /// What it took.
    #[serde(default)]
    pub usage: TaskUsage,
}

/// What a person wants of a path that changed on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What is in the workspace stays, and nothing comes.
    Mine,
    /// The task's version takes its place.
    Theirs,
    /// What is in the workspace stays, and the task's version comes beside it.
    Both,
}

impl Side {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Mine, Self::Theirs, Self::Both];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mine => "mine",
            Self::Theirs => "theirs",
            Self::Both => "both",
        }
    }
}

/// Paths that no tree can hold: pipes, sockets, devices, and files that are too large or closed to everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub paths: Vec<String>,
    /// Files and folders of the workspace that the task could not see, because their permissions forbid it; the first of
    /// them, and not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
}

/// A change as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    /// Always `git`.
    pub format: String,
    /// The text. In an event it is empty when `blob` has it; answers of the API always carry it. What has no room in 64 MiB is
    /// named in its first line, and git refuses to apply it then.
    pub content: String,
    /// The text as a blob, when it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Hash>,
    /// Where answers of the API say that the whole is, however long: a path with its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
}

impl Diff {
    /// Says where the whole is, for answers: it is made of the trees whenever it is asked for.
    pub fn lies_between(&mut self, trees: (Option<Hash>, Option<Hash>)) {
        if let (Some(from), Some(to)) = trees {
            self.whole = Some(format!("/api/trees/diff?from={from}&to={to}"));
        }
    }
}

/// One path that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileChange {
    /// Relative to the workspace.
    pub path: String,
    /// What became of it.
    pub change: ChangeKind,
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Content, mode or kind differ.
    Modified,
    /// It is gone.
    Deleted,
}

/// What one command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CommandResult {
    /// As it was given to `sh -c`.
    pub command: String,
    /// 128 + signal for a command ended by a signal; nothing when nobody knows.
    pub exit_code: Option<i32>,
    /// Standard output, capped.
    pub stdout: String,
    /// Standard error, capped.
    pub stderr: String,
    /// Whether the caps cut something.
    pub truncated: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// The whole output as a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Hash>,
    /// The limit of its sandbox that it reached, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// What a sandbox may use only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of all its processes together.
    Memory,
    /// Processes and threads.
    Processes,
    /// Bytes in one file.
    FileBytes,
    /// Bytes written to the workspace.
    WorkspaceBytes,
    /// Files and folders made in the workspace.
    WorkspaceNames,
    /// What has to be left free on the disk for others.
    FreeSpace,
}

impl Limit {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Processes, Self::FileBytes, Self::WorkspaceBytes, Self::WorkspaceNames, Self::FreeSpace];

    /// What is said of whoever reached it.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Memory => "The sandbox reached its memory limit.",
            Self::Processes => "The sandbox reached its limit of processes.",
            Self::FileBytes => "It reached the limit on the size of one file.",
            Self::WorkspaceBytes => "The sandbox reached its disk limit: too many bytes in the workspace.",
            Self::WorkspaceNames => "The sandbox reached its disk limit: too many files in the workspace.",
            Self::FreeSpace => "The sandbox reached its disk limit: too little space is left for others.",
        }
    }
}

/// What the verifier saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyResult {
    /// How it was checked.
    pub mode: VerifyMode,
    /// What came of it.
    pub status: VerifyStatus,
    /// Who chose the checks.
    pub source: VerifySource,
    /// Check definitions that the worker touched.
    #[serde(default)]
    pub checks_changed: Vec<String>,
    /// Whether a person has looked at those and accepted them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// Tools that the checks need and that are not there: nothing was checked then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether the task's time was over before the checks had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Why what passed proves less than it seems to, in sentences. With one of them nothing is called verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Changed code because of which it is doubted: until a person accepts it, it speaks against later checks too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<String>,
    /// What was run.
    #[serde(default)]
    pub commands: Vec<CommandResult>,
}

impl VerifyResult {
    /// Whether its checks are those from before its worker, or a person accepted what became of them; and nothing is doubted.
    pub fn holds(&self) -> bool {
        self.doubts.is_empty() && (self.checks_changed.is_empty() || self.accepted)
    }
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifyStatus {
    /// All passed.
    Pass,
    /// Some failed.
    Fail,
    /// Nothing was checked.
    Unknown,
}

/// Who chose the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifySource {
    /// A person.
    Person,
    /// Found in the tree before the worker touched it.
    Base,
    /// A model.
    Agent,
}

/// What a task took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskUsage {
    /// Seconds of monotonic time.
    pub time_s: f64,
    /// Tokens of any sort.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
    /// How much of that was counted at a price that nobody knows.
    #[serde(default, skip_serializing_if = "Usd::is_nothing")]
    pub usd_assumed: Usd,
}

/// What is asked of a child agent by `delegate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    /// Who should do it.
    pub role: Role,
    /// What is wanted.
    pub objective: String,
    /// What must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance_criteria: Vec<String>,
    /// How it is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Where it may connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// Walls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

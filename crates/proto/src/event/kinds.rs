//! The payload of each kind. A field is never renamed or given another meaning: a changed payload is a new version.

use crate::desktop::{App, Rect, Shape, Subject, Theme};
use crate::inbox::{AskKind, Verdict};
use crate::model::{AssistantMessage, ErrorClass, Paid, StopReason, Usage};
use crate::run::{NewRun, RunStatus};
use crate::task::{ChangeKind, Side, TaskRequest, TaskResult};
use crate::{ComputerId, DocumentId, EventId, Hash, InboxId, Role, Seq, TaskId, TerminalId, WindowId};
use serde::{Deserialize, Serialize};

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident { $( $(#[$field_doc:meta])* $field:ident: $type:ty, )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub struct $name { $( $(#[$field_doc])* pub $field: $type, )* }
    };
}

mod document;
mod offer;

pub use document::*;
pub use offer::*;

payload! {
    /// The first event of every log.
    ComputerCreated {
        /// Its name everywhere.
        computer_id: ComputerId,
        /// The version that made it.
        choir_version: String,
    }
}
payload! {
    /// A process took the log.
    ComputerStarted {
        /// The version that runs it.
        choir_version: String,
        /// Whether the one before ended in order.
        clean: bool,
    }
}
payload! {
    /// The process that held the log ended in order.
    ComputerStopped {
        /// Why.
        reason: String,
    }
}
payload! {
    /// A person gave an objective.
    RunAccepted {
        /// As it was asked.
        request: NewRun,
        /// The document it will write or continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document_id: Option<DocumentId>,
    }
}
payload! {
    /// Agents work on it.
    RunStarted {}
}
payload! {
    /// It waits for something.
    RunBlocked {
        /// What for.
        on: BlockedOn,
        /// For people.
        message: String,
    }
}
payload! {
    /// A person said wait.
    RunPaused {}
}
payload! {
    /// A person put an ended run into the trash. Nothing of it is gone: it is only not listed.
    RunRemoved {}
}
payload! {
    /// A person took a run out of the trash.
    RunRestored {}
}
payload! {
    /// A person has seen how a run ended, and put its card away. The run is listed as before.
    RunDismissed {}
}
payload! {
    /// A person said go on.
    RunResumed {}
}
payload! {
    /// A person said stop, to a run or to a task of its own. It has stopped when its end says so.
    CancelRequested {}
}
payload! {
    /// A person said something to the agents at work.
    RunSteered {
        /// The words.
        text: String,
    }
}
payload! {
    /// A short answer.
    RunAnswered {
        /// The words.
        text: String,
    }
}
payload! {
    /// Nothing more will happen.
    RunEnded {
        /// An ending.
        status: RunStatus,
        /// In a sentence.
        summary: String,
        /// What was paid for answers that are not in the log: they broke off, made no sense, or nobody heard them any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<Paid>,
    }
}
payload! {
    /// Work was asked of a worker.
    TaskRequested {
        /// The envelope.
        request: TaskRequest,
        /// Who does it, when an agent does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<Role>,
        /// Who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<TaskId>,
    }
}
payload! {
    /// A worker began.
    TaskStarted {
        /// The tree it works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_tree: Option<Hash>,
        /// Whether no other task ran beside it, because the workspace is large.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    }
}
payload! {
    /// A worker waits: for a model that says nothing, for another attempt, or for its turn. What it waits for is over when it
    /// starts, when a model answers it, or when it ends.
    TaskDelayed {
        /// For people.
        message: String,
        /// `PROVIDER/MODEL`, where that is known to be waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Which attempt at the turn, counted from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// For how long nothing was heard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
    }
}
payload! {
    /// What a worker made did not come in whole: somebody else had changed the same, and a person has to say what stays.
    TaskConflicted {
        /// As far as it came.
        result: TaskResult,
    }
}
payload! {
    /// A worker ended.
    TaskFinished {
        /// What came of it.
        result: TaskResult,
    }
}
payload! {
    /// A person accepted what a worker made of the checks that it was judged by.
    ChecksAccepted {
        /// What they were shown: the files that the worker touched.
        checks: Vec<String>,
        /// How its run ended after all, where that changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_status: Option<RunStatus>,
    }
}
payload! {
    /// A model answered.
    ModelCalled {
        /// Counts from 1 within the task.
        turn: u32,
        /// `PROVIDER/MODEL`.
        model: String,
        /// What it said.
        message: AssistantMessage,
        /// Why it stopped.
        stop: StopReason,
        /// What it took.
        usage: Usage,
        /// From question to end of answer.
        duration_ms: u64,
        /// How many tokens the model can read at once, if control knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// How far into the log the person's words were part of the question, where the agent hears them: it is no answer to
        /// what was said later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard: Option<Seq>,
    }
}
payload! {
    /// A model did not answer.
    ModelFailed {
        /// Counts from 1 within the task.
        turn: u32,
        /// Counts from 1 within the turn.
        attempt: u32,
        /// What kind of failure.
        class: ErrorClass,
        /// For people; carries no secret.
        message: String,
        /// What it took all the same, as far as that is known.
        #[serde(default, skip_serializing_if = "Usage::is_nothing")]
        usage: Usage,
    }
}
payload! {
    /// A tool is about to act.
    ToolStarted {
        /// Stable over restarts: made of run, task, turn, index and the hash of the arguments.
        effect_id: String,
        /// Counts from 1 within the task.
        turn: u32,
        /// Position among the answer's calls.
        index: u32,
        /// The provider's id of the call.
        call_id: String,
        /// The tool.
        name: String,
        /// What it is called with.
        arguments: serde_json::Value,
    }
}
payload! {
    /// A tool acted, or nobody knows whether it did.
    ToolFinished {
        /// Which intent this answers.
        effect_id: String,
        /// The provider's id of the call.
        call_id: String,
        /// How it went.
        outcome: ToolOutcome,
        /// What the model is told; data, never an instruction.
        content: String,
        /// The whole output, when `content` is only a part of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Hash>,
        /// How long it took.
        duration_ms: u64,
    }
}
payload! {
    /// A conversation came near the model's window, and old parts of it were shortened. The log has them whole.
    ContextCompacted {
        /// Before which turn.
        turn: u32,
        /// So many messages from the beginning, the brief excepted.
        messages: u32,
        /// So much was left of each text.
        text_bytes: u32,
        /// So much was left of each result and call behind them, where that did not suffice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        newest_bytes: Option<u32>,
        /// So much was left of each piece of data that words came with, the brief's among them, where that did not either.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data_bytes: Option<u32>,
        /// Whether words that somebody said stayed whole; those of older logs did not.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        spares_words: bool,
        /// Of the conversation, estimated.
        before_tokens: u64,
        /// Of the conversation, estimated.
        after_tokens: u64,
    }
}
payload! {
    /// Something was put to the person.
    InboxAsked {
        /// Its name in the inbox.
        inbox_id: InboxId,
        /// What sort of word is wanted.
        ask: AskKind,
        /// In a sentence.
        question: String,
        /// What is wanted, exactly.
        subject: String,
        /// Of what is wanted; the decision repeats it.
        hash: Hash,
        /// The words of which one is an answer to a question; none where any text is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<Side>,
    }
}
payload! {
    /// The person decided, or nobody did in time. A copy: control has the original.
    InboxDecided {
        /// What was asked.
        inbox_id: InboxId,
        /// How.
        decision: Verdict,
    }
}
payload! {
    /// A window was opened.
    WindowOpened {
        /// Its name.
        window_id: WindowId,
        /// What it shows.
        app: App,
        /// What it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<Subject>,
        /// Where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rect: Option<Rect>,
    }
}
payload! {
    /// A window came to the front.
    WindowFocused {
        /// Which.
        window_id: WindowId,
    }
}
payload! {
    /// A window was put elsewhere.
    WindowMoved {
        /// Which.
        window_id: WindowId,
        /// Where.
        rect: Rect,
    }
}
payload! {
    /// A window was minimised, maximised, snapped or restored.
    WindowShaped {
        /// Which.
        window_id: WindowId,
        /// How.
        shape: Shape,
    }
}
payload! {
    /// A window shows something else.
    WindowShown {
        /// Which.
        window_id: WindowId,
        /// What it is about now.
        subject: Subject,
    }
}
payload! {
    /// A window was closed.
    WindowClosed {
        /// Which.
        window_id: WindowId,
    }
}
payload! {
    /// A theme was chosen.
    ThemeChosen {
        /// Nothing follows the system.
        theme: Option<Theme>,
    }
}
payload! {
    /// A file of the workspace changed.
    FileChanged {
        /// Relative to the workspace.
        path: String,
        /// What became of it.
        change: ChangeKind,
        /// Its content now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_hash: Option<Hash>,
    }
}
payload! {
    /// A terminal began.
    TerminalOpened {
        /// Its name.
        terminal_id: TerminalId,
    }
}
payload! {
    /// A terminal ended.
    TerminalClosed {
        /// Its name.
        terminal_id: TerminalId,
        /// Of its shell, when it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    }
}
payload! {
    /// A connection was allowed.
    EgressAllowed {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
        /// The rule that allowed it.
        rule: String,
    }
}
payload! {
    /// A connection was refused.
    EgressDenied {
        /// Where to, as it was asked.
        host: String,
        /// Where to.
        port: u16,
        /// Why.
        reason: String,
    }
}
payload! {
    /// Requests were refused because of where they came from or what they reached for. Many alike are told once.
    RequestRefused {
        /// Why.
        reason: RefusalReason,
        /// Of the newest: its method.
        method: String,
        /// Its path, without what was asked behind it.
        path: String,
        /// The page that it came from, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
        /// The address that it came from.
        peer: String,
        /// How many since the last time that this was told.
        count: u64,
    }
}
payload! {
    /// An actor failed and was started again.
    ActorRestarted {
        /// Its name.
        name: String,
        /// What it died of.
        reason: String,
        /// How often within the window.
        restarts: u32,
    }
}
payload! {
    /// An actor failed too often; its supervisor gave up on it.
    ActorEscalated {
        /// Its name.
        name: String,
        /// What it died of.
        reason: String,
    }
}
payload! {
    /// A payload or blob was replaced by a tombstone.
    PayloadErased {
        /// The event whose payload is gone.
        event_id: EventId,
        /// Its place.
        seq: Seq,
        /// Blobs that went with it.
        blobs: Vec<Hash>,
        /// The document that it was part of: replicas of it that were made before hold what is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document_id: Option<DocumentId>,
    }
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockedOn {
    /// No provider is configured.
    Model,
    /// A person has to answer.
    Inbox,
    /// A sandbox could not be had.
    Sandbox,
    /// A person has to say yes to the plan: resume the run, or say what should be different.
    Plan,
}

/// Why requests were refused before anybody looked at what they wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// A page of another site sent them.
    ForeignOrigin,
    /// They were sent to a name that is not ours: a page may have had its own name led here.
    WrongHost,
    /// They named what is not there, or is somebody else's.
    UnknownId,
    /// They asked for a task that cannot be.
    ImpossibleTask,
}

impl RefusalReason {
    /// The word in events and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForeignOrigin => "foreign_origin",
            Self::WrongHost => "wrong_host",
            Self::UnknownId => "unknown_id",
            Self::ImpossibleTask => "impossible_task",
        }
    }
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did what was asked.
    Ok,
    /// It failed, and said so.
    Error,
    /// It was refused before it began.
    Refused,
    /// A crash came between intent and result, and nobody can honestly say.
    Unknown,
    /// A person stopped it.
    Cancelled,
}

impl ToolOutcome {
    /// The word in events, API and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Cancelled => "cancelled",
        }
    }
}

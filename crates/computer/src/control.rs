//! Control as the computer sees it: models and sandboxes, asked for over one socket.

mod client;

pub use client::ControlClient;

use choir_proto::inbox::{Ask, Asked, Verdict, Waits};
use choir_proto::model::{Answer, Delta, ModelError, Paid, Usage};
use choir_proto::wire::mcp::{CallTool, Called, Offers, WhatTools};
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, ChangeSettings, ChangesUndone, DocumentSettings, EditFile,
    Edited, EffectRecord, Exec, Exit, Fetch, FinishAssociate, LivePath, Mirror, Mirrored, ModelCall, Models,
    OutputStream, ReadTree, Search, SearchHits, StartAssociate, TakeSide, ToolSettings, TreeFiles, UndoChanges,
    WatchFiles, WatchFrame, WriteFile,
};
use choir_proto::{Hash, InboxId, RunId, TaskId};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::StatusCode;
use std::collections::BTreeSet;

/// Why control did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ControlError {
    /// It said no, with a reason for people.
    #[error("{0}")]
    Refused(String),
    /// The person has to decide something first; then it can be asked again.
    #[error("waiting for the person: {}", .0.question)]
    Waits(Box<Waits>),
    /// There is no sandbox any more; another one can be started.
    #[error("{0}")]
    NoSandbox(String),
    /// It cannot be reached, or broke off.
    #[error("control cannot be reached: {0}")]
    Gone(String),
}

/// A page as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it was in the end.
    pub url: String,
    /// For example `text/html`; a claim.
    pub media_type: String,
    /// As they came.
    pub bytes: Vec<u8>,
}

/// A picture of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// For example `image/png`: what it is, and not only what it is called.
    pub media_type: String,
    /// As they stand in the file.
    pub bytes: Vec<u8>,
}

/// A page that was not brought in, as the person is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFetched {
    /// Whose fault it was: that of the address, of a rule here, or of the site.
    pub status: StatusCode,
    /// Why.
    pub message: String,
}

impl From<ControlError> for NotFetched {
    fn from(error: ControlError) -> Self {
        let status = match error {
            ControlError::Refused(_) | ControlError::Waits(_) => StatusCode::FORBIDDEN,
            ControlError::Gone(_) | ControlError::NoSandbox(_) => StatusCode::BAD_GATEWAY,
        };
        Self { status, message: error.to_string() }
    }
}

/// What is heard of a model before its answer is whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Who was asked: `PROVIDER/MODEL`.
    Asked(String),
    /// A piece of the answer.
    Delta(Delta),
    /// What it took, though it broke off.
    Took(Usage),
}

/// Takes what is heard of a model while it answers.
pub type OnHeard = Box<dyn FnMut(Heard) + Send>;

/// Takes output of a command while it arrives.
pub type OnOutput = Box<dyn FnMut(OutputStream, &[u8]) + Send>;

/// Takes what is heard of the live workspace.
pub type OnFile = Box<dyn FnMut(WatchFrame) + Send>;

/// What control does for a computer. The simulation has its own.
pub trait Control: Send + Sync {
    /// Asks a model.
    fn model(&self, call: ModelCall, on_heard: OnHeard) -> BoxFuture<'_, Result<Answer, ModelError>>;
    /// Whether there is a model to ask.
    fn models(&self) -> BoxFuture<'_, Result<Models, ControlError>>;
    /// How the person wants documents to be written.
    fn document_settings(&self) -> BoxFuture<'_, Result<DocumentSettings, ControlError>> {
        async { Ok(DocumentSettings::default()) }.boxed()
    }
    /// What a run has cost in all, if anybody counts that.
    fn paid(&self, _run: RunId) -> BoxFuture<'_, Result<Option<Paid>, ControlError>> {
        async { Ok(None) }.boxed()
    }
    /// Whether a tool may be used without asking.
    fn tool_settings(&self, _tool: String) -> BoxFuture<'_, Result<ToolSettings, ControlError>> {
        async { Ok(ToolSettings { auto: true }) }.boxed()
    }
    /// How the person wants changes of files to come into the workspace.
    fn change_settings(&self) -> BoxFuture<'_, Result<ChangeSettings, ControlError>> {
        async { Ok(ChangeSettings::default()) }.boxed()
    }
    /// Which of these tools nobody has to be asked about. Not knowing means asking.
    fn free_tools(&self, tools: BTreeSet<String>) -> BoxFuture<'_, Result<BTreeSet<String>, ControlError>> {
        drop(tools);
        async { Ok(BTreeSet::new()) }.boxed()
    }
    /// Puts something to the person, unless it is decided already. Asking again changes nothing.
    fn ask(&self, id: InboxId, ask: Ask) -> BoxFuture<'_, Result<Asked, ControlError>>;
    /// Waits until the person has spoken.
    fn verdict(&self, id: InboxId) -> BoxFuture<'_, Result<Verdict, ControlError>>;
    /// Takes a question back; what was decided before, if anything was.
    fn withdraw(&self, id: InboxId) -> BoxFuture<'_, Result<Option<Verdict>, ControlError>>;
    /// Starts an associate for a task; starting it again finds the same one.
    fn start_associate(
        &self,
        task: TaskId,
        start: StartAssociate,
    ) -> BoxFuture<'_, Result<AssociateStarted, ControlError>>;
    /// Runs a command in a task's associate.
    fn exec(&self, task: TaskId, exec: Exec, on_output: OnOutput) -> BoxFuture<'_, Result<Exit, ControlError>>;
    /// What the shim knows of an effect.
    fn effect(&self, effect_id: String) -> BoxFuture<'_, Result<EffectRecord, ControlError>>;
    /// Reads a file in a task's associate.
    fn read_file(&self, task: TaskId, path: String) -> BoxFuture<'_, Result<Vec<u8>, ControlError>>;
    /// Writes a file in a task's associate.
    fn write_file(&self, task: TaskId, path: String, content: Vec<u8>) -> BoxFuture<'_, Result<(), ControlError>>;
    /// Writes a file as a call of an agent wants it.
    fn write_for(&self, task: TaskId, wanted: WriteFile) -> BoxFuture<'_, Result<(), ControlError>> {
        let part = |name: &str| wanted.arguments[name].as_str().unwrap_or_default().to_owned();
        self.write_file(task, part("path"), part("content").into_bytes())
    }
    /// Changes one place of a file in a task's associate, once.
    fn edit_file(&self, task: TaskId, edit: EditFile) -> BoxFuture<'_, Result<Edited, ControlError>>;
    /// Lists a folder in a task's associate: one name a line, folders with a slash.
    fn list_files(&self, task: TaskId, path: String) -> BoxFuture<'_, Result<String, ControlError>>;
    /// Ends an associate and says what it has made so far.
    fn capture_associate(&self, task: TaskId) -> BoxFuture<'_, Result<AssociateCaptured, ControlError>>;
    /// Reads files as they are in a tree.
    fn read_tree(&self, _tree: Hash, _wanted: ReadTree) -> BoxFuture<'_, Result<TreeFiles, ControlError>> {
        async { Err(ControlError::Refused("There are no trees here.".into())) }.boxed()
    }
    /// Looks at a path of the live workspace.
    fn live(&self, _path: String) -> BoxFuture<'_, Result<LivePath, ControlError>> {
        async { Err(ControlError::Refused("There is no workspace here.".into())) }.boxed()
    }
    /// The picture at a path of the live workspace, if one is there that models can be shown.
    fn picture(&self, _path: String) -> BoxFuture<'_, Result<Option<Picture>, ControlError>> {
        async { Ok(None) }.boxed()
    }
    /// Tells of files of the live workspace, until it breaks off.
    fn watch(&self, _: WatchFiles, _: OnFile) -> BoxFuture<'_, ControlError> {
        async { ControlError::Refused("There is no workspace here.".into()) }.boxed()
    }
    /// Writes a document's mirror.
    fn mirror(&self, _: Mirror) -> BoxFuture<'_, Result<Mirrored, ControlError>> {
        async { Err(ControlError::Refused("There is no workspace here.".into())) }.boxed()
    }
    /// Ends an associate, merging its changes or not.
    fn finish_associate(
        &self,
        task: TaskId,
        finish: FinishAssociate,
    ) -> BoxFuture<'_, Result<AssociateFinished, ControlError>>;
    /// Acts upon a person's word about what a merge left out.
    fn take_side(&self, _: TaskId, _: TakeSide) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        async { Err(ControlError::Refused("There is no workspace here.".into())) }.boxed()
    }
    /// Lets an associate go whose result is in the log.
    fn forget_associate(&self, task: TaskId) -> BoxFuture<'_, Result<(), ControlError>>;
    /// Takes merged changes back as one new change.
    fn undo(&self, changes: UndoChanges) -> BoxFuture<'_, Result<ChangesUndone, ControlError>>;
    /// Gets a page of the web. Control decides whether, and gives bytes only.
    fn fetch(&self, _: Fetch) -> BoxFuture<'_, Result<Fetched, ControlError>> {
        async { Err(ControlError::Refused("Pages cannot be fetched here.".into())) }.boxed()
    }
    /// Gets a page for the person themselves, who is not asked about it but told what went wrong.
    fn bring_in(&self, url: String) -> BoxFuture<'_, Result<Fetched, NotFetched>> {
        self.fetch(Fetch { task: None, run: None, url }).map_err(NotFetched::from).boxed()
    }
    /// Asks the person's search engine.
    fn search(&self, _: Search) -> BoxFuture<'_, Result<SearchHits, ControlError>> {
        async { Ok(SearchHits { unset: true, ..SearchHits::default() }) }.boxed()
    }
    /// Which tools servers elsewhere offer to a task.
    fn offers(&self, _: WhatTools) -> BoxFuture<'_, Result<Offers, ControlError>> {
        async { Ok(Offers::default()) }.boxed()
    }
    /// Calls a tool of a server elsewhere.
    fn call_tool(&self, _: CallTool) -> BoxFuture<'_, Result<Called, ControlError>> {
        async { Err(ControlError::Refused("No server is configured.".into())) }.boxed()
    }
    /// Ends an associate at once, with everything in it.
    fn kill_associate(&self, task: TaskId) -> BoxFuture<'_, Result<(), ControlError>>;
}

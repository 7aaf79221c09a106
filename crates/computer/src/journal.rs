//! Appending facts: the log together with the clock and the names that events need.

use crate::world::World;
use choir_proto::event::{Actor, NewEvent};
use choir_proto::{Event, EventId, RunId, Seq, TaskId};
use choir_store::{AppendError, Expect, Log};
use std::sync::{Arc, Mutex};
use tokio::sync::RwLock;
use uuid::Uuid;

/// Who does something, and for what.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Who.
    pub actor: Actor,
    /// For which run.
    pub run: Option<RunId>,
    /// For which task.
    pub task: Option<TaskId>,
}

impl Scope {
    /// Not for any run.
    pub fn of(actor: Actor) -> Self {
        Self { actor, run: None, task: None }
    }

    /// For a run.
    #[must_use]
    pub fn run(self, run: RunId) -> Self {
        Self { run: Some(run), ..self }
    }

    /// For a task.
    #[must_use]
    pub fn task(self, task: TaskId) -> Self {
        Self { task: Some(task), ..self }
    }
}

/// A handle by which facts are appended.
#[derive(Clone)]
pub struct Journal {
    log: Log,
    world: Arc<dyn World>,
    /// Why the disk refused the last append; nothing while appending works.
    trouble: Arc<Mutex<Option<String>>>,
    /// Whether the last fact was appended. Held by everybody who appends, so that it really is the last.
    closed: Arc<RwLock<bool>>,
}

impl Journal {
    /// A journal over a log.
    pub fn new(log: Log, world: Arc<dyn World>) -> Self {
        Self { log, world, trouble: Arc::default(), closed: Arc::default() }
    }

    /// Why the disk refused the last append; nothing while appending works.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The log itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Clock and names.
    pub fn world(&self) -> &Arc<dyn World> {
        &self.world
    }

    /// Appends facts as one unit; when this returns they are on disk.
    pub async fn append(&self, scope: &Scope, events: Vec<Event>) -> Result<Seq, AppendError> {
        let drafts = events.into_iter().map(|event| self.draft(scope, self.world.uuid(), event)).collect();
        self.append_drafts(drafts).await
    }

    /// Appends drafts of several scopes as one unit.
    pub async fn append_drafts(&self, drafts: Vec<NewEvent>) -> Result<Seq, AppendError> {
        let closed = self.closed.read().await;
        if *closed {
            return Err(AppendError::Closed);
        }
        let appended = self.log.append(drafts, Expect::Any).await;
        let trouble = match &appended {
            Err(error @ (AppendError::Full | AppendError::Failed(_))) => Some(error.to_string()),
            // Whoever was refused for another reason has not even tried the disk.
            Err(_) => return appended.map(|appended| appended.last),
            Ok(_) => None,
        };
        *self.trouble.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = trouble;
        appended.map(|appended| appended.last)
    }

    /// Appends the last fact. Whoever comes later is refused: a log that was closed in order ends with that.
    pub async fn close(&self, scope: &Scope, last: Event) -> Result<Seq, AppendError> {
        let mut closed = self.closed.write().await;
        *closed = true;
        let draft = self.draft(scope, self.world.uuid(), last);
        self.log.append(vec![draft], Expect::Any).await.map(|appended| appended.last)
    }

    /// An event that is not appended yet.
    pub fn draft(&self, scope: &Scope, id: Uuid, event: Event) -> NewEvent {
        NewEvent {
            id: EventId::new(id),
            at: self.world.now(),
            actor: scope.actor.clone(),
            run: scope.run,
            task: scope.task,
            cause: None,
            event,
        }
    }
}

//! Appending facts: the log together with the clock and the names that events need.

use crate::world::World;
use choir_proto::event::{Actor, NewEvent};
use choir_proto::{Event, EventId, RunId, Seq, TaskId};
use choir_store::{AppendError, Appended, Expect, Log};
use std::sync::{Arc, Mutex, MutexGuard};
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
    /// What has to stand before the next fact, because the disk refused it.
    owed: Arc<Mutex<Option<NewEvent>>>,
    /// Whether the last fact was appended. Held by everybody who appends, so that it really is the last.
    closed: Arc<RwLock<bool>>,
}

impl Journal {
    /// A journal over a log.
    pub fn new(log: Log, world: Arc<dyn World>) -> Self {
        Self { log, world, trouble: Arc::default(), owed: Arc::default(), closed: Arc::default() }
    }

    /// Why the disk refused the last append; nothing while appending works.
    pub fn trouble(&self) -> Option<String> {
        locked(&self.trouble).clone()
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

    /// Appends the first fact of this holder of the log. A disk that is full or fails refuses it, and what is there can be read all
    /// the same: then it goes before the first fact that the disk takes.
    pub async fn open(&self, scope: &Scope, first: Event) -> Result<(), AppendError> {
        let draft = self.draft(scope, self.world.uuid(), first);
        match self.append_drafts(vec![draft.clone()]).await {
            Err(error @ (AppendError::Full | AppendError::Failed(_))) => {
                tracing::warn!(%error, "nothing can be written; what is there can be read");
                *locked(&self.owed) = Some(draft);
                Ok(())
            }
            appended => appended.map(drop),
        }
    }

    /// Appends drafts of several scopes as one unit.
    pub async fn append_drafts(&self, drafts: Vec<NewEvent>) -> Result<Seq, AppendError> {
        let closed = self.closed.read().await;
        if *closed {
            return Err(AppendError::Closed);
        }
        let appended = self.append_owed(drafts).await;
        let trouble = match &appended {
            Err(error @ (AppendError::Full | AppendError::Failed(_))) => Some(error.to_string()),
            // Whoever was refused for another reason has not even tried the disk.
            Err(_) => return appended.map(|appended| appended.last),
            Ok(_) => None,
        };
        *locked(&self.trouble) = trouble;
        appended.map(|appended| appended.last)
    }

    /// Appends drafts behind what is owed.
    async fn append_owed(&self, drafts: Vec<NewEvent>) -> Result<Appended, AppendError> {
        let owed = locked(&self.owed).clone();
        let Some(owed) = owed else { return self.log.append(drafts, Expect::Any).await };
        let unit = std::iter::once(owed).chain(drafts.iter().cloned()).collect();
        match self.log.append(unit, Expect::Any).await {
            // Somebody else was first, or the disk had taken what it refused. Where it is the drafts that are there already, they
            // are refused once more.
            Err(AppendError::IdReused(_)) => {
                *locked(&self.owed) = None;
                self.log.append(drafts, Expect::Any).await
            }
            Ok(appended) => {
                *locked(&self.owed) = None;
                Ok(appended)
            }
            refused => refused,
        }
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

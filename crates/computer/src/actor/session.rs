//! What a person has going: the desktop, and one actor for each run that has not ended. What becomes of them is decided by `core`.

use super::desktop::{Desktop, DesktopMessage};
use super::handle::Seated;
use super::run::{Run, RunArguments, RunMessage};
use super::task::{Task, TaskArguments, TaskMessage};
use super::tree::Tree;
use super::{ActorError, Places, Reply, answer};
use crate::harness::{Harness, Past};
use crate::journal::Scope;
use choir_core::actor::run::RunCommand;
use choir_core::actor::session::{self, Child, Effect, Failure, Input, Trouble};
use choir_core::fold::Fold;
use choir_core::fold::run::ActiveRuns;
use choir_core::fold::task::{ActiveTasks, run_of};
use choir_proto::event::Actor as By;
use choir_proto::model::Paid;
use choir_proto::{Event, RunId, TaskId};
use choir_store::StoreError;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Unfinished ones that are read at once at a start.
const PAGE: usize = 1000;

/// How long a session waits to hear what a run that failed has cost.
const RECEIPT_WAIT: Duration = Duration::from_secs(1);

/// The session, as it knows itself.
type Myself = ActorRef<Seated<SessionMessage>>;

/// The session's actor.
pub(super) struct Session;

impl Session {
    pub(super) const NAME: &'static str = "Session";
}

/// What the session needs.
pub(super) struct SessionArguments {
    pub(super) harness: Harness,
    pub(super) tree: Tree,
    pub(super) places: Places,
}

/// What the session can be told.
pub enum SessionMessage {
    /// A run was accepted.
    Start(RunId),
    /// A task was accepted.
    StartTask(TaskId),
    /// A person wants a task to stop.
    CancelTask(TaskId, Reply),
    /// A person wants something of a run.
    Run(RunId, RunCommand, Reply),
    /// A person did something to a window.
    Desktop(DesktopMessage),
    /// The wait before a restart is over.
    Restart(Child),
    /// Look for what has not ended. Comes first, once everybody who accepts something knows the session: whatever was
    /// accepted before that is found now, and whatever comes later is said.
    PickUp,
    /// It is the turn of something that was put off.
    Turn(Child),
    /// It is the turn of whoever is first in line.
    Next,
}

/// The session's own.
pub(super) struct SessionState {
    harness: Harness,
    tree: Tree,
    session: session::Session,
    desktop: Option<ActorRef<Seated<DesktopMessage>>>,
    runs: HashMap<RunId, ActorRef<Seated<RunMessage>>>,
    tasks: HashMap<TaskId, ActorRef<Seated<TaskMessage>>>,
    children: HashMap<ActorId, Child>,
}

impl Actor for Session {
    type Msg = Seated<SessionMessage>;
    type State = SessionState;
    type Arguments = SessionArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let SessionArguments { harness, tree, places } = arguments;
        let mut state = SessionState {
            harness,
            tree,
            session: session::Session::new(places.0),
            desktop: None,
            runs: HashMap::new(),
            tasks: HashMap::new(),
            children: HashMap::new(),
        };
        state.spawn(&myself, Child::Desktop).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let Seated { message, seat } = message;
        match message {
            SessionMessage::PickUp => {
                let found = state.unfinished().await?;
                state.tell(&myself, Input::Found(found)).await?;
            }
            SessionMessage::Turn(child) => state.tell(&myself, Input::Turn(child)).await?,
            SessionMessage::Next => state.tell(&myself, Input::Next).await?,
            SessionMessage::Start(run) => state.tell(&myself, Input::Accepted(Child::Run(run))).await?,
            SessionMessage::StartTask(task) => state.tell(&myself, Input::Accepted(Child::Task(task))).await?,
            SessionMessage::Restart(child) => state.tell(&myself, Input::Restart(child)).await?,
            SessionMessage::CancelTask(task, reply) => {
                state.tell(&myself, Input::Asked(Child::Task(task))).await?;
                match state.tasks.get(&task) {
                    Some(actor) => {
                        actor.send_message(Seated { message: TaskMessage::Cancel(reply), seat }).ok();
                    }
                    None => answer(reply, Err(ActorError::NotAtWork)),
                }
            }
            SessionMessage::Run(run, command, reply) => {
                state.tell(&myself, Input::Asked(Child::Run(run))).await?;
                match state.runs.get(&run) {
                    Some(actor) => {
                        // A run that ended in this moment drops the reply, and the asker hears that it is silent.
                        actor.send_message(Seated { message: RunMessage::Command(command, reply), seat }).ok();
                    }
                    None => answer(reply, Err(ActorError::NotAtWork)),
                }
            }
            SessionMessage::Desktop(message) => {
                if let Some(desktop) = &state.desktop {
                    desktop.send_message(Seated { message, seat }).ok();
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let input = match event {
            SupervisionEvent::ActorTerminated(cell, ..) => state.remove(&cell).map(Input::Ended),
            SupervisionEvent::ActorFailed(cell, error) => {
                state.remove(&cell).map(|child| Input::Failed(state.failure(child, error.to_string())))
            }
            _ => None,
        };
        match input {
            Some(input) => state.tell(&myself, input).await,
            None => Ok(()),
        }
    }
}

/// The names of everything in a view, the oldest first.
async fn names<F: Fold>(harness: &Harness) -> Result<Vec<String>, StoreError> {
    let mut keys: Vec<String> = Vec::new();
    loop {
        let page = harness.views.newest::<F>(keys.last().cloned(), PAGE).await?;
        let is_last = page.len() < PAGE;
        keys.extend(page.into_iter().map(|(key, _)| key));
        if is_last {
            keys.reverse();
            return Ok(keys);
        }
    }
}

fn later(myself: &Myself, after_ms: u64, message: SessionMessage) {
    myself.send_after(Duration::from_millis(after_ms), move || Seated::own(message));
}

impl SessionState {
    /// Everything that has not ended, the oldest first.
    async fn unfinished(&self) -> Result<Vec<Child>, ActorProcessingErr> {
        let mut found = Vec::new();
        for key in names::<ActiveRuns>(&self.harness).await? {
            found.push(Child::Run(key.parse()?));
        }
        for key in names::<ActiveTasks>(&self.harness).await? {
            found.push(Child::Task(key.parse()?));
        }
        Ok(found)
    }

    /// Does what has to be done about something. What comes of one thing is decided about before the next is done.
    async fn tell(&mut self, myself: &Myself, input: Input) -> Result<(), ActorProcessingErr> {
        let mut effects = VecDeque::from(self.step(input));
        while let Some(effect) = effects.pop_front() {
            if let Some(came_of_it) = self.perform(myself, effect).await? {
                self.step(came_of_it).into_iter().rev().for_each(|effect| effects.push_front(effect));
            }
        }
        Ok(())
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let now_ms = self.harness.journal.world().elapsed().as_millis() as u64;
        self.session.step(input, now_ms)
    }

    async fn perform(&mut self, myself: &Myself, effect: Effect) -> Result<Option<Input>, ActorProcessingErr> {
        match effect {
            Effect::Start(child) => {
                let failed = self.spawn(myself, child).await.err();
                return Ok(failed.map(|error| Input::NotStarted(self.failure(child, error.to_string()))));
            }
            Effect::PutOff { child, after_ms } => later(myself, after_ms, SessionMessage::Turn(child)),
            Effect::Restart { child, after_ms } => later(myself, after_ms, SessionMessage::Restart(child)),
            Effect::CallNext => {
                myself.send_message(Seated::own(SessionMessage::Next)).map_err(|error| error.to_string())?;
            }
            Effect::TellWaits(Failure { child, reason, .. }) => {
                tracing::warn!(actor = %child.name(), %reason, "an actor waits for the disk");
            }
            Effect::TellFailed(Failure { child, reason, .. }) => {
                tracing::error!(actor = %child.name(), %reason, "an actor failed");
            }
            Effect::ShowRestarting(child) => self.tree.restarting(&child.name()),
            Effect::ShowEnded(child) => self.tree.ended(&child.name()),
            Effect::Append(child, events) => self.append(child, events).await,
            Effect::Reckon { run, summary } => {
                let unanswered = self.unanswered(run).await;
                return Ok(Some(Input::Reckoned { run, summary, unanswered }));
            }
            Effect::Fail(reason) => return Err(reason.into()),
        }
        Ok(None)
    }

    /// That a child is no longer there, with what is wrong with the log.
    fn failure(&self, child: Child, reason: String) -> Failure {
        let journal = &self.harness.journal;
        let damage = journal.log().damage().map(|_| Trouble::Damage);
        Failure { child, reason, trouble: damage.or_else(|| journal.trouble().map(|_| Trouble::Disk)) }
    }

    async fn spawn(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        let id = match child {
            Child::Desktop => {
                let (actor, _) = Actor::spawn_linked(None, Desktop, self.harness.clone(), myself.get_cell()).await?;
                self.desktop = Some(actor.clone());
                actor.get_id()
            }
            Child::Run(run) => {
                let arguments = RunArguments { run, harness: self.harness.clone() };
                let (actor, _) = Actor::spawn_linked(None, Run, arguments, myself.get_cell()).await?;
                self.runs.insert(run, actor.clone());
                actor.get_id()
            }
            Child::Task(task) => {
                let arguments = TaskArguments { task, harness: self.harness.clone() };
                let (actor, _) = Actor::spawn_linked(None, Task, arguments, myself.get_cell()).await?;
                self.tasks.insert(task, actor.clone());
                actor.get_id()
            }
        };
        self.children.insert(id, child);
        self.tree.started(&child.name(), Some(Session::NAME), id);
        Ok(())
    }

    /// What was paid for a run that its log does not have; not waited for long, because others wait for the session.
    async fn unanswered(&self, run: RunId) -> Option<Paid> {
        let look = async {
            let past = Past::read(self.harness.journal.log(), run).await.ok()?;
            self.harness.unanswered(run, &past).await
        };
        tokio::time::timeout(RECEIPT_WAIT, look).await.ok().flatten()
    }

    async fn append(&self, child: Child, events: Vec<Event>) {
        let scope = match child {
            Child::Desktop => Scope::of(By::Computer),
            Child::Run(run) => Scope::of(By::Computer).run(run),
            Child::Task(task) => Scope::of(By::Computer).run(run_of(task)).task(task),
        };
        if let Err(error) = self.harness.journal.append(&scope, events).await {
            tracing::error!(%error, "a failure could not be written down");
        }
    }

    fn remove(&mut self, cell: &ActorCell) -> Option<Child> {
        let child = self.children.remove(&cell.get_id())?;
        match child {
            Child::Desktop => self.desktop = None,
            Child::Run(run) => drop(self.runs.remove(&run)),
            Child::Task(task) => drop(self.tasks.remove(&task)),
        }
        Some(child)
    }
}

//! What a person has going: the desktop, and one actor for each run that has not ended.

use super::desktop::{Desktop, DesktopMessage};
use super::handle::Seated;
use super::run::{Run, RunArguments, RunCommand, RunMessage};
use super::task::{Task, TaskArguments, TaskMessage};
use super::tree::Tree;
use super::{ActorError, Places, Reply, answer};
use crate::harness::{Harness, Past};
use crate::journal::Scope;
use choir_core::fold::Fold;
use choir_core::fold::run::ActiveRuns;
use choir_core::fold::task::{ActiveTasks, run_of, running};
use choir_core::line::Line;
use choir_core::pace::Pace;
use choir_core::supervise::{INTENSITY, Supervisor, Verdict};
use choir_proto::event::{Actor as By, ActorEscalated, ActorRestarted, RunEnded, TaskFinished};
use choir_proto::model::Paid;
use choir_proto::task::{TaskResult, TaskStatus};
use choir_proto::{RunId, RunStatus, TaskId};
use choir_store::StoreError;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::collections::HashMap;
use std::time::Duration;

/// Unfinished ones that are read at once at a start.
const PAGE: usize = 1000;

/// How long a session waits to hear what a run that failed has cost.
const RECEIPT_WAIT: Duration = Duration::from_secs(1);

/// How long an actor that failed with the disk waits before it tries again.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// The same where the log is damaged: somebody has to restore it, and asking every second only fills another log.
const DAMAGE_PATIENCE: Duration = Duration::from_secs(60);

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

/// Who the session looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Child {
    /// The desktop.
    Desktop,
    /// A run.
    Run(RunId),
    /// A task of its own.
    Task(TaskId),
}

impl Child {
    fn name(self) -> String {
        match self {
            Self::Desktop => Desktop::NAME.to_owned(),
            Self::Run(run) => format!("Run {run}"),
            Self::Task(task) => format!("Task {task}"),
        }
    }
}

/// The session's own.
pub(super) struct SessionState {
    harness: Harness,
    tree: Tree,
    supervisor: Supervisor,
    desktop: Option<ActorRef<Seated<DesktopMessage>>>,
    runs: HashMap<RunId, ActorRef<Seated<RunMessage>>>,
    tasks: HashMap<TaskId, ActorRef<Seated<TaskMessage>>>,
    children: HashMap<ActorId, Child>,
    /// Accepted or found unfinished, and not started yet, with how often it was put off. Whoever asks for one of them does not have
    /// to wait for its turn.
    unfinished: HashMap<Child, u32>,
    pace: Pace,
    /// Those of them who wait for others to end.
    line: Line<Child>,
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
            supervisor: Supervisor::new(INTENSITY),
            desktop: None,
            runs: HashMap::new(),
            tasks: HashMap::new(),
            children: HashMap::new(),
            unfinished: HashMap::new(),
            pace: Pace::default(),
            line: Line::new(places.0),
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
            SessionMessage::PickUp => state.pick_up(&myself).await?,
            SessionMessage::Turn(child) => state.turn(&myself, child).await?,
            SessionMessage::Next => state.next(&myself).await?,
            SessionMessage::Start(run) => state.accepted(&myself, Child::Run(run)).await?,
            SessionMessage::StartTask(task) => state.accepted(&myself, Child::Task(task)).await?,
            SessionMessage::CancelTask(task, reply) => {
                state.hasten(&myself, Child::Task(task)).await?;
                match state.tasks.get(&task) {
                    Some(actor) => {
                        actor.send_message(Seated { message: TaskMessage::Cancel(reply), seat }).ok();
                    }
                    None => answer(reply, Err(ActorError::NotAtWork)),
                }
            }
            SessionMessage::Restart(child) => state.start(&myself, child).await?,
            SessionMessage::Run(run, command, reply) => {
                state.hasten(&myself, Child::Run(run)).await?;
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
        match event {
            SupervisionEvent::ActorTerminated(cell, ..) => {
                state.ended(&cell);
                state.call_next(&myself)
            }
            SupervisionEvent::ActorFailed(cell, error) => match state.remove(&cell) {
                Some(child) => {
                    state.failed(&myself, child, &error.to_string()).await?;
                    // It may have been given up, and its place be free.
                    state.call_next(&myself)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The names of everything in a view, the oldest first.
async fn unfinished<F: Fold>(harness: &Harness) -> Result<Vec<String>, StoreError> {
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

fn put_off(myself: &Myself, child: Child, after_ms: u64) {
    myself.send_after(Duration::from_millis(after_ms), move || Seated::own(SessionMessage::Turn(child)));
}

impl SessionState {
    /// Puts everything that has not ended into the line, the oldest first.
    async fn pick_up(&mut self, myself: &Myself) -> Result<(), ActorProcessingErr> {
        let mut found = Vec::new();
        for key in unfinished::<ActiveRuns>(&self.harness).await? {
            found.push(Child::Run(key.parse()?));
        }
        for key in unfinished::<ActiveTasks>(&self.harness).await? {
            found.push(Child::Task(key.parse()?));
        }
        for child in found {
            self.unfinished.insert(child, 0);
            self.line.join(child);
        }
        self.call_next(myself)
    }

    /// Calls whoever is first in line. One by one, so that nobody else has to wait for all of them to be greeted.
    fn call_next(&self, myself: &Myself) -> Result<(), ActorProcessingErr> {
        if self.line.is_empty() {
            return Ok(());
        }
        myself.send_message(Seated::own(SessionMessage::Next)).map_err(|error| error.to_string().into())
    }

    async fn next(&mut self, myself: &Myself) -> Result<(), ActorProcessingErr> {
        let Some(child) = self.line.next(self.at_work()) else { return Ok(()) };
        // Who has stood in line is not put off once more; who was asked for meanwhile is at work already.
        if self.unfinished.contains_key(&child) {
            self.start(myself, child).await?;
        }
        self.call_next(myself)
    }

    fn at_work(&self) -> usize {
        self.runs.len() + self.tasks.len()
    }

    /// Starts what was just accepted, unless others are being accepted in this moment.
    async fn accepted(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        match self.pace.put_off_ms(self.now_ms()) {
            0 => self.begin(myself, child).await,
            after_ms => {
                self.unfinished.insert(child, 1);
                put_off(myself, child, after_ms);
                Ok(())
            }
        }
    }

    /// Starts what was put off, unless it was started already or a crowd is still being accepted.
    async fn turn(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        if self.is_crowded_out(myself, child) { Ok(()) } else { self.begin(myself, child).await }
    }

    /// Starts a child, or lets it stand in line.
    async fn begin(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        if self.line.is_open(self.at_work()) {
            return self.start(myself, child).await;
        }
        self.unfinished.insert(child, 0);
        self.line.join(child);
        self.call_next(myself)
    }

    /// Whether nothing is to be done now: it is at work already, or put off once more.
    fn is_crowded_out(&mut self, myself: &Myself, child: Child) -> bool {
        let now = self.now_ms();
        let Some(times) = self.unfinished.get_mut(&child) else { return true };
        let after_ms = self.pace.still_ms(*times, now);
        if after_ms > 0 {
            *times += 1;
            put_off(myself, child, after_ms);
        }
        after_ms > 0
    }

    fn now_ms(&self) -> u64 {
        self.harness.journal.world().elapsed().as_millis() as u64
    }

    /// Starts what was found unfinished, unless that was done already.
    async fn hasten(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        if self.unfinished.contains_key(&child) { self.start(myself, child).await } else { Ok(()) }
    }

    /// Starts a child. One that cannot even start has failed like any other.
    async fn start(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        self.unfinished.remove(&child);
        match self.spawn(myself, child).await {
            Ok(()) => Ok(()),
            Err(error) => self.failed(myself, child, &error.to_string()).await,
        }
    }

    async fn spawn(&mut self, myself: &Myself, child: Child) -> Result<(), ActorProcessingErr> {
        let id = match child {
            Child::Desktop => {
                let (actor, _) = Actor::spawn_linked(None, Desktop, self.harness.clone(), myself.get_cell()).await?;
                self.desktop = Some(actor.clone());
                actor.get_id()
            }
            Child::Run(run) if self.runs.contains_key(&run) => return Ok(()),
            Child::Run(run) => {
                let arguments = RunArguments { run, harness: self.harness.clone() };
                let (actor, _) = Actor::spawn_linked(None, Run, arguments, myself.get_cell()).await?;
                self.runs.insert(run, actor.clone());
                actor.get_id()
            }
            Child::Task(task) if self.tasks.contains_key(&task) => return Ok(()),
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

    fn ended(&mut self, cell: &ActorCell) {
        let Some(child) = self.remove(cell) else { return };
        self.supervisor.forget(&child.name());
        self.tree.ended(&child.name());
    }

    async fn failed(&mut self, myself: &Myself, child: Child, reason: &str) -> Result<(), ActorProcessingErr> {
        let name = child.name();
        let is_damaged = self.harness.journal.log().damage().is_some();
        if self.harness.journal.trouble().is_some() || is_damaged {
            // Not its fault: it goes on when the disk does, or the log is whole again. An ending would be for good.
            tracing::warn!(actor = %name, %reason, "an actor waits for the disk");
            self.tree.restarting(&name);
            let patience = if is_damaged { DAMAGE_PATIENCE } else { DISK_PATIENCE };
            myself.send_after(patience, move || Seated::own(SessionMessage::Restart(child)));
            return Ok(());
        }
        let now = self.harness.journal.world().elapsed().as_millis() as u64;
        tracing::error!(actor = %name, %reason, "an actor failed");
        match self.supervisor.failed(&name, now) {
            Verdict::Restart { after_ms, restarts } => {
                self.tree.restarting(&name);
                self.record(child, ActorRestarted { name, reason: reason.to_owned(), restarts }.into()).await;
                myself.send_after(Duration::from_millis(after_ms), move || Seated::own(SessionMessage::Restart(child)));
                Ok(())
            }
            Verdict::Escalate => {
                self.tree.ended(&name);
                self.record(child, ActorEscalated { name, reason: reason.to_owned() }.into()).await;
                self.give_up(child, reason).await
            }
        }
    }

    /// One run that cannot be had must not take the others with it; a desktop that cannot be had is the session's end.
    async fn give_up(&mut self, child: Child, reason: &str) -> Result<(), ActorProcessingErr> {
        match child {
            Child::Desktop => Err(format!("the desktop fails again and again: {reason}").into()),
            Child::Run(run) => {
                let summary = format!("This run failed again and again: {reason}");
                let unanswered = self.unanswered(run).await;
                self.record(child, RunEnded { status: RunStatus::Failed, summary, unanswered }.into()).await;
                Ok(())
            }
            Child::Task(task) => {
                let summary = format!("This task failed again and again: {reason}");
                let result = TaskResult { status: TaskStatus::Failed, summary, ..running(task) };
                self.record(child, TaskFinished { result }.into()).await;
                Ok(())
            }
        }
    }

    /// What was paid for a run that its log does not have; not waited for long, because others wait for the session.
    async fn unanswered(&self, run: RunId) -> Option<Paid> {
        let look = async {
            let past = Past::read(self.harness.journal.log(), run).await.ok()?;
            self.harness.unanswered(run, &past).await
        };
        tokio::time::timeout(RECEIPT_WAIT, look).await.ok().flatten()
    }

    async fn record(&self, child: Child, event: choir_proto::Event) {
        let scope = match child {
            Child::Desktop => Scope::of(By::Computer),
            Child::Run(run) => Scope::of(By::Computer).run(run),
            Child::Task(task) => Scope::of(By::Computer).run(run_of(task)).task(task),
        };
        if let Err(error) = self.harness.journal.append(&scope, vec![event]).await {
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

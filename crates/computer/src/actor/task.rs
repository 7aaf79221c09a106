//! A task of its own: commands without a model, or one worker without a conductor.

use super::handle::Seated;
use super::{ActorError, Reply, answer};
use crate::harness::{Assignment, Crew, Gate, Harness, HarnessError, Past, RunContext, Waiting, drive, run_commands};
use crate::journal::Scope;
use choir_core::actor::Signal;
use choir_core::agent::{Identity, role_of};
use choir_core::fold::task::run_of;
use choir_proto::event::{Actor as By, CancelRequested};
use choir_proto::task::TaskRequest;
use choir_proto::{Event, Seq, TaskId};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use tokio::sync::watch;

/// A task's actor.
pub(super) struct Task;

/// What a task needs.
pub(super) struct TaskArguments {
    pub(super) task: TaskId,
    pub(super) harness: Harness,
}

/// What a task can be told.
pub(super) enum TaskMessage {
    /// Stop it.
    Cancel(Reply),
    /// By its worker.
    Ended(Result<(), HarnessError>),
}

/// A task's own.
pub(super) struct TaskState {
    task: TaskId,
    harness: Harness,
    signal: watch::Sender<Signal>,
    gate: Arc<Gate>,
}

impl Actor for Task {
    type Msg = Seated<TaskMessage>;
    type State = TaskState;
    type Arguments = TaskArguments;

    /// As with runs, whoever starts a task does not wait for the log.
    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        TaskArguments { task, harness }: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(TaskState { task, harness, signal: watch::Sender::default(), gate: Arc::default() })
    }

    async fn post_start(&self, myself: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.take_up(myself).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message.message {
            TaskMessage::Cancel(reply) => {
                answer(reply, state.cancel().await);
            }
            TaskMessage::Ended(result) => {
                result?;
                myself.stop(None);
            }
        }
        Ok(())
    }
}

impl TaskState {
    async fn take_up(&mut self, myself: ActorRef<Seated<TaskMessage>>) -> Result<(), ActorProcessingErr> {
        let (task, harness) = (self.task, self.harness.clone());
        let past = Past::read(harness.journal.log(), run_of(task)).await?;
        let request = past.events().find_map(|(_, event)| match event {
            Event::TaskRequested(requested) => Some(requested.request.clone()),
            _ => None,
        });
        let request = request.ok_or("the task was never asked for")?;
        self.signal.send_replace(Signal { cancelled: Signal::of(past.all()).cancelled, ..Signal::default() });
        let context = RunContext {
            harness,
            run: run_of(task),
            document: None,
            model: None,
            verify: None,
            plan_first: false,
            selection: None,
            material: "".into(),
            pictures: Arc::default(),
            signal: self.signal.subscribe(),
            waiting: Arc::new(Waiting::new(past.blocked_on())),
            crew: Arc::new(Crew::new(past.workers())),
            gate: Arc::clone(&self.gate),
            past: Arc::new(past),
        };
        work(myself, context, task, request);
        Ok(())
    }

    async fn cancel(&mut self) -> Result<Seq, ActorError> {
        if !self.gate.stop() {
            return Err(ActorError::TooLate);
        }
        let scope = Scope::of(By::Person).run(run_of(self.task)).task(self.task);
        let journal = &self.harness.journal;
        let seq = journal.append(&scope, vec![CancelRequested {}.into()]).await.map_err(HarnessError::Append)?;
        self.signal.send_modify(|signal| signal.cancelled = true);
        Ok(seq)
    }
}

/// Works beside the actor, so that the actor always has an ear for the person.
fn work(myself: ActorRef<Seated<TaskMessage>>, context: RunContext, task: TaskId, request: TaskRequest) {
    tokio::spawn(async move {
        let worked = if request.commands.is_empty() {
            let identity = Identity { run: context.run, task, role: role_of(request.kind) };
            tokio::spawn(drive(context, Assignment { identity, request, parent: None })).await
        } else {
            tokio::spawn(run_commands(context, task, request)).await
        };
        let ended = match worked.unwrap_or_else(|panic| Err(panic.into())) {
            Err(HarnessError::LetGo) => return,
            result => result.map(|_| ()),
        };
        // The actor may be gone because the whole tree is.
        myself.send_message(Seated::own(TaskMessage::Ended(ended))).ok();
    });
}

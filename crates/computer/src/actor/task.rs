//! A task of its own: its worker, and an ear for the person. What is made of what they say is decided by `core`.

use super::handle::Seated;
use super::{ActorError, Reply, answer};
use crate::harness::{Assignment, Crew, Gate, Harness, HarnessError, Past, RunContext, Waiting, drive, run_commands};
use crate::journal::Scope;
use choir_core::actor::Signal;
use choir_core::actor::task::{self, Effect, First, Input};
use choir_core::fold::task::run_of;
use choir_proto::event::Actor as By;
use choir_proto::task::TaskResult;
use choir_proto::{Event, Seq, TaskId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;

/// The task, as it knows itself.
type Myself = ActorRef<Seated<TaskMessage>>;

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
    id: TaskId,
    task: task::Task,
    harness: Harness,
    signal: watch::Sender<Signal>,
    gate: Arc<Gate>,
}

/// What a message brought along, for what has to be done about it.
#[derive(Default)]
struct Hand {
    /// Who waits for an answer.
    asker: Option<Reply>,
    /// What the log says of the task.
    past: Past,
}

impl Actor for Task {
    type Msg = Seated<TaskMessage>;
    type State = TaskState;
    type Arguments = TaskArguments;

    /// As with runs, whoever starts a task does not wait for the log.
    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        TaskArguments { task: id, harness }: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let task = task::Task::new(id);
        Ok(TaskState { id, task, harness, signal: watch::Sender::default(), gate: Arc::default() })
    }

    async fn post_start(&self, myself: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let past = Past::read(state.harness.journal.log(), run_of(state.id)).await?;
        let effects = state.task.step(Input::TakenUp(past.all()));
        state.perform(&myself, effects, Hand { asker: None, past }).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (input, asker) = match message.message {
            TaskMessage::Cancel(reply) => {
                let first = if state.gate.stop() { First::Stop } else { First::Changes };
                (Input::Cancelled(first), Some(reply))
            }
            TaskMessage::Ended(result) => {
                result?;
                (Input::Worked, None)
            }
        };
        let effects = state.task.step(input);
        state.perform(&myself, effects, Hand { asker, ..Hand::default() }).await
    }
}

impl TaskState {
    /// Does what has to be done, and what comes of that.
    async fn perform(
        &mut self,
        myself: &Myself,
        effects: Vec<Effect>,
        mut hand: Hand,
    ) -> Result<(), ActorProcessingErr> {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            if let Some(came_of_it) = self.act(myself, effect, &mut hand).await? {
                effects.extend(self.task.step(came_of_it));
            }
        }
        Ok(())
    }

    async fn act(
        &mut self,
        myself: &Myself,
        effect: Effect,
        hand: &mut Hand,
    ) -> Result<Option<Input<'static>>, ActorProcessingErr> {
        match effect {
            Effect::Signal(signal) => drop(self.signal.send_replace(signal)),
            Effect::Command(request) => {
                let context = self.context(std::mem::take(&mut hand.past));
                work(myself.clone(), run_commands(context, self.id, *request).boxed());
            }
            Effect::Employ(identity, request) => {
                let context = self.context(std::mem::take(&mut hand.past));
                work(myself.clone(), drive(context, Assignment { identity, request: *request, parent: None }));
            }
            Effect::Say(event) => match self.write_down(*event).await {
                Ok(seq) => return Ok(Some(Input::Said(seq))),
                Err(error) => hand.answer(Err(error.into())),
            },
            Effect::Answer(seq) => hand.answer(Ok(seq)),
            Effect::AnswerTooLate => hand.answer(Err(ActorError::TooLate)),
            Effect::Stop => myself.stop(None),
            Effect::Fail(why) => return Err(why.into()),
        }
        Ok(None)
    }

    async fn write_down(&self, event: Event) -> Result<Seq, HarnessError> {
        let scope = Scope::of(By::Person).run(run_of(self.id)).task(self.id);
        Ok(self.harness.journal.append(&scope, vec![event]).await?)
    }

    fn context(&self, past: Past) -> RunContext {
        RunContext {
            harness: self.harness.clone(),
            run: run_of(self.id),
            document: None,
            model: None,
            verify: None,
            plan_first: false,
            selection: None,
            material: "".into(),
            pictures: Arc::default(),
            signal: self.signal.subscribe(),
            waiting: Arc::new(Waiting::new(&past)),
            crew: Arc::new(Crew::new(past.workers())),
            gate: Arc::clone(&self.gate),
            past: Arc::new(past),
        }
    }
}

impl Hand {
    fn answer(&mut self, result: Result<Seq, ActorError>) {
        if let Some(asker) = self.asker.take() {
            answer(asker, result);
        }
    }
}

/// Works beside the actor, so that the actor always has an ear for the person.
fn work(myself: Myself, worker: BoxFuture<'static, Result<TaskResult, HarnessError>>) {
    tokio::spawn(async move {
        let ended = match tokio::spawn(worker).await.unwrap_or_else(|panic| Err(panic.into())) {
            Err(HarnessError::LetGo) => return,
            result => result.map(|_| ()),
        };
        // The actor may be gone because the whole tree is.
        myself.send_message(Seated::own(TaskMessage::Ended(ended))).ok();
    });
}

//! One run: its first agent, and an ear for the person. What is made of what they say is decided by `core`.

use super::handle::Seated;
use super::{Reply, answer};
use crate::document::Untouched;
use crate::harness::{Assignment, Crew, Harness, HarnessError, Past, RunContext, Waiting, drive};
use crate::journal::Scope;
use choir_core::actor::Signal;
use choir_core::actor::objective::objective;
use choir_core::actor::run::{self, Conduct, Conducted, Effect, Input, RunCommand};
use choir_core::fold::run::Runs;
use choir_proto::event::Actor as By;
use choir_proto::task::TaskResult;
use choir_proto::{Event, RunId, Seq};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;

/// The run, as it knows itself.
type Myself = ActorRef<Seated<RunMessage>>;

/// A run's actor.
pub(super) struct Run;

/// What a run needs.
pub(super) struct RunArguments {
    pub(super) run: RunId,
    pub(super) harness: Harness,
}

/// What a run can be told.
pub(super) enum RunMessage {
    /// By a person.
    Command(RunCommand, Reply),
    /// By its first agent.
    Ended(Box<Result<TaskResult, HarnessError>>),
}

/// A run's own.
pub(super) struct RunState {
    id: RunId,
    run: run::Run,
    harness: Harness,
    signal: watch::Sender<Signal>,
    waiting: Arc<Waiting>,
}

/// What a message brought along, for what has to be done about it.
#[derive(Default)]
struct Hand {
    /// Who waits for an answer.
    asker: Option<Reply>,
    /// What the log says of the run.
    past: Past,
    /// The page that was kept ready for it, if it says nothing but the prompt. Nobody else can write there meanwhile.
    page: Option<Untouched>,
}

impl Actor for Run {
    type Msg = Seated<RunMessage>;
    type State = RunState;
    type Arguments = RunArguments;

    /// Whoever starts a run waits for this, and so does everybody else who wants something of the session: nothing is
    /// read here.
    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        RunArguments { run: id, harness }: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let run = run::Run::new(id);
        Ok(RunState { id, run, harness, signal: watch::Sender::default(), waiting: Arc::default() })
    }

    async fn post_start(&self, myself: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let past = Past::read(state.harness.journal.log(), state.id).await?;
        let effects = state.run.step(Input::TakenUp(past.all()));
        state.perform(&myself, effects, Hand { past, ..Hand::default() }).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (effects, hand) = match message.message {
            RunMessage::Command(command, reply) => {
                (state.run.step(Input::Asked(command)), Hand { asker: Some(reply), ..Hand::default() })
            }
            RunMessage::Ended(result) => state.conducted((*result)?).await?,
        };
        state.perform(&myself, effects, hand).await
    }
}

impl RunState {
    /// The first agent is done: what is known of the run at that moment.
    async fn conducted(&mut self, result: TaskResult) -> Result<(Vec<Effect>, Hand), HarnessError> {
        let past = Past::read(self.harness.journal.log(), self.id).await?;
        let view = self.harness.views.get::<Runs>(self.id).await?;
        let answered = view.is_some_and(|run| run.answer.is_some());
        let page = match self.run.page() {
            Some(id) => self.harness.documents.untouched(id).await?,
            None => None,
        };
        let conducted = Conducted { result, past: past.all(), answered, untouched: page.is_some() };
        let effects = self.run.step(Input::Conducted(Box::new(conducted)));
        Ok((effects, Hand { asker: None, past, page }))
    }

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
                effects.extend(self.run.step(came_of_it));
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
            Effect::Append(events) => {
                self.harness.journal.append(&Scope::of(By::Computer).run(self.id), events).await?;
            }
            Effect::Signal(signal) => drop(self.signal.send_replace(signal)),
            Effect::Conduct(work) => self.conduct(myself.clone(), *work, std::mem::take(&mut hand.past)).await?,
            Effect::Say(command, event) => {
                let said = match command {
                    RunCommand::Pause => self.waiting.pause(&self.harness.journal, self.id).await,
                    _ => self.write_down(*event).await,
                };
                return Ok(hand.said(command, said));
            }
            Effect::SayResume => {
                let said = self.waiting.resume(&self.harness.journal, self.id).await;
                return Ok(hand.said(RunCommand::Resume, said));
            }
            Effect::Answer(seq) => hand.answer(Ok(seq)),
            Effect::AnswerNothingNew => hand.answer(Ok(self.harness.journal.log().head().seq)),
            Effect::Release => hand.page = None,
            Effect::Reckon(ending) => {
                let unanswered = self.harness.unanswered(self.id, &hand.past).await;
                return Ok(Some(Input::Reckoned(ending, unanswered)));
            }
            Effect::PutAway => {
                if let Some(page) = hand.page.take() {
                    page.put_away();
                }
            }
            Effect::Stop => myself.stop(None),
            Effect::Fail(why) => return Err(why.into()),
        }
        Ok(None)
    }

    async fn write_down(&self, event: Event) -> Result<Seq, HarnessError> {
        Ok(self.harness.journal.append(&Scope::of(By::Person).run(self.id), vec![event]).await?)
    }

    /// Drives the first agent beside the actor, so that the actor always has an ear for the person.
    async fn conduct(&mut self, myself: Myself, work: Conduct, past: Past) -> Result<(), ActorProcessingErr> {
        let Conduct { identity, accepted, known } = work;
        self.waiting = Arc::new(Waiting::new(&past));
        let material = self.harness.material(&accepted.request.context).await?;
        let pictures = self.harness.pictures(self.id, &accepted.request.context).await?;
        let request = known.unwrap_or_else(|| objective(&accepted, &material));
        let context = RunContext {
            harness: self.harness.clone(),
            run: self.id,
            document: accepted.document_id,
            model: accepted.request.model,
            verify: accepted.request.verify,
            plan_first: accepted.request.plan_first == Some(true),
            selection: accepted.request.selection,
            material: material.into(),
            pictures: pictures.into(),
            signal: self.signal.subscribe(),
            waiting: Arc::clone(&self.waiting),
            crew: Arc::new(Crew::new(past.workers())),
            // A run's workers are stopped one by one, and what came home before can be undone.
            gate: Arc::default(),
            past: Arc::new(past),
        };
        tokio::spawn(listen(myself, context, Assignment { identity, request, parent: None }));
        Ok(())
    }
}

impl Hand {
    /// What a person said is in the log; if it is not, they are told why.
    fn said(&mut self, command: RunCommand, written: Result<Seq, HarnessError>) -> Option<Input<'static>> {
        match written {
            Ok(seq) => Some(Input::Said(command, seq)),
            Err(error) => {
                self.answer(Err(error));
                None
            }
        }
    }

    fn answer(&mut self, result: Result<Seq, HarnessError>) {
        if let Some(asker) = self.asker.take() {
            answer(asker, result.map_err(Into::into));
        }
    }
}

/// Tells the actor what came of its first agent.
async fn listen(myself: Myself, context: RunContext, assignment: Assignment) {
    // A bug in an agent is the run's failure; its supervisor decides what that means.
    let result = tokio::spawn(drive(context, assignment)).await.unwrap_or_else(|panic| Err(panic.into()));
    match result {
        // Nobody is left to tell.
        Err(HarnessError::LetGo) => {}
        // The actor may be gone because the whole tree is.
        result => drop(myself.send_message(Seated::own(RunMessage::Ended(Box::new(result))))),
    }
}

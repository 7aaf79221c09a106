//! The shell around the agent's loop: it does what `core` asks for, appends what came of it, and folds that.

mod account;
mod begin;
mod cite;
mod command;
mod conflict;
mod crew;
mod document;
mod elsewhere;
mod exec;
mod failure;
mod figure;
mod finish;
mod gate;
mod material;
mod past;
mod perform;
mod person;
mod plan;
mod printed;
mod read;
mod receipt;
mod request;
mod research;
mod search;
mod silence;
mod sketch;
mod verify;
mod waiting;

pub use command::run_commands;
pub use crew::Crew;
pub use gate::Gate;
pub use past::Past;
pub use waiting::Waiting;

use crate::control::{Control, ControlError};
use crate::document::Documents;
use crate::journal::{Journal, Scope};
use crate::search::Finder;
use crate::view::ViewReader;
use account::{Purse, Whom};
use begin::{AtWork, Begun, intents};
use choir_core::actor::Signal;
use choir_core::agent::{Agent, Begin, DEPTH_MAX, Ending, Identity, Limits, Next, Place, Question, most_tokens};
use choir_proto::event::{Actor, Header, InboxDecided, ModelCalled, TaskRequested, TaskStarted};
use choir_proto::inbox::{Matter, Verdict};
use choir_proto::model::{ModelRequest, Part};
use choir_proto::run::Selection;
use choir_proto::task::{TaskRequest, TaskResult, TaskStatus, Verify};
use choir_proto::wire::{AssociateStarted, Live, ModelCall, StartAssociate};
use choir_proto::{DocumentId, Event, Hash, Role, RunId, Seq, TaskId};
use choir_store::{AppendError, StoreError};
use crew::Seat;
use elsewhere::Elsewhere;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use person::Person;
use plan::Known;
use silence::Pulse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// What every agent of a computer shares.
#[derive(Clone)]
pub struct Harness {
    /// Where facts go.
    pub journal: Journal,
    /// What is known.
    pub views: ViewReader,
    /// Models and sandboxes.
    pub control: Arc<dyn Control>,
    /// The words of documents.
    pub documents: Documents,
    /// What is kept here, by its words.
    pub finder: Finder,
    /// Pieces of answers while they arrive; nobody has to listen.
    pub live: broadcast::Sender<Live>,
    /// Counts up whenever models may have become available.
    pub models: watch::Receiver<u64>,
}

/// Why an agent could not go on: the log itself failed, or we did. Everything else is an ending.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// Nothing could be appended.
    #[error("the log cannot be written: {0}")]
    Append(#[from] AppendError),
    /// Nothing could be read.
    #[error("the log cannot be read: {0}")]
    Read(#[from] StoreError),
    /// The run's actor is gone, because the process ends or the actor restarts. Whoever takes the run next goes on.
    #[error("the run was let go")]
    LetGo,
    /// A bug.
    #[error("it panicked: {0}")]
    Panicked(String),
}

/// What is told of a panic at most.
const PANIC_CHARS_MAX: usize = 500;

impl From<tokio::task::JoinError> for HarnessError {
    fn from(error: tokio::task::JoinError) -> Self {
        let Ok(panic) = error.try_into_panic() else { return Self::LetGo };
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Self::Panicked(said.unwrap_or("without a word").chars().take(PANIC_CHARS_MAX).collect())
    }
}

/// One run at work.
#[derive(Clone)]
pub struct RunContext {
    /// What every agent shares.
    pub harness: Harness,
    /// Which run.
    pub run: RunId,
    /// The document it writes.
    pub document: Option<DocumentId>,
    /// `PROVIDER/MODEL` for this run.
    pub model: Option<String>,
    /// How the person wants what the run's workers make to be checked.
    pub verify: Option<Verify>,
    /// Whether the plan is shown before the first delegation.
    pub plan_first: bool,
    /// The only part of the document that may change.
    pub selection: Option<Selection>,
    /// What the person points at, in words: every agent is told.
    pub material: Arc<str>,
    /// The pictures among it.
    pub pictures: Arc<[Part]>,
    /// What the person wants.
    pub signal: watch::Receiver<Signal>,
    /// What had happened when this process took the run.
    pub past: Arc<Past>,
    /// Whether the log says that the run waits.
    pub waiting: Arc<Waiting>,
    /// Who works for it.
    pub crew: Arc<Crew>,
    /// Whether it was stopped before its changes came home.
    pub gate: Arc<Gate>,
}

/// An agent to drive to its end.
pub struct Assignment {
    /// Which agent.
    pub identity: Identity,
    /// What is asked of it.
    pub request: TaskRequest,
    /// Who asked; nobody but a person where there is none.
    pub parent: Option<Parent>,
}

/// Who asked for an agent.
#[derive(Clone)]
pub struct Parent {
    task: TaskId,
    /// How far below the first agent it stands.
    depth: u32,
    /// The budget that is shared.
    purse: Purse,
}

/// Drives an agent to its end, from wherever its events say it is. Boxed, because agents drive agents.
pub fn drive(context: RunContext, assignment: Assignment) -> BoxFuture<'static, Result<TaskResult, HarnessError>> {
    async move {
        let mut driver = Driver::new(context, assignment);
        if let Some(result) = driver.context.past.result(driver.identity.task) {
            return Ok(result);
        }
        driver.begin().await?;
        let ending = if driver.take_place().await? {
            driver.work().await?
        } else {
            driver.leave().await?;
            cancelled()
        };
        // Whoever is done makes room before its work is checked and brought in.
        driver.seat = Arc::default();
        driver.end(ending).await
    }
    .boxed()
}

/// How long it holds what an answer said about its calls: a person who paused the run may have decided otherwise meanwhile.
const FREE_FOR: Duration = Duration::from_millis(100);

/// What came of a question to a model.
enum Asked {
    /// An answer, which is not in the log yet.
    Answered(ModelCalled),
    /// Nothing that ends it: the agent looks once more.
    Again,
    /// An end.
    Ended(Ending),
}

struct Driver {
    context: RunContext,
    identity: Identity,
    request: TaskRequest,
    parent: Option<TaskId>,
    depth: u32,
    agent: Agent,
    purse: Purse,
    /// Its place among those at work.
    seat: Arc<Seat>,
    /// Words from the person that the agent has heard.
    heard: Seq,
    /// Whether the person has said since the last failure that it is to go on.
    insists: bool,
    /// Whether the person has said yes to the plan.
    approved: bool,
    /// The tree it works on, once it has a place to work in.
    base_tree: Option<Hash>,
    /// Whether servers elsewhere have tools for it.
    elsewhere: Elsewhere,
    /// Who else works on the run, where it is told.
    known: Option<Known>,
    /// What the newest answer said of its calls, if it did, and when that was.
    free_said: Option<(Duration, BTreeSet<String>)>,
    /// Tools of the newest calls that nobody has to be asked about.
    free: Arc<BTreeSet<String>>,
}

impl Driver {
    fn new(context: RunContext, assignment: Assignment) -> Self {
        let Assignment { identity, request, parent } = assignment;
        let place = Place::of(identity.role, parent.as_ref().map(|parent| parent.task));
        let mut agent = Agent::new(identity, place, &request, context.model.clone());
        let mut heard = Seq::ZERO;
        for (header, event) in context.past.of_agent(identity.task, parent.is_none()) {
            agent.apply(header, event);
            heard = header.seq;
        }
        let world = Arc::clone(context.harness.journal.world());
        let limits = Limits::of(request.budget.as_ref(), place);
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        let (parent, above) = parent.map(|parent| (parent.task, parent.purse)).unzip();
        let purse = Purse::new(limits, context.past.spent(identity.task, world.now()), world, above);
        let approved = context.past.approved();
        let elsewhere = Elsewhere::of(identity.role);
        let known = Known::of(identity.role, &context.past);
        Self {
            context,
            identity,
            request,
            parent,
            depth,
            agent,
            purse,
            seat: Arc::default(),
            heard,
            insists: false,
            approved,
            base_tree: None,
            elsewhere,
            known,
            free_said: None,
            free: Arc::default(),
        }
    }

    fn scope(&self) -> Scope {
        Scope::of(Actor::Agent(self.identity.role)).run(self.identity.run).task(self.identity.task)
    }

    async fn begin(&mut self) -> Result<(), HarnessError> {
        if !self.context.past.knows(self.identity.task) {
            let role = Some(self.identity.role);
            let requested = TaskRequested { request: self.request.clone(), role, parent: self.parent };
            self.append(vec![requested.into()]).await?;
        }
        self.reckon().await;
        // What a crash cut off in the middle of its words is said again, not continued.
        self.withdraw(&self.context.past).await
    }

    /// A worker that acts needs a place to act in. Without one it fails, and says why.
    async fn prepare(&mut self) -> Result<Option<Ending>, HarnessError> {
        if self.identity.role != Role::Terminal {
            return Ok(None);
        }
        let start = StartAssociate {
            egress: self.request.egress.clone(),
            run: Some(self.identity.run),
            base: self.request.base(),
            check: None,
        };
        match start_associate(&self.person(), self.identity.task, start).await? {
            Ok(None) => Ok(Some(cancelled())),
            Ok(Some(started)) => {
                self.base_tree = started.base_tree;
                self.append(vec![TaskStarted { base_tree: started.base_tree, alone: started.alone }.into()]).await?;
                Ok(None)
            }
            Err(error) => {
                let summary = format!("No sandbox could be started: {error}");
                Ok(Some(Ending { status: TaskStatus::Failed, summary }))
            }
        }
    }

    async fn work(&mut self) -> Result<Ending, HarnessError> {
        if self.depth > DEPTH_MAX {
            let summary = format!("Agents may delegate {DEPTH_MAX} deep, no deeper.");
            return Ok(Ending { status: TaskStatus::Failed, summary });
        }
        if let Some(ending) = self.prepare().await? {
            self.leave().await?;
            return Ok(ending);
        }
        let mut at_work = AtWork::default();
        loop {
            if let Some(ending) = self.hold().await? {
                self.settle(&mut at_work).await?;
                return Ok(ending);
            }
            self.hear(Seq(u64::MAX));
            let ended = match self.agent.next(&self.purse.accounts()) {
                Next::Ask(question) => self.question(question).await?,
                Next::Compact(plan) => {
                    self.append(vec![plan.into()]).await?;
                    None
                }
                Next::Model(request) => match self.ask(*request).await? {
                    Asked::Ended(ending) => Some(ending),
                    Asked::Again => None,
                    Asked::Answered(called) => self.answered(&mut at_work, called).await?,
                },
                Next::Begin(calls) => {
                    let calls = self.planned(calls).await?;
                    self.intend(&calls, None).await?;
                    self.perform(&mut at_work, calls, Begun::Now).await?
                }
                Next::Outstanding(calls) => {
                    self.free = Arc::default();
                    self.perform(&mut at_work, calls, Begun::BeforeACrash).await?
                }
                Next::End(ending) => Some(ending),
            };
            if let Some(ending) = ended {
                self.settle(&mut at_work).await?;
                return Ok(ending);
            }
        }
    }

    /// Writes an answer down, and with it the intents of the calls in it: a step waits once less for the disk. Unless somebody may
    /// have a word before anything is begun.
    async fn answered(&mut self, at_work: &mut AtWork, called: ModelCalled) -> Result<Option<Ending>, HarnessError> {
        let is_held = {
            let signal = self.context.signal.borrow();
            signal.paused || signal.cancelled
        };
        let calls = self.agent.begun_by(&called);
        if is_held || calls.is_empty() || self.shows_plan() {
            self.append(vec![called.into()]).await?;
            return Ok(None);
        }
        self.intend(&calls, Some(called)).await?;
        self.perform(at_work, calls, Begun::Now).await
    }

    /// Writes down what is about to be done, behind the answer that asks for it where that is not in the log yet. About which of it
    /// nobody has to be asked came with the answer; where that was a while ago, or in another life, control says it meanwhile.
    async fn intend(&mut self, calls: &[Begin], called: Option<ModelCalled>) -> Result<(), HarnessError> {
        let now = self.context.harness.journal.world().elapsed();
        if let Some((said, free)) = self.free_said.take()
            && now.saturating_sub(said) < FREE_FOR
        {
            self.free = Arc::new(free);
            return self.write_intents(calls, called).await;
        }
        let control = Arc::clone(&self.context.harness.control);
        let tools = calls.iter().map(|begin| begin.call.name.clone()).collect();
        // Asked first: an append that nobody competes with holds this task until it is on disk.
        let (free, appended) = tokio::join!(control.free_tools(tools), self.write_intents(calls, called));
        self.free = Arc::new(free.unwrap_or_default());
        appended
    }

    async fn write_intents(&mut self, calls: &[Begin], called: Option<ModelCalled>) -> Result<(), HarnessError> {
        let mut facts: Vec<Event> = called.into_iter().map(Event::from).collect();
        #[cfg(feature = "sabotage")]
        if crate::sabotage::journal_is_off() {
            if !facts.is_empty() {
                self.append(facts).await?;
            }
            self.fold(Seq::ZERO, &intents(calls));
            return Ok(());
        }
        facts.extend(intents(calls));
        self.append(facts).await
    }

    /// Waits while the person wants to wait. An ending means that the person wants no more.
    async fn hold(&mut self) -> Result<Option<Ending>, HarnessError> {
        let _waits = self.purse.wait(Whom::Person);
        Ok((!go_on(self.context.signal.clone()).await?).then(cancelled))
    }

    async fn ask(&mut self, request: ModelRequest) -> Result<Asked, HarnessError> {
        let world = Arc::clone(self.context.harness.journal.world());
        let before = world.elapsed();
        let Identity { run, task, .. } = self.identity;
        // The request is made: what the person says from here on is not in it.
        let upto = self.parent.is_none().then_some(self.heard);
        self.retract().await?;
        if self.offers().await? {
            return Ok(Asked::Again);
        }
        let (failures, usd_left) = (self.agent.failures(), self.purse.usd_left());
        let request = material::shown(self.told(request).await?, &self.context.pictures);
        let reserved = match self.purse.reserve(most_tokens(&request)) {
            Ok(reserved) => reserved,
            // What is left when another call has ended decides about this one.
            Err(mut freed) => {
                tokio::select! {
                    // The sender is our own, and lives as long as we wait.
                    _ = freed.changed() => return Ok(Asked::Again),
                    stop = stopped(self.context.signal.clone()) => return stop.map(|()| Asked::Ended(cancelled())),
                }
            }
        };
        let insists = std::mem::take(&mut self.insists);
        let call = ModelCall { run, task, failures, insists, usd_left, request };
        let control = Arc::clone(&self.context.harness.control);
        // From before the question: a model that appears while we ask must not be missed.
        let mut models = self.context.harness.models.clone();
        models.mark_unchanged();
        let resumed = self.context.signal.borrow().resumed;
        let pulse = Pulse::default();
        let (on_heard, scribe) = self.listen(pulse.clone());
        let heard = tokio::select! {
            answer = self.tell_of_patience(control.model(call, on_heard), &pulse) => Ok(answer?),
            stop = stopped(self.context.signal.clone()) => Err(stop.map(|()| Asked::Ended(cancelled()))),
            () = tokio::time::sleep(self.purse.time_left()) => Err(Ok(Asked::Again)),
        };
        if let Some(scribe) = scribe {
            scribe.await?;
        }
        if !matches!(heard, Ok(Ok(_))) {
            self.retract().await?;
        }
        let answer = match heard {
            Ok(answer) => answer,
            Err(ended) => return ended,
        };
        match answer {
            Ok(answer) => {
                self.go_on().await?;
                self.purse.add(&answer.usage);
                drop(reserved);
                self.free_said = answer.free.map(|free| (world.elapsed(), free));
                Ok(Asked::Answered(ModelCalled {
                    turn: self.agent.next_turn(),
                    model: answer.model,
                    message: answer.message,
                    stop: answer.stop,
                    usage: answer.usage,
                    duration_ms: (world.elapsed() - before).as_millis() as u64,
                    window: answer.window,
                    heard: upto,
                }))
            }
            Err(error) => {
                let took = pulse.took();
                self.purse.charge(&took);
                drop(reserved);
                Ok(self.failed((error, took), models, resumed).await?.map_or(Asked::Again, Asked::Ended))
            }
        }
    }

    /// Asks what only the person knows, and lets the agent hear the answer.
    async fn question(&mut self, question: Question) -> Result<Option<Ending>, HarnessError> {
        let Question { id, text } = question;
        let matter = Matter::Question { question: text, answers: Vec::new() };
        let verdict = match self.person().ask(id, matter, None).await? {
            Ok(Verdict::Withdrawn) => return Ok(Some(cancelled())),
            Ok(verdict) => verdict,
            Err(error) => {
                let summary = format!("Nobody could be asked: {error}");
                return Ok(Some(Ending { status: TaskStatus::Failed, summary }));
            }
        };
        // In the log already.
        self.agent.apply(&placeless(Seq::ZERO), &InboxDecided { inbox_id: id, decision: verdict }.into());
        Ok(None)
    }

    fn person(&self) -> Person<'_> {
        Person { context: &self.context, scope: self.scope(), purse: Some(&self.purse), seat: Some(&self.seat) }
    }

    /// Appends facts of this agent and folds them, after whatever the person said before them.
    async fn append(&mut self, events: Vec<Event>) -> Result<(), HarnessError> {
        let last = self.context.harness.journal.append(&self.scope(), events.clone()).await?;
        self.fold(last, &events);
        Ok(())
    }

    fn fold(&mut self, last: Seq, events: &[Event]) {
        self.hear(last);
        for event in events {
            self.agent.apply(&placeless(last), event);
        }
    }

    /// Only the first agent of a run hears the person; it decides what that means for the others.
    fn hear(&mut self, before: Seq) {
        if self.parent.is_some() {
            return;
        }
        let steered = self.context.signal.borrow().steered.clone();
        let heard = self.heard;
        for (seq, text) in steered.into_iter().filter(|(seq, _)| *seq > heard && *seq < before) {
            self.agent.apply(&placeless(seq), &choir_proto::event::RunSteered { text }.into());
            self.heard = seq;
        }
    }

    fn time_ms(&self) -> u64 {
        self.purse.time_ms()
    }
}

/// Starts a task's associate, after the person's word about what it wants to reach. Nothing if the person stopped it.
async fn start_associate(
    person: &Person<'_>,
    task: TaskId,
    start: StartAssociate,
) -> Result<Result<Option<AssociateStarted>, ControlError>, HarnessError> {
    let control = &person.context.harness.control;
    // Questions of an earlier process first: what was decided meanwhile still has to be told to the log.
    let mut questions = person.context.past.undecided(task);
    loop {
        for waits in questions {
            match person.wait(waits, None).await? {
                Ok(Verdict::Withdrawn) => return Ok(Ok(None)),
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        match finish::again(|| control.start_associate(task, start.clone())).await {
            Ok(started) if started.waits.is_empty() => return Ok(Ok(Some(started))),
            Ok(started) => questions = started.waits,
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Waits while the person wants to wait, and says whether they want more.
async fn go_on(mut signal: watch::Receiver<Signal>) -> Result<bool, HarnessError> {
    let signal = signal.wait_for(|signal| !signal.paused || signal.cancelled).await;
    signal.map(|signal| !signal.cancelled).map_err(|_| HarnessError::LetGo)
}

/// Resolves when the person wants no more, or when the run was let go.
async fn stopped(mut signal: watch::Receiver<Signal>) -> Result<(), HarnessError> {
    signal.wait_for(|signal| signal.cancelled).await.map(|_| ()).map_err(|_| HarnessError::LetGo)
}

fn cancelled() -> Ending {
    Ending { status: TaskStatus::Cancelled, summary: "Stopped.".into() }
}

/// The agent's fold looks at no field of the header but where words of the person stand; events that were just appended are
/// not read back for one.
fn placeless(seq: Seq) -> Header {
    Header {
        seq,
        id: choir_proto::EventId::new(uuid::Uuid::nil()),
        epoch: 0,
        at: choir_proto::Timestamp(0),
        actor: Actor::Computer,
        run: None,
        task: None,
        cause: None,
        kind: "".into(),
        version: 0,
        payload_hash: Hash::ZERO,
        prev: Hash::ZERO,
        hash: Hash::ZERO,
    }
}

//! The real tree of actors with a world played by a seed: its clock is stopped or leaps, its names and its luck are drawn, and
//! the network answers, fails or makes an agent panic. How often each run is started again is known beforehand.

use anyhow::{Context, ensure};
use choir_computer::Computer;
use choir_computer::actor::SessionMessage;
use choir_computer::control::{Control, ControlError, OnHeard, OnOutput};
use choir_computer::journal::Scope;
use choir_computer::world::World;
use choir_core::supervise::INTENSITY;
use choir_proto::event::{Actor, RunAccepted};
use choir_proto::inbox::{Ask, Asked, Verdict};
use choir_proto::model::{Answer, AssistantMessage, ErrorClass, ModelError, StopReason, Usage};
use choir_proto::run::{NewRun, RunStatus};
use choir_proto::task::Budget;
use choir_proto::wire::{
    AssociateCaptured, AssociateFinished, AssociateStarted, ChangesUndone, EditFile, Edited, EffectRecord, Exec, Exit,
    FinishAssociate, ModelCall, Models, StartAssociate, UndoChanges,
};
use choir_proto::{ComputerId, Event, InboxId, RunId, Seq, TaskId, Timestamp};
use choir_store::Log;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// Runs at once.
const RUNS: u128 = 3;

/// Failures of one run, at most: some more than any supervisor bears.
const PANICS_MAX: u32 = INTENSITY.restarts_max + 3;

/// A tree that has not come to its end by then hangs.
const END_MAX: Duration = Duration::from_secs(60);

/// Lives through one seed. With `extra` panics more than expected somebody must complain.
pub(super) async fn live(seed: u64, directory: &Path, extra: u32) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let leaps = random.bool();
    let panics: BTreeMap<RunId, u32> = (0..RUNS).map(|_| (run(&mut random), random.u32(..=PANICS_MAX))).collect();
    let played = panics.iter().map(|(run, panics)| (*run, panics + extra)).collect();
    let network = Arc::new(Network { panics: Mutex::new(played), random: Mutex::new(random.fork()) });
    let world = Arc::new(Played { leaps, elapsed_ms: AtomicU64::new(0), random: Mutex::new(random) });
    let computer = Computer::open(directory, ComputerId::new(Uuid::from_u128(1)), network, world).await?;
    for run in panics.keys() {
        accept(&computer, *run, None).await?;
    }
    let log = computer.app.harness.journal.log().clone();
    let lives = tokio::time::timeout(END_MAX, lives(&log)).await.context("the runs did not come to their end")??;
    for (run, panics) in panics {
        let expected = Life::expected(panics, leaps);
        let found = lives.get(&run).cloned().unwrap_or_default();
        ensure!(found == expected, "a run that panics {panics} times, leaps: {leaps}: {found:?}, not {expected:?}");
    }
    Ok(computer.close("simulated").await?)
}

fn run(random: &mut fastrand::Rng) -> RunId {
    RunId::new(Uuid::from_u128(random.u128(..)))
}

/// Begins a run with so many steps, if they are counted. However the clock leaps, time is not what ends it.
pub(super) async fn accept(computer: &Computer, run: RunId, steps: Option<u32>) -> anyhow::Result<()> {
    let budget = Some(Budget { time_s: Some(1e9), steps, tokens: None, usd: None });
    let request = NewRun { budget, ..NewRun::new("simulate".to_owned()) };
    let accepted = RunAccepted { request, document_id: None };
    computer.app.harness.journal.append(&Scope::of(Actor::Person).run(run), vec![accepted.into()]).await?;
    let session = &computer.app.session;
    anyhow::ensure!(session.is_there(), "there is no session");
    session.tell(session.seat().await?, SessionMessage::Start(run));
    Ok(())
}

/// What the log tells of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Life {
    restarts: u32,
    escalations: u32,
    ended: Option<RunStatus>,
}

impl Life {
    /// Failures far apart are each forgiven; close together so many are, and then no more.
    fn expected(panics: u32, leaps: bool) -> Self {
        match leaps || panics <= INTENSITY.restarts_max {
            true => Self { restarts: panics, escalations: 0, ended: Some(RunStatus::Completed) },
            false => Self { restarts: INTENSITY.restarts_max, escalations: 1, ended: Some(RunStatus::Failed) },
        }
    }
}

async fn lives(log: &Log) -> anyhow::Result<BTreeMap<RunId, Life>> {
    let mut lives: BTreeMap<RunId, Life> = BTreeMap::new();
    let mut events = log.subscribe(Seq::ZERO);
    while lives.values().filter(|life| life.ended.is_some()).count() < RUNS as usize {
        for event in events.next().await? {
            let Some(run) = event.header.run else { continue };
            let life = lives.entry(run).or_default();
            match event.event()? {
                Event::ActorRestarted(_) => life.restarts += 1,
                Event::ActorEscalated(_) => life.escalations += 1,
                Event::RunEnded(ended) => {
                    ensure!(life.ended.is_none(), "a run ended twice");
                    life.ended = Some(ended.status);
                }
                _ => {}
            }
        }
    }
    Ok(lives)
}

/// Clock and chance.
struct Played {
    /// Whether the clock leaps over every supervisor's memory, or nearly stands still.
    leaps: bool,
    elapsed_ms: AtomicU64,
    random: Mutex<fastrand::Rng>,
}

impl Played {
    fn random(&self) -> u128 {
        self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).u128(..)
    }
}

impl World for Played {
    fn now(&self) -> Timestamp {
        // The wall clock is a label: it may say anything.
        Timestamp((self.random() % (1 << 50)) as i64)
    }

    fn elapsed(&self) -> Duration {
        let step = if self.leaps { INTENSITY.window_ms + 1 } else { 0 };
        Duration::from_millis(self.elapsed_ms.fetch_add(step, Ordering::Relaxed))
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.random())
    }

    fn chance(&self) -> f64 {
        (self.random() % 1000) as f64 / 1000.0
    }
}

/// What is behind the network: models, and sandboxes that nobody gets.
struct Network {
    /// Panics that each run still has before it.
    panics: Mutex<BTreeMap<RunId, u32>>,
    random: Mutex<fastrand::Rng>,
}

impl Network {
    fn answer(&self, run: RunId) -> Result<Answer, ModelError> {
        let mut panics = self.panics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let left = panics.entry(run).or_default();
        if *left > 0 {
            *left -= 1;
            drop(panics);
            // Without the message that a hook would print: it is what was planned.
            std::panic::resume_unwind(Box::new("planned"));
        }
        drop(panics);
        if self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).u8(..4) == 0 {
            let message = "planned".into();
            return Err(ModelError { class: ErrorClass::Overloaded, message, retry_after_ms: Some(0) });
        }
        let message = AssistantMessage { text: "done".into(), ..AssistantMessage::default() };
        Ok(Answer {
            message,
            stop: StopReason::Finished,
            usage: Usage::default(),
            model: "played/one".into(),
            window: None,
            free: None,
        })
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T, ControlError>> {
    async { Err(ControlError::Refused("nothing is run here".into())) }.boxed()
}

impl Control for Network {
    fn model(&self, call: ModelCall, _: OnHeard) -> BoxFuture<'_, Result<Answer, ModelError>> {
        async move { self.answer(call.run) }.boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Models, ControlError>> {
        async { Ok(Models { available: true }) }.boxed()
    }

    fn ask(&self, _: InboxId, _: Ask) -> BoxFuture<'_, Result<Asked, ControlError>> {
        refused()
    }

    fn verdict(&self, _: InboxId) -> BoxFuture<'_, Result<Verdict, ControlError>> {
        refused()
    }

    fn withdraw(&self, _: InboxId) -> BoxFuture<'_, Result<Option<Verdict>, ControlError>> {
        refused()
    }

    fn start_associate(&self, _: TaskId, _: StartAssociate) -> BoxFuture<'_, Result<AssociateStarted, ControlError>> {
        refused()
    }

    fn exec(&self, _: TaskId, _: Exec, _: OnOutput) -> BoxFuture<'_, Result<Exit, ControlError>> {
        refused()
    }

    fn effect(&self, _: String) -> BoxFuture<'_, Result<EffectRecord, ControlError>> {
        refused()
    }

    fn read_file(&self, _: TaskId, _: String) -> BoxFuture<'_, Result<Vec<u8>, ControlError>> {
        refused()
    }

    fn write_file(&self, _: TaskId, _: String, _: Vec<u8>) -> BoxFuture<'_, Result<(), ControlError>> {
        refused()
    }

    fn edit_file(&self, _: TaskId, _: EditFile) -> BoxFuture<'_, Result<Edited, ControlError>> {
        refused()
    }

    fn list_files(&self, _: TaskId, _: String) -> BoxFuture<'_, Result<String, ControlError>> {
        refused()
    }

    fn capture_associate(&self, _: TaskId) -> BoxFuture<'_, Result<AssociateCaptured, ControlError>> {
        refused()
    }

    fn finish_associate(
        &self,
        _: TaskId,
        _: FinishAssociate,
    ) -> BoxFuture<'_, Result<AssociateFinished, ControlError>> {
        refused()
    }

    fn forget_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        refused()
    }

    fn undo(&self, _: UndoChanges) -> BoxFuture<'_, Result<ChangesUndone, ControlError>> {
        refused()
    }

    fn kill_associate(&self, _: TaskId) -> BoxFuture<'_, Result<(), ControlError>> {
        refused()
    }
}

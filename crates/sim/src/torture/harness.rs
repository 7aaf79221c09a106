//! Agents in a world that a seed plays: what models answer, what tools do and how long they take, what the person says and
//! when, and at which event everything is dropped. The real computer runs in it, life after life, until its run has ended;
//! then the log is asked whether everything that was promised is true.

mod stage;

use super::tree::accept;
use super::{Outcome, Plan};
use anyhow::{Context, ensure};
use choir_computer::actor::{RunCommand, SessionMessage};
use choir_computer::serve::ServeError;
use choir_computer::{Computer, sabotage};
use choir_core::replay::replay;
use choir_proto::event::{Header, ToolOutcome};
use choir_proto::run::RunStatus;
use choir_proto::{ComputerId, Event, RunId, Seq};
use choir_store::{OpenError, Query};
use stage::{Clock, Stage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Seeds of the full and of the short form.
const SEEDS: u64 = 1_000;
const SEEDS_SHORT: u64 = 25;

/// Crashes of one run, at most; then it is left in peace.
const CRASHES_MAX: u32 = 6;

/// Steps after which a run ends by itself, whatever its model wants.
const STEPS_MAX: u32 = 500;

/// Something happens after so many more events.
const EVENTS_BETWEEN: u64 = 9;

/// A run that has not ended by then never will.
const LIFE_MAX: Duration = Duration::from_secs(30);

/// Characters of an event where it helps to find out what went wrong.
const SHORT_CHARS: usize = 160;

/// Seeds after which a control that nobody noticed has failed.
const CONTROL_SEEDS: u64 = 1_000;

/// What is taken away, so that somebody must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// Nobody remembers what was started.
    ForgetfulRecord,
    /// What was done is said not to have ended.
    LostResult,
    /// Nothing is written down before it is done.
    NoJournal,
}

impl Sabotage {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ForgetfulRecord => "a record that forgets what was started",
            Self::LostResult => "a tool that says it is done and did nothing",
            Self::NoJournal => "the journal switched off, an effect repeated",
        }
    }
}

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome { wanted: plan.cases(SEEDS, SEEDS_SHORT), ..Outcome::default() };
    let (started, mut seen) = (Instant::now(), Seen::default());
    while outcome.cases < outcome.wanted && !plan.is_over() {
        let seed = plan.seed.wrapping_add(outcome.cases);
        match live(seed, Sabotage::None) {
            Ok(more) => seen.add(more),
            Err(error) => outcome.faults.push(format!("seed {seed}: {error:#}")),
        }
        outcome.cases += 1;
    }
    let rate = outcome.cases as f64 / started.elapsed().as_secs_f64();
    outcome.acknowledged = seen.events;
    outcome.notes = format!(
        "{} crashes, {} effects, {} said to be unknown, {} runs cancelled, {rate:.0} seeds/s",
        seen.crashes, seen.effects, seen.unknown, seen.cancelled
    );
    for sabotage in [Sabotage::ForgetfulRecord, Sabotage::LostResult, Sabotage::NoJournal] {
        let noticed = (0..CONTROL_SEEDS).any(|more| is_noticed(plan.seed.wrapping_add(more), sabotage));
        outcome.controls.push((sabotage.name(), noticed));
    }
    Ok(outcome)
}

/// Whether a sabotage is seen under a seed. Without the journal it must be seen by what it is there for.
fn is_noticed(seed: u64, sabotage: Sabotage) -> bool {
    sabotage::switch_journal(sabotage == Sabotage::NoJournal);
    let lived = live(seed, sabotage);
    sabotage::switch_journal(false);
    lived.is_err_and(|error| sabotage != Sabotage::NoJournal || error.is::<Repeated>())
}

/// Something was done more than once.
#[derive(Debug)]
struct Repeated {
    command: String,
    times: u32,
}

impl std::fmt::Display for Repeated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the command {:?} was run {} times", self.command, self.times)
    }
}

impl std::error::Error for Repeated {}

/// What was seen under one seed, or under many.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    crashes: u64,
    effects: u64,
    unknown: u64,
    cancelled: u64,
}

impl Seen {
    fn add(&mut self, more: Self) {
        self.events += more.events;
        self.crashes += more.crashes;
        self.effects += more.effects;
        self.unknown += more.unknown;
        self.cancelled += more.cancelled;
    }
}

/// Lives through one seed.
fn live(seed: u64, sabotage: Sabotage) -> anyhow::Result<Seen> {
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = super::sim::memory()?;
    let run = RunId::new(Uuid::from_u128(random.u128(..)));
    let stage = Arc::new(Stage::new(random.fork(), sabotage));
    let clock = Arc::new(Clock::new(random.fork()));
    let mut crashes = 0;
    loop {
        let peace = crashes >= CRASHES_MAX;
        // One thread: what runs when is decided by who waits for whom, not by the machine.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            let life = one_life(directory.path(), &stage, &clock, run, &mut random, peace);
            tokio::time::timeout(LIFE_MAX, life).await.context("it hangs")?
        });
        // In the middle of whatever it did.
        runtime.shutdown_background();
        match ended? {
            Some(events) => return judge(&events, &stage, crashes),
            None => crashes += 1,
        }
    }
}

/// One life of the process; the run's events if it has ended in it.
async fn one_life(
    directory: &Path,
    stage: &Arc<Stage>,
    clock: &Arc<Clock>,
    run: RunId,
    random: &mut fastrand::Rng,
    peace: bool,
) -> anyhow::Result<Option<Vec<(Header, Event)>>> {
    let computer = open(directory, stage, clock).await?;
    let log = computer.app.harness.journal.log().clone();
    if events(&computer, run).await?.is_empty() {
        accept(&computer, run, Some(STEPS_MAX)).await?;
    }
    let mut head = log.watch();
    loop {
        let next = log.head().seq.0 + random.u64(1..EVENTS_BETWEEN);
        // Whichever comes first: so many more events, or nothing more at all because it has ended or waits for a word.
        let waited = head.wait_for(|head| head.seq >= Seq(next));
        if tokio::time::timeout(stage::QUIET, waited).await.is_ok_and(|head| head.is_err()) {
            anyhow::bail!("the log was closed");
        }
        let so_far = events(&computer, run).await?;
        if so_far.iter().any(|(_, event)| matches!(event, Event::RunEnded(_))) {
            computer.close("simulated").await?;
            return Ok(Some(so_far));
        }
        if !peace && random.u8(..5) == 0 {
            return Ok(None);
        }
        speak(&computer, run, random, peace).await;
    }
}

async fn open(directory: &Path, stage: &Arc<Stage>, clock: &Arc<Clock>) -> anyhow::Result<Computer> {
    let id = ComputerId::new(Uuid::from_u128(1));
    loop {
        let (stage, clock) = (Arc::clone(stage), Arc::clone(clock));
        match Computer::open(directory, id, stage, clock).await {
            // The log's thread of an earlier life lets go once it has noticed that all handles are gone.
            Err(ServeError::Open(OpenError::InUse(_))) => tokio::task::yield_now().await,
            opened => return Ok(opened?),
        }
    }
}

/// The person says something, or nothing. A run that is left in peace is not left paused.
async fn speak(computer: &Computer, run: RunId, random: &mut fastrand::Rng, peace: bool) {
    let command = match random.u8(..40) {
        _ if peace => RunCommand::Resume,
        0..4 => RunCommand::Pause,
        4..20 => RunCommand::Resume,
        20..24 => RunCommand::Steer("hurry".to_owned()),
        24 => RunCommand::Cancel,
        _ => return,
    };
    // It may have ended in the same moment, or not be paused at all: then it says so, and nothing changes.
    computer.app.session.ask("session", |reply| SessionMessage::Run(run, command, reply)).await.ok();
}

async fn events(computer: &Computer, run: RunId) -> anyhow::Result<Vec<(Header, Event)>> {
    let (mut all, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let query = Query { after, limit: 1000, run: Some(run), ..Query::default() };
        let page = computer.app.harness.journal.log().read(query).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.header.seq;
        for envelope in page {
            let event = envelope.event()?;
            all.push((envelope.header, event));
        }
    }
}

/// What an agent and its run did from one of its calls on.
fn around(events: &[(Header, Event)], effect: &str) -> String {
    let begun = |(_, event): &(Header, Event)| matches!(event, Event::ToolStarted(begun) if begun.effect_id == effect);
    let Some(from) = events.iter().position(begun) else { return "it was never begun".into() };
    let task = events[from].0.task;
    let own = events[from..].iter().filter(|(header, _)| header.task == task || header.task.is_none());
    let lines = own.map(|(header, event)| format!("{} {} {}", header.seq, header.epoch, short(event)));
    lines.collect::<Vec<_>>().join("; ")
}

fn short(event: &Event) -> String {
    let mut text = format!("{event:?}");
    text.truncate(text.char_indices().nth(SHORT_CHARS).map_or(text.len(), |(at, _)| at));
    text
}

/// What must be true of every run, however it went.
fn judge(events: &[(Header, Event)], stage: &Stage, crashes: u32) -> anyhow::Result<Seen> {
    if let Some((command, times)) = stage.marks().into_iter().find(|(_, times)| *times > 1) {
        return Err(Repeated { command, times }.into());
    }
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|(_, event)| wanted(event)).count();
    ensure!(count(|event| matches!(event, Event::RunEnded(_))) == 1, "it did not end once");
    let mut outcomes: BTreeMap<&str, Vec<ToolOutcome>> = BTreeMap::new();
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, event) in events {
        match event {
            Event::ToolStarted(started) => *begun.entry(&started.effect_id).or_default() += 1,
            Event::ToolFinished(finished) => {
                ensure!(begun.contains_key(finished.effect_id.as_str()), "a call ended that was never begun");
                outcomes.entry(&finished.effect_id).or_default().push(finished.outcome);
            }
            _ => {}
        }
    }
    ensure!(begun.values().all(|times| *times == 1), "an intent is in the log twice");
    for effect in begun.keys() {
        let ends = outcomes.get(effect).map_or(0, Vec::len);
        ensure!(ends == 1, "the call {effect} has {ends} endings: {}", around(events, effect));
    }
    let mut unknown = 0;
    for (effect, times) in stage.done() {
        ensure!(times <= 1, "the effect {effect} was done {times} times");
        ensure!(begun.contains_key(effect.as_str()), "the effect {effect} was done without an intent");
    }
    for (effect, ended) in &outcomes {
        unknown += u64::from(ended[0] == ToolOutcome::Unknown);
        let did = stage.done().get(*effect).copied().unwrap_or(0);
        let said_done = ended[0] == ToolOutcome::Ok && stage.is_effect(effect);
        ensure!(!said_done || did == 1, "the effect {effect} is said to be done and was done {did} times");
    }
    let cancelled = count(|event| matches!(event, Event::CancelRequested(_))) > 0;
    let status = events.iter().find_map(|(_, event)| match event {
        Event::RunEnded(ended) => Some(ended.status),
        _ => None,
    });
    let allowed = matches!(status, Some(RunStatus::Completed | RunStatus::Failed))
        || (cancelled && status == Some(RunStatus::Cancelled));
    ensure!(allowed, "it ended as {status:?}, cancelled: {cancelled}");
    replay(events, |_| false).map_err(|divergence| anyhow::anyhow!("a replay differs: {divergence}"))?;
    let effects = stage.done().len() as u64;
    let (events, crashes, cancelled) = (events.len() as u64, u64::from(crashes), u64::from(cancelled));
    Ok(Seen { events, crashes, effects, unknown, cancelled })
}

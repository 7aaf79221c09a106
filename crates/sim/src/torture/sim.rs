//! A simulation of the store, its followers, its views and supervision: steps in a random order that a seed decides, beside a
//! model that fits on a page, compared after each step. The clock jumps as it likes, names and choices come from the seed, and
//! one world in eight stands on a disk that fails, fills up, turns read-only or loses its power.

use super::intensity::{FAILURES, supervise};
use super::{Outcome, Plan, tree};
use crate::disk::served::{Order, Served};
use crate::event;
use anyhow::{Context, bail, ensure};
use choir_computer::view::projections;
use choir_core::supervise::{INTENSITY, Intensity};
use choir_proto::event::{NewEvent, PayloadErased, RunSteered};
use choir_proto::{Hash, Seq, Timestamp};
use choir_store::{AppendError, Erasure, Expect, LiveViews, Log, OpenError, Query, Subscription, Views};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Seeds of the full and of the short form.
const SEEDS: u64 = 2_000;
const SEEDS_SHORT: u64 = 40;

/// Seeds at once.
const SEEDS_AT_ONCE: usize = 4;

/// Milliseconds that a lock may take to come free.
const FREE_TRIES: u32 = 2_000;

/// Steps under one seed.
const STEPS: u32 = 60;

/// Followers at once.
const FOLLOWERS_MAX: usize = 4;

/// One seed in so many has a disk of its own, which is slower than memory.
const DISK_EVERY: u64 = 8;

/// One seed in so many has a whole tree of actors, which really waits before it starts one again.
const TREE_EVERY: u64 = 20;

/// Steps of a disk within which an error comes.
const FAULT_WITHIN: u64 = 12;

/// Attempts that find no space or nothing to be changed, and tries after which an append must have worked. A fault is over
/// before that.
const FAULT_ATTEMPTS: u64 = 6;
const TRIES: u32 = 30;

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcome = Outcome { wanted: plan.cases(SEEDS, SEEDS_SHORT), ..Outcome::default() };
    let started = Instant::now();
    for part in seeds(&runtime, plan, outcome.wanted) {
        outcome.cases += part.cases;
        outcome.acknowledged += part.acknowledged;
        outcome.faults.extend(part.faults);
    }
    let rate = outcome.cases as f64 / started.elapsed().as_secs_f64();
    outcome.notes =
        format!("{STEPS} steps and {FAILURES} failures a seed, one in {DISK_EVERY} on a bad disk, {rate:.0} seeds/s");
    for sabotage in Sabotage::ALL {
        let fails = |seed, sabotage| {
            let mut control = Outcome::default();
            one(&runtime, seed, sabotage, &mut control);
            !control.faults.is_empty()
        };
        // A seed that fails anyway has noticed nothing.
        let noticed = (0..CONTROL_SEEDS).any(|more| {
            let seed = plan.seed.wrapping_add(more);
            fails(seed, sabotage) && !fails(seed, Sabotage::None)
        });
        outcome.controls.push((sabotage.name(), noticed));
    }
    Ok(outcome)
}

/// Lives through all seeds, some at once: each is a world of its own, and most of a bad disk's time is spent waiting.
fn seeds(runtime: &tokio::runtime::Runtime, plan: Plan, wanted: u64) -> Vec<Outcome> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut part = Outcome::default();
        while !plan.is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted {
                break;
            }
            one(runtime, plan.seed.wrapping_add(number), Sabotage::None, &mut part);
            part.cases += 1;
        }
        part
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SEEDS_AT_ONCE).map(|_| scope.spawn(work)).collect();
        // A worker that panicked leaves cases undone, which fails the row.
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    })
}

/// Everything under one seed. What goes wrong is told with the seed, which is all that is needed to see it again.
fn one(runtime: &tokio::runtime::Runtime, seed: u64, sabotage: Sabotage, outcome: &mut Outcome) {
    match runtime.block_on(live(seed, sabotage)) {
        Ok(events) => outcome.acknowledged += events,
        Err(error) => outcome.faults.push(format!("seed {seed}: {error:#}")),
    }
    let mut tell = |result: anyhow::Result<()>| {
        if let Err(error) = result {
            outcome.faults.push(format!("seed {seed}: {error:#}"));
        }
    };
    tell(supervise(seed, sabotage.intensity()));
    if seed.is_multiple_of(TREE_EVERY) || sabotage == Sabotage::UnplannedPanic {
        let extra = u32::from(sabotage == Sabotage::UnplannedPanic);
        let grown = memory().and_then(|directory| runtime.block_on(tree::live(seed, directory.path(), extra)));
        tell(grown.context("the tree of actors"));
    }
}

/// Seeds after which a control that nobody noticed has failed.
const CONTROL_SEEDS: u64 = 400;

/// What is taken away, so that somebody must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    None,
    /// What a follower read does not reach it.
    LossyFollower,
    /// A child may fail once more often than is promised.
    PatientSupervisor,
    /// An agent panics once more often than it should.
    UnplannedPanic,
    /// A power cut takes the newest sync with it.
    ForgetfulDisk,
}

impl Sabotage {
    const ALL: [Self; 4] = [Self::LossyFollower, Self::PatientSupervisor, Self::UnplannedPanic, Self::ForgetfulDisk];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LossyFollower => "a follower that misses a batch",
            Self::PatientSupervisor => "a supervisor with more patience",
            Self::UnplannedPanic => "an agent that panics once more",
            Self::ForgetfulDisk => "a disk that forgets what it had synced",
        }
    }

    fn intensity(self) -> Intensity {
        let more = u32::from(self == Self::PatientSupervisor);
        Intensity { restarts_max: INTENSITY.restarts_max + more, ..INTENSITY }
    }
}

/// Durability is the business of other rows; here many steps count, and memory is quick.
pub(super) fn memory() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { Ok(tempfile::tempdir_in(memory)?) } else { crate::scratch::directory() }
}

/// Lives through one seed; says how many events there were in the end.
async fn live(seed: u64, sabotage: Sabotage) -> anyhow::Result<u64> {
    let mut world = World::new(seed, sabotage)?;
    for number in 0..STEPS {
        let step = Step::choose(&mut world.random);
        world.step(step).await.with_context(|| format!("step {number}, {step:?}"))?;
        world.check().await.with_context(|| format!("after step {number}, {step:?}"))?;
    }
    world.end().await
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append,
    AppendTogether,
    AppendExpecting,
    AppendAgain,
    AppendUnderUsedId,
    Follow,
    ReadOn,
    Erase,
    CompareViews,
    Reopen,
    Crash,
    ClockJump,
    DiskFails,
    DiskFills,
    DiskTurnsReadOnly,
}

impl Step {
    fn choose(random: &mut fastrand::Rng) -> Self {
        match random.u8(..46) {
            0..10 => Self::Append,
            10..14 => Self::AppendTogether,
            14..18 => Self::AppendExpecting,
            18..21 => Self::AppendAgain,
            21..23 => Self::AppendUnderUsedId,
            23..26 => Self::Follow,
            26..33 => Self::ReadOn,
            33..35 => Self::Erase,
            35..36 => Self::CompareViews,
            36..38 => Self::Reopen,
            38..40 => Self::Crash,
            40..42 => Self::ClockJump,
            42..44 => Self::DiskFails,
            44..45 => Self::DiskFills,
            _ => Self::DiskTurnsReadOnly,
        }
    }
}

/// How the wall clock moves: on by a day, back by an hour, or not at all.
const CLOCK_JUMPS_US: [i64; 3] = [86_400_000_000, -3_600_000_000, 0];

/// What the model knows of an event.
#[derive(Debug, Clone)]
struct Known {
    event: NewEvent,
    erased: bool,
}

/// A follower, and where it ought to be.
struct Follower {
    subscription: Subscription,
    seen: u64,
}

/// Where the files are.
enum Ground {
    Memory(TempDir),
    Disk(Box<Served>),
}

impl Ground {
    fn path(&self) -> &Path {
        match self {
            Self::Memory(directory) => directory.path(),
            Self::Disk(disk) => disk.path(),
        }
    }
}

struct World {
    random: fastrand::Rng,
    sabotage: Sabotage,
    ground: Ground,
    /// The wall clock. It is a label and may do what it likes.
    clock: i64,
    /// Absent only between two openings.
    log: Option<Log>,
    /// The log as it should be.
    model: Vec<Known>,
    /// Lengths of the units that were appended, by the place before their first event.
    units: Vec<(usize, usize)>,
    followers: Vec<Follower>,
    next: u64,
}

impl World {
    fn new(seed: u64, sabotage: Sabotage) -> anyhow::Result<Self> {
        let on_disk = seed.is_multiple_of(DISK_EVERY) || sabotage == Sabotage::ForgetfulDisk;
        let ground = match on_disk {
            true => Ground::Disk(Box::new(Served::start(None)?)),
            false => Ground::Memory(memory()?),
        };
        let log = Some(Log::open(ground.path())?);
        let random = fastrand::Rng::with_seed(seed);
        let (model, units, followers) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { random, sabotage, ground, clock: 0, log, model, units, followers, next: 0 })
    }

    fn log(&self) -> anyhow::Result<&Log> {
        self.log.as_ref().context("the log is open between steps")
    }

    async fn step(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Append => self.append(Expect::Any).await,
            Step::AppendTogether => self.append_together().await,
            Step::AppendExpecting => self.append_expecting().await,
            Step::AppendAgain => self.append_again().await,
            Step::AppendUnderUsedId => self.append_under_used_id().await,
            Step::Follow => self.follow(),
            Step::ReadOn => self.read_on().await,
            Step::Erase => self.erase().await,
            Step::CompareViews => self.compare_views().await,
            Step::Reopen => self.reopen().await,
            Step::Crash => self.crash().await,
            Step::ClockJump => {
                self.clock += CLOCK_JUMPS_US[self.random.usize(..CLOCK_JUMPS_US.len())];
                Ok(())
            }
            Step::DiskFails => {
                let after = self.random.u64(1..FAULT_WITHIN);
                self.append_on(Order::Eio { after }).await
            }
            Step::DiskFills => self.append_on(Order::Full { attempts: FAULT_ATTEMPTS }).await,
            Step::DiskTurnsReadOnly => self.append_on(Order::ReadOnly { attempts: FAULT_ATTEMPTS }).await,
        }
    }

    fn unit(&mut self) -> Vec<NewEvent> {
        let length = self.random.u64(1..5);
        let at = Timestamp(self.clock);
        let unit = (self.next..self.next + length).map(|number| NewEvent { at, ..event::mixed(number) }).collect();
        self.next += length;
        self.clock += 1;
        unit
    }

    fn remember(&mut self, unit: Vec<NewEvent>) {
        self.units.push((self.model.len(), unit.len()));
        self.model.extend(unit.into_iter().map(|event| Known { event, erased: false }));
    }

    async fn append(&mut self, expect: Expect) -> anyhow::Result<()> {
        let unit = self.unit();
        let appended = self.log()?.append(unit.clone(), expect).await?;
        let (first, last) = (self.model.len() as u64 + 1, (self.model.len() + unit.len()) as u64);
        ensure!((appended.first.0, appended.last.0, appended.repeated) == (first, last, false), "{appended:?}");
        self.remember(unit);
        Ok(())
    }

    /// Appends while the disk misbehaves, again and again until it is done: then it is there once, whole.
    async fn append_on(&mut self, trouble: Order) -> anyhow::Result<()> {
        let Ground::Disk(disk) = &mut self.ground else { return self.append(Expect::Any).await };
        disk.tell(&trouble)?;
        let unit = self.unit();
        let places = (self.model.len() as u64 + 1, (self.model.len() + unit.len()) as u64);
        let mut last = None;
        for _ in 0..TRIES {
            match self.log()?.append(unit.clone(), Expect::Any).await {
                Ok(appended) => {
                    ensure!((appended.first.0, appended.last.0) == places, "{appended:?}, not {places:?}");
                    last = None;
                    break;
                }
                Err(error @ (AppendError::Full | AppendError::Failed(_))) => last = Some(error),
                Err(other) => bail!("a bad disk is called: {other}"),
            }
        }
        if let Ground::Disk(disk) = &mut self.ground {
            disk.tell(&Order::Mend)?;
        }
        ensure!(last.is_none(), "nothing could be appended any more: {last:?}");
        self.remember(unit);
        Ok(())
    }

    /// Several callers at once: each unit stands together, somewhere.
    async fn append_together(&mut self) -> anyhow::Result<()> {
        let units: Vec<_> = (0..self.random.usize(2..6)).map(|_| self.unit()).collect();
        let log = self.log()?;
        let appended = join_all(units.iter().map(|unit| log.append(unit.clone(), Expect::Any))).await;
        let mut placed = BTreeMap::new();
        for (unit, appended) in units.into_iter().zip(appended) {
            let appended = appended?;
            ensure!(appended.last.0 - appended.first.0 + 1 == unit.len() as u64, "{appended:?}");
            placed.insert(appended.first, unit);
        }
        for (first, unit) in placed {
            ensure!(first.0 == self.model.len() as u64 + 1, "a unit begins at {first}");
            self.remember(unit);
        }
        Ok(())
    }

    async fn append_expecting(&mut self) -> anyhow::Result<()> {
        let head = Seq(self.model.len() as u64);
        if self.random.bool() {
            return self.append(Expect::Head(head)).await;
        }
        let wrong = Seq(head.0 + self.random.u64(1..3));
        let unit = self.unit();
        match self.log()?.append(unit, Expect::Head(wrong)).await {
            Err(AppendError::Moved { expected, found }) if (expected, found) == (wrong, head) => Ok(()),
            other => bail!("expecting {wrong} at {head}: {other:?}"),
        }
    }

    async fn append_again(&mut self) -> anyhow::Result<()> {
        let Some((before, length)) = self.some_unit() else { return Ok(()) };
        let unit = self.model[before..before + length].iter().map(|known| known.event.clone()).collect();
        let appended = self.log()?.append(unit, Expect::Any).await?;
        let places = (before as u64 + 1, (before + length) as u64);
        ensure!((appended.first.0, appended.last.0) == places && appended.repeated, "{appended:?}");
        Ok(())
    }

    async fn append_under_used_id(&mut self) -> anyhow::Result<()> {
        let Some((before, _)) = self.some_unit() else { return Ok(()) };
        let mut other = self.model[before].event.clone();
        other.event = RunSteered { text: "something else".into() }.into();
        match self.log()?.append(vec![other.clone()], Expect::Any).await {
            Err(AppendError::IdReused(id)) if id == other.id => Ok(()),
            other => bail!("an id was used twice: {other:?}"),
        }
    }

    fn some_unit(&mut self) -> Option<(usize, usize)> {
        (!self.units.is_empty()).then(|| self.units[self.random.usize(..self.units.len())])
    }

    fn follow(&mut self) -> anyhow::Result<()> {
        if self.followers.len() == FOLLOWERS_MAX {
            self.followers.remove(0);
        }
        let seen = self.random.u64(..=self.model.len() as u64);
        let subscription = self.log()?.subscribe(Seq(seen));
        self.followers.push(Follower { subscription, seen });
        Ok(())
    }

    /// Every follower reads one batch: in order, nothing twice, nothing left out, and it waits at the end.
    async fn read_on(&mut self) -> anyhow::Result<()> {
        for follower in &mut self.followers {
            if follower.seen == self.model.len() as u64 {
                ensure!(
                    follower.subscription.next().now_or_never().is_none(),
                    "a follower was given what is not there"
                );
                continue;
            }
            let batch = follower.subscription.next().await?;
            ensure!(!batch.is_empty(), "a follower was woken for nothing");
            if self.sabotage == Sabotage::LossyFollower {
                continue;
            }
            for event in batch {
                let known = self.model.get(follower.seen as usize).context("more than there is")?;
                follower.seen += 1;
                ensure!(
                    event.header.seq.0 == follower.seen,
                    "event {} where {} was due",
                    event.header.seq,
                    follower.seen
                );
                ensure!(event.header.id == known.event.id, "another event at {}", follower.seen);
            }
        }
        let lost = self.followers.iter().find(|follower| follower.subscription.position().0 != follower.seen);
        ensure!(lost.is_none(), "a follower stands where it has not read");
        Ok(())
    }

    async fn erase(&mut self) -> anyhow::Result<()> {
        if self.model.is_empty() {
            return Ok(());
        }
        let index = self.random.usize(..self.model.len());
        // A tombstone says that something was erased, and stays.
        if self.model[index].erased || self.model[index].event.event.kind() == "payload.erased" {
            return Ok(());
        }
        let target = self.model[index].event.id;
        let erased =
            PayloadErased { event_id: target, seq: Seq(index as u64 + 1), blobs: Vec::new(), document_id: None };
        let mut tombstone = event::mixed(self.next);
        self.next += 1;
        tombstone.event = erased.into();
        let erasure = Erasure { target, tombstone: tombstone.clone(), blobs: Vec::new(), unnamed_upto: Seq::ZERO };
        self.log()?.erase(erasure).await?;
        self.model[index].erased = true;
        self.remember(vec![tombstone]);
        Ok(())
    }

    /// Views that were kept and followed equal views that are built anew.
    async fn compare_views(&mut self) -> anyhow::Result<()> {
        let fresh = memory()?;
        let kept = self.digest(self.ground.path()).await?;
        let anew = self.digest(fresh.path()).await?;
        ensure!(kept == anew, "views differ: {kept} kept, {anew} built anew");
        Ok(())
    }

    async fn digest(&self, directory: &Path) -> anyhow::Result<Hash> {
        let views = Views::open(directory, projections())?;
        let live = LiveViews::follow(self.log()?.clone(), views).await?;
        let digest = live.read(Views::digest).await;
        live.close().await;
        Ok(digest?)
    }

    async fn reopen(&mut self) -> anyhow::Result<()> {
        self.followers.clear();
        let log = self.log.take().context("the log is open between steps")?;
        let epoch = log.epoch();
        log.close().await;
        self.open_again(epoch)
    }

    /// Whoever held the files is gone: in memory they are left as they are at this moment, on a disk as a power cut leaves
    /// them.
    async fn crash(&mut self) -> anyhow::Result<()> {
        let ground = match &mut self.ground {
            Ground::Memory(directory) => {
                let left = memory()?;
                copy(directory.path(), left.path())?;
                Ground::Memory(left)
            }
            Ground::Disk(disk) => {
                let (left, seed) = (memory()?, self.random.u64(..));
                let into = left.path().to_owned();
                disk.tell(&match self.sabotage {
                    Sabotage::ForgetfulDisk => Order::Forget { seed, into },
                    _ => Order::Cut { seed, into },
                })?;
                Ground::Disk(Box::new(Served::start(Some(left.path()))?))
            }
        };
        self.followers.clear();
        let log = self.log.take().context("the log is open between steps")?;
        let epoch = log.epoch();
        // What it still does reaches only what is thrown away now.
        log.close().await;
        self.ground = ground;
        self.open_again(epoch)
    }

    fn open_again(&mut self, epoch: u32) -> anyhow::Result<()> {
        let log = open_when_free(self.ground.path())?;
        let newest = self.model.last().map_or(0, |_| 1);
        // Epochs are counted by what was written: two openings without an event between them are one.
        ensure!(log.epoch() <= epoch + 1 && log.epoch() >= newest, "epoch {} after {epoch}", log.epoch());
        match Log::open(self.ground.path()) {
            Err(OpenError::InUse(_)) => {}
            other => bail!("a second holder was let in: {other:?}"),
        }
        self.log = Some(log);
        Ok(())
    }

    /// The end of the log, always; all of it, now and then.
    async fn check(&mut self) -> anyhow::Result<()> {
        let length = self.model.len() as u64;
        ensure!(self.log()?.head().seq == Seq(length), "the head is {:?}, not {length}", self.log()?.head());
        let after = if self.random.u8(..10) == 0 { 0 } else { length.saturating_sub(8) };
        let events = self.log()?.read(Query { after: Seq(after), limit: 1000, ..Query::default() }).await?;
        ensure!(events.len() as u64 == length - after, "{} events after {after} of {length}", events.len());
        for (known, event) in self.model[after as usize..].iter().zip(&events) {
            let payload = if known.erased { "null".to_owned() } else { known.event.event.payload().get().to_owned() };
            ensure!(
                event.header.id == known.event.id && event.payload.get() == payload,
                "event {} differs",
                event.header.seq
            );
        }
        let broken = events.windows(2).find(|pair| pair[1].header.prev != pair[0].header.hash);
        ensure!(broken.is_none(), "the chain is broken");
        Ok(())
    }

    async fn end(mut self) -> anyhow::Result<u64> {
        self.read_on().await?;
        self.compare_views().await?;
        self.log.take().context("the log is open between steps")?.close().await;
        let report = choir_store::verify(self.ground.path(), &[], |_| {})?;
        ensure!(report.faults.is_empty(), "{:?}", report.faults);
        ensure!(report.events == self.model.len() as u64, "{} events in the end", report.events);
        Ok(report.events)
    }
}

/// A disk that another world starts at this very moment is, until it becomes a program of its own, a copy of this process
/// with everything that is open in it: locks too.
fn open_when_free(directory: &Path) -> Result<Log, OpenError> {
    for _ in 0..FREE_TRIES {
        match Log::open(directory) {
            Err(OpenError::InUse(_)) => crate::process::rest(Duration::from_millis(1)),
            other => return other,
        }
    }
    Log::open(directory)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

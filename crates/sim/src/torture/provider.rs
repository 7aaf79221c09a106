//! Providers that fail in every way, in every wire format, at every moment of a run: each run must come to its proper end, every
//! step that it made must be there once, and what went wrong must be in its log.

mod server;

use super::agent::{ended, events};
use super::{Outcome, Plan};
use crate::client::{Address, Client};
use crate::instance::{self, Instance};
use crate::{process, scratch};
use anyhow::Context;
use choir_llm::Format;
use http::Method;
use serde_json::{Value, json};
use server::{Model, Server};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Steps of each worker; each leaves one line.
const STEPS: u64 = 4;

/// Moments of a run at which its provider may fail: the delegation, every step, the worker's end and the run's end.
const MOMENTS: u64 = STEPS + 3;

/// Runs at once.
const AT_ONCE: usize = 16;

/// Rounds of the full form in which the processes are killed, and cases of the one in the short form.
const KILLED_ROUNDS: u64 = 1;
const KILLED_SHORT: usize = 5;

/// The processes are killed within so many milliseconds of the last prompt.
const KILL_WITHIN_MS: u64 = 3_000;

/// A run that has not ended by then never will.
const RUN_MAX: Duration = Duration::from_secs(180);

/// What is left of a run whose provider never comes back.
const TIME_S: f64 = 3.0;

/// Steps of a run whose model never comes to an end.
const TURNS: u64 = 12;

/// How a provider fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// 429, and when to come back.
    RateLimitTimed,
    /// 429.
    RateLimit,
    /// 500.
    Failure,
    /// 503.
    Overloaded,
    /// Takes the question and never answers.
    Hang,
    /// Breaks off in the middle of an answer.
    Truncated,
    /// Answers with what is no answer.
    Garbage,
    /// Closes the connection without a word.
    Empty,
    /// Answers with ten megabytes.
    Huge,
    /// Calls a tool that there is not.
    WrongTool,
    /// Calls a tool with arguments that it does not take.
    WrongArguments,
    /// Calls the same tool on and on.
    Endless,
}

impl Fault {
    const ALL: [Self; 12] = [
        Self::RateLimitTimed,
        Self::RateLimit,
        Self::Failure,
        Self::Overloaded,
        Self::Hang,
        Self::Truncated,
        Self::Garbage,
        Self::Empty,
        Self::Huge,
        Self::WrongTool,
        Self::WrongArguments,
        Self::Endless,
    ];

    /// Whether it makes sense once: a provider that hangs is given minutes, and one that is endless never stops.
    fn passes(self) -> bool {
        !matches!(self, Self::Hang | Self::Endless)
    }

    /// What the log calls it, where it is a failure of the provider.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::RateLimitTimed | Self::RateLimit => Some("rate_limit"),
            Self::Failure | Self::Overloaded => Some("overloaded"),
            Self::Truncated => Some("truncated"),
            Self::Garbage => Some("garbage"),
            Self::Huge => Some("oversized"),
            // Who says nothing is called by what became of the connection.
            Self::Empty | Self::Hang | Self::WrongTool | Self::WrongArguments | Self::Endless => None,
        }
    }

    /// How a run ends whose provider fails so for good.
    fn ending(self) -> &'static str {
        match self {
            Self::Truncated | Self::Garbage | Self::Huge => "failed",
            Self::WrongTool | Self::WrongArguments | Self::Endless => "out_of_steps",
            _ => "out_of_time",
        }
    }
}

impl Fault {
    /// Whether its calls are refused, for the same reason every time. Who is asked for nothing else is given up after a few of
    /// them; a conductor may ask somebody else, until its steps are over.
    fn is_refused_for_good(self) -> bool {
        matches!(self, Self::WrongTool | Self::WrongArguments)
    }
}

/// Whether it is over after the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasts {
    Once,
    Always,
}

/// One run to be.
#[derive(Debug, Clone, Copy)]
struct Case {
    format: Format,
    fault: Fault,
    lasts: Lasts,
    moment: u64,
    /// For controls: a worker that is told to make its steps twice.
    twice: bool,
}

impl Case {
    fn budget(&self) -> Value {
        match (self.lasts, self.fault.ending()) {
            (Lasts::Always, "out_of_time") => json!({"time_s": TIME_S}),
            (Lasts::Always, "out_of_steps") => json!({"steps": TURNS}),
            _ => json!({}),
        }
    }

    /// Whether its run's time may be over before its provider is asked at the moment at which it fails.
    fn may_be_late(&self) -> bool {
        self.lasts == Lasts::Always && self.fault.ending() == "out_of_time"
    }

    fn ending(&self) -> &'static str {
        if self.lasts == Lasts::Always { self.fault.ending() } else { "completed" }
    }
}

/// Whether everything is killed while the runs are at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Never,
    AfterMs(u64),
}

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Every one: a binary that does not speak it does not start.
    let formats = Format::ALL;
    let rounds = rounds(&plan, formats, &mut random);
    let wanted = rounds.iter().map(|(cases, _)| cases.len() as u64).sum();
    let (mut tally, mut cases) = (Tally::default(), 0);
    for (round, killed) in rounds {
        if plan.is_over() {
            break;
        }
        play(&runtime, &round, killed, &mut tally)?;
        cases += round.len() as u64;
    }
    let mut outcome = Outcome { wanted, cases, ..Outcome::default() };
    outcome.controls = controls(&runtime, formats[0])?;
    (outcome.acknowledged, outcome.lost, outcome.faults) = (tally.steps, tally.lost, tally.faults);
    let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
    outcome.notes = format!(
        "{}, {} failures of providers, repeated {}, said to be unknown {}",
        names.join(" and "),
        tally.failures,
        tally.repeated,
        tally.unknown
    );
    Ok(outcome)
}

/// What is played, some at a time: in the full form every fault in every format at every moment, in the short one each fault
/// somewhere.
fn rounds(plan: &Plan, formats: &[Format], random: &mut fastrand::Rng) -> Vec<(Vec<Case>, Killed)> {
    let mut all = Vec::new();
    for fault in Fault::ALL {
        let lasting = |format, moment| Case { format, fault, lasts: Lasts::Always, moment, twice: false };
        let passing = |format, moment| Case { lasts: Lasts::Once, ..lasting(format, moment) };
        if plan.short {
            let mut draw = || (formats[random.usize(..formats.len())], random.u64(..MOMENTS));
            let (here, there) = (draw(), draw());
            all.extend(fault.passes().then(|| passing(here.0, here.1)));
            all.push(lasting(there.0, there.1));
            continue;
        }
        for format in formats {
            all.extend((0..MOMENTS).filter(|_| fault.passes()).map(|moment| passing(*format, moment)));
            all.push(lasting(*format, random.u64(..MOMENTS)));
        }
    }
    random.shuffle(&mut all);
    let mut rounds: Vec<_> = all.chunks(AT_ONCE).map(|cases| (cases.to_vec(), Killed::Never)).collect();
    random.shuffle(&mut all);
    let killed = if plan.short { &all[..KILLED_SHORT] } else { &all[..] };
    for _ in 0..if plan.short { 1 } else { KILLED_ROUNDS } {
        let kill = |cases: &[Case]| (cases.to_vec(), Killed::AfterMs(random.u64(..KILL_WITHIN_MS)));
        rounds.extend(killed.chunks(AT_ONCE).map(kill));
    }
    rounds
}

/// A worker that makes a step twice, and a fault that should have passed and did not: both must be seen.
fn controls(runtime: &Runtime, format: Format) -> anyhow::Result<Vec<(&'static str, bool)>> {
    let case = Case { format, fault: Fault::Huge, lasts: Lasts::Once, moment: 0, twice: true };
    let mut tally = Tally::default();
    play(runtime, &[case], Killed::Never, &mut tally)?;
    let twice = tally.repeated > 0;
    let stays = Played { case: Case { twice: false, ..case }, always: true };
    let mut tally = Tally::default();
    play_as(runtime, &[stays], Killed::Never, &mut tally)?;
    Ok(vec![("a step made twice", twice), ("a fault that does not pass", !tally.faults.is_empty())])
}

/// What was seen of all runs.
#[derive(Default)]
struct Tally {
    steps: u64,
    repeated: u64,
    lost: u64,
    unknown: u64,
    failures: u64,
    faults: Vec<String>,
}

/// What is expected, and whether it happens on and on all the same.
#[derive(Debug, Clone, Copy)]
struct Played {
    case: Case,
    always: bool,
}

fn play(runtime: &Runtime, cases: &[Case], killed: Killed, tally: &mut Tally) -> anyhow::Result<()> {
    let played: Vec<_> = cases.iter().map(|case| Played { case: *case, always: case.lasts == Lasts::Always }).collect();
    play_as(runtime, &played, killed, tally)
}

/// Plays some cases at the same time, each as a model of its own.
fn play_as(runtime: &Runtime, played: &[Played], killed: Killed, tally: &mut Tally) -> anyhow::Result<()> {
    let models = played.iter().map(|Played { case, always }| Model::new(*case, *always)).collect();
    let server = Server::start(models)?;
    let directory = scratch::directory()?;
    let data = directory.path();
    let token = instance::token(data)?;
    let mut formats: Vec<Format> = Vec::new();
    for Played { case, .. } in played {
        if !formats.contains(&case.format) {
            formats.push(case.format);
        }
    }
    fs::write(data.join("choir.toml"), server.config(&formats))?;
    let mut instance = Instance::start(data, &token)?;
    let runs = runtime.block_on(accept(instance.address(), played))?;
    if let Killed::AfterMs(within) = killed {
        process::rest(Duration::from_millis(within));
        instance.kill()?;
        instance = Instance::start(data, &token)?;
    }
    for (index, (id, Played { case, .. })) in runs.iter().zip(played).enumerate() {
        let events = runtime.block_on(async {
            let end = ended(instance.address(), id);
            tokio::time::timeout(RUN_MAX, end).await.with_context(|| format!("{case:?} did not end"))??;
            events(instance.address(), id).await
        })?;
        let marks = marks(data, index, &events)?;
        let (failed, too_soon) = (server.has_failed(index), server.was_too_soon(index));
        let seen = Seen { case, events: &events, marks, killed, failed, too_soon };
        seen.judge(tally);
    }
    instance.stop()?;
    if let Err(said) = instance::verify(data)? {
        tally.faults.push(format!("the log is not sound: {said}"));
    }
    Ok(())
}

async fn accept(address: &Address, played: &[Played]) -> anyhow::Result<Vec<String>> {
    let mut client = Client::connect(address).await?;
    let mut runs = Vec::new();
    for (index, Played { case, .. }) in played.iter().enumerate() {
        let model = format!("{}/{}", case.format.name(), server::name(index));
        let new = json!({"prompt": "make the steps", "model": model, "budget": case.budget()});
        let run = client.send(Method::POST, "/api/runs", &new).await?;
        runs.push(run["run_id"].as_str().context("a run has an id")?.to_owned());
    }
    Ok(runs)
}

/// How often each step left its mark: in the workspace where it came home, else as its last command has seen it.
fn marks(data: &Path, index: usize, events: &[Value]) -> anyhow::Result<BTreeMap<u64, u64>> {
    let mut computers = fs::read_dir(data.join("computers"))?;
    let computer = computers.next().context("there is no computer")??.path();
    let home = fs::read_to_string(computer.join("workspace").join(server::file(index))).ok();
    let said = events.iter().rev().filter(|event| event["kind"] == "tool.finished");
    let seen = said.filter_map(|event| event["payload"]["content"].as_str()).find(|said| said.contains("mark="));
    let text = home.or(seen.map(str::to_owned)).unwrap_or_default();
    let mut marks = BTreeMap::new();
    for mark in text.lines().filter_map(|line| line.trim().strip_prefix("mark=")) {
        *marks.entry(mark.parse()?).or_default() += 1;
    }
    Ok(marks)
}

/// One run that has ended.
struct Seen<'run> {
    case: &'run Case,
    events: &'run [Value],
    marks: BTreeMap<u64, u64>,
    killed: Killed,
    /// Whether its provider came to fail.
    failed: bool,
    too_soon: bool,
}

impl Seen<'_> {
    fn named(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["kind"] == kind)
    }

    fn judge(&self, tally: &mut Tally) {
        let mut wrong = Vec::new();
        let end = self.named("run.ended").next().map(|event| &event["payload"]);
        let ending = self.case.ending();
        let gives_up = self.case.lasts == Lasts::Always && self.case.fault.is_refused_for_good();
        let ended_so = |end: &Value| end["status"] == ending || gives_up && end["status"] == "failed";
        if !end.is_some_and(ended_so) {
            wrong.push(format!("it should have ended as {ending}: {end:?}"));
        }
        let failures: Vec<&str> = self.named("model.failed").filter_map(|f| f["payload"]["class"].as_str()).collect();
        tally.failures += failures.len() as u64;
        // Whoever is killed may not have come so far, or not have been able to say it.
        if self.killed == Killed::Never && self.failed {
            let missing = self.case.fault.class().filter(|class| !failures.contains(class));
            wrong.extend(missing.map(|class| format!("{class} is not in its log, but {failures:?}")));
            wrong.extend(self.too_soon.then(|| "it was asked again before the time that it said".to_owned()));
        }
        if !self.failed && !self.case.may_be_late() {
            wrong.push("its provider never failed".to_owned());
        }
        self.judge_steps(tally, &mut wrong);
        tally.faults.extend(wrong.into_iter().map(|what| format!("{:?}, {:?}: {what}", self.case, self.killed)));
    }

    fn judge_steps(&self, tally: &mut Tally, wrong: &mut Vec<String>) {
        let said = self.said();
        for (step, made) in &self.marks {
            tally.repeated += made.saturating_sub(1);
            if *made > 1 {
                wrong.push(format!("step {step} was made {made} times"));
            }
            if !said.contains_key(step) {
                wrong.push(format!("step {step} was made, and nobody had written down that it would be"));
            }
        }
        let has_all = self.case.ending() == "completed";
        for step in 1..=STEPS {
            let made = self.marks.get(&step).copied().unwrap_or(0);
            match said.get(&step).map(Vec::as_slice) {
                // Somebody who was asked after it begins anew, and is refused.
                Some([outcome, later @ ..])
                    if outcome == "ok" && later.iter().all(|later| !has_all && later == "refused") =>
                {
                    tally.steps += 1;
                    tally.lost += u64::from(made == 0);
                    wrong.extend((made == 0).then(|| format!("step {step} was lost")));
                }
                Some([outcome]) if outcome == "unknown" => tally.unknown += 1,
                None if !has_all => {}
                Some([outcome]) if !has_all && outcome == "cancelled" => {}
                // More than one of the same is what the control looks for, and counted above.
                other => wrong.push(format!("step {step} was made {made} times and ended as {other:?}")),
            }
        }
    }

    /// How each step ended, in the log's words.
    fn said(&self) -> BTreeMap<u64, Vec<String>> {
        let step = |event: &Value| -> Option<u64> {
            let command = event["payload"]["arguments"]["command"].as_str()?;
            command.strip_prefix("step=")?.split(';').next()?.parse().ok()
        };
        let mut steps: BTreeMap<&str, u64> = BTreeMap::new();
        let mut said: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for event in self.events {
            let Some(effect) = event["payload"]["effect_id"].as_str() else { continue };
            match event["kind"].as_str() {
                Some("tool.started") => steps.extend(step(event).map(|step| (effect, step))),
                Some("tool.finished") => {
                    let outcome = event["payload"]["outcome"].as_str().unwrap_or_default();
                    if let Some(step) = steps.get(effect) {
                        said.entry(*step).or_default().push(outcome.to_owned());
                    }
                }
                _ => {}
            }
        }
        said
    }
}

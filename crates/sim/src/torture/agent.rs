//! Runs whose processes are killed at random instants: control, the computer, the sandbox at work, or all of them. Each step
//! of a run leaves one line in a file; a line that is there twice was repeated, one that is missing was lost, and where
//! nobody can know, the log has to say so.

use super::{Outcome, Plan};
use crate::client::{Address, Client, Stream};
use crate::instance::{self, Instance};
use crate::{process, scratch};
use anyhow::{Context, ensure};
use http::Method;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Kills of the full and of the short form.
const KILLS: u64 = 1_000;
const KILLS_SHORT: u64 = 12;

/// Steps of each run.
const STEPS: u64 = 20;

/// Of the events of a run, every one in the full form and every so many in the short one is the last of a life.
const EVERY: u64 = 1;
const EVERY_SHORT: u64 = 15;

/// A run is killed at most so often before it may end in peace.
const KILLS_PER_RUN: u64 = 6;

/// The kill comes within one of these numbers of microseconds: often at once, sometimes after some steps.
const KILL_WITHIN_US: [u64; 3] = [5_000, 60_000, 400_000];

/// Kills of the control; it must have shown itself by then.
const KILLS_OF_CONTROL: u64 = 240;

/// A run that has not ended by then never will.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Control,
    Director,
    Associate,
    All,
}

const TARGETS: [Target; 4] = [Target::Control, Target::Director, Target::Associate, Target::All];

/// Whether the record of what was started and how it ended outlives a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Kept,
    Lost,
}

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut tally = Tally::default();
    let indices = at_every_event(&runtime, plan.cases(EVERY, EVERY_SHORT), &mut tally)?;
    let wanted = indices + plan.cases(KILLS, KILLS_SHORT);
    let mut outcome = Outcome { wanted, cases: indices, ..Outcome::default() };
    while outcome.cases < outcome.wanted && !plan.is_over() {
        let kills = KILLS_PER_RUN.min(outcome.wanted - outcome.cases);
        outcome.cases += run(&runtime, &mut random, kills, Record::Kept, &mut tally)?;
    }
    let noticed = control(&runtime, &mut random)?;
    outcome.controls.push(("the record of effects thrown away", noticed));
    outcome.acknowledged = tally.steps;
    outcome.lost = tally.lost;
    outcome.faults = tally.faults;
    outcome.notes = format!(
        "{indices} runs killed after an event each, {} runs of {STEPS} steps in all, repeated {}, lost {}, said to be \
         unknown {}",
        tally.runs, tally.repeated, tally.lost, tally.unknown
    );
    Ok(outcome)
}

/// Runs of which each is killed, with everything, right after another one of its events; how many there were.
fn at_every_event(runtime: &Runtime, every: u64, tally: &mut Tally) -> anyhow::Result<u64> {
    let (mut done, mut index) = (0, 1);
    loop {
        let directory = scratch::directory()?;
        let data = directory.path();
        let token = begin(data)?;
        let instance = Instance::start(data, &token)?;
        let (id, is_over) = runtime.block_on(async {
            let id = accept(instance.address()).await?;
            let is_over = tokio::time::timeout(RUN_MAX, reached(instance.address(), &id, index)).await;
            anyhow::Ok((id, is_over.context("the run did not come so far")??))
        })?;
        instance.kill()?;
        let instance = Instance::start(data, &token)?;
        let events = runtime.block_on(async {
            let ended = ended(instance.address(), &id);
            tokio::time::timeout(RUN_MAX, ended).await.context("the run did not end")??;
            events(instance.address(), &id).await
        })?;
        instance.stop()?;
        count(data, &id, &events, tally)?;
        done += 1;
        if is_over {
            return Ok(done);
        }
        index += every;
    }
}

/// Follows a run until it has so many events; whether it has ended with that.
async fn reached(address: &Address, id: &str, index: u64) -> anyhow::Result<bool> {
    let mut stream = Stream::open(address, 0).await?;
    let mut seen = 0;
    loop {
        let event: Value = serde_json::from_str(&stream.next().await?)?;
        if event["run"] != *id {
            continue;
        }
        seen += 1;
        let is_over = event["kind"] == "run.ended";
        if seen >= index || is_over {
            return Ok(is_over);
        }
    }
}

/// Writes what a run needs; a token.
fn begin(data: &Path) -> anyhow::Result<String> {
    fs::write(data.join("choir.toml"), CONFIG)?;
    fs::write(data.join("scenario.json"), scenario().to_string())?;
    instance::token(data)
}

/// Without the record nobody can know what was done: something must be done twice, and be seen.
fn control(runtime: &Runtime, random: &mut fastrand::Rng) -> anyhow::Result<bool> {
    let (mut kills, mut tally) = (0, Tally::default());
    while kills < KILLS_OF_CONTROL && tally.repeated == 0 {
        kills += run(runtime, random, KILLS_PER_RUN, Record::Lost, &mut tally)?.max(1);
    }
    Ok(tally.repeated > 0)
}

/// What was seen of all runs.
#[derive(Default)]
struct Tally {
    runs: u64,
    steps: u64,
    repeated: u64,
    lost: u64,
    unknown: u64,
    faults: Vec<String>,
}

/// One run on a fresh directory, killed some times and then left in peace; how often it was killed.
fn run(
    runtime: &Runtime,
    random: &mut fastrand::Rng,
    kills: u64,
    record: Record,
    tally: &mut Tally,
) -> anyhow::Result<u64> {
    let directory = scratch::directory()?;
    let data = directory.path();
    let token = begin(data)?;
    let mut alive = Some(Instance::start(data, &token)?);
    let id = runtime.block_on(accept(address(&alive)?))?;
    let mut done = 0;
    while done < kills {
        let target = if record == Record::Lost { Target::All } else { TARGETS[random.usize(..TARGETS.len())] };
        let within = KILL_WITHIN_US[random.usize(..KILL_WITHIN_US.len())];
        process::rest(Duration::from_micros(random.u64(..within)));
        let instance = alive.take().context("an instance runs")?;
        alive = Some(match strike(instance, target)? {
            Some(instance) => instance,
            None => {
                if record == Record::Lost {
                    throw_record_away(data)?;
                }
                Instance::start(data, &token)?
            }
        });
        done += 1;
        if runtime.block_on(has_ended(address(&alive)?, &id)) {
            break;
        }
    }
    let events = runtime.block_on(async {
        let address = address(&alive)?;
        tokio::time::timeout(RUN_MAX, ended(address, &id)).await.context("the run did not end")??;
        events(address, &id).await
    })?;
    if let Some(instance) = alive {
        instance.stop()?;
    }
    count(data, &id, &events, tally)?;
    Ok(done)
}

fn address(alive: &Option<Instance>) -> anyhow::Result<&Address> {
    Ok(alive.as_ref().context("an instance runs")?.address())
}

const CONFIG: &str = "[providers.scripted]\nkind = \"scripted\"\nscript = \"scenario.json\"\n";

/// One worker with twenty steps. Each takes a moment after its mark, so that many a kill comes between.
fn scenario() -> Value {
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut terminal: Vec<Value> = (1..=STEPS)
        .map(|step| call("bash", json!({"command": format!("echo {step} >> steps.txt; sleep 0.01")})))
        .collect();
    terminal.push(call("finish", json!({"summary": "done"})));
    let conductor = [
        call("delegate", json!({"role": "terminal", "objective": "make the steps"})),
        call("finish", json!({"summary": "done"})),
    ];
    json!({"roles": {"conductor": conductor, "terminal": terminal}})
}

/// Kills; the instance, if it lives on.
fn strike(instance: Instance, target: Target) -> anyhow::Result<Option<Instance>> {
    match target {
        Target::All => instance.kill().map(|()| None),
        Target::Control => {
            let below: Vec<Pid> = instance.processes().into_iter().skip(1).collect();
            process::kill(&[instance.root()]);
            for pid in below {
                ensure!(process::ends_within_or_gone(pid, ORPHAN_MAX)?, "a process outlived control");
            }
            drop(instance);
            Ok(None)
        }
        Target::Director => {
            process::kill(&instance.called("computer"));
            Ok(Some(instance))
        }
        Target::Associate => {
            process::kill(&instance.called("associate"));
            Ok(Some(instance))
        }
    }
}

/// When control dies, everything below it dies; a busy machine takes a moment longer to say so.
const ORPHAN_MAX: Duration = Duration::from_secs(10);

fn throw_record_away(data: &Path) -> anyhow::Result<()> {
    for computer in fs::read_dir(data.join("control/effects"))? {
        for file in fs::read_dir(computer?.path())? {
            fs::remove_file(file?.path())?;
        }
    }
    Ok(())
}

async fn accept(address: &Address) -> anyhow::Result<String> {
    let new = json!({"prompt": "make the steps"});
    let run = Client::connect(address).await?.send(Method::POST, "/api/runs", &new).await?;
    Ok(run["run_id"].as_str().context("a run has an id")?.to_owned())
}

/// A computer that is just being started again cannot say.
async fn has_ended(address: &Address, id: &str) -> bool {
    let look = async {
        let run = Client::connect(address).await?.get(&format!("/api/runs/{id}")).await?;
        anyhow::Ok(run["ended_at"].is_string())
    };
    look.await.unwrap_or(false)
}

/// Follows the log until the run has ended, over restarts of the computer.
pub(super) async fn ended(address: &Address, id: &str) -> anyhow::Result<()> {
    let mut after = 0;
    loop {
        let Ok(mut stream) = Stream::open(address, after).await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        while let Ok(line) = stream.next().await {
            let event: Value = serde_json::from_str(&line)?;
            after = event["seq"].as_u64().unwrap_or(after);
            if event["kind"] == "run.ended" && event["run"] == *id {
                return Ok(());
            }
        }
    }
}

/// Between two tries to follow a log whose holder is being started.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn events(address: &Address, id: &str) -> anyhow::Result<Vec<Value>> {
    let mut client = Client::connect(address).await?;
    let page = client.get(&format!("/api/events?run={id}&limit=1000")).await?;
    Ok(page["events"].as_array().context("events are a list")?.clone())
}

/// Compares what the log says of each step with what it left.
fn count(data: &Path, id: &str, events: &[Value], tally: &mut Tally) -> anyhow::Result<()> {
    let marks = marks(data)?;
    let said = said(events);
    let mut fault = |what: String| tally.faults.push(format!("run {id}: {what}"));
    let end = events.iter().find(|event| event["kind"] == "run.ended");
    if end.is_none_or(|end| end["payload"]["status"] != "completed") {
        fault(format!("it ended otherwise: {end:?}"));
    }
    let worker = events.iter().rfind(|event| is_of_worker(event));
    let worker = worker.map(|event| &event["payload"]["result"]);
    if let Some(result) = worker.filter(|result| result["status"] != "ok") {
        // What was not merged cannot be counted in the workspace.
        fault(format!("its worker ended as {}: {}", result["status"], result["summary"]));
        return Ok(());
    }
    for step in 1..=STEPS {
        let made = marks.get(&step).copied().unwrap_or(0);
        tally.repeated += made.saturating_sub(1);
        if made > 1 {
            fault(format!("step {step} was made {made} times"));
        }
        match said.get(&step).map(Vec::as_slice) {
            Some([outcome]) if outcome == "ok" && made == 0 => {
                tally.lost += 1;
                fault(format!("step {step} was lost"));
            }
            Some([outcome]) if outcome == "ok" => {}
            Some([outcome]) if outcome == "unknown" => tally.unknown += 1,
            other => fault(format!("step {step} was made {made} times and ended as {other:?}")),
        }
    }
    tally.runs += 1;
    tally.steps += STEPS;
    Ok(())
}

fn is_of_worker(event: &Value) -> bool {
    event["kind"] == "task.finished" && event["actor"].as_str().is_some_and(|actor| actor.ends_with("terminal"))
}

/// How often each step left its mark.
fn marks(data: &Path) -> anyhow::Result<BTreeMap<u64, u64>> {
    let mut computers = fs::read_dir(data.join("computers"))?;
    let computer: PathBuf = computers.next().context("there is no computer")??.path();
    let text = fs::read_to_string(computer.join("workspace/steps.txt")).unwrap_or_default();
    let mut marks = BTreeMap::new();
    for line in text.lines() {
        *marks.entry(line.trim().parse()?).or_default() += 1;
    }
    Ok(marks)
}

/// How each step ended, in the log's words, by its number.
fn said(events: &[Value]) -> BTreeMap<u64, Vec<String>> {
    let number = |event: &Value| {
        let command = event["payload"]["arguments"]["command"].as_str()?;
        command.strip_prefix("echo ")?.split(' ').next()?.parse::<u64>().ok()
    };
    let named = |kind: &'static str| events.iter().filter(move |event| event["kind"] == kind);
    let steps: BTreeMap<&str, u64> = named("tool.started")
        .filter_map(|event| Some((event["payload"]["effect_id"].as_str()?, number(event)?)))
        .collect();
    let mut said: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for event in named("tool.finished") {
        let step = event["payload"]["effect_id"].as_str().and_then(|effect| steps.get(effect));
        if let (Some(step), Some(outcome)) = (step, event["payload"]["outcome"].as_str()) {
            said.entry(*step).or_default().push(outcome.to_owned());
        }
    }
    said
}

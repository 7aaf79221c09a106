//! An orderly stop in the middle of load: everybody is answered or refused in time, the exit is a success, nothing that was
//! acknowledged is missing, and the next start has nothing to recover.

use super::victim::Victim;
use super::{Outcome, Plan};
use crate::instance::Instance;
use crate::stats::{milliseconds, quantile};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Stops of the full and of the short form.
const STOPS: u64 = 100;
const STOPS_SHORT: u64 = 4;

/// The stop comes within so many microseconds after the first acknowledgement.
const STOP_WITHIN_US: u64 = 100_000;

/// The grace time: a stop that takes longer has failed.
const STOP_MAX: Duration = Duration::from_secs(20);

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcome = Outcome { wanted: plan.cases(STOPS, STOPS_SHORT), ..Outcome::default() };
    let (mut took, mut refused, mut unanswered) = (Vec::new(), 0, 0);
    let mut victim = Victim::fresh()?;
    while outcome.cases < outcome.wanted && !plan.is_over() {
        let stopped = strike(&mut victim, &runtime, &mut random, &mut outcome, Instance::stop)?;
        took.push(milliseconds(stopped.took));
        refused += stopped.refused;
        unanswered += stopped.unanswered;
        if stopped.took > STOP_MAX {
            outcome.faults.push(format!("a stop took {:?}", stopped.took));
        }
        outcome.faults.extend(leftovers(&victim)?);
        outcome.cases += 1;
    }
    victim.finish(&runtime, &mut outcome)?;
    outcome.controls.push(("a process that was killed instead", control(&mut random, &runtime)?));
    let [half, worst] = [0.5, 1.0].map(|share| quantile(&mut took, share));
    outcome.notes = format!(
        "stop p50 {half:.0} ms, worst {worst:.0} ms, {refused} requests refused, {unanswered} met a closing door"
    );
    Ok(outcome)
}

struct Stopped {
    took: Duration,
    refused: usize,
    unanswered: usize,
}

/// Starts, looks at how the life before ended, writes, and ends it.
fn strike(
    victim: &mut Victim,
    runtime: &Runtime,
    random: &mut fastrand::Rng,
    outcome: &mut Outcome,
    end: fn(Instance) -> anyhow::Result<()>,
) -> anyhow::Result<Stopped> {
    let instance = victim.start()?;
    let (made, took) = runtime.block_on(async {
        let events = victim.check(instance.address(), outcome).await?;
        outcome.faults.extend(unclean(&events));
        let load = victim.load(instance.address(), random);
        load.begun().await?;
        tokio::time::sleep(Duration::from_micros(random.u64(..STOP_WITHIN_US))).await;
        let told = Instant::now();
        tokio::task::spawn_blocking(move || end(instance)).await??;
        anyhow::Ok((load.ended().await?, told.elapsed()))
    })?;
    let (refused, unanswered) = (made.refused.len(), made.unanswered);
    victim.promised(made, outcome);
    Ok(Stopped { took, refused, unanswered })
}

/// Whether the last start found a log that had not been closed, and what it ended with.
fn unclean(events: &[Value]) -> Option<String> {
    let at = events.iter().rposition(|event| event["kind"] == "computer.started")?;
    let before = at.checked_sub(1).map(|before| &events[before]["kind"]);
    (events[at]["payload"]["clean"] != true)
        .then(|| format!("a start found a log that was not closed, after {before:?}"))
}

/// What a start would have to recover.
fn leftovers(victim: &Victim) -> anyhow::Result<Option<String>> {
    let wal = victim.log()?.with_extension("sqlite-wal");
    let length = std::fs::metadata(wal).map_or(0, |found| found.len());
    Ok((length > 0).then(|| format!("{length} bytes of the log were not folded in")))
}

/// The same row with `kill -9` must complain.
fn control(random: &mut fastrand::Rng, runtime: &Runtime) -> anyhow::Result<bool> {
    let (mut victim, mut control) = (Victim::fresh()?, Outcome::default());
    strike(&mut victim, runtime, random, &mut control, Instance::kill)?;
    let unfolded = leftovers(&victim)?.is_some();
    strike(&mut victim, runtime, random, &mut control, Instance::stop)?;
    Ok(unfolded && control.faults.iter().any(|fault| fault.contains("not closed")))
}

//! `kill -9` of every process of the real binary, at a random instant after it has acknowledged something, then a start on
//! the same data: what was acknowledged is there, at its place, whole, and who followed the log goes on without gap.

use super::victim::Victim;
use super::{Outcome, Plan};
use crate::stats::{milliseconds, quantile};
use anyhow::Context;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Kills of the full and of the short form.
const KILLS: u64 = 1_000;
const KILLS_SHORT: u64 = 12;

/// Kills on one directory before a fresh one: a log that only grows would make the later checks the slower ones.
const KILLS_PER_DIRECTORY: u64 = 40;

/// Kills between two calls of `choir verify`.
const VERIFY_EVERY: u64 = 5;

/// The kill comes within one of these numbers of microseconds after the first acknowledgement: often at once, sometimes in
/// the middle of full load.
const KILL_WITHIN_US: [u64; 3] = [2_000, 40_000, 250_000];

/// A restart should not take longer. Reported only: it is a time on this machine at this hour.
const RESTART_MAX_MS: f64 = 2_000.0;

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcome = Outcome { wanted: plan.cases(KILLS, KILLS_SHORT), ..Outcome::default() };
    let mut starts = Vec::new();
    let mut victim = Victim::fresh()?;
    while outcome.cases < outcome.wanted && !plan.is_over() {
        if outcome.cases > 0 && outcome.cases.is_multiple_of(KILLS_PER_DIRECTORY) {
            victim.finish(&runtime, &mut outcome)?;
            victim = Victim::fresh()?;
        }
        starts.push(strike(&mut victim, &runtime, &mut random, &mut outcome)?);
        outcome.cases += 1;
        if outcome.cases.is_multiple_of(VERIFY_EVERY) {
            victim.verify(&mut outcome)?;
        }
    }
    let noticed = control(&victim, &runtime, &mut outcome)?;
    outcome.controls.push(("an acknowledged event taken out of the log", noticed));
    outcome.notes = restarts(&mut starts);
    Ok(outcome)
}

fn restarts(starts: &mut [f64]) -> String {
    let slow = starts.iter().filter(|start| **start > RESTART_MAX_MS).count();
    let [half, most, worst] = [0.5, 0.99, 1.0].map(|share| quantile(starts, share));
    format!("restart p50 {half:.0} ms, p99 {most:.0} ms, worst {worst:.0} ms, {slow} above {RESTART_MAX_MS:.0} ms")
}

/// Starts, checks what earlier lives promised, writes, kills. Answers how long the start took, in milliseconds.
fn strike(
    victim: &mut Victim,
    runtime: &Runtime,
    random: &mut fastrand::Rng,
    outcome: &mut Outcome,
) -> anyhow::Result<f64> {
    let instance = victim.start().with_context(|| format!("after {} kills", outcome.cases))?;
    let ready = milliseconds(instance.ready_after());
    let made = runtime.block_on(async {
        victim.check(instance.address(), outcome).await?;
        let load = victim.load(instance.address(), random);
        load.begun().await?;
        let within = KILL_WITHIN_US[random.usize(..KILL_WITHIN_US.len())];
        tokio::time::sleep(Duration::from_micros(random.u64(..within))).await;
        instance.kill()?;
        load.ended().await
    })?;
    outcome.faults.extend(made.refused.iter().map(|refused| format!("refused before it was killed: {refused}")));
    victim.promised(made, outcome);
    Ok(ready)
}

/// Takes an acknowledged event out of the log by hand: the same check must miss it.
fn control(victim: &Victim, runtime: &Runtime, outcome: &mut Outcome) -> anyhow::Result<bool> {
    victim.finish(runtime, outcome)?;
    let newest = victim.newest_run().context("no run was acknowledged")?;
    let log = rusqlite::Connection::open(victim.log()?)?;
    log.execute("DELETE FROM events WHERE seq >= ?1", [newest])?;
    drop(log);
    let mut control = Outcome::default();
    victim.verify(&mut control)?;
    // A log that was cut may refuse the start, which is noticing too.
    if let Ok(instance) = victim.start() {
        runtime.block_on(victim.check(instance.address(), &mut control))?;
        return Ok(control.lost > 0);
    }
    Ok(!control.faults.is_empty())
}

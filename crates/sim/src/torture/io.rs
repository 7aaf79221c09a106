//! A disk that fails: every write, sync and change of names in turn answers with an error once, or finds no space for a
//! while. Nothing that failed is acknowledged, what is there stays readable, and afterwards the log goes on.

use super::load::Said;
use super::{Outcome, Plan, examine, power};
use crate::disk::Op;
use crate::disk::image::Image;
use crate::disk::mount::{Fault, Mounted, Recording};

/// Steps of the load, by one caller: the same operations in the same order every time, but for checkpoints.
const STEPS: u32 = 24;

/// Attempts that find no space.
const FULL_ATTEMPTS: u64 = 12;

/// Every so many operations in the short form; every one in the full form.
const STRIDE_SHORT: usize = 24;

/// Lies told before a check that noticed none has failed.
const LIES: usize = 12;

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let quiet = run(plan.seed, None)?;
    let places: Vec<u64> = (1..=quiet.fallible).step_by(if plan.short { STRIDE_SHORT } else { 1 }).collect();
    let mut outcome = Outcome { wanted: 2 * places.len() as u64, ..Outcome::default() };
    let mut refused = 0;
    for at in &places {
        for fault in [Fault::Eio { at: *at }, Fault::Full { at: *at, attempts: FULL_ATTEMPTS }] {
            if plan.is_over() {
                break;
            }
            let recording = run(plan.seed, Some(fault))?;
            let said = said(&recording)?;
            refused += said.iter().filter(|said| matches!(said, Said::Refused(_))).count();
            outcome.faults.extend(complaints(&said).map(|fault_said| format!("{fault:?}: {fault_said}")));
            let findings = examine::image(&recording.image, &said, &runtime)?;
            outcome.acknowledged += examine::promises(&said);
            outcome.lost += findings.lost;
            outcome.faults.extend(findings.faults.into_iter().map(|found| format!("{fault:?}: {found}")));
            outcome.cases += 1;
        }
    }
    outcome.controls.push(("a write answered but not done", lies(plan.seed, quiet.fallible, &runtime)?));
    outcome.notes = format!("{} operations each failing once by EIO and by ENOSPC, {refused} refusals", places.len());
    Ok(outcome)
}

fn run(seed: u64, fault: Option<Fault>) -> anyhow::Result<Recording> {
    let disk = Mounted::new(Image::default(), fault)?;
    let mut child = power::load(disk.path(), seed, STEPS, 1)?;
    power::wait(&mut child)?;
    disk.finish()
}

fn said(recording: &Recording) -> anyhow::Result<Vec<Said>> {
    let lines = recording.trace.iter().filter_map(|op| match op {
        Op::Acknowledge(line) => Some(line.parse()),
        _ => None,
    });
    lines.collect()
}

/// What a load must not say, and what it must.
fn complaints(said: &[Said]) -> impl Iterator<Item = String> {
    let bad = said.iter().filter(|said| matches!(said, Said::Unreadable(_) | Said::Stuck(_))).map(Said::to_string);
    let unfinished = (said.last() != Some(&Said::Done)).then(|| "the load did not come to its end".to_owned());
    bad.chain(unfinished).collect::<Vec<_>>().into_iter()
}

fn lies(seed: u64, operations: u64, runtime: &tokio::runtime::Runtime) -> anyhow::Result<bool> {
    for at in (1..=operations).step_by((operations as usize / LIES).max(1)) {
        let recording = run(seed, Some(Fault::Lie { at }))?;
        let said = said(&recording)?;
        let findings = examine::image(&recording.image, &said, runtime)?;
        if recording.failed > 0 && (!findings.is_clean() || complaints(&said).next().is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

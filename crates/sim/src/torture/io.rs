//! A disk that fails: every write, sync and change of names in turn answers with an error once, or finds no space for a
//! while. Nothing that failed is acknowledged, what is there stays readable, and afterwards the log goes on.

use super::load::Said;
use super::{Outcome, Plan, Syncs, examine, power};
use crate::disk::Op;
use crate::disk::image::Image;
use crate::disk::mount::{Fault, Mounted, Recording, Temper};

/// Steps of the load, by one caller: the same operations in the same order every time, but for checkpoints.
const STEPS: u32 = 24;

/// Attempts that find no space, or nothing to be changed.
const ATTEMPTS: u64 = 12;

/// Every so many operations the disk turns read-only. It says no to everything alike, so not every moment is another case.
const READ_ONLY_EVERY: usize = 6;

/// Every so many operations in the short form; every one in the full form.
const STRIDE_SHORT: usize = 48;

/// Moments from which on a disk lies. Each must be noticed.
const LIES: u64 = 3;

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let quiet = run(plan.seed, Temper::Sound)?;
    let places: Vec<u64> = (1..=quiet.fallible).step_by(if plan.short { STRIDE_SHORT } else { 1 }).collect();
    let cases = cases(&places);
    let mut outcome = Outcome { wanted: cases.len() as u64, ..Outcome::default() };
    let mut refused = 0;
    for fault in cases {
        if plan.is_over() {
            break;
        }
        let recording = run(plan.seed, Temper::Failing(fault))?;
        let said = said(&recording)?;
        refused += said.iter().filter(|said| matches!(said, Said::Refused(_))).count();
        let complaints = complaints(&said).chain(misnamed(fault, &said));
        outcome.faults.extend(complaints.map(|complaint| format!("{fault:?}: {complaint}")));
        let findings = examine::image(&recording.image, &said, &runtime)?;
        outcome.acknowledged += examine::promises(&said);
        outcome.lost += findings.lost;
        outcome.faults.extend(findings.faults.into_iter().map(|found| format!("{fault:?}: {found}")));
        outcome.cases += 1;
    }
    outcome.controls.push(("writes answered but not done", lies(plan.seed, quiet.fallible, &runtime)?));
    outcome.notes = format!(
        "{} operations each failing by EIO and by ENOSPC, one in {READ_ONLY_EVERY} by EROFS, {refused} refusals",
        places.len()
    );
    Ok(outcome)
}

fn cases(places: &[u64]) -> Vec<Fault> {
    let attempts = ATTEMPTS;
    let errors = places.iter().flat_map(|at| [Fault::Eio { at: *at }, Fault::Full { at: *at, attempts }]);
    errors.chain(places.iter().step_by(READ_ONLY_EVERY).map(|at| Fault::ReadOnly { at: *at, attempts })).collect()
}

fn run(seed: u64, temper: Temper) -> anyhow::Result<Recording> {
    let disk = Mounted::new(Image::default(), temper)?;
    let mut child = power::load(disk.path(), seed, STEPS, 1, Syncs::On)?;
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

/// Refusals on a full disk that do not say so. What somebody can mend must be named; a start that SQLite refuses is not
/// told more than that.
fn misnamed(fault: Fault, said: &[Said]) -> impl Iterator<Item = String> {
    let full = matches!(fault, Fault::Full { .. });
    let is_named =
        |why: &str| why.contains("the disk is full") || why.contains("No space left") || why.starts_with("open:");
    said.iter().filter_map(move |said| match said {
        Said::Refused(why) if full && !is_named(why) => Some(format!("a full disk is called: {why}")),
        _ => None,
    })
}

fn lies(seed: u64, operations: u64, runtime: &tokio::runtime::Runtime) -> anyhow::Result<bool> {
    for part in 1..=LIES {
        let lie = Fault::Lie { at: operations * part / (LIES + 1) };
        let recording = run(seed, Temper::Failing(lie))?;
        let said = said(&recording)?;
        let findings = examine::image(&recording.image, &said, runtime)?;
        if recording.failed == 0 || (findings.is_clean() && complaints(&said).next().is_none()) {
            return Ok(false);
        }
    }
    Ok(true)
}

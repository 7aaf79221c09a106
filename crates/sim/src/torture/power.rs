//! Power cuts. A real load runs on a disk that records everything; every moment of the recording is a moment at which the
//! power may go, and every disk that the rules of [`crash`](crate::disk::crash) allow is opened and held against what the
//! load had been told by then. Then live cuts, one after the other on the same disk.
//!
//! The first control runs the load with `synchronous=OFF`. The second takes the syncs of blobs out of the recording, which is
//! what a build without them leaves on a disk.

use super::examine::{self, Findings};
use super::load::Said;
use super::{Outcome, Plan, Syncs};
use crate::disk::crash::{Cut, Volatile};
use crate::disk::image::{Content, Image};
use crate::disk::mount::{Mounted, Recording, Temper};
use crate::disk::{Node, Op, Place, ROOT};
use crate::process;
use anyhow::ensure;
use choir_proto::Hash;
use choir_store::sha256;
use rustix::process::Pid;
use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Cuts by replay, in the full and in the short form.
const CUTS: u64 = 600;
const CUTS_SHORT: u64 = 60;

/// Live cuts, of which each begins where the last one left the disk.
const LIVE_CUTS: u64 = 24;
const LIVE_CUTS_SHORT: u64 = 4;

/// Cuts of one recording; then another load is recorded.
const CUTS_PER_LOAD: u64 = 60;

/// Cuts after which a control that nobody noticed has failed.
const CONTROL_CUTS: u64 = 60;

/// The load of one recording.
const STEPS: u32 = 40;
const CALLERS: u32 = 4;

/// The load that is interrupted: long enough to be at work when the power goes, after at most so many operations.
const STEPS_LIVE: u32 = 400;
const OPERATIONS_LIVE: usize = 600;

/// A load that takes longer hangs.
const LOAD_MAX: Duration = Duration::from_secs(120);

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (cuts, live) = (plan.cases(CUTS, CUTS_SHORT), plan.cases(LIVE_CUTS, LIVE_CUTS_SHORT));
    let mut outcome = Outcome { wanted: cuts + live, ..Outcome::default() };
    let syncs = plan.syncs;
    let mut recording = record(random.u64(..), syncs)?;
    let mut operations = recording.trace.len();
    outcome.controls = controls(&recording, &mut random, &runtime)?;
    while outcome.cases < cuts && !plan.is_over() {
        outcome.faults.extend(early_blobs(&recording.trace)?);
        let wanted = CUTS_PER_LOAD.min(cuts - outcome.cases);
        replay(&recording.trace, wanted, &mut random, |disk, image| {
            let findings = examine::image(&image, disk, &runtime)?;
            outcome.cases += 1;
            outcome.add(findings, disk);
            Ok(true)
        })?;
        recording = record(random.u64(..), syncs)?;
        operations += recording.trace.len();
    }
    live_cuts(live, syncs, &mut random, &runtime, &mut outcome)?;
    outcome.notes = format!("{operations} recorded operations, {live} cuts live");
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, findings: Findings, said: &[Said]) {
        self.acknowledged += examine::promises(said);
        self.lost += findings.lost;
        self.faults.extend(findings.faults);
    }
}

/// Runs a load to its end on an empty disk.
fn record(seed: u64, syncs: Syncs) -> anyhow::Result<Recording> {
    let disk = Mounted::new(Image::default(), Temper::Slow)?;
    let mut child = load(disk.path(), seed, STEPS, CALLERS, syncs)?;
    wait(&mut child)?;
    let recording = disk.finish()?;
    let done = recording.trace.iter().any(|op| matches!(op, Op::Acknowledge(line) if line == "done"));
    ensure!(done, "the load did not come to its end");
    Ok(recording)
}

/// Starts a load on a directory.
pub(super) fn load(directory: &Path, seed: u64, steps: u32, callers: u32, syncs: Syncs) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("load").arg("--directory").arg(directory);
    command.args(["--seed", &seed.to_string(), "--steps", &steps.to_string(), "--callers", &callers.to_string()]);
    if syncs == Syncs::Off {
        command.arg("--sabotage");
    }
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// Waits for a load; one that hangs is ended.
pub(super) fn wait(child: &mut Child) -> anyhow::Result<()> {
    let ended = process::ends_within(Pid::from_child(child), LOAD_MAX)?;
    if !ended {
        child.kill()?;
    }
    child.wait()?;
    ensure!(ended, "a load did not end within {LOAD_MAX:?}");
    Ok(())
}

/// Cuts a recording at random moments, in their order, until nobody wants more.
fn replay(
    trace: &[Op],
    cuts: u64,
    random: &mut fastrand::Rng,
    mut examine: impl FnMut(&[Said], Image) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut moments: Vec<usize> = (0..cuts).map(|_| random.usize(..=trace.len())).collect();
    moments.sort_unstable();
    let (mut disk, mut at) = (Volatile::default(), 0);
    for moment in moments {
        trace[at..moment].iter().for_each(|op| disk.step(op));
        at = moment;
        let cut = Cut::ALL[random.usize(..Cut::ALL.len())];
        if !examine(&said(&disk)?, disk.cut(cut, random))? {
            break;
        }
    }
    Ok(())
}

/// Blobs that were acknowledged before the disk had to keep them, at the very instant of each acknowledgement. A cut at a
/// random moment would seldom meet two callers that overtake each other.
fn early_blobs(trace: &[Op]) -> anyhow::Result<Vec<String>> {
    let (mut disk, mut early) = (Volatile::default(), Vec::new());
    for op in trace {
        disk.step(op);
        if let Op::Acknowledge(line) = op
            && let Said::Kept(hash) = line.parse()?
            && !is_durable(disk.durable(), &hash)
        {
            early.push(format!("blob {hash} was acknowledged before it was safe"));
        }
    }
    Ok(early)
}

fn is_durable(image: &Image, hash: &Hash) -> bool {
    let name = hash.to_string();
    let found = ["blobs", &name[..2], &name[2..]]
        .into_iter()
        .try_fold(ROOT, |directory, name| image.find(&Place { directory, name: name.to_owned() }));
    matches!(found.and_then(|node| image.node(node)), Some(Content::File(bytes)) if sha256(bytes) == *hash)
}

fn said(disk: &Volatile) -> anyhow::Result<Vec<Said>> {
    disk.acknowledged().iter().map(|line| line.parse()).collect()
}

/// Each protection taken away in turn must be missed.
fn controls(
    recording: &Recording,
    random: &mut fastrand::Rng,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Vec<(&'static str, bool)>> {
    let blobs = blob_nodes(&recording.trace);
    let kept = |op: &&Op| !matches!(op, Op::Sync { node } if blobs.contains(node));
    let unsynced: Vec<Op> = recording.trace.iter().filter(kept).cloned().collect();
    let sabotaged = record(random.u64(..), Syncs::Off)?.trace;
    let mut controls = Vec::new();
    for (name, trace) in [("synchronous=OFF", sabotaged), ("blobs not synced", unsynced)] {
        let mut noticed = false;
        replay(&trace, CONTROL_CUTS, random, |said, image| {
            noticed = !examine::image(&image, said, runtime)?.is_clean();
            Ok(!noticed)
        })?;
        controls.push((name, noticed));
    }
    Ok(controls)
}

fn blob_nodes(trace: &[Op]) -> HashSet<Node> {
    let mut nodes = HashSet::new();
    for op in trace {
        if let Op::Make { place, node, .. } = op
            && (nodes.contains(&place.directory) || place.directory == ROOT && place.name == "blobs")
        {
            nodes.insert(*node);
        }
    }
    nodes
}

/// Ends a load at a random moment, cuts the power, and goes on with the disk that is left, again and again.
fn live_cuts(
    cuts: u64,
    syncs: Syncs,
    random: &mut fastrand::Rng,
    runtime: &tokio::runtime::Runtime,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let (mut image, mut promised) = (Image::default(), Vec::new());
    for _ in 0..cuts {
        let recording = interrupted(image.clone(), syncs, random)?;
        let mut disk = Volatile::new(image);
        recording.trace.iter().for_each(|op| disk.step(op));
        promised.extend(said(&disk)?);
        let cut = Cut::ALL[random.usize(..Cut::ALL.len())];
        image = disk.cut(cut, random);
        let findings = examine::image(&image, &promised, runtime)?;
        outcome.cases += 1;
        outcome.add(findings, &promised);
    }
    Ok(())
}

fn interrupted(image: Image, syncs: Syncs, random: &mut fastrand::Rng) -> anyhow::Result<Recording> {
    let disk = Mounted::new(image, Temper::Slow)?;
    let mut child = load(disk.path(), random.u64(..), STEPS_LIVE, CALLERS, syncs)?;
    disk.wait_for(random.usize(1..OPERATIONS_LIVE), LOAD_MAX);
    // It may have come to its end meanwhile.
    child.kill().ok();
    child.wait()?;
    disk.finish()
}

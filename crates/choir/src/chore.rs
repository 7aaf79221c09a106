//! `choir verify`, `choir rebuild` and `choir erase`: chores on the logs of a data directory.

mod witness;

use self::witness::{Known, Witness};
use crate::cli::{Chore, Erase};
use crate::instance::{self, Instance};
use crate::output;
use anyhow::Context;
use choir_computer::maintain::{self, ChoreError};
use choir_computer::world::RealWorld;
use choir_control::data::{self, DataDir};
use choir_control::db::{self, Head, heads, task_trees};
use choir_control::sandboxes::{Places, Room, collect};
use choir_proto::api::Acknowledged;
use choir_proto::event::Header;
use choir_proto::{ComputerId, Event, Hash, Seq};
use choir_store::{Open, OpenError, Orphans, Report, open_reader, open_untouched};
use std::collections::{BTreeSet, HashSet};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// Checks every computer of a data directory. Works whether or not an instance runs.
pub(crate) fn verify(arguments: &Chore) -> anyhow::Result<ExitCode> {
    let root = arguments.data.path()?;
    let data = DataDir::at(&root);
    let look = instance::look(&data)?;
    let signed = signed(&root, look.open)?;
    let known = known(&root, look.open)?;
    // A log may be long: who wants to start meanwhile does not have to wait, and is noticed.
    drop(look);
    let computers = computers(&data, &signed)?;
    if computers.is_empty() {
        output::tell(format_args!(
            "choir: there is no computer in {}, and none was ever signed: nothing to verify",
            root.display()
        ));
        if arguments.json {
            tell_report(None, &Report::default(), 0, true)?;
        }
    }
    let mut sound = true;
    for id in computers {
        let marks: Vec<_> =
            signed.iter().filter(|head| head.computer == id).map(|head| (head.seq, head.hash)).collect();
        let report = check(&data.computer(id), &marks, || known.witness(id, marks.first().map(|(seq, _)| *seq)))?;
        sound &= report.faults.is_empty();
        tell_report(Some(id), &report, marks.len(), arguments.json)?;
    }
    if sound {
        return Ok(ExitCode::SUCCESS);
    }
    output::tell(format_args!(
        "choir: not everything is as it was written\n  Restore what is named from a backup that is as new as control/."
    ));
    Ok(ExitCode::FAILURE)
}

/// Whatever is here, and whatever was here when control signed its head.
fn computers(data: &DataDir, signed: &[Head]) -> anyhow::Result<BTreeSet<ComputerId>> {
    let found = match data.known_computers() {
        Err(_) if !signed.is_empty() => Vec::new(),
        found => found?,
    };
    Ok(found.into_iter().chain(signed.iter().map(|head| head.computer)).collect())
}

fn check<'known>(
    directory: &Path,
    marks: &[(Seq, Hash)],
    witness: impl Fn() -> Witness<'known>,
) -> anyhow::Result<Report> {
    let gone = |path: &Path, seq: Seq| {
        let fault = format!("{} is gone, but control signed event {seq}", path.display());
        Ok(Report { faults: vec![fault], ..Report::default() })
    };
    match marks.first() {
        Some((seq, _)) if !directory.is_dir() => return gone(directory, *seq),
        Some((seq, _)) if !choir_store::has_log(directory) => return gone(&directory.join("log.sqlite"), *seq),
        _ => {}
    }
    loop {
        let is_at_rest = !choir_store::may_be_open(directory);
        let report = read(directory, marks, witness());
        // Whoever took the log up meanwhile may have changed pages while they were read.
        if is_at_rest
            && choir_store::may_be_open(directory)
            && !matches!(&report, Ok(report) if report.faults.is_empty())
        {
            continue;
        }
        return report;
    }
}

fn read(directory: &Path, marks: &[(Seq, Hash)], mut witness: Witness<'_>) -> anyhow::Result<Report> {
    choir_store::refuse_newer(directory)?;
    let told = |seq: Seq| progress(&format!("event {seq}"));
    let contradict = |header: &Header, event: &Event| witness.contradict(header, event);
    let mut report = choir_store::verify_with(directory, marks, told, contradict)
        .with_context(|| format!("the log in {} cannot be read", directory.display()))?;
    report.faults.extend(witness.finish());
    progress_done();
    Ok(report)
}

/// What control has kept. A directory that came from elsewhere has nothing to compare with.
fn known(root: &Path, open: Open) -> anyhow::Result<Known> {
    if !root.join("control/control.sqlite").exists() {
        return Ok(Known::default());
    }
    let known = || -> Result<Known, db::Error> {
        Ok(Known {
            computers: db::computers(root, open)?,
            approvals: db::approvals(root, open)?,
            egress: db::attempts(root, open)?,
            spent: db::spends(root, open)?,
        })
    };
    known().context("what control has decided cannot be read")
}

/// Positions of logs that control has signed. A directory that came from elsewhere has none.
fn signed(root: &Path, open: Open) -> anyhow::Result<Vec<Head>> {
    if !root.join("control/control.sqlite").exists() {
        return Ok(Vec::new());
    }
    heads(root, open).context("control's signed heads cannot be trusted")
}

/// What control has signed of a computer's log; the beginning where it has signed nothing.
fn seen(signed: &[Head], id: ComputerId) -> choir_store::log::Head {
    let head = signed.iter().find(|head| head.computer == id);
    head.map(|head| choir_store::log::Head { seq: head.seq, hash: head.hash }).unwrap_or_default()
}

fn tell_report(id: Option<ComputerId>, report: &Report, signed: usize, json: bool) -> anyhow::Result<()> {
    let Report { events, blobs, erased, head, faults } = report;
    if json {
        return output::json(&serde_json::json!({
            "computer": id, "events": events, "blobs": blobs, "erased": erased, "signed_heads": signed,
            "head": head.map(|(seq, hash)| serde_json::json!({"seq": seq, "hash": hash})), "faults": faults,
        }));
    }
    let Some(id) = id else { return Ok(()) };
    let verdict = if faults.is_empty() { "sound" } else { "DAMAGED" };
    output::line(format!(
        "computer {id}: {verdict}, {events} events, {blobs} blobs, {erased} erased, {signed} signed heads"
    ))?;
    for fault in faults {
        output::line(format!("  {fault}"))?;
    }
    Ok(())
}

/// Builds the views of every computer anew.
pub(crate) async fn rebuild(arguments: &Chore) -> anyhow::Result<ExitCode> {
    let root = arguments.data.path()?;
    let data = DataDir::at(&root);
    // Held until it is done: no instance may start meanwhile. One that runs keeps its log to itself, which is said below.
    let lock = match data.lock() {
        Err(data::Error::Locked { .. }) => None,
        // Computers that came from elsewhere: nobody starts on them here.
        Err(_) if !data.control().is_dir() => None,
        lock => Some(lock?),
    };
    let signed = signed(&root, if lock.is_some() { open_untouched } else { open_reader })?;
    let computers = data.known_computers()?;
    if computers.is_empty() {
        output::tell(format_args!("choir: there is no computer in {}: nothing to rebuild", root.display()));
        if arguments.json {
            output::json(&serde_json::json!({
                "computer": null, "events": 0, "compared": false, "equal": true, "digest": null,
                "orphans": {"blobs": 0, "bytes": 0}, "trees": {"trees": 0, "contents": 0, "bytes": 0},
            }))?;
        }
    }
    for id in computers {
        progress(&format!("computer {id}: folding the log anew"));
        let rebuilt = maintain::rebuild(&data.computer(id), seen(&signed, id)).await;
        progress_done();
        let rebuilt = rebuilt.map_err(in_use)?;
        let (is_compared, is_equal) =
            (rebuilt.before.is_some(), rebuilt.before.is_none_or(|before| before == rebuilt.after));
        let Orphans { blobs, bytes } = rebuilt.collected.orphans;
        progress(&format!("computer {id}: giving room back"));
        let room = match (&lock, rebuilt.collected.named) {
            (Some(_), Some(named)) => give_back(&root, id, named).await,
            _ => Ok(Room::default()),
        };
        progress_done();
        let room = room.unwrap_or_else(|error| {
            output::tell(format_args!(
                "choir: computer {id}: the room of old trees could not be given back: {error:#}"
            ));
            Room::default()
        });
        if arguments.json {
            output::json(&serde_json::json!({
                "computer": id, "events": rebuilt.events, "compared": is_compared, "equal": is_equal, "digest": rebuilt.after,
                "orphans": {"blobs": blobs, "bytes": bytes},
                "trees": {"trees": room.trees, "contents": room.contents, "bytes": room.bytes},
            }))?;
        } else {
            let verdict = match (is_compared, is_equal) {
                (true, true) => "equal to what was kept",
                (true, false) => "what was kept was wrong and is replaced",
                (false, _) => "nothing had been kept to compare with",
            };
            output::line(format!(
                "computer {id}: {} events folded, {verdict}, digest {}",
                rebuilt.events, rebuilt.after
            ))?;
            if room != Room::default() {
                let Room { trees, contents, bytes } = room;
                let room = format!("{trees} trees and {contents} contents ({bytes} bytes)");
                output::line(format!("computer {id}: {room} that nothing names are removed"))?;
            }
            if blobs > 0 {
                output::line(format!("computer {id}: {blobs} blobs that nothing names are removed ({bytes} bytes)"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes trees, and what only they held, that neither the log nor an unfinished task names: nothing can be taken back,
/// looked at or gone on with that would need them.
async fn give_back(root: &Path, id: ComputerId, mut named: HashSet<Hash>) -> anyhow::Result<Room> {
    named.extend(task_trees(root, open_untouched)?);
    let places = Places::of(&DataDir::at(root), id, std::env::current_exe()?);
    Ok(collect(&places, &named).await?)
}

/// Erases through the running instance, or in the files when none runs.
pub(crate) async fn erase(arguments: &Erase) -> anyhow::Result<ExitCode> {
    let event = arguments.event;
    let found = match arguments.reach.url {
        Some(_) => Instance::Running(instance::connect(&arguments.reach).await?),
        None => instance::find(&arguments.reach.data).await?,
    };
    // Held until it is done: no instance may start meanwhile.
    let _lock = match found {
        Instance::Running(client) => {
            let done: Acknowledged = client.post(&format!("/api/events/{event}/erase"), &serde_json::json!({})).await?;
            return tell_erased(done.seq, arguments.json);
        }
        Instance::Absent(lock) => lock,
    };
    let root = arguments.reach.data.path()?;
    let (data, signed) = (DataDir::at(&root), signed(&root, open_untouched)?);
    for id in data.known_computers()? {
        match maintain::erase_in(&data.computer(id), seen(&signed, id), RealWorld::new(), event).await {
            Err(ChoreError::NoEvent(_)) => continue,
            erased => {
                return tell_erased(erased.map_err(in_use)?, arguments.json);
            }
        }
    }
    Err(ChoreError::NoEvent(event).into())
}

fn tell_erased(seq: Seq, json: bool) -> anyhow::Result<ExitCode> {
    match json {
        true => output::json(&serde_json::json!({ "seq": seq }))?,
        false => {
            output::line(format!("erased; the tombstone is event {seq}"))?;
            output::tell(format_args!(
                "choir: other events may repeat what it said; `choir events` and the search in the desktop show them"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn in_use(error: ChoreError) -> anyhow::Error {
    match error {
        ChoreError::Open(OpenError::InUse(_)) => anyhow::Error::new(error).context("stop the running instance first"),
        other => other.into(),
    }
}

/// Makes room for what comes after a line that rewrites itself.
fn progress_done() {
    if std::io::stderr().is_terminal() {
        output::tell_part(format_args!("\r\x1b[K"));
    }
}

/// A line that rewrites itself, for people only.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        output::tell_part(format_args!("\r\x1b[K{text}"));
    }
}

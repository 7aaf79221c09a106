//! `choir verify`, `choir rebuild` and `choir erase`: chores on the logs of a data directory.

use crate::cli::{Chore, Erase};
use crate::{instance, output};
use anyhow::Context;
use choir_computer::maintain::{self, ChoreError};
use choir_computer::world::RealWorld;
use choir_control::data::DataDir;
use choir_control::db::heads;
use choir_proto::api::Acknowledged;
use choir_proto::{ComputerId, Hash, Seq};
use choir_store::{OpenError, Report};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// Checks every computer of a data directory. Works whether or not an instance runs.
pub(crate) fn verify(arguments: &Chore) -> anyhow::Result<ExitCode> {
    let root = arguments.data.path()?;
    let data = DataDir::at(&root);
    let mut sound = true;
    for id in data.known_computers()? {
        let marks = signed(&root, id)?;
        let progress = |seq: Seq| progress(&format!("event {seq}"));
        let directory = data.computer(id);
        let report = choir_store::verify(&directory, &marks, progress)
            .with_context(|| format!("the log in {} cannot be read", directory.display()))?;
        progress_done();
        sound &= report.faults.is_empty();
        tell_report(id, &report, marks.len(), arguments.json)?;
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Positions of a log that control has signed. A directory that came from elsewhere has none.
fn signed(root: &Path, id: ComputerId) -> anyhow::Result<Vec<(Seq, Hash)>> {
    if !root.join("control/control.sqlite").exists() {
        return Ok(Vec::new());
    }
    let heads = heads(root).context("control's signed heads cannot be trusted")?;
    Ok(heads.into_iter().filter(|head| head.computer == id).map(|head| (head.seq, head.hash)).collect())
}

fn tell_report(id: ComputerId, report: &Report, signed: usize, json: bool) -> anyhow::Result<()> {
    let Report { events, blobs, erased, head, faults } = report;
    if json {
        return output::json(&serde_json::json!({
            "computer": id, "events": events, "blobs": blobs, "erased": erased, "signed_heads": signed,
            "head": head.map(|(seq, hash)| serde_json::json!({"seq": seq, "hash": hash})), "faults": faults,
        }));
    }
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
    let data = DataDir::at(&arguments.data.path()?);
    for id in data.known_computers()? {
        progress(&format!("computer {id}: folding the log anew"));
        let rebuilt = maintain::rebuild(&data.computer(id)).await;
        progress_done();
        let rebuilt = rebuilt.map_err(in_use)?;
        let equal = rebuilt.before == rebuilt.after;
        if arguments.json {
            output::json(
                &serde_json::json!({"computer": id, "events": rebuilt.events, "equal": equal, "digest": rebuilt.after}),
            )?;
        } else {
            let verdict = if equal { "equal to what was kept" } else { "what was kept was wrong and is replaced" };
            output::line(format!(
                "computer {id}: {} events folded, {verdict}, digest {}",
                rebuilt.events, rebuilt.after
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Erases through the running instance, or in the files when none runs.
pub(crate) async fn erase(arguments: &Erase) -> anyhow::Result<ExitCode> {
    let event = arguments.event;
    if arguments.reach.url.is_some() || instance::running(&arguments.reach.data).is_ok() {
        let client = instance::connect(&arguments.reach).await?;
        let done: Acknowledged = client.post(&format!("/api/events/{event}/erase"), &serde_json::json!({})).await?;
        return tell_erased(done.seq, arguments.json);
    }
    let data = DataDir::at(&arguments.reach.data.path()?);
    for id in data.known_computers()? {
        match maintain::erase_in(&data.computer(id), RealWorld::new(), event).await {
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
        false => output::line(format!("erased; the tombstone is event {seq}"))?,
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
        eprint!("\r\x1b[K");
    }
}

/// A line that rewrites itself, for people only.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

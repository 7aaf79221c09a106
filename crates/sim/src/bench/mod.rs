//! Speed. Ratios within one run are gates; times and sizes belong to a machine and an hour and are only reported.

mod agents;
mod append;
mod computer;
mod harness;
mod provider;
mod reads;
mod replay;
mod sandbox;

use crate::event;
use crate::table::Table;
use choir_proto::Seq;
use choir_store::{Expect, Log};
use std::path::Path;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand)]
pub enum Area {
    /// The log, and the computer that stands on it.
    Store {
        /// Only this part of the table.
        #[arg(long)]
        only: Option<Part>,
    },
    /// Sandboxes: starting them, commands, snapshots, terminals.
    Sandbox {
        /// Only this part of the table.
        #[arg(long)]
        only: Option<sandbox::Part>,
    },
    /// How long people wait for agents and documents.
    Agents {
        /// Only this part of the table.
        #[arg(long)]
        only: Option<agents::Part>,
    },
    /// Agents: their steps, the gateway to models, many at once, and going on after a crash.
    Harness {
        /// Only this part of the table.
        #[arg(long)]
        only: Option<harness::Part>,
    },
}

/// A part of the table of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Appending.
    Append,
    /// Folding a log from its beginning.
    Replay,
    /// Reading from logs of different lengths.
    Reads,
    /// The real binary.
    Computer,
    /// The real binary under many prompts, without the rest.
    Prompts,
}

/// Measures and prints; false when a gate was missed.
pub fn run(area: Area) -> anyhow::Result<bool> {
    let only = match area {
        Area::Store { only } => only,
        Area::Sandbox { only } => return sandbox::measure(only),
        Area::Agents { only } => return agents::measure(only),
        Area::Harness { only } => return harness::measure(only),
    };
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut table = Table::begin("bench store");
    if wanted(Part::Append) {
        append::measure(&mut table)?;
    }
    if wanted(Part::Replay) {
        replay::measure(&mut table)?;
    }
    if wanted(Part::Reads) {
        reads::measure(&mut table)?;
    }
    if wanted(Part::Computer) {
        computer::measure(&mut table)?;
    }
    if only == Some(Part::Prompts) {
        computer::measure_prompts(&mut table)?;
    }
    Ok(table.end())
}

/// Events of the short log.
const SHORT_EVENTS: u64 = 10_000;

/// Events of the long log.
const LONG_EVENTS: u64 = 1_000_000;

/// Events in one append while a log is filled.
const FILL_BATCH: u64 = 1_000;

/// Appends events of the mixture until a log has so many.
async fn fill(directory: &Path, events: u64) -> anyhow::Result<()> {
    let log = Log::open(directory)?;
    while log.head().seq < Seq(events) {
        let head = log.head().seq.0;
        let batch = (head..events.min(head + FILL_BATCH)).map(event::mixed).collect();
        log.append(batch, Expect::Any).await?;
    }
    log.close().await;
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

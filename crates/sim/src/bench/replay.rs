//! Replay: what a start after a lost view does, beside a scan that only looks at the columns.

use super::LONG_EVENTS;
use crate::scratch;
use crate::stats::median;
use crate::table::{Table, Verdict};
use anyhow::ensure;
use choir_computer::view::projections;
use choir_store::{LiveViews, Log, Views};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Instant;

/// Both sides are measured so many times in turn.
const ROUNDS: usize = 3;

/// Fast enough, whatever a bare scan reaches.
const EVENTS_PER_SECOND: f64 = 1e6;

pub(super) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let log = scratch::directory()?;
    super::runtime()?.block_on(super::fill(log.path(), LONG_EVENTS))?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(super::runtime()?.block_on(replay(log.path()))?);
        bare.push(scan(log.path())?);
    }
    let (ours, bare) = (median(&mut ours), median(&mut bare));
    let measured = format!("{:.0} % ({ours:.0} of {bare:.0} events/s)", ours / bare * 100.0);
    let verdict = Verdict::gate(ours >= EVENTS_PER_SECOND || ours >= bare / 2.0);
    table.row("replay through typed decode and fold", "≥ 1 M events/s, or ≥ 50 % of a bare SELECT", measured, verdict);
    Ok(())
}

/// Folds every view of a computer from the first event on, as `choir rebuild` does.
async fn replay(directory: &Path) -> anyhow::Result<f64> {
    let log = Log::open(directory)?;
    let events = log.head().seq.0;
    let mut views = Views::open(directory, projections())?;
    views.reset()?;
    let started = Instant::now();
    let live = LiveViews::follow(log.clone(), views).await?;
    let at = live.read(|views| Ok(views.at())).await?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(at.seq.0 == events, "the views stopped at {} of {events}", at.seq);
    // Kept for what reads them next.
    live.read(|views| views.flush()).await?;
    log.close().await;
    Ok(events as f64 / seconds)
}

fn scan(directory: &Path) -> anyhow::Result<f64> {
    let connection = Connection::open_with_flags(directory.join("log.sqlite"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let started = Instant::now();
    let mut statement = connection.prepare("SELECT * FROM events ORDER BY seq")?;
    let columns = statement.column_count();
    let (mut rows, mut events) = (statement.query([])?, 0_u64);
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            std::hint::black_box(row.get_ref(column)?);
        }
        events += 1;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

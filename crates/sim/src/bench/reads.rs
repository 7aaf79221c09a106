//! Reading must not care how long the log is.

use super::{LONG_EVENTS, Logs, SHORT_EVENTS};
use crate::event::{self, EVENTS_PER_RUN};
use crate::stats::{median, milliseconds};
use crate::table::{Table, Verdict};
use anyhow::ensure;
use choir_computer::view::{ViewReader, projections};
use choir_core::fold::run::Runs;
use choir_proto::Seq;
use choir_store::{LiveViews, Log, Query, Views};
use std::path::Path;
use std::time::Instant;

/// Reads of each kind on each log, in turn.
const ROUNDS: usize = 301;

/// Openings of each log, in turn. Each costs a few syncs.
const OPENINGS: usize = 31;

/// Events in one page.
const PAGE: usize = 100;

/// How much slower a log of a hundred times the length may be.
const RATIO_MAX: f64 = 1.5;

pub(super) fn measure(table: &mut Table, logs: &Logs) -> anyhow::Result<()> {
    let runtime = super::runtime()?;
    runtime.block_on(async {
        let short = Side::open(logs.short.path(), SHORT_EVENTS).await?;
        let long = Side::open(logs.long.path(), LONG_EVENTS).await?;
        for read in [Read::Page, Read::Tail, Read::ByRun, Read::ByKind, Read::RunView, Read::RunList] {
            let ratio = compare(read, &short, &long).await?;
            ratio.tell(table, read.name());
        }
        short.log.close().await;
        long.log.close().await;
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for _ in 0..OPENINGS {
            short.push(open(logs.short.path()).await?);
            long.push(open(logs.long.path()).await?);
        }
        Ratio::of(short, long).tell(table, "opening the log and its views");
        Ok(())
    })
}

/// What somebody waits for.
#[derive(Debug, Clone, Copy)]
enum Read {
    Page,
    Tail,
    ByRun,
    ByKind,
    RunView,
    RunList,
}

impl Read {
    const fn name(self) -> &'static str {
        match self {
            Self::Page => "a page of events after a position",
            Self::Tail => "the newest page of events",
            Self::ByRun => "the events of a run",
            Self::ByKind => "a page of events of one kind",
            Self::RunView => "the view of a run",
            Self::RunList => "the newest runs",
        }
    }
}

/// One log with everything that reads it.
struct Side {
    log: Log,
    views: ViewReader,
    events: u64,
}

impl Side {
    async fn open(directory: &Path, events: u64) -> anyhow::Result<Self> {
        let log = Log::open(directory)?;
        let views = LiveViews::follow(log.clone(), Views::open(directory, projections())?).await?;
        views.read(Views::flush).await?;
        Ok(Self { log, views: ViewReader::new(views), events })
    }

    /// Reads once, somewhere, and says how long it took.
    async fn read(&self, read: Read) -> anyhow::Result<f64> {
        let after = Seq(fastrand::u64(..self.events - 50 * PAGE as u64));
        let run = event::run_id(fastrand::u64(..self.events / EVENTS_PER_RUN));
        let page = Query { after, limit: PAGE, ..Query::default() };
        let started = Instant::now();
        let found = match read {
            Read::Page => self.log.read(page).await?.len(),
            Read::Tail => self.log.read(Query { after: Seq(self.events - PAGE as u64), ..page }).await?.len(),
            Read::ByRun => {
                self.log.read(Query { after: Seq::ZERO, run: Some(run), ..page }).await?.len() + PAGE
                    - EVENTS_PER_RUN as usize
            }
            Read::ByKind => self.log.read(Query { kind: Some("tool.finished".into()), ..page }).await?.len(),
            Read::RunView => self.views.get::<Runs>(run).await?.map_or(0, |_| PAGE),
            Read::RunList => self.views.newest::<Runs>(None, PAGE).await?.len(),
        };
        let elapsed = started.elapsed();
        ensure!(found == PAGE, "{} found only {found}", read.name());
        Ok(milliseconds(elapsed))
    }
}

async fn compare(read: Read, short: &Side, long: &Side) -> anyhow::Result<Ratio> {
    let (mut short_times, mut long_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        short_times.push(short.read(read).await?);
        long_times.push(long.read(read).await?);
    }
    Ok(Ratio::of(short_times, long_times))
}

/// What a start does before it can serve.
async fn open(directory: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let log = Log::open(directory)?;
    let views = LiveViews::follow(log.clone(), Views::open(directory, projections())?).await?;
    views.read(|views| Ok(views.at())).await?;
    let elapsed = started.elapsed();
    log.close().await;
    Ok(milliseconds(elapsed))
}

/// Middle times on the short and on the long log, in milliseconds.
struct Ratio {
    short: f64,
    long: f64,
}

impl Ratio {
    fn of(mut short: Vec<f64>, mut long: Vec<f64>) -> Self {
        Self { short: median(&mut short), long: median(&mut long) }
    }

    fn tell(&self, table: &mut Table, what: &str) {
        let ratio = self.long / self.short;
        let measured = format!("{ratio:.2} ({:.3} → {:.3} ms)", self.short, self.long);
        let must = format!("10^4 → 10^6 events: ratio ≤ {RATIO_MAX}");
        table.row(what, &must, measured, Verdict::gate(ratio <= RATIO_MAX));
    }
}

//! Reading must not care how long the log is: asked of the real binary, as whoever waits for it would ask.

use super::computer::computer_in;
use super::{LONG_EVENTS, SHORT_EVENTS};
use crate::client::Client;
use crate::event::{self, EVENTS_PER_RUN, RUNS_PER_DOCUMENT};
use crate::instance::{self, Instance};
use crate::stats::{median, milliseconds};
use crate::table::{Table, Verdict};
use crate::{process, scratch};
use anyhow::{Context, ensure};
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads of each kind on each log, in turn.
const ROUNDS: usize = 301;

/// Starts on each log, in turn.
const STARTS: usize = 7;

/// Prompts that nothing but the log knows of when everything is killed.
const PROMPTS: usize = 100;

/// Events in one page.
const PAGE: u64 = 100;

/// How much slower a log of a hundred times the length may be.
const RATIO_MAX: f64 = 1.5;

/// How long a computer is watched to see whether it has come to rest, and how often.
const REST: Duration = Duration::from_millis(500);
const RESTS_MAX: usize = 600;

pub(super) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let (short, long) = (Data::make(SHORT_EVENTS)?, Data::make(LONG_EVENTS)?);
    super::runtime()?.block_on(async {
        let (mut short, mut long) = (Side::open(&short).await?, Side::open(&long).await?);
        for read in [
            Read::Page,
            Read::Tail,
            Read::ByRun,
            Read::ByKind,
            Read::RunView,
            Read::RunList,
            Read::Search,
            Read::SearchCommon,
            Read::Document,
            Read::DocumentList,
        ] {
            let ratio = compare(read, &mut short, &mut long).await?;
            ratio.tell(table, read.name());
        }
        short.instance.stop()?;
        long.instance.stop()
    })?;
    let (mut short_times, mut long_times) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        short_times.push(short.start()?);
        long_times.push(long.start()?);
    }
    Ratio::of(short_times, long_times).tell(table, "exec to ready");
    let (mut short_times, mut long_times) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        short_times.push(short.start_after_a_kill()?);
        long_times.push(long.start_after_a_kill()?);
    }
    Ratio::of(short_times, long_times).tell(table, "exec to ready after `kill -9`");
    Ok(())
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
    Search,
    SearchCommon,
    Document,
    DocumentList,
}

impl Read {
    const fn name(self) -> &'static str {
        match self {
            Self::Page => "a page of events after a position",
            Self::Tail => "the newest page of events",
            Self::ByRun => "the events of a run",
            Self::ByKind => "a page of events of one kind",
            Self::RunView => "a run",
            Self::RunList => "the newest runs",
            Self::Search => "a search for a rare word",
            Self::SearchCommon => "a search for a word of every prompt",
            Self::Document => "a document",
            Self::DocumentList => "the newest documents",
        }
    }

    /// What to ask for, and the array that must not be empty in the answer.
    fn path(self, events: u64) -> (String, Option<&'static str>) {
        let after = fastrand::u64(..events - 50 * PAGE);
        // The first run of the mixture may lack its beginning: a new computer has events of its own.
        let number = fastrand::u64(2..events / EVENTS_PER_RUN);
        let run = event::run_id(number);
        let page = fastrand::u64(1..events / EVENTS_PER_RUN / RUNS_PER_DOCUMENT);
        match self {
            Self::Page => (format!("/api/events?after={after}&limit={PAGE}"), Some("events")),
            Self::Tail => (format!("/api/events?after={}&limit={PAGE}", events - PAGE), Some("events")),
            Self::ByRun => (format!("/api/events?run={run}&limit={PAGE}"), Some("events")),
            Self::ByKind => (format!("/api/events?after={after}&kind=tool.finished&limit={PAGE}"), Some("events")),
            Self::RunView => (format!("/api/runs/{run}"), None),
            Self::RunList => (format!("/api/runs?limit={PAGE}"), Some("runs")),
            Self::Document => (format!("/api/documents/{}", event::document_id(page * RUNS_PER_DOCUMENT)), None),
            // As many as the short log has.
            Self::DocumentList => (
                format!("/api/documents?limit={}", SHORT_EVENTS / EVENTS_PER_RUN / RUNS_PER_DOCUMENT),
                Some("documents"),
            ),
            // Every prompt of the mixture ends with its place.
            Self::Search => (format!("/api/search?q={}", number * EVENTS_PER_RUN), Some("results")),
            Self::SearchCommon => (format!("/api/search?q={}", event::COMMON_WORD), Some("results")),
        }
    }
}

/// A computer with so many events, at rest.
struct Data {
    directory: tempfile::TempDir,
    token: String,
    events: u64,
}

impl Data {
    fn make(events: u64) -> anyhow::Result<Self> {
        let directory = scratch::directory()?;
        let token = instance::token(directory.path())?;
        Instance::start(directory.path(), &token)?.stop()?;
        super::runtime()?.block_on(super::fill(&computer_in(directory.path())?, events))?;
        let instance = Instance::start(directory.path(), &token)?;
        rested(&instance)?;
        instance.stop()?;
        Ok(Self { directory, token, events })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn start(&self) -> anyhow::Result<f64> {
        let instance = Instance::start(self.path(), &self.token)?;
        let took = milliseconds(instance.ready_after());
        instance.stop()?;
        Ok(took)
    }

    fn start_after_a_kill(&self) -> anyhow::Result<f64> {
        let instance = Instance::start(self.path(), &self.token)?;
        super::runtime()?.block_on(async {
            let mut client = Client::connect(instance.address()).await?;
            for _ in 0..PROMPTS {
                client.send(Method::POST, "/api/runs", &json!({"prompt": "something to recover"})).await?;
            }
            anyhow::Ok(())
        })?;
        instance.kill()?;
        self.start()
    }
}

/// Waits until everything that is derived from the log has caught up with it.
fn rested(instance: &Instance) -> anyhow::Result<()> {
    for _ in 0..RESTS_MAX {
        let before = process::computed(&instance.processes())?;
        process::rest(REST);
        if process::computed(&instance.processes())? - before < REST / 50 {
            return Ok(());
        }
    }
    anyhow::bail!("the computer does not come to rest")
}

/// One computer at work, and somebody who asks it.
struct Side {
    instance: Instance,
    client: Client,
    events: u64,
}

impl Side {
    async fn open(data: &Data) -> anyhow::Result<Self> {
        let instance = Instance::start(data.path(), &data.token)?;
        let client = Client::connect(instance.address()).await?;
        Ok(Self { instance, client, events: data.events })
    }

    /// Reads once, somewhere, and says how long it took.
    async fn read(&mut self, read: Read) -> anyhow::Result<f64> {
        let (path, array) = read.path(self.events);
        let started = Instant::now();
        let answer = self.client.get(&path).await?;
        let elapsed = started.elapsed();
        if let Some(array) = array {
            let found = answer.get(array).and_then(Value::as_array).with_context(|| format!("{path}: no {array}"))?;
            ensure!(!found.is_empty(), "{path} found nothing");
        }
        Ok(milliseconds(elapsed))
    }
}

async fn compare(read: Read, short: &mut Side, long: &mut Side) -> anyhow::Result<Ratio> {
    let (mut short_times, mut long_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        short_times.push(short.read(read).await?);
        long_times.push(long.read(read).await?);
    }
    Ok(Ratio::of(short_times, long_times))
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

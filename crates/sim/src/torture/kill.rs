//! `kill -9` of every process of the real binary, at a random instant after it has acknowledged something, then a start on
//! the same data: what was acknowledged is there, at its place, whole.

use super::{Outcome, Plan};
use crate::client::{Address, Client};
use crate::instance::{self, Instance};
use crate::scratch;
use crate::stats::{milliseconds, quantile};
use anyhow::Context;
use choir_store::sha256;
use http::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Kills of the full and of the short form.
const KILLS: u64 = 1_000;
const KILLS_SHORT: u64 = 12;

/// Kills on one directory before a fresh one: a log that only grows would make the later checks the slower ones.
const KILLS_PER_DIRECTORY: u64 = 40;

/// Kills between two calls of `choir verify`.
const VERIFY_EVERY: u64 = 5;

/// Programs that write at once.
const WRITERS: usize = 4;

/// The kill comes within one of these numbers of microseconds after the first acknowledgement: often at once, sometimes in
/// the middle of full load.
const KILL_WITHIN_US: [u64; 3] = [2_000, 40_000, 250_000];

/// Long enough for any start; a writer that gets no answer by then never will.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(20);

pub(super) fn row(plan: Plan) -> anyhow::Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcome = Outcome { wanted: plan.cases(KILLS, KILLS_SHORT), ..Outcome::default() };
    let mut starts = Vec::new();
    let mut victim = Victim::fresh()?;
    while outcome.cases < outcome.wanted && !plan.is_over() {
        if victim.kills == KILLS_PER_DIRECTORY {
            victim.finish(&runtime, &mut outcome)?;
            victim = Victim::fresh()?;
        }
        starts.push(victim.strike(&runtime, &mut random, &mut outcome)?);
        outcome.cases += 1;
    }
    let noticed = victim.control(&runtime, &mut outcome)?;
    outcome.controls.push(("an acknowledged event taken out of the log", noticed));
    let (half, worst) = (quantile(&mut starts, 0.5), quantile(&mut starts, 1.0));
    outcome.notes = format!("restart p50 {half:.0} ms, worst {worst:.0} ms");
    Ok(outcome)
}

/// Something that was acknowledged.
#[derive(Debug, Clone)]
enum Promise {
    Run { run: String, seq: u64 },
    Version { document: String, version: u64, hash: String },
}

/// One data directory and what it has promised.
struct Victim {
    data: TempDir,
    token: String,
    kills: u64,
    promises: Vec<Promise>,
}

impl Victim {
    fn fresh() -> anyhow::Result<Self> {
        let data = scratch::directory()?;
        let token = instance::token(data.path())?;
        Ok(Self { data, token, kills: 0, promises: Vec::new() })
    }

    fn path(&self) -> &Path {
        self.data.path()
    }

    /// Starts, checks what earlier lives promised, writes, kills. Answers how long the start took, in milliseconds.
    fn strike(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        random: &mut fastrand::Rng,
        outcome: &mut Outcome,
    ) -> anyhow::Result<f64> {
        let instance =
            Instance::start(self.path(), &self.token).with_context(|| format!("after {} kills", outcome.cases))?;
        let ready = milliseconds(instance.ready_after());
        runtime.block_on(self.check(instance.address(), outcome))?;
        let made = runtime.block_on(self.write_and_kill(instance, random))?;
        outcome.acknowledged += made.len() as u64;
        self.promises.extend(made);
        self.kills += 1;
        if self.kills.is_multiple_of(VERIFY_EVERY) {
            self.verify(outcome)?;
        }
        Ok(ready)
    }

    async fn write_and_kill(&self, instance: Instance, random: &mut fastrand::Rng) -> anyhow::Result<Vec<Promise>> {
        let made = Arc::new(Mutex::new(Vec::new()));
        let first = Arc::new(Notify::new());
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let writer = Writer {
                    address: instance.address().clone(),
                    made: Arc::clone(&made),
                    first: Arc::clone(&first),
                    random: random.fork(),
                };
                // A writer ends with an error: that of its connection.
                tokio::spawn(async move { writer.write().await.err() })
            })
            .collect();
        tokio::time::timeout(FIRST_ANSWER_MAX, first.notified()).await.context("nothing was acknowledged")?;
        let within = KILL_WITHIN_US[random.usize(..KILL_WITHIN_US.len())];
        tokio::time::sleep(Duration::from_micros(random.u64(..within))).await;
        instance.kill()?;
        for writer in writers {
            writer.await?;
        }
        let made = std::mem::take(&mut *made.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        Ok(made)
    }

    /// Reads the whole log over the API and compares.
    async fn check(&self, address: &Address, outcome: &mut Outcome) -> anyhow::Result<()> {
        let events = read_all(address).await?;
        let missing = self.promises.iter().filter(|promise| !is_kept(promise, &events)).count();
        outcome.lost += missing as u64;
        outcome.faults.extend(halves(&events));
        Ok(())
    }

    fn verify(&self, outcome: &mut Outcome) -> anyhow::Result<()> {
        if let Err(said) = instance::verify(self.path())? {
            outcome.faults.push(format!("choir verify: {said}"));
        }
        Ok(())
    }

    /// The last check of a directory, after an orderly end.
    fn finish(&self, runtime: &tokio::runtime::Runtime, outcome: &mut Outcome) -> anyhow::Result<()> {
        let instance = Instance::start(self.path(), &self.token)?;
        runtime.block_on(self.check(instance.address(), outcome))?;
        instance.stop()?;
        self.verify(outcome)
    }

    /// Takes an acknowledged event out of the log by hand: the same check must miss it.
    fn control(&self, runtime: &tokio::runtime::Runtime, outcome: &mut Outcome) -> anyhow::Result<bool> {
        self.finish(runtime, outcome)?;
        let seqs = self.promises.iter().filter_map(|promise| match promise {
            Promise::Run { seq, .. } => Some(*seq),
            Promise::Version { .. } => None,
        });
        let newest = seqs.max().context("no run was acknowledged")?;
        let log = rusqlite::Connection::open(log_in(self.path())?)?;
        log.execute("DELETE FROM events WHERE seq >= ?1", [newest])?;
        drop(log);
        let mut control = Outcome::default();
        self.verify(&mut control)?;
        // A log that was cut may refuse the start, which is noticing too.
        if let Ok(instance) = Instance::start(self.path(), &self.token) {
            runtime.block_on(self.check(instance.address(), &mut control))?;
            return Ok(control.lost > 0);
        }
        Ok(!control.faults.is_empty())
    }
}

fn log_in(data: &Path) -> anyhow::Result<PathBuf> {
    let mut computers = std::fs::read_dir(data.join("computers"))?;
    Ok(computers.next().context("there is no computer")??.path().join("log.sqlite"))
}

/// A program that gives prompts and writes documents until its connection breaks.
struct Writer {
    address: Address,
    made: Arc<Mutex<Vec<Promise>>>,
    first: Arc<Notify>,
    random: fastrand::Rng,
}

impl Writer {
    async fn write(mut self) -> anyhow::Result<()> {
        let mut client = Client::connect(&self.address).await?;
        loop {
            let run = client.send(Method::POST, "/api/runs", &json!({"prompt": self.words()})).await?;
            let (id, seq) = (text(&run, "run_id")?, run["seq"].as_u64().context("no seq")?);
            self.promised(Promise::Run { run: id, seq });
            let content = self.words();
            let new = json!({"title": "kill", "content": content});
            let mut document = client.send(Method::POST, "/api/documents", &new).await?;
            self.promised(version(&document)?);
            for _ in 0..self.random.u32(..3) {
                let id = text(&document, "document_id")?;
                let edit = json!({"base_version": document["version"], "content": self.words()});
                document = client.send(Method::PUT, &format!("/api/documents/{id}"), &edit).await?;
                self.promised(version(&document)?);
            }
        }
    }

    fn promised(&self, promise: Promise) {
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(promise);
        self.first.notify_one();
    }

    fn words(&mut self) -> String {
        let length = self.random.usize(8..4_000);
        std::iter::repeat_with(|| self.random.alphanumeric()).take(length).collect()
    }
}

fn version(document: &Value) -> anyhow::Result<Promise> {
    let (document_id, content) = (text(document, "document_id")?, text(document, "content")?);
    let version = document["version"].as_u64().context("no version")?;
    Ok(Promise::Version { document: document_id, version, hash: sha256(content.as_bytes()).to_string() })
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    Ok(value[field].as_str().with_context(|| format!("no {field}"))?.to_owned())
}

async fn read_all(address: &Address) -> anyhow::Result<Vec<Value>> {
    let mut client = Client::connect(address).await?;
    let mut events = Vec::new();
    loop {
        let after = events.len();
        let mut page = client.get(&format!("/api/events?after={after}&limit=1000")).await?;
        let Value::Array(mut found) = page["events"].take() else { anyhow::bail!("no events in {page}") };
        if found.is_empty() {
            return Ok(events);
        }
        events.append(&mut found);
    }
}

fn is_kept(promise: &Promise, events: &[Value]) -> bool {
    match promise {
        Promise::Run { run, seq } => {
            let event = events.get(*seq as usize - 1).unwrap_or(&Value::Null);
            // The number that is acknowledged is that of the last event of the run's beginning.
            event["run"] == run.as_str() && event["seq"] == *seq
        }
        Promise::Version { document, version, hash } => events.iter().any(|event| {
            let payload = &event["payload"];
            event["kind"] == "document.versioned"
                && payload["document_id"] == document.as_str()
                && payload["version"] == *version
                && payload["content_hash"] == hash.as_str()
        }),
    }
}

/// Beginnings of runs and documents of which only a part is there, and places that are not counted through.
fn halves(events: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let kind = |offset: usize| {
            events.get(index + offset).map_or("nothing", |event| event["kind"].as_str().unwrap_or_default())
        };
        if event["seq"] != index as u64 + 1 {
            faults.push(format!("event {} stands at place {}", event["seq"], index + 1));
        }
        let whole = match kind(0) {
            "run.accepted" => kind(1) == "document.created" && kind(2) == "document.versioned",
            "document.created" => kind(1) == "document.versioned",
            _ => true,
        };
        if !whole {
            faults.push(format!("{} at {} is only half there", kind(0), event["seq"]));
        }
    }
    faults
}

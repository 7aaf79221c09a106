//! The real binary on a data directory, under load: what it has promised, and whether that is kept after whatever was done.

use super::Outcome;
use crate::client::{Address, Client, Stream};
use crate::instance::{self, Instance};
use crate::scratch;
use anyhow::Context;
use choir_store::sha256;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Programs that write at once.
const WRITERS: usize = 4;

/// Long enough for any start; a writer that gets no answer by then never will.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(20);

/// Something that was acknowledged.
#[derive(Debug, Clone)]
pub(super) enum Promise {
    Run { run: String, seq: u64 },
    Version { document: String, version: u64, hash: String },
}

/// One data directory and what it has promised.
pub(super) struct Victim {
    path: PathBuf,
    /// Removed with its owner, unless it is somebody else's.
    _directory: Option<TempDir>,
    token: String,
    promises: Vec<Promise>,
    followed: Followed,
}

impl Victim {
    /// A fresh directory.
    pub(super) fn fresh() -> anyhow::Result<Self> {
        let directory = scratch::directory()?;
        let victim = Self::at(directory.path())?;
        Ok(Self { _directory: Some(directory), ..victim })
    }

    /// A directory that somebody else looks after.
    pub(super) fn at(path: &Path) -> anyhow::Result<Self> {
        let (token, path) = (instance::token(path)?, path.to_owned());
        Ok(Self { path, _directory: None, token, promises: Vec::new(), followed: Followed::default() })
    }

    /// The same computer at another place.
    pub(super) fn moved_to(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    pub(super) fn start(&self) -> anyhow::Result<Instance> {
        Instance::start(&self.path, &self.token)
    }

    /// What is to be kept from now on.
    pub(super) fn promised(&mut self, made: Made, outcome: &mut Outcome) {
        outcome.acknowledged += made.promises.len() as u64;
        outcome.faults.extend(made.followed.faults.clone());
        self.promises.extend(made.promises);
        self.followed = Followed { faults: Vec::new(), ..made.followed };
    }

    /// One more thing to be kept.
    pub(super) fn keep(&mut self, promise: Promise, outcome: &mut Outcome) {
        outcome.acknowledged += 1;
        self.promises.push(promise);
    }

    /// Reads the whole log over the API and compares.
    pub(super) async fn check(&self, address: &Address, outcome: &mut Outcome) -> anyhow::Result<Vec<Value>> {
        let events = read_all(address).await?;
        let missing = self.promises.iter().filter(|promise| !is_kept(promise, &events)).count();
        outcome.lost += missing as u64 + u64::from(!self.followed.is_in(&events));
        outcome.faults.extend(halves(&events));
        Ok(events)
    }

    pub(super) fn verify(&self, outcome: &mut Outcome) -> anyhow::Result<()> {
        if let Err(said) = instance::verify(&self.path)? {
            outcome.faults.push(format!("choir verify: {said}"));
        }
        Ok(())
    }

    /// The last check of a directory, after an orderly end.
    pub(super) fn finish(&self, runtime: &tokio::runtime::Runtime, outcome: &mut Outcome) -> anyhow::Result<()> {
        let instance = self.start()?;
        runtime.block_on(self.check(instance.address(), outcome))?;
        instance.stop()?;
        self.verify(outcome)
    }

    /// Programs that write, and one that follows from where it was.
    pub(super) fn load(&self, address: &Address, random: &mut fastrand::Rng) -> Load {
        let shared = Arc::new(Shared::default());
        let writers = (0..WRITERS)
            .map(|_| {
                let writer = Writer { address: address.clone(), shared: Arc::clone(&shared), random: random.fork() };
                // A writer ends with an error: that of its connection.
                tokio::spawn(async move { writer.write().await.err() })
            })
            .collect();
        let follower = tokio::spawn(self.followed.clone().follow(address.clone()));
        Load { shared, writers, follower }
    }

    /// Where its log lies.
    pub(super) fn log(&self) -> anyhow::Result<PathBuf> {
        let mut computers = std::fs::read_dir(self.path.join("computers"))?;
        Ok(computers.next().context("there is no computer")??.path().join("log.sqlite"))
    }

    /// The place of the newest run that was promised.
    pub(super) fn newest_run(&self) -> Option<u64> {
        let runs = self.promises.iter().filter_map(|promise| match promise {
            Promise::Run { seq, .. } => Some(*seq),
            Promise::Version { .. } => None,
        });
        runs.max()
    }
}

/// A load at work. It ends with the connections.
pub(super) struct Load {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<Option<anyhow::Error>>>,
    follower: JoinHandle<Followed>,
}

/// What came of a load.
pub(super) struct Made {
    promises: Vec<Promise>,
    /// Requests that were refused, in words.
    pub(super) refused: Vec<String>,
    /// Requests that met a connection which was just being closed: they were never read, and nothing came of them.
    pub(super) unanswered: usize,
    followed: Followed,
}

impl Load {
    /// Waits for the first acknowledgement.
    pub(super) async fn begun(&self) -> anyhow::Result<()> {
        tokio::time::timeout(FIRST_ANSWER_MAX, self.shared.first.notified()).await.context("nothing was acknowledged")
    }

    /// Waits until everybody has noticed that the other side is gone.
    pub(super) async fn ended(self) -> anyhow::Result<Made> {
        let mut unanswered = 0;
        for writer in self.writers {
            let error = writer.await?;
            let broken = error.as_ref().and_then(|error| error.downcast_ref::<hyper::Error>());
            unanswered += usize::from(broken.is_some_and(hyper::Error::is_incomplete_message));
        }
        let followed = self.follower.await?;
        let promises = std::mem::take(&mut *self.shared.made());
        let refused = std::mem::take(&mut *self.shared.refused());
        Ok(Made { promises, refused, unanswered, followed })
    }
}

#[derive(Default)]
struct Shared {
    made: Mutex<Vec<Promise>>,
    refused: Mutex<Vec<String>>,
    first: Notify,
}

impl Shared {
    fn made(&self) -> MutexGuard<'_, Vec<Promise>> {
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn refused(&self) -> MutexGuard<'_, Vec<String>> {
        self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A program that gives prompts and writes documents until its connection breaks or it is refused.
struct Writer {
    address: Address,
    shared: Arc<Shared>,
    random: fastrand::Rng,
}

impl Writer {
    async fn write(mut self) -> anyhow::Result<()> {
        let mut client = Client::connect(&self.address).await?;
        loop {
            let prompt = json!({"prompt": words(&mut self.random)});
            let run = self.send(&mut client, Method::POST, "/api/runs", prompt).await?;
            self.promised(run_promise(&run)?);
            let new = json!({"title": "kill", "content": words(&mut self.random)});
            let mut document = self.send(&mut client, Method::POST, "/api/documents", new).await?;
            self.promised(version(&document)?);
            for _ in 0..self.random.u32(..3) {
                let path = format!("/api/documents/{}", text(&document, "document_id")?);
                let edit = json!({"base_version": document["version"], "content": words(&mut self.random)});
                document = self.send(&mut client, Method::PUT, &path, edit).await?;
                self.promised(version(&document)?);
            }
        }
    }

    async fn send(&self, client: &mut Client, method: Method, path: &str, body: Value) -> anyhow::Result<Value> {
        let (status, answer) = client.ask(method, path, Some(&body)).await?;
        if !status.is_success() {
            let refused = refusal(status, &answer);
            self.shared.refused().push(refused.clone());
            anyhow::bail!("{path} was refused: {refused}");
        }
        Ok(answer)
    }

    fn promised(&self, promise: Promise) {
        self.shared.made().push(promise);
        self.shared.first.notify_one();
    }
}

/// A refusal in one line.
pub(super) fn refusal(status: StatusCode, answer: &Value) -> String {
    format!("{} {}", status.as_u16(), answer["error"]["code"].as_str().unwrap_or_default())
}

fn words(random: &mut fastrand::Rng) -> String {
    let length = random.usize(8..4_000);
    std::iter::repeat_with(|| random.alphanumeric()).take(length).collect()
}

/// What the acceptance of a prompt promises.
pub(super) fn run_promise(run: &Value) -> anyhow::Result<Promise> {
    Ok(Promise::Run { run: text(run, "run_id")?, seq: run["seq"].as_u64().context("no seq")? })
}

fn version(document: &Value) -> anyhow::Result<Promise> {
    let (document_id, content) = (text(document, "document_id")?, text(document, "content")?);
    let version = document["version"].as_u64().context("no version")?;
    Ok(Promise::Version { document: document_id, version, hash: sha256(content.as_bytes()).to_string() })
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    Ok(value[field].as_str().with_context(|| format!("no {field}"))?.to_owned())
}

/// How far somebody has followed the log, over many lives of the binary.
#[derive(Debug, Clone, Default)]
struct Followed {
    seq: u64,
    hash: String,
    faults: Vec<String>,
}

impl Followed {
    /// Follows from where it was until the connection ends.
    async fn follow(mut self, address: Address) -> Self {
        let Ok(mut stream) = Stream::open(&address, self.seq).await else { return self };
        while let Ok(line) = stream.next().await {
            if let Err(error) = self.take(&line) {
                self.faults.push(format!("the stream after {}: {error:#}", self.seq));
                break;
            }
        }
        self
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let event: Value = serde_json::from_str(line)?;
        // What is said live has no place in the log.
        let Some(seq) = event["seq"].as_u64() else { return Ok(()) };
        anyhow::ensure!(seq == self.seq + 1, "event {seq} came");
        let follows = self.seq == 0 || event["prev"] == self.hash.as_str();
        anyhow::ensure!(follows, "event {seq} follows another one");
        (self.seq, self.hash) = (seq, text(&event, "hash")?);
        Ok(())
    }

    /// What was pushed is as good as acknowledged.
    fn is_in(&self, events: &[Value]) -> bool {
        self.seq == 0 || events.get(self.seq as usize - 1).is_some_and(|event| event["hash"] == self.hash.as_str())
    }
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

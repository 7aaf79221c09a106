//! A process that uses a log in every way, and control's database beside it, and says what it was told, as lines that can be checked after it is gone.

use crate::disk::ACKNOWLEDGEMENTS;
use anyhow::{Context, bail};
use choir_control::db::{Db, Scope};
use choir_control::secret::Digest;
use choir_proto::event::{Actor, ArtifactImported, NewEvent, PayloadErased, RunSteered};
use choir_proto::{ArtifactId, Event, EventId, Hash, Seq, Timestamp};
use choir_store::{AppendError, Appended, Erasure, Expect, Log, Query, sha256};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Barrier, Mutex};
use uuid::Uuid;

/// Where to write, and how much.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The directory of the log.
    #[arg(long)]
    pub directory: PathBuf,
    /// Where chance begins.
    #[arg(long)]
    pub seed: u64,
    /// Steps of each caller.
    #[arg(long)]
    pub steps: u32,
    /// Callers at once.
    #[arg(long)]
    pub callers: u32,
    /// Open the log with `synchronous=OFF`: whoever examines what is left must notice.
    #[arg(long)]
    pub sabotage: bool,
}

/// Tries before a log that refuses counts as stuck. More than any fault that is injected lasts.
const TRIES: u32 = 100;

/// Control's database, beside the log of a load.
pub(super) const CONTROL: &str = "control.sqlite";

/// A payload that becomes a blob.
const LARGE: usize = 70 * 1024;

/// What a load says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// An event is safe, at its place.
    Appended(Seq, EventId),
    /// A blob is safe.
    Kept(Hash),
    /// A payload is gone for good.
    Erased(EventId),
    /// Control knows a token by this digest.
    Granted(Hash),
    /// Something was not done, and this was said about it.
    Refused(String),
    /// The log could not be read.
    Unreadable(String),
    /// Writing never worked again.
    Stuck(String),
    /// It came to its end.
    Done,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Appended(seq, id) => write!(f, "appended {seq} {id}"),
            Self::Kept(hash) => write!(f, "kept {hash}"),
            Self::Erased(id) => write!(f, "erased {id}"),
            Self::Granted(digest) => write!(f, "granted {digest}"),
            Self::Refused(why) => write!(f, "refused {why}"),
            Self::Unreadable(why) => write!(f, "unreadable {why}"),
            Self::Stuck(why) => write!(f, "stuck {why}"),
            Self::Done => write!(f, "done"),
        }
    }
}

impl FromStr for Said {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok(match word {
            "appended" => {
                let (seq, id) = rest.split_once(' ').context("a place and an id")?;
                Self::Appended(Seq(seq.parse()?), id.parse()?)
            }
            "kept" => Self::Kept(rest.parse()?),
            "erased" => Self::Erased(rest.parse()?),
            "granted" => Self::Granted(rest.parse()?),
            "refused" => Self::Refused(rest.to_owned()),
            "unreadable" => Self::Unreadable(rest.to_owned()),
            "stuck" => Self::Stuck(rest.to_owned()),
            "done" => Self::Done,
            _ => bail!("a load said {line:?}"),
        })
    }
}

/// Writes until everything is done or somebody ends it.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.sabotage {
        choir_store::sabotage::switch_syncs_off();
    }
    let mouth = Mouth(Arc::new(Mutex::new(File::create(options.directory.join(ACKNOWLEDGEMENTS))?)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Half of the work on one opening, half on another: recovery writes too.
        for half in 0..2 {
            let Some(log) = open(&mouth, || Log::open(&options.directory))? else { return Ok(()) };
            let Some(control) = open(&mouth, || Db::open(&options.directory.join(CONTROL)))? else { return Ok(()) };
            let callers: Vec<_> = (0..options.callers)
                .map(|caller| {
                    let seed = options.seed.wrapping_mul(31).wrapping_add(u64::from(half * options.callers + caller));
                    let caller = Caller {
                        log: log.clone(),
                        control: control.clone(),
                        mouth: mouth.clone(),
                        random: fastrand::Rng::with_seed(seed),
                        erasable: Vec::new(),
                    };
                    tokio::spawn(caller.run(options.steps / 2))
                })
                .collect();
            for caller in callers {
                caller.await??;
            }
            log.close().await;
            if let Err(error) = control.settle().await {
                mouth.say(&Said::Refused(in_one_line(error)))?;
            }
        }
        mouth.say(&Said::Done)
    })
}

fn open<T, E>(mouth: &Mouth, open: impl Fn() -> Result<T, E>) -> anyhow::Result<Option<T>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut last = String::new();
    for _ in 0..TRIES {
        match open() {
            Ok(opened) => return Ok(Some(opened)),
            Err(error) => {
                last = format!("open: {}", in_one_line(error));
                mouth.say(&Said::Refused(last.clone()))?;
            }
        }
    }
    mouth.say(&Said::Stuck(last)).map(|()| None)
}

fn in_one_line(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error)).replace('\n', " ")
}

/// Says things in order, from every caller.
#[derive(Clone)]
struct Mouth(Arc<Mutex<File>>);

impl Mouth {
    fn say(&self, said: &Said) -> anyhow::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(file.write_all(format!("{said}\n").as_bytes())?)
    }
}

struct Caller {
    log: Log,
    control: Db,
    mouth: Mouth,
    random: fastrand::Rng,
    erasable: Vec<(EventId, Seq)>,
}

impl Caller {
    async fn run(mut self, steps: u32) -> anyhow::Result<()> {
        for _ in 0..steps {
            match self.random.u8(..12) {
                0..5 => self.append_unit().await?,
                5..6 => self.append_large().await?,
                6..8 => self.append_with_blob().await?,
                8..9 => self.keep_twins().await?,
                9..10 => self.erase().await?,
                _ => self.grant().await.map(drop)?,
            }
        }
        // The disk is in order again by now, so both must be, too.
        self.insist().await?;
        for _ in 0..TRIES {
            if self.grant().await? {
                return Ok(());
            }
        }
        self.mouth.say(&Said::Stuck("control's database".into()))
    }

    /// Something that control decides and keeps; whether it could.
    async fn grant(&mut self) -> anyhow::Result<bool> {
        let digest = sha256(&self.random.u128(..).to_le_bytes());
        let added = self.control.add_token(Digest::of(&digest.0), "load".into(), Scope::Read, Timestamp(0), None).await;
        let Err(error) = added else { return self.mouth.say(&Said::Granted(digest)).map(|()| true) };
        self.mouth.say(&Said::Refused(in_one_line(error)))?;
        if let Err(error) = self.control.grant(Digest::of(&digest.0), Timestamp(0)).await {
            self.mouth.say(&Said::Unreadable(in_one_line(error)))?;
        }
        Ok(false)
    }

    /// Several events that belong together.
    async fn append_unit(&mut self) -> anyhow::Result<()> {
        let (unit, length) = (self.random.u64(..), self.random.u32(1..5));
        let events = (0..length).map(|part| note(self.random.u128(..), format!("{unit} {part} {length}"))).collect();
        self.append(events).await.map(drop)
    }

    async fn append_large(&mut self) -> anyhow::Result<()> {
        let (id, unit) = (self.random.u128(..), self.random.u64(..));
        let filling: String = std::iter::repeat_with(|| self.random.alphanumeric()).take(LARGE).collect();
        self.append(vec![note(id, format!("{unit} 0 1 {filling}"))]).await.map(drop)
    }

    /// A blob, and then an event that names it.
    async fn append_with_blob(&mut self) -> anyhow::Result<()> {
        let length = self.random.usize(1..9000);
        let bytes: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(length).collect();
        match self.log.blobs().put(&bytes) {
            Ok(hash) => {
                self.mouth.say(&Said::Kept(hash))?;
                let id = self.random.u128(..);
                self.append(vec![artifact(id, hash, length as u64)]).await.map(drop)
            }
            Err(error) => self.refused(&anyhow::Error::new(error)).await,
        }
    }

    /// Two blobs at once that lie in the same shard: each must be safe, whichever of them made the shard.
    async fn keep_twins(&mut self) -> anyhow::Result<()> {
        let first = self.random.u128(..);
        let shard = sha256(&first.to_le_bytes()).0[0];
        let second =
            std::iter::repeat_with(|| self.random.u128(..)).find(|bytes| sha256(&bytes.to_le_bytes()).0[0] == shard);
        let together = Arc::new(Barrier::new(2));
        let keep = |content: u128| {
            let (log, mouth, together) = (self.log.clone(), self.mouth.clone(), Arc::clone(&together));
            tokio::task::spawn_blocking(move || {
                together.wait();
                match log.blobs().put(&content.to_le_bytes()) {
                    Ok(hash) => mouth.say(&Said::Kept(hash)),
                    Err(error) => mouth.say(&Said::Refused(format!("{:#}", anyhow::Error::new(error)))),
                }
            })
        };
        let (one, other) = (keep(first), keep(second.unwrap_or(first)));
        one.await??;
        other.await?
    }

    async fn erase(&mut self) -> anyhow::Result<()> {
        if let Some((target, seq)) = self.erasable.pop() {
            let erased = PayloadErased { event_id: target, seq, blobs: Vec::new(), document_id: None };
            let tombstone = new(self.random.u128(..), erased.into());
            return match self.log.erase(Erasure { target, tombstone, blobs: Vec::new(), unnamed_upto: Seq::ZERO }).await
            {
                Ok(_) => self.mouth.say(&Said::Erased(target)),
                Err(error) => self.refused(&error.into()).await,
            };
        }
        let (id, unit) = (self.random.u128(..), self.random.u64(..));
        if let Some(appended) = self.append(vec![note(id, format!("{unit} 0 1"))]).await? {
            self.erasable.push((EventId::new(Uuid::from_u128(id)), appended.first));
        }
        Ok(())
    }

    async fn append(&mut self, events: Vec<NewEvent>) -> anyhow::Result<Option<Appended>> {
        let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
        match self.log.append(events, Expect::Any).await {
            Ok(appended) => {
                for (id, seq) in ids.into_iter().zip(appended.first.0..) {
                    self.mouth.say(&Said::Appended(Seq(seq), id))?;
                }
                Ok(Some(appended))
            }
            Err(error) => self.refused(&error.into()).await.map(|()| None),
        }
    }

    /// Says why, and whether what is there can still be read.
    async fn refused(&self, error: &anyhow::Error) -> anyhow::Result<()> {
        self.mouth.say(&Said::Refused(format!("{error:#}").replace('\n', " ")))?;
        let newest = Seq(self.log.head().seq.0.saturating_sub(10));
        if let Err(error) = self.log.read(Query { after: newest, limit: 10, ..Query::default() }).await {
            let why = format!("{:#}", anyhow::Error::new(error)).replace('\n', " ");
            self.mouth.say(&Said::Unreadable(why))?;
        }
        Ok(())
    }

    async fn insist(&mut self) -> anyhow::Result<()> {
        let event = note(self.random.u128(..), format!("{} 0 1", self.random.u64(..)));
        let mut last = None;
        for _ in 0..TRIES {
            match self.log.append(vec![event.clone()], Expect::Any).await {
                Ok(appended) => return self.mouth.say(&Said::Appended(appended.last, event.id)),
                Err(error @ AppendError::Closed) => return self.mouth.say(&Said::Stuck(error.to_string())),
                Err(error) => last = Some(error),
            }
        }
        self.mouth.say(&Said::Stuck(last.map(|error| error.to_string()).unwrap_or_default()))
    }
}

fn note(id: u128, text: String) -> NewEvent {
    new(id, RunSteered { text }.into())
}

fn artifact(id: u128, content_hash: Hash, size: u64) -> NewEvent {
    let artifact_id = ArtifactId::new(Uuid::from_u128(id));
    let (media_type, origin) = ("application/octet-stream".into(), "load".into());
    new(
        id,
        ArtifactImported { artifact_id, content_hash, size, media_type, origin, text: None, unreadable: None }.into(),
    )
}

fn new(id: u128, event: Event) -> NewEvent {
    let id = EventId::new(Uuid::from_u128(id));
    NewEvent { id, at: Timestamp(0), actor: Actor::Computer, run: None, task: None, cause: None, event }
}

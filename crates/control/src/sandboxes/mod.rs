//! The life of sandboxes: one associate for each task, one for the session's terminals, and the keeper.
//!
//! Control starts them and passes bytes along. It never opens a file of a workspace itself: what it knows of one, a
//! guest has said.

mod associate;
mod collect;
mod conflict;
mod edit;
mod error;
pub(crate) mod files;
mod origin;
mod router;
mod session;
pub(crate) mod trees;
mod workspace;

pub use collect::{Room, collect};
pub(crate) use edit::Edges;
pub use error::Error;
pub use files::parse_path;
pub use router::service;
pub use session::{Terminal, Viewer};

use crate::clock::Clock;
use crate::computer::KEPT_APART;
use crate::data::{self, DataDir};
use crate::db::{Approval, Db};
use crate::egress::{self, Broker, Decision, Outside, Proxy};
use crate::gateway::Gateway;
use crate::identity;
use crate::inbox;
use crate::toolchains::{Homes, Toolchains};
use associate::Associate;
use choir_proto::egress::{WEB, impossible, is_entry};
use choir_proto::inbox::{AskKind, Waits};
use choir_proto::task::Egress;
use choir_proto::{ComputerId, InboxId, RunId, TaskId, TerminalId};
use choir_sandbox::guest::GuestRole;
use choir_sandbox::record::{OpenError, Record};
use choir_sandbox::runtime::{CallError, Guest, Identity, Overlay, Runtime, Spec, Workspace};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// How often the record of effects is tried again while another instance ends.
const RECORD_TRIES_MAX: u32 = 40;
/// And how long between.
const RECORD_PAUSE: Duration = Duration::from_millis(50);

/// In the store: where the layer of a task is tried.
const PROBE: &str = "probe";

/// Where the last group of digits of an id begins.
const SOCKET_NAME_FROM: usize = 24;

/// A handle; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandboxes(Arc<Parts>);

/// Where the parts of a computer lie that sandboxes see.
#[derive(Debug, Clone)]
pub struct Places {
    /// This binary, which is the guest's program too.
    pub guest_program: PathBuf,
    /// The live workspace.
    pub workspace: PathBuf,
    /// The keeper's snapshots and the tasks' layers.
    pub store: PathBuf,
    /// What commands say and nobody has taken yet.
    pub outputs: PathBuf,
    /// Sockets of the ways out.
    pub egress: PathBuf,
    /// What has to lie around toolchains of the person.
    pub toolchains: PathBuf,
    /// Which effects started and how they ended; out of every sandbox's reach.
    pub effects: PathBuf,
}

impl Places {
    /// Those of a computer of a data directory.
    pub fn of(data: &DataDir, id: ComputerId, guest_program: PathBuf) -> Self {
        let [workspace, store, outputs] = KEPT_APART.map(|part| data.computer(id).join(part));
        let (egress, effects) = (data.control().join("egress"), data.control().join("effects").join(id.to_string()));
        let toolchains = data.control().join("toolchains");
        Self { guest_program, workspace, store, outputs, egress, toolchains, effects }
    }
}

#[derive(Debug)]
struct Parts {
    places: Places,
    runtime: Runtime,
    /// Whom this computer's sandboxes are to the machine.
    identity: Identity,
    record: Record,
    db: Db,
    gateway: Gateway,
    broker: Broker,
    clock: Clock,
    decisions: mpsc::Sender<Decision>,
    /// Also held while one is started, so that two calls for one task make one sandbox.
    associates: Mutex<HashMap<TaskId, Arc<Associate>>>,
    keeper: Mutex<Option<Guest>>,
    /// In a large workspace, one task at a time.
    large: Arc<Semaphore>,
    turns: StdMutex<HashMap<TaskId, OwnedSemaphorePermit>>,
    /// Mirrors of documents that tasks are bringing in: path, content, and whose it is.
    arriving: StdMutex<Vec<(String, choir_proto::Hash, TaskId)>>,
    /// One merge at a time: each looks at what the one before left.
    merging: Mutex<()>,
    session: Mutex<Option<Guest>>,
    /// The way out of the session's associate; held while that is started, so that there is one of each.
    session_egress: Mutex<Option<Proxy>>,
    terminals: StdMutex<HashMap<TerminalId, Arc<Terminal>>>,
    /// How often somebody began to look whether the session's associate may go.
    rests: watch::Sender<u64>,
    health: watch::Sender<Health>,
    /// What tasks wanted to reach and may not, each until its result is known.
    refused: StdMutex<HashMap<TaskId, BTreeSet<String>>>,
}

/// How sandboxes are, for `/health`. Those of tasks need more of a machine than the others, so that one of these which works
/// says nothing of those.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Those on the live workspace: keeper and terminals.
    pub live: Tried,
    /// Those of tasks, on a layer over a snapshot.
    pub tasks: Tried,
}

impl Health {
    fn note(&mut self, on: &Workspace, tried: Tried) {
        match on {
            Workspace::Directory { .. } => self.live = tried,
            Workspace::Overlay(_) => self.tasks = tried,
        }
    }
}

/// How sandboxes of one kind are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tried {
    /// Nobody has tried yet.
    #[default]
    Untried,
    /// The last one started, behind these walls.
    Working(String),
    /// The last one was refused.
    Refused(String),
}

impl Sandboxes {
    /// Makes the directories that are missing. No sandbox is started yet.
    pub async fn open(
        places: Places,
        db: Db,
        (gateway, broker): (Gateway, Broker),
        clock: Clock,
        decisions: mpsc::Sender<Decision>,
    ) -> Result<Self, Error> {
        for directory in [&places.workspace, &places.store, &places.outputs, &places.effects, &places.egress] {
            data::make_private(directory).map_err(|source| Error::Directory { path: directory.clone(), source })?;
        }
        let record = open_record(&places.effects).await?;
        let identity = identity::of_sandboxes(&places.workspace);
        for directory in [&places.workspace, &places.store] {
            identity::give(directory, identity, &[])
                .map_err(|source| Error::Directory { path: directory.clone(), source })?;
        }
        Ok(Self(Arc::new(Parts {
            places,
            runtime: Runtime::process()?,
            identity,
            record,
            db,
            gateway,
            broker,
            clock,
            decisions,
            associates: Mutex::default(),
            keeper: Mutex::default(),
            large: Arc::new(Semaphore::new(1)),
            turns: StdMutex::default(),
            arriving: StdMutex::default(),
            merging: Mutex::default(),
            session: Mutex::default(),
            session_egress: Mutex::default(),
            terminals: StdMutex::default(),
            rests: watch::channel(0).0,
            health: watch::channel(Health::default()).0,
            refused: StdMutex::default(),
        })))
    }

    /// How sandboxes are.
    pub fn health(&self) -> Health {
        self.0.health.borrow().clone()
    }

    /// Starts a keeper, and what a task runs in, and lets both go again, so that people learn what is missing before they
    /// need it.
    pub async fn probe(&self) {
        for tried in [self.probe_keeper().await, self.probe_task().await] {
            if let Err(error) = tried {
                tracing::warn!(error = &error as &dyn std::error::Error, "no sandbox can be started");
            }
        }
    }

    /// The place of the keeper is held meanwhile: two of them in one store would get in each other's way.
    async fn probe_keeper(&self) -> Result<(), Error> {
        let slot = self.0.keeper.lock().await;
        if slot.is_none() {
            self.start(self.keeper_spec()).await?.shutdown().await;
        }
        Ok(())
    }

    /// Over nothing, but where the layers of tasks are.
    async fn probe_task(&self) -> Result<(), Error> {
        let place = self.0.places.store.join(PROBE);
        let failed = |source| Error::Directory { path: place.clone(), source };
        Overlay::clear_nothing(&place).map_err(failed)?;
        let overlay = Overlay::over_nothing(&place).map_err(failed)?;
        identity::give(&place, self.0.identity, &[]).map_err(failed)?;
        let mut spec = self.associate_spec(&self.0.places.workspace);
        spec.workspace = Workspace::Overlay(overlay);
        let started = self.start(spec).await;
        if let Ok(guest) = &started {
            guest.shutdown().await;
        }
        Overlay::clear_nothing(&place).map_err(failed)?;
        started.map(drop)
    }

    /// The keeper, started if it does not run.
    pub async fn keeper(&self) -> Result<Guest, Error> {
        self.running(&self.0.keeper, || self.keeper_spec()).await
    }

    /// Has the keeper do what may be done twice. One that was killed is noticed by nobody until it is asked, so whoever asks
    /// first is not told of it: a new one is asked once more.
    pub(crate) async fn by_keeper<T, F>(&self, act: impl Fn(Guest) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match act(self.keeper().await?).await {
            Err(Error::Call(CallError::Lost)) => act(self.keeper().await?).await,
            ended => ended,
        }
    }

    /// Ends every sandbox.
    pub async fn stop(&self) {
        let associates: Vec<Arc<Associate>> = self.0.associates.lock().await.drain().map(|(_, found)| found).collect();
        let shared = [self.0.keeper.lock().await.take(), self.0.session.lock().await.take()];
        let guests = associates.iter().map(|associate| associate.guest.clone()).chain(shared.into_iter().flatten());
        futures_util::future::join_all(guests.map(|guest| async move { guest.shutdown().await })).await;
    }

    /// The guest in a slot; a new one if there is none or it has ended.
    async fn running(&self, slot: &Mutex<Option<Guest>>, spec: impl FnOnce() -> Spec) -> Result<Guest, Error> {
        let mut slot = slot.lock().await;
        match slot.as_ref() {
            Some(guest) if guest.is_alive() => return Ok(guest.clone()),
            // Two of them in one place would get in each other's way.
            Some(dying) => drop(dying.terminate().await),
            None => {}
        }
        let guest = self.start(spec()).await?;
        *slot = Some(guest.clone());
        Ok(guest)
    }

    async fn start(&self, spec: Spec) -> Result<Guest, Error> {
        let workspace = &self.0.places.workspace;
        // Whoever works there may have forbidden it to themselves, and then nothing could be started to take that back.
        data::open_to_owner(workspace).map_err(|source| Error::Directory { path: workspace.clone(), source })?;
        let on = spec.workspace.clone();
        let started = self.0.runtime.start(spec).await;
        let tried = match &started {
            Ok(guest) => Tried::Working(walls(guest)),
            Err(error) => Tried::Refused(error::chain(error)),
        };
        self.0.health.send_modify(|health| health.note(&on, tried));
        Ok(started?)
    }

    fn keeper_spec(&self) -> Spec {
        let places = &self.0.places;
        let mut spec = Spec::new(GuestRole::Keeper, &places.guest_program, &places.workspace);
        spec.store = Some(places.store.clone());
        spec.identity = self.0.identity;
        spec
    }

    fn associate_spec(&self, workspace: &Path) -> Spec {
        let mut spec = Spec::new(GuestRole::Associate, &self.0.places.guest_program, workspace);
        spec.identity = self.0.identity;
        spec.record = Some(self.0.record.clone());
        spec.spool_directory = Some(self.0.places.outputs.clone());
        let toolchains = Toolchains::find(&Homes::of_environment());
        if let Err(error) = toolchains.show(&self.0.places.toolchains, &mut spec) {
            tracing::warn!(error = &error as &dyn std::error::Error, "toolchains of this machine cannot be shown");
        }
        spec
    }
}

impl Sandboxes {
    /// Opens a sandbox's way out: its wish within what the person allows. Nothing allowed is no way out at all. What nobody
    /// has decided about yet is answered instead; what nobody could ever allow is an error, and no sandbox starts.
    async fn open_egress(
        &self,
        task: Option<TaskId>,
        run: Option<RunId>,
        wish: Option<&Egress>,
        above_ceiling: AboveCeiling,
    ) -> Result<Result<Option<Proxy>, Vec<Waits>>, Error> {
        if let Some(why) = impossible(wish) {
            return Err(Error::Egress(why));
        }
        let said = self.0.db.entries(task, run).await?;
        let approved: Vec<_> = said.iter().filter(|(_, allowed)| *allowed).map(|(entry, _)| entry.clone()).collect();
        let (gateway, asked) = (self.0.gateway.clone(), wish.cloned());
        let clamped = move || {
            let ceiling = egress::Ceiling::new(gateway.settings().egress.ceiling, approved.iter().cloned());
            egress::clamp(asked.as_ref(), &ceiling)
        };
        let (policy, above) = clamped();
        let mut waits = Vec::new();
        for host in &above {
            if above_ceiling == AboveCeiling::Ask && !said.iter().any(|(entry, _)| entry == host) {
                waits.extend(self.ask_for(task, run, host).await?);
            }
        }
        if !waits.is_empty() {
            return Ok(Err(waits));
        }
        for entry in above {
            let outcome = Err("it is above what the person allows".to_owned());
            task.iter().for_each(|task| self.note_refused(*task, [entry.clone()]));
            let (host, port) = egress::parts(&entry);
            // Nobody keeps decisions any more: control is stopping.
            self.0.decisions.send(Decision { task, host, port, outcome }).await.ok();
        }
        if policy.is_empty() {
            return Ok(Ok(None));
        }
        // The random end of the id alone: a socket's path must be short.
        let name = task.map_or_else(|| "session".to_owned(), |task| task.to_string().split_off(SOCKET_NAME_FROM));
        let path = self.0.places.egress.join(name);
        let outside = Outside { outbound: self.0.gateway.outbound(), broker: self.0.broker.clone() };
        let allowed = Box::new(move || clamped().0);
        let opened = egress::open(path.clone(), task, allowed, outside, self.0.decisions.clone())
            .and_then(|proxy| identity::admit(proxy.path(), self.0.identity).map(|()| proxy));
        opened.map(|proxy| Ok(Some(proxy))).map_err(|source| Error::Directory { path, source })
    }
}

impl Sandboxes {
    /// Remembers what a task may not reach, for its result.
    fn note_refused(&self, task: TaskId, entries: impl IntoIterator<Item = String>) {
        self.refused().entry(task).or_default().extend(entries);
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, BTreeSet<String>>> {
        // What is lost by a panic in between is a sentence of a summary.
        self.0.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Sandboxes {
    /// What the person has said about hosts that counts for a task: each with whether it may be reached.
    pub(crate) async fn said(&self, task: Option<TaskId>, run: Option<RunId>) -> Result<Vec<(String, bool)>, Error> {
        Ok(self.0.db.entries(task, run).await?)
    }

    /// Asks the person about what lies above the ceiling; the question, while it waits. What no ceiling could hold is not
    /// worth one.
    pub(crate) async fn ask_for(
        &self,
        task: Option<TaskId>,
        run: Option<RunId>,
        entry: &str,
    ) -> Result<Option<Waits>, Error> {
        if !is_entry(entry) {
            return Ok(None);
        }
        let id = InboxId::from(crate::secret::random_bytes());
        let (hash, asked) = (egress::hash_of(task, entry), self.0.clock.now());
        let question = match entry {
            WEB => READ_WEB.to_owned(),
            host => format!("May a task reach {}?", host.escape_debug()),
        };
        let (kind, entry) = (AskKind::Egress, entry.to_owned());
        let approval =
            Approval { id, kind, run, task, entry, question, hash, answers: Vec::new(), asked, decided: None };
        let kept = self.0.db.ask(approval).await?;
        Ok(kept.filter(|kept| kept.decided.is_none()).map(inbox::waits))
    }
}

/// What is asked before a run reads what a search has found.
const READ_WEB: &str =
    "May this run read public web pages? Only those that a search finds: any other address is asked about.";

/// What becomes of a wish that lies above the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AboveCeiling {
    /// The person is asked.
    Ask,
    /// It is refused: nobody would wait for an answer.
    Refuse,
}

/// Shows a sandbox its way out.
fn lead_out(spec: &mut Spec, proxy: Option<&Proxy>) {
    spec.egress = proxy.map(|proxy| proxy.path().to_owned());
    spec.environment.extend(proxy.into_iter().flat_map(|proxy| proxy.environment().clone()));
}

/// Opens the record of effects. An instance that has just ended may still hold it for a moment.
async fn open_record(directory: &Path) -> Result<Record, Error> {
    let mut tries = RECORD_TRIES_MAX;
    loop {
        match Record::open(directory) {
            Err(OpenError::InUse(_)) if tries > 0 => tries -= 1,
            other => return Ok(other?),
        }
        tokio::time::sleep(RECORD_PAUSE).await;
    }
}

/// Who holds a guest to its limits, and the walls that were seen around it.
fn walls(guest: &Guest) -> String {
    let walls = guest.layers().active().map(|layer| layer.to_string()).collect::<Vec<_>>().join(", ");
    format!("held by {}; {walls}", guest.backend())
}

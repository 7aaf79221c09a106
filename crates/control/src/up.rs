//! `choir up`: the parts, put together, run and taken apart in order.

use crate::clock::Clock;
use crate::computer::{Launcher, State, Supervised, supervise};
use crate::config::Config;
use crate::data::{self, DataDir, Lock};
use crate::db::{self, Db, Head};
use crate::egress::Decision;
use crate::gateway::{self, Gateway};
use crate::http::{self, App, Front, Limits, Names, Parts};
use crate::sandboxes::{self, Places, Sandboxes};
use crate::seal::Seal;
use crate::secret::Secret;
use crate::stop::{Stopper, stop};
use crate::token;
use axum::Router;
use choir_proto::event::{Actor, EgressAllowed, EgressDenied, Event};
use choir_proto::{ComputerId, wire};
use ed25519_dalek::SigningKey;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How often a computer may die before it has ever run.
const STARTS_MAX: u32 = 3;
/// Decisions about connections that may wait to be kept; more make the connections wait.
const DECISIONS_MAX: usize = 256;
/// How often a moving head is signed at most.
const SIGN: Duration = Duration::from_secs(1);

/// What `choir up` is told.
pub struct Options {
    /// Where everything is kept.
    pub data: PathBuf,
    /// `HOST:PORT`.
    pub listen: String,
    /// As read.
    pub config: Config,
    /// Where relative paths of the configuration begin.
    pub config_directory: PathBuf,
    /// The program that serves as guest in sandboxes: this binary.
    pub guest_program: PathBuf,
    /// How a computer in a directory is started.
    pub launcher: Box<dyn FnOnce(PathBuf) -> Launcher + Send>,
    /// The computer's part of the API description.
    pub computer_api: utoipa::openapi::OpenApi,
    /// The wall clock.
    pub clock: Clock,
}

/// Why control cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] data::Error),
    /// The database.
    #[error(transparent)]
    Db(#[from] db::Error),
    /// The gateway.
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    /// Sandboxes.
    #[error(transparent)]
    Sandboxes(#[from] sandboxes::Error),
    /// The computer.
    #[error("the computer does not start: {0}")]
    Computer(String),
    /// The address.
    #[error("cannot listen on {listen}")]
    Listen {
        /// What was asked for.
        listen: String,
        /// Why not.
        source: io::Error,
    },
    /// A file in the data directory.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<token::Error> for Error {
    fn from(error: token::Error) -> Self {
        match error {
            token::Error::Data(error) => Self::Data(error),
            token::Error::Db(error) => Self::Db(error),
        }
    }
}

/// A running control. Dropping it does not stop it in order; [`Control::stop`] does.
pub struct Control {
    /// Where it listens.
    pub address: SocketAddr,
    /// The first sign-in; it works once.
    pub sign_in: Secret,
    /// How the computer is.
    pub computer: watch::Receiver<State>,
    stop_front: Stopper,
    stop_computer: Stopper,
    front: JoinHandle<()>,
    done: JoinHandle<()>,
    signing: JoinHandle<()>,
    sandboxes: Sandboxes,
    data: DataDir,
    _lock: Lock,
}

/// Starts everything and returns when requests can be served.
pub async fn start(options: Options) -> Result<Control, Error> {
    let data = DataDir::open(&options.data)?;
    let lock = data.lock()?;
    let db = Db::open(&data.database())?;
    let listener = listen(&options.listen).await?;
    let address = listener.local_addr().map_err(|source| Error::Listen { listen: options.listen.clone(), source })?;
    let id = local_computer(&data, &db, &options.clock).await?;
    let directory = data.computer(id);
    data::make_private(&directory).map_err(|source| Error::Write { path: directory.clone(), source })?;

    let gateway = Gateway::open(options.config, &options.config_directory, db.clone(), Seal::open(&data)?).await?;
    let key = db::signing_key(&data)?;
    let known = db.head(id).await?.map(|head| wire::Head { seq: head.seq, hash: head.hash });
    let (stop_computer, computer_stops) = stop();
    let (decisions, decided) = mpsc::channel(DECISIONS_MAX);
    let places = places(&data, id, options.guest_program);
    let sandboxes = Sandboxes::open(places, db.clone(), gateway.clone(), decisions).await?;
    let service = inside(gateway.clone(), sandboxes.clone());
    let Supervised { link, hub, state, head, done } =
        supervise((options.launcher)(directory), service, known, computer_stops);
    tokio::spawn(tell_models(gateway.watch_models(), state.clone(), link.clone()));
    tokio::spawn(keep_decisions(decided, db.clone(), link.clone(), options.clock.clone()));
    let signing = tokio::spawn(sign_heads(db.clone(), key, id, head));

    let (stop_front, front_stops) = stop();
    let host = options.listen.rsplit_once(':').map_or(options.listen.as_str(), |(host, _)| host);
    let sign_in = token::sign_in(&db, &options.clock).await?;
    let app = App::new(Parts {
        db,
        clock: options.clock,
        limits: Limits::default(),
        names: Arc::new(Names::new(host)),
        link,
        hub,
        computer: state.clone(),
        gateway,
        sandboxes: sandboxes.clone(),
        stop: front_stops.clone(),
        computer_api: options.computer_api,
        revoked: watch::channel(()).0,
    });
    let front = tokio::spawn(http::serve(Front { listener, router: http::router(app), stop: front_stops }));
    let probe = sandboxes.clone();
    tokio::spawn(async move { probe.probe().await });
    write_address(&data, address)?;
    Ok(Control {
        address,
        sign_in,
        computer: state,
        stop_front,
        stop_computer,
        front,
        done,
        signing,
        sandboxes,
        data,
        _lock: lock,
    })
}

impl Control {
    /// Waits until the computer answers. One that cannot even start is not restarted for ever in the background: whoever
    /// starts it is told.
    pub async fn settled(&mut self) -> Result<(), Error> {
        let settled = |state: &State| match state {
            State::Starting => false,
            State::Restarting { restarts, .. } => *restarts >= STARTS_MAX,
            State::Running { .. } | State::Contradicted { .. } | State::Stopped => true,
        };
        match self.computer.wait_for(settled).await.as_deref() {
            Ok(State::Restarting { reason, .. }) => Err(Error::Computer(reason.clone())),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The address that signs a person in.
    pub fn sign_in_url(&self) -> String {
        format!("http://{}/?token={}", browsable(self.address), self.sign_in.expose())
    }

    /// Stops in order: first no new requests, then the computer, then the last signature.
    pub async fn stop(self) {
        let parts = [(self.stop_front, self.front), (self.stop_computer, self.done)];
        for (stop, task) in parts {
            stop.say();
            if let Err(error) = task.await {
                tracing::error!(%error, "a part failed while it was stopped");
            }
        }
        self.sandboxes.stop().await;
        if let Err(error) = self.signing.await {
            tracing::error!(%error, "the last head could not be signed");
        }
        if let Err(error) = std::fs::remove_file(self.data.address()) {
            tracing::warn!(%error, "the address file could not be removed");
        }
    }
}

/// What a computer may ask, on its own socket.
fn inside(gateway: Gateway, sandboxes: Sandboxes) -> Router {
    let unknown = async || http::Refused::not_found();
    gateway::service(gateway).merge(sandboxes::service(sandboxes)).fallback(unknown)
}

fn places(data: &DataDir, id: ComputerId, guest_program: PathBuf) -> Places {
    let computer = data.computer(id);
    Places {
        guest_program,
        workspace: computer.join("workspace"),
        store: computer.join("snapshots"),
        outputs: computer.join("outputs"),
        egress: data.control().join("egress"),
        effects: data.control().join("effects").join(id.to_string()),
    }
}

/// The address as a browser can open it.
fn browsable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

async fn listen(listen: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(listen).await.map_err(|source| Error::Listen { listen: listen.to_owned(), source })
}

/// The one local computer: the one that is known, else one whose directory is there, else a new one.
async fn local_computer(data: &DataDir, db: &Db, clock: &Clock) -> Result<ComputerId, Error> {
    let found = data.known_computers()?.into_iter().min();
    let fresh = || ComputerId::new(uuid::Builder::from_random_bytes(crate::secret::random_bytes()).into_uuid());
    Ok(db.local_computer(found.unwrap_or_else(fresh), clock.now()).await?)
}

/// For the command line on the same machine.
fn write_address(data: &DataDir, address: SocketAddr) -> Result<(), Error> {
    let path = data.address();
    let url = format!("http://{}\n", browsable(address));
    data::write_private(&path, url.as_bytes()).map_err(|source| Error::Write { path, source })
}

/// Tells the computer whether there is a model: when that changes and whenever it has started.
async fn tell_models(
    mut models: watch::Receiver<wire::Models>,
    mut state: watch::Receiver<State>,
    link: crate::computer::Link,
) {
    loop {
        if matches!(*state.borrow_and_update(), State::Running { .. }) {
            let message = models.borrow_and_update().clone();
            if let Err(error) = link.post("/internal/models", &message).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "the computer was not told about models");
            }
        }
        tokio::select! {
            changed = models.changed() => if changed.is_err() { return },
            changed = state.changed() => if changed.is_err() { return },
        }
    }
}

/// Keeps what was decided about connections: here first, then as a copy in the computer's log.
async fn keep_decisions(mut decided: mpsc::Receiver<Decision>, db: Db, link: crate::computer::Link, clock: Clock) {
    while let Some(Decision { task, host, port, outcome }) = decided.recv().await {
        if let Err(error) = db.add_egress(task, host.clone(), port, outcome.clone(), clock.now()).await {
            tracing::error!(error = &error as &dyn std::error::Error, "a decision about a connection was not kept");
        }
        let event = match outcome {
            Ok(rule) => Event::from(EgressAllowed { host, port, rule }),
            Err(reason) => Event::from(EgressDenied { host, port, reason }),
        };
        let (kind, version, payload) = (event.kind().to_owned(), event.version(), event.payload());
        let record = wire::Record { actor: Actor::Control, run: None, task, kind, version, payload };
        if let Err(error) = link.post("/internal/record", &record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the log was not told about a connection");
        }
    }
}

/// Signs how far control has seen the log, at most once in a while and once at the end.
async fn sign_heads(db: Db, key: SigningKey, computer: ComputerId, mut head: watch::Receiver<Option<wire::Head>>) {
    loop {
        let more = head.changed().await.is_ok();
        let seen = *head.borrow_and_update();
        if let Some(wire::Head { seq, hash }) = seen
            && let Err(error) = db.sign_head(Head { computer, seq, hash }, &key).await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "the head of the log could not be signed");
        }
        if !more {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(SIGN) => {}
            // The sender is gone: the end is signed without waiting.
            () = closed(&mut head) => {}
        }
    }
}

/// Ends when the sender of a channel is gone; the newest value stays to be read.
async fn closed(head: &mut watch::Receiver<Option<wire::Head>>) {
    head.wait_for(|_| false).await.map(drop).unwrap_or(());
}

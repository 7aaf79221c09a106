//! `choir up`: the parts, put together, run and taken apart in order.

mod duties;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::computer::{Launcher, State, Supervised, supervise};
use crate::config::{Config, Models};
use crate::data::{self, DataDir, Lock};
use crate::db::{self, Db};
use crate::descriptors;
use crate::door;
use crate::egress::{self, Broker, Decision, Fetcher, Pages, fetch_service};
use crate::gateway::{self, Gateway};
use crate::http::{self, App, CookieName, Front, Limits, Names, Parts};
use crate::inbox::{self, Inbox};
use crate::mcp::{self, Servers};
use crate::sandboxes::{self, Places, Sandboxes};
use crate::seal::Seal;
use crate::secret::Secret;
use crate::stop::{Stopper, stop};
use crate::token;
use axum::Router;
use choir_proto::{ComputerId, wire};
use ed25519_dalek::SigningKey;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How often a computer may die before it has ever run.
const STARTS_MAX: u32 = 3;
/// How often a lock that is held is tried again: children end within a second of their control.
const LOCK_TRIES_MAX: u32 = 20;
/// And how long between.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Connections that may wait to be accepted.
const KNOCKS_MAX: u32 = 1024;
/// Decisions about connections that may wait to be kept; more make the connections wait.
const DECISIONS_MAX: usize = 256;

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
    pub computer_api: fn() -> utoipa::openapi::OpenApi,
    /// The wall clock.
    pub clock: Clock,
    /// How much accounts and strangers may ask for.
    pub limits: Limits,
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
    /// Signed heads.
    #[error(transparent)]
    Heads(#[from] db::HeadsError),
    /// The gateway.
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    /// A model that cannot be.
    #[error("`{key}` is `{model}`, but there is no such provider")]
    Model {
        /// In the configuration.
        key: String,
        /// What it says.
        model: String,
    },
    /// A server that offers tools.
    #[error(transparent)]
    Mcp(#[from] mcp::TokenError),
    /// A credential of the broker is none.
    #[error(transparent)]
    Broker(#[from] egress::TokenError),
    /// Sandboxes.
    #[error(transparent)]
    Sandboxes(#[from] sandboxes::Error),
    /// The computer.
    #[error("the computer does not start: {0}")]
    Computer(String),
    /// The computer, which has told people itself.
    #[error("the computer refuses to start")]
    Refused,
    /// The computer's log is not the one that control has signed.
    #[error("the computer's log contradicts what control has signed: {0}")]
    Contradicted(String),
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
    /// What is stopped, in this order, and what ends then.
    stops: [(Stopper, JoinHandle<()>); 2],
    signing: JoinHandle<()>,
    sandboxes: Sandboxes,
    db: Db,
    data: DataDir,
    _lock: Lock,
}

/// What stands before anything runs.
struct Ground {
    data: DataDir,
    lock: Lock,
    db: Db,
    listener: TcpListener,
    address: SocketAddr,
    door: Option<UnixListener>,
    connections_max: usize,
    computer: ComputerId,
    /// The last position of its log that was signed.
    signed: Option<wire::Head>,
    keys: Keys,
}

/// What control signs and seals with.
struct Keys {
    signing: SigningKey,
    seal: Seal,
}

/// Decisions about connections, on their way to be kept.
type Decided = mpsc::Receiver<Decision>;

/// Starts everything and returns when requests can be served.
pub async fn start(options: Options) -> Result<Control, Error> {
    let Ground { data, lock, db, listener, address, door, connections_max, computer, signed, keys } =
        prepare(&options).await?;
    let directory = data.computer(computer);
    let engines = options.config.search.engines.clone();
    let servers = options.config.mcp.clone();
    let broker = Broker::new(&options.config.broker)?;
    let models = options.config.models.clone();
    let gateway = Gateway::open(options.config, &options.config_directory, db.clone(), keys.seal).await?;
    check_models(&models, |model| gateway.names_provider(model))?;
    let (decisions, decided) = mpsc::channel(DECISIONS_MAX);
    let places = Places::of(&data, computer, options.guest_program);
    let reach = (gateway.clone(), broker);
    let sandboxes = Sandboxes::open(places, db.clone(), reach, options.clock.clone(), decisions.clone()).await?;
    let pages = Pages::open(db.clone()).await?;
    let fetcher = Fetcher::new(gateway.clone(), sandboxes.clone(), engines, pages.clone(), decisions.clone());
    let servers = Servers::new(servers, sandboxes.clone(), db.clone(), gateway.clone(), decisions)?;

    let (stop_computer, computer_stops) = stop();
    let inbox = Inbox::new(db.clone(), gateway.clone(), sandboxes.clone(), options.clock.clone());
    let service = inside(gateway.clone(), sandboxes.clone(), inbox.clone(), fetcher).merge(mcp::service(servers));
    let Supervised { link, hub, state, head, plug, done } =
        supervise((options.launcher)(directory), service, signed, computer_stops);
    tokio::spawn(duties::tell_models(gateway.watch_models(), state.clone(), link.clone()));
    tokio::spawn(duties::keep_decisions(decided, db.clone(), link.clone(), options.clock.clone()));
    let signing = tokio::spawn(duties::sign_heads(db.clone(), keys.signing, computer, head));

    let (stop_front, front_stops) = stop();
    let host = options.listen.rsplit_once(':').map_or(options.listen.as_str(), |(host, _)| host);
    let sign_in = token::sign_in(&db, &options.clock).await?;
    let audit = Audit::default();
    let keeping = audit.clone().keep(db.clone(), link.clone(), options.clock.clone(), front_stops.clone());
    let keeping = tokio::spawn(keeping);
    let app = App::new(Parts {
        db: db.clone(),
        clock: options.clock,
        limits: options.limits,
        names: Names::new(host),
        cookie: CookieName::of(computer),
        audit: audit.clone(),
        link,
        hub,
        computer: state.clone(),
        plug,
        gateway,
        inbox,
        pages,
        sandboxes: sandboxes.clone(),
        stop: front_stops.clone(),
        computer_api: options.computer_api,
        revoked: watch::channel(()).0,
    });
    let front = Front { listener, door, router: http::router(app), connections_max, stop: front_stops };
    let front = tokio::spawn(async move {
        http::serve(front).await;
        if let Err(error) = keeping.await {
            tracing::error!(%error, "the last refused requests were not kept");
        }
    });
    write_address(&data, address)?;
    // Only when nothing can be refused any more: nobody would wait for a sandbox of a start that failed.
    let probe = sandboxes.clone();
    tokio::spawn(async move { probe.probe().await });
    let stops = [(stop_front, front), (stop_computer, done)];
    Ok(Control { address, sign_in, computer: state, stops, signing, sandboxes, db, data, _lock: lock })
}

/// Takes the data directory and the address; everything that can be refused at once is refused here.
async fn prepare(options: &Options) -> Result<Ground, Error> {
    let data = DataDir::open(&options.data)?;
    let lock = lock(&data).await?;
    let db = Db::open(&data.database())?;
    let keys = keys(&data, &db).await?;
    let failed = |source| Error::Listen { listen: options.listen.clone(), source };
    let listener = listen(&options.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let computer = local_computer(&data, &db, &options.clock).await?;
    let signed = db.head(computer, &keys.signing).await?.map(|head| wire::Head { seq: head.seq, hash: head.hash });
    let directory = data.computer(computer);
    match signed {
        Some(head) if !directory.is_dir() => {
            let (seq, directory) = (head.seq, directory.display());
            return Err(Error::Contradicted(format!("{directory} is gone, but event {seq} was signed")));
        }
        _ => data::make_private(&directory).map_err(|source| Error::Write { path: directory, source })?,
    }
    let door = door::open(&data).map_err(|source| Error::Write { path: data.control(), source })?;
    let connections_max = descriptors::connections(descriptors::raise());
    Ok(Ground { data, lock, db, listener, address, door, connections_max, computer, signed, keys })
}

/// Listens on the first of the addresses behind a name that lets it, as the library does; but for more knocks at once than
/// its 128: whoever knocks on a full queue is not refused but waits for a second.
async fn listen(name: &str) -> io::Result<TcpListener> {
    let mut refused = None;
    for address in tokio::net::lookup_host(name).await? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(KNOCKS_MAX)
}

/// What a start would refuse of a configuration whose relative paths begin at `base`. Nothing is made, changed or asked. `stored`
/// are the providers that the desktop added.
pub fn examine(config: &Config, base: &Path, stored: &[db::Stored]) -> Result<(), Error> {
    Broker::new(&config.broker)?;
    gateway::examine(config, base)?;
    mcp::examine(&config.mcp)?;
    let is_known = |name: &str| config.providers.contains_key(name) || stored.iter().any(|stored| stored.name == name);
    check_models(&config.models, |model| gateway::provider_of(model).is_some_and(is_known))
}

/// A model of the configuration that nobody offers would make every prompt wait for ever.
fn check_models(models: &Models, names_provider: impl Fn(&str) -> bool) -> Result<(), Error> {
    let roles = models.roles.iter().map(|(role, model)| (format!("models.roles.{}", role.name()), model));
    let all = roles.chain([("models.default".to_owned(), &models.default)]);
    let wrong = all.into_iter().find(|(_, model)| !model.is_empty() && !names_provider(model));
    wrong.map_or(Ok(()), |(key, model)| Err(Error::Model { key, model: model.clone() }))
}

async fn keys(data: &DataDir, db: &Db) -> Result<Keys, Error> {
    let signing = db::signing_key(data, db.has_heads().await?.then_some(db::SIGNED))?;
    let seal = Seal::open(data, db.has_sealed_keys().await?.then_some("sealed keys"))?;
    Ok(Keys { signing, seal })
}

/// An instance that was killed may hold the lock until the last of its children is gone.
async fn lock(data: &DataDir) -> Result<Lock, data::Error> {
    let mut tries = LOCK_TRIES_MAX;
    loop {
        match data.lock() {
            Err(data::Error::Locked { .. }) if tries > 0 => tries -= 1,
            other => return other,
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

impl Control {
    /// Waits until the computer answers. One that cannot even start is not restarted for ever in the background: whoever
    /// starts it is told.
    pub async fn settled(&mut self) -> Result<(), Error> {
        let settled = |state: &State| match state {
            State::Starting => false,
            State::Restarting { restarts, hopeless, .. } => *hopeless || *restarts >= STARTS_MAX,
            State::Running { .. } | State::Contradicted { .. } | State::Stopped => true,
        };
        match self.computer.wait_for(settled).await.as_deref() {
            Ok(State::Restarting { hopeless: true, .. }) => Err(Error::Refused),
            Ok(State::Restarting { reason, .. }) => Err(Error::Computer(reason.clone())),
            Ok(State::Contradicted { reason, .. }) => Err(Error::Contradicted(reason.clone())),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The address that signs a person in.
    pub fn sign_in_url(&self) -> String {
        format!("http://{}/?token={}", browsable(self.address), self.sign_in.expose())
    }

    /// Stops in order: first no new requests, then the computer, then the last signature.
    pub async fn stop(self) {
        for (stop, task) in self.stops {
            stop.say();
            if let Err(error) = task.await {
                tracing::error!(%error, "a part failed while it was stopped");
            }
        }
        self.sandboxes.stop().await;
        if let Err(error) = self.signing.await {
            tracing::error!(%error, "the last head could not be signed");
        }
        if let Err(error) = self.db.settle().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "control's database was not settled");
        }
        if let Err(error) = door::close(&self.data) {
            tracing::warn!(%error, "the owner's door could not be taken away");
        }
        if let Err(error) = std::fs::remove_file(self.data.address()) {
            tracing::warn!(%error, "the address file could not be removed");
        }
    }
}

/// What a computer may ask, on its own socket.
fn inside(gateway: Gateway, sandboxes: Sandboxes, inbox: Inbox, fetcher: Fetcher) -> Router {
    let unknown = async || http::Refused::not_found();
    let services = gateway::service(gateway).merge(sandboxes::service(sandboxes)).merge(inbox::service(inbox));
    services.merge(fetch_service(fetcher)).fallback(unknown)
}

/// The address as a browser can open it.
fn browsable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
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

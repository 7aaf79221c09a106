//! The whole life of a computer's process: open the log, start the tree, answer until told to stop.

use crate::actor::{Application, Places, Tree};
use crate::api::{self, App};
use crate::control::{Control, ControlClient, ControlError};
use crate::document::Documents;
use crate::harness::Harness;
use crate::journal::{Journal, Scope};
use crate::search::Finder;
use crate::undo::Undoer;
use crate::view::{ViewReader, projections};
use crate::world::{RealWorld, World};
use choir_proto::event::{Actor, ComputerCreated, ComputerStarted, ComputerStopped};
use choir_proto::{ComputerId, Seq, wire};
use choir_store::log::Head;
use choir_store::{AppendError, LiveViews, Log, OpenError, Query, StoreError, Views};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{broadcast, oneshot, watch};

/// Pieces of answers kept for a listener that is a little behind.
const LIVE_QUEUED_MAX: usize = 1024;

/// Why a computer could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its files could not be opened.
    #[error("the computer's files could not be opened")]
    Open(#[from] OpenError),
    /// Its log could not be read.
    #[error("the computer's log could not be read")]
    Read(#[from] StoreError),
    /// Its log could not be written.
    #[error("the computer's log could not be written")]
    Append(#[from] AppendError),
    /// Control is not there.
    #[error("control is not there")]
    Control(#[from] ControlError),
    /// The actors could not be started.
    #[error("the actors could not be started: {0}")]
    Actors(#[from] ractor::SpawnErr),
    /// A part that nobody can do without failed, or the session did again and again.
    #[error("the actors gave up; what failed is in the log above")]
    Escalated,
    /// The connection to control broke.
    #[error("the connection to control broke")]
    Connection(#[from] hyper::Error),
}

/// Runs the computer in a directory. `api` is answered, `control` is asked; it ends when told to or when control is gone.
/// A log that does not hold the head that control has signed is refused before anything is appended to it. `lacks` names the
/// walls that are missing around the process, so that its health says so.
pub async fn serve(
    directory: &Path,
    id: ComputerId,
    signed: Option<wire::Head>,
    (api, control): (UnixStream, UnixStream),
    lacks: Vec<String>,
) -> Result<(), ServeError> {
    let log = match signed {
        Some(wire::Head { seq, hash }) => Log::open_seen(directory, Head { seq, hash })?,
        None => Log::open(directory)?,
    };
    let control = Arc::new(ControlClient::connect(control).await?);
    let mut computer = Computer::start(log, directory, id, control, RealWorld::new(), Places::default()).await?;
    computer.app.lacks = lacks.into();
    let escalated = computer.escalated();
    let mut stopping = computer.stopping.subscribe();
    let service = TowerToHyperService::new(api::router(computer.app.clone()));
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server.initial_connection_window_size(CONNECTION_WINDOW);
    let connection = server.serve_connection(TokioIo::new(api), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            computer.close("stopped").await?;
            Ok(ended?)
        }
        () = escalated => Err(ServeError::Escalated),
        _ = stopping.wait_for(|stopping| *stopping) => close_served(computer, connection).await,
    }
}

/// Ends in order while control is still answered: it has to see the last event, and leaves when it has.
async fn close_served(
    computer: Computer,
    connection: impl Future<Output = Result<(), hyper::Error>>,
) -> Result<(), ServeError> {
    let (closed, has_closed) = oneshot::channel::<()>();
    let closing = async {
        let ended = computer.close("stopped").await;
        drop(closed);
        ended
    };
    let serving = async {
        let patience = async {
            // Nothing is ever sent: the other end is dropped.
            has_closed.await.ok();
            tokio::time::sleep(LEAVING).await;
        };
        tokio::select! {
            // However it ends, everything is on disk.
            ended = connection => drop(ended),
            () = patience => tracing::warn!("control did not leave in time"),
        }
        Ok(())
    };
    tokio::try_join!(closing, serving).map(drop)
}

/// How long control may take to see the last event and to leave. Shorter than it waits before it kills.
const LEAVING: Duration = Duration::from_secs(5);

/// Half of it is what may wait unread in small pieces before HTTP/2 breaks the connection off: what many people type at once while
/// the disk has a bad moment.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A computer whose log is open and whose actors run.
pub struct Computer {
    /// What handlers can reach.
    pub app: App,
    stopping: watch::Sender<bool>,
    application: ractor::ActorRef<()>,
    ended: Option<tokio::task::JoinHandle<()>>,
    mirrors: Mirrors,
}

/// Mirrors are kept as long as the computer is.
struct Mirrors(tokio::task::AbortHandle);

impl Drop for Mirrors {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Computer {
    /// Opens the log and starts the tree.
    pub async fn open(
        directory: &Path,
        id: ComputerId,
        control: Arc<dyn Control>,
        world: Arc<dyn World>,
    ) -> Result<Self, ServeError> {
        Self::open_with(directory, id, control, world, Places::default()).await
    }

    /// The same, with as many places for work as somebody says.
    pub async fn open_with(
        directory: &Path,
        id: ComputerId,
        control: Arc<dyn Control>,
        world: Arc<dyn World>,
        places: Places,
    ) -> Result<Self, ServeError> {
        Self::start(Log::open(directory)?, directory, id, control, world, places).await
    }

    /// Starts the tree on a log that is open.
    async fn start(
        log: Log,
        directory: &Path,
        id: ComputerId,
        control: Arc<dyn Control>,
        world: Arc<dyn World>,
        places: Places,
    ) -> Result<Self, ServeError> {
        let views = Views::open(directory, projections())?;
        let journal = Journal::new(log.clone(), world);
        record_start(&journal, id).await?;
        let live_views = LiveViews::follow(log.clone(), views).await?;
        let views = ViewReader::new(live_views.clone());
        let (models, models_changed) = watch::channel(0);
        let (live, _) = broadcast::channel(LIVE_QUEUED_MAX);
        let documents = Documents::new(journal.clone(), views.clone());
        let finder = Finder::open(log, directory)?;
        let harness = Harness { journal, views, control, documents, finder, live, models: models_changed };
        let tree = Tree::default();
        let started = Application::start(harness.clone(), live_views, tree.clone(), places).await?;
        let (stopping, _) = watch::channel(false);
        let undoer = Undoer::new(harness.clone());
        undoer.pick_up();
        let mirrors = Mirrors(tokio::spawn(crate::mirror::keep(harness.clone(), directory.to_owned())).abort_handle());
        let session = started.session;
        let app = App { harness, undoer, tree, session, models, stopping: stopping.clone(), lacks: Arc::default() };
        Ok(Self { app, stopping, application: started.actor, ended: Some(started.ended), mirrors })
    }

    /// Resolves when the tree has given up. To be asked once.
    fn escalated(&mut self) -> impl Future<Output = ()> + use<> {
        let ended = self.ended.take();
        async move {
            match ended {
                // A panic in the root comes to the same.
                Some(ended) => ended.await.unwrap_or_default(),
                None => std::future::pending().await,
            }
        }
    }

    /// Ends in order: agents stop where they are, and the log says that nothing was lost.
    pub async fn close(self, reason: &str) -> Result<(), ServeError> {
        self.mirrors.0.abort();
        self.application.stop_and_wait(None, None).await.ok();
        let journal = &self.app.harness.journal;
        journal.close(&Scope::of(Actor::Computer), ComputerStopped { reason: reason.into() }.into()).await?;
        journal.log().clone().close().await;
        // They write down how far they came: the next start folds nothing.
        self.app.harness.views.ended().await;
        Ok(())
    }
}

async fn record_start(journal: &Journal, id: ComputerId) -> Result<(), ServeError> {
    let log = journal.log();
    let head = log.head().seq;
    let choir_version = crate::VERSION.to_owned();
    let scope = Scope::of(Actor::Computer);
    if head == Seq::ZERO {
        let created = ComputerCreated { computer_id: id, choir_version: choir_version.clone() };
        journal.append(&scope, vec![created.into(), ComputerStarted { choir_version, clean: true }.into()]).await?;
        return Ok(());
    }
    let last = log.read(Query { after: Seq(head.0 - 1), limit: 1, ..Query::default() }).await?;
    let clean = last.first().is_some_and(|event| event.header.kind == "computer.stopped");
    Ok(journal.open(&scope, ComputerStarted { choir_version, clean }.into()).await?)
}

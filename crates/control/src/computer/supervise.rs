//! Keeping a computer alive: start it, serve it, follow it, and when it dies start it again after a bounded wait.

use super::hub::Hub;
use super::launch::{Launched, Launcher, REFUSED};
use super::link::{self, Link, Pulse};
use super::subscription::{self, Broken};
use crate::stop::Stop;
use axum::Router;
use axum::body::Body;
use choir_proto::api::Acknowledged;
use choir_proto::wire::Head;
use choir_sandbox::confine;
use choir_sandbox::runtime::Layer;
use http::Method;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::error::Error as _;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

/// The first wait before a restart; it doubles.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// A computer that lived this long is healthy: the next wait is short again.
const HEALTHY: Duration = Duration::from_secs(60);
/// How long a computer may take to stop in order before it is killed.
const STOP: Duration = Duration::from_secs(10);
/// Requests of one computer that control serves at once.
const STREAMS_MAX: u32 = 1024;

/// How the computer is, for `/health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has not answered yet.
    Starting,
    /// It answers.
    Running {
        /// How often it died since control started.
        restarts: u32,
        /// Walls that should be around it and are not.
        lacks: Vec<Layer>,
    },
    /// It died and is started again.
    Restarting {
        /// How often it died.
        restarts: u32,
        /// What of.
        reason: String,
        /// Whether it said that no further try will help.
        hopeless: bool,
    },
    /// It runs, but its log contradicts what control has seen.
    Contradicted {
        /// How often it died.
        restarts: u32,
        /// How.
        reason: String,
    },
    /// It was stopped in order.
    Stopped,
}

impl State {
    /// How often it died since control started, as far as that is told.
    pub fn restarts(&self) -> u32 {
        match self {
            Self::Running { restarts, .. }
            | Self::Restarting { restarts, .. }
            | Self::Contradicted { restarts, .. } => *restarts,
            Self::Starting | Self::Stopped => 0,
        }
    }
}

/// Handles to a supervised computer.
#[derive(Debug)]
pub struct Supervised {
    /// To ask it.
    pub link: Link,
    /// To read its log.
    pub hub: Arc<Hub>,
    /// How it is.
    pub state: watch::Receiver<State>,
    /// How far control has seen its log.
    pub head: watch::Receiver<Option<Head>>,
    /// To kill it.
    pub plug: Plug,
    /// Ends when `stop` was said and the computer has ended.
    pub done: JoinHandle<()>,
}

/// Where a computer's life hangs. Whoever pulls it sees that nothing is lost: the process is killed as it stands, and started
/// again.
#[derive(Debug, Clone, Default)]
pub struct Plug(Arc<Notify>);

impl Plug {
    /// Kills the computer's process. One that is not there now is killed when it is.
    pub fn pull(&self) {
        self.0.notify_one();
    }
}

/// Starts a computer and keeps it alive until it hears `stop`. `service` answers what it asks.
pub fn supervise(launcher: Launcher, service: Router, known: Option<Head>, stop: Stop) -> Supervised {
    let (connection, link) = Link::new();
    let (state, state_seen) = watch::channel(State::Starting);
    let (head, head_seen) = watch::channel(known);
    let hub = Arc::new(Hub::default());
    let plug = Plug::default();
    let keeper = Keeper {
        launcher,
        service,
        connection,
        link: link.clone(),
        hub: hub.clone(),
        state,
        head,
        plug: plug.clone(),
        stop,
        restarts: 0,
    };
    Supervised { link, hub, state: state_seen, head: head_seen, plug, done: tokio::spawn(keeper.run()) }
}

struct Keeper {
    launcher: Launcher,
    service: Router,
    connection: watch::Sender<Option<SendRequest<Body>>>,
    link: Link,
    hub: Arc<Hub>,
    state: watch::Sender<State>,
    head: watch::Sender<Option<Head>>,
    plug: Plug,
    stop: Stop,
    restarts: u32,
}

impl Keeper {
    async fn run(mut self) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let started = Instant::now();
            let (reason, hopeless) = match self.live().await {
                Life::Stopped => break,
                Life::Died(reason) => (reason, false),
                Life::Refused(reason) => (reason, true),
            };
            self.connection.send_replace(None);
            self.restarts += 1;
            if !hopeless {
                tracing::error!(restarts = self.restarts, %reason, "the computer died");
            }
            self.state.send_replace(State::Restarting { restarts: self.restarts, reason, hopeless });
            if started.elapsed() >= HEALTHY {
                backoff = BACKOFF_MIN;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                () = self.stop.said() => break,
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        self.connection.send_replace(None);
        self.state.send_replace(State::Stopped);
    }

    /// One life of the process, from start to death or to an orderly stop.
    async fn live(&mut self) -> Life {
        let Launched { api, service, mut child } = match (self.launcher)(*self.head.borrow()) {
            Ok(launched) => launched,
            Err(error) => return Life::Died(format!("it could not be started: {error}")),
        };
        let _serving = AbortOnDrop(tokio::spawn(serve(service, self.service.clone())).abort_handle());
        let hang_up = match HangUp::on(&api) {
            Ok(hang_up) => hang_up,
            Err(error) => return Life::Died(format!("its socket cannot be held: {error}")),
        };
        // Only a process can hang while control goes on.
        let pulse = child.is_some().then(Pulse::default);
        let (sender, connection) = match link::connect(api, pulse).await {
            Ok(connected) => connected,
            Err(error) => return Life::Died(format!("it did not greet: {error}")),
        };
        let mut connection = tokio::spawn(connection);
        let _connected = AbortOnDrop(connection.abort_handle());
        self.connection.send_replace(Some(sender));
        let mut stop = self.stop.clone();
        let following = self.follow(child.as_ref().and_then(Child::id));
        tokio::pin!(following);
        tokio::select! {
            reason = following.as_mut() => self.died(child, reason).await,
            ended = &mut connection => {
                let reason = match ended {
                    Ok(Err(error)) => format!("its socket broke: {}", error.source().unwrap_or(&error)),
                    _ => "it closed its socket".to_owned(),
                };
                self.died(child, reason).await
            }
            () = self.plug.0.notified() => {
                if let Some(Err(error)) = child.as_mut().map(Child::start_kill) {
                    tracing::warn!(%error, "the computer could not be killed");
                }
                self.died(child, "its plug was pulled".into()).await
            }
            () = stop.said() => {
                let deadline = Instant::now() + STOP;
                // Followed to the end, so that the signed head covers the last events too.
                let seen = tokio::select! {
                    seen = tokio::time::timeout_at(deadline, self.see_the_end()) => seen.unwrap_or(false),
                    never = go_on(following) => match never {},
                };
                tracing::debug!(seen, "the computer was told to stop");
                self.connection.send_replace(None);
                hang_up.now();
                end(child, deadline).await;
                Life::Stopped
            }
        }
    }

    /// Follows the log. Returns only when the computer cannot be followed any more.
    async fn follow(&self, pid: Option<u32>) -> String {
        let broken = tokio::select! {
            broken = subscription::follow(&self.link, &self.hub, &self.head) => broken,
            never = self.mark_running(pid) => match never {},
        };
        match broken {
            Broken::Link(_) | Broken::Ended => broken.to_string(),
            // A computer that contradicts itself is not restarted into agreement: people must see it.
            contradiction => {
                let reason = contradiction.to_string();
                tracing::error!(%reason, "the computer's log contradicts what control has seen");
                self.state.send_replace(State::Contradicted { restarts: self.restarts, reason });
                std::future::pending().await
            }
        }
    }

    /// The hub rings when the subscription stands; from then on the computer runs.
    async fn mark_running(&self, pid: Option<u32>) -> Infallible {
        let mut bell = self.hub.listen();
        // On a restart the hub has begun already, and the first answer is the sign of life.
        if self.hub.head().is_some() {
            let health = self.link.get::<serde_json::Value>("/internal/health").await;
            tracing::debug!(alive = health.is_ok(), "the computer was asked for its health");
        }
        while self.hub.head().is_none() && bell.changed().await.is_ok() {}
        let lacks = pid.map(confine::missing).unwrap_or_default();
        if !lacks.is_empty() {
            tracing::warn!(?lacks, "the computer runs without all its walls");
        }
        self.state.send_replace(State::Running { restarts: self.restarts, lacks });
        std::future::pending().await
    }

    async fn died(&self, child: Option<Child>, reason: String) -> Life {
        self.connection.send_replace(None);
        let Some(mut child) = child else { return Life::Died(reason) };
        // It has lost its socket, so it ends by itself; a process that does not is killed.
        match tokio::time::timeout(STOP, child.wait()).await {
            Ok(Ok(status)) if status.code() == Some(REFUSED.into()) => Life::Refused(format!("{reason}; {status}")),
            Ok(Ok(status)) => Life::Died(format!("{reason}; {status}")),
            Ok(Err(error)) => Life::Died(format!("{reason}; {error}")),
            Err(_) => {
                let killed = child.kill().await;
                Life::Died(format!("{reason}; it did not end and was killed ({killed:?})"))
            }
        }
    }

    /// Tells the computer to stop; it answers with its last event when everything is on disk. Whether that one was seen.
    async fn see_the_end(&self) -> bool {
        let mut bell = self.hub.listen();
        let request = link::request(Method::POST, "/internal/shutdown", Body::empty());
        let Ok(Acknowledged { seq }) = self.link.answer(request).await else { return false };
        // A log that contradicts itself is not followed any more.
        let is_followed = !matches!(*self.state.borrow(), State::Contradicted { .. });
        while is_followed && self.hub.head() < Some(seq) && bell.changed().await.is_ok() {}
        self.hub.head() >= Some(seq)
    }
}

/// Lets something go on beside something else, which alone says when both are over.
async fn go_on(beside: impl Future<Output = String>) -> Infallible {
    let ended = beside.await;
    tracing::debug!(%ended, "the computer's log has been followed to its end");
    std::future::pending().await
}

/// Waits for the end of a computer that was told to stop, and kills one that takes too long.
async fn end(child: Option<Child>, deadline: Instant) {
    let Some(mut child) = child else { return };
    match tokio::time::timeout_at(deadline, child.wait()).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(ended) => tracing::warn!(?ended, "the computer did not stop in order"),
        Err(_) => {
            tracing::warn!("the computer did not stop in time and is killed");
            if let Err(error) = child.kill().await {
                tracing::warn!(%error, "the computer could not be killed");
            }
        }
    }
}

enum Life {
    Stopped,
    Died(String),
    Refused(String),
}

/// Serves what the computer asks, on the socket that only it holds.
async fn serve(stream: UnixStream, service: Router) {
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "the computer's service socket ended");
    }
}

/// Ends a connection whatever is under way on it: HTTP/2 itself would wait for every request, also for one that never ends.
struct HangUp(OwnedFd);

impl HangUp {
    fn on(stream: &UnixStream) -> std::io::Result<Self> {
        stream.as_fd().try_clone_to_owned().map(Self)
    }

    fn now(&self) {
        // A computer that is gone already has hung up itself.
        if let Err(error) = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both) {
            tracing::debug!(%error, "the computer had hung up");
        }
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

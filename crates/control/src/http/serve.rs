//! Accepting connections: bounded in number, in size of their heads, and in time; ended in order.

use super::error::Refused;
use super::line::Line;
use crate::door;
use crate::stop::Stop;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

/// Connections of the owner at once; they take no room away from others, and others none from them.
const OWNER_CONNECTIONS_MAX: usize = 64;
/// Connections that are told at once that there is no room; more are just closed.
const REFUSALS_MAX: usize = 32;
/// How long such a one may take to say what it wants and to hear that there is no room.
const REFUSAL: Duration = Duration::from_secs(2);
/// How long the head of a request may take: a slow drip holds nothing.
const HEAD: Duration = Duration::from_secs(15);
/// Longest head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers in one request.
const HEADERS_MAX: usize = 64;
/// How long connections may take to end.
const DRAIN: Duration = Duration::from_secs(5);
/// After running out of descriptors, wait for some to be given back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The two ends of a connection, from the socket itself.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Who.
    pub remote: IpAddr,
    /// Which of our addresses they reached.
    pub local: IpAddr,
    /// By which way.
    pub way: Way,
}

/// The ways in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The network: whoever comes has to prove who they are.
    Network,
    /// The owner's door, which proves it: see [`crate::door`].
    Door,
}

impl Peer {
    const OWNER: Self =
        Self { remote: IpAddr::V4(Ipv4Addr::LOCALHOST), local: IpAddr::V4(Ipv4Addr::LOCALHOST), way: Way::Door };
}

/// What the front needs.
#[derive(Debug)]
pub struct Front {
    /// Bound and listening.
    pub listener: TcpListener,
    /// The owner's door, where the file system holds one.
    pub door: Option<UnixListener>,
    /// See [`super::router`].
    pub router: Router,
    /// Connections from the network at once.
    pub connections_max: usize,
    /// Heard when connections should end.
    pub stop: Stop,
}

/// Serves until told to stop, then lets what is under way finish.
pub async fn serve(front: Front) {
    let Front { listener, door, router, connections_max, mut stop } = front;
    let room = Room::new(connections_max);
    let mut connections = JoinSet::new();
    let (mut listening, mut waiting) = (Accepting::default(), Accepting::default());
    loop {
        tokio::select! {
            accepted = listening.next(async || listener.accept().await) => {
                if let Some((stream, remote)) = accepted {
                    room.seat(&mut connections, stream, remote.ip(), &router, &stop);
                }
            }
            accepted = waiting.next(async || door::knocked(door.as_ref()).await) => {
                if let Some(((stream, _), permit)) = accepted.zip(room.owner.clone().try_acquire_owned().ok()) {
                    connections.spawn(held(permit, connection(stream, Peer::OWNER, router.clone(), stop.clone())));
                }
            }
            Some(_) = connections.join_next() => {}
            () = stop.said() => break,
        }
    }
    drop((listener, door));
    if tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!(left = connections.len(), "connections did not end in time and are cut");
    }
}

/// When to accept again. Kept outside of what is waited for, so that nothing that happens meanwhile cuts a pause short.
#[derive(Default)]
struct Accepting {
    paused: Option<Instant>,
}

impl Accepting {
    async fn next<T>(&mut self, accept: impl AsyncFnOnce() -> io::Result<T>) -> Option<T> {
        if let Some(until) = self.paused {
            tokio::time::sleep_until(until).await;
            self.paused = None;
        }
        match accept().await {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                self.paused = Some(Instant::now() + ACCEPT_PAUSE);
                None
            }
        }
    }
}

/// How many connections there may be.
struct Room {
    network: Arc<Semaphore>,
    refused: Arc<Semaphore>,
    owner: Arc<Semaphore>,
}

impl Room {
    fn new(connections_max: usize) -> Self {
        let seats = |count| Arc::new(Semaphore::new(count));
        // Those that are refused hold descriptors too.
        let refused = REFUSALS_MAX.min(connections_max / 8);
        Self { network: seats(connections_max - refused), refused: seats(refused), owner: seats(OWNER_CONNECTIONS_MAX) }
    }

    /// Serves a connection, or tells it at once that there is no room: nobody waits for a seat that may never come.
    fn seat(&self, connections: &mut JoinSet<()>, stream: TcpStream, remote: IpAddr, router: &Router, stop: &Stop) {
        match self.network.clone().try_acquire_owned() {
            Ok(permit) => {
                let Ok(local) = stream.local_addr() else { return };
                tune(&stream);
                let local = local.ip().to_canonical();
                let peer = Peer { remote: remote.to_canonical(), local, way: Way::Network };
                connections.spawn(held(permit, connection(stream, peer, router.clone(), stop.clone())));
            }
            Err(_) => {
                if let Ok(permit) = self.refused.clone().try_acquire_owned() {
                    connections.spawn(held(permit, refuse(stream)));
                }
            }
        }
    }
}

async fn held(permit: OwnedSemaphorePermit, work: impl Future<Output = ()>) {
    work.await;
    drop(permit);
}

/// Hears a request out and says that there is no room.
async fn refuse(mut stream: TcpStream) {
    let said = async {
        // A connection that is closed with unread bytes is reset, and its answer with it.
        let mut heard = [0; 4096];
        let _ = stream.read(&mut heard).await?;
        stream.write_all(&Refused::no_room().http1()).await?;
        stream.shutdown().await
    };
    if !matches!(tokio::time::timeout(REFUSAL, said).await, Ok(Ok(()))) {
        tracing::debug!("a connection was closed for lack of room");
    }
}

/// Events are small and wanted now; a peer that vanished is noticed by the kernel, at no cost to us.
fn tune(stream: &TcpStream) {
    let tuned = stream.set_nodelay(true).and_then(|()| Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?));
    if let Err(error) = tuned {
        tracing::debug!(%error, "a connection could not be tuned");
    }
}

async fn connection<S>(stream: S, peer: Peer, router: Router, mut stop: Stop)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let line = Line::new(stream);
    let hearing = line.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let serving = hearing.serve();
        request.extensions_mut().insert(peer);
        let answer = router.clone().oneshot(request.map(|body| hearing.hear(body)) as Request);
        async move { answer.await.map(|response| serving.until_written(response)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(line.clone()), service)
        .with_upgrades();
    // Gone when it has ended, so that the line can be spoken on.
    let ended = {
        let mut connection = pin!(connection);
        tokio::select! {
            ended = &mut connection => ended,
            () = stop.said() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    match ended {
        Ok(()) => line.end().await,
        Err(error) => {
            tracing::debug!(%error, "a connection ended early");
            line.refuse(&error).await;
        }
    }
}

//! Accepting connections: bounded in number, in size of their heads, and in time; ended in order.

use crate::stop::Stop;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// Connections at once.
const CONNECTIONS_MAX: usize = 8192;
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
}

/// What the front needs.
#[derive(Debug)]
pub struct Front {
    /// Bound and listening.
    pub listener: TcpListener,
    /// See [`super::router`].
    pub router: Router,
    /// Heard when connections should end.
    pub stop: Stop,
}

/// Serves until told to stop, then lets what is under way finish.
pub async fn serve(front: Front) {
    let Front { listener, router, mut stop } = front;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accept(&listener, &room) => {
                if let Some((stream, remote, permit)) = accepted {
                    let connection = connection(stream, remote, router.clone(), stop.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
            }
            Some(_) = connections.join_next() => {}
            () = stop.said() => break,
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!(left = connections.len(), "connections did not end in time and are cut");
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, remote)) => Some((stream, remote, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, remote: SocketAddr, router: Router, mut stop: Stop) {
    let Ok(local) = stream.local_addr() else { return };
    // Events are small and wanted now; a peer that vanished is noticed by the kernel, at no cost to us.
    let tuned = stream.set_nodelay(true).and_then(|()| Ok(rustix::net::sockopt::set_socket_keepalive(&stream, true)?));
    if let Err(error) = tuned {
        tracing::debug!(%error, "a connection could not be tuned");
    }
    let peer = Peer { remote: remote.ip().to_canonical(), local: local.ip().to_canonical() };
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request.map(axum::body::Body::new) as Request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.said() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

//! The way out of a sandbox that has one: a port inside, a socket of the host's proxy behind it.
//!
//! The sandbox has no network. Programs that know proxies speak to the port; what they may reach is decided outside.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;

use super::{EGRESS_PORT, EGRESS_SOCKET, GuestError};

/// Most connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 256;

/// Begins to relay, if the sandbox was given a way out.
pub(super) async fn start() -> Result<(), GuestError> {
    if !Path::new(EGRESS_SOCKET).exists() {
        return Ok(());
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, EGRESS_PORT)).await;
    let listener = listener.map_err(|source| GuestError::Prepare { step: "opening the way out", source })?;
    tokio::spawn(accept(listener));
    Ok(())
}

async fn accept(listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        // Out of descriptors, for instance; the program that connects sees a refusal, and the next may fare better.
        let Ok((inside, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(async move {
            relay(inside).await;
            drop(permit);
        });
    }
}

/// Carries one connection. When the proxy is gone it is closed: without a proxy there is no way out.
async fn relay(mut inside: TcpStream) {
    if let Ok(mut outside) = UnixStream::connect(EGRESS_SOCKET).await {
        // Either side may break off at any time.
        tokio::io::copy_bidirectional(&mut inside, &mut outside).await.ok();
    }
}

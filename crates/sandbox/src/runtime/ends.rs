//! The one or two ends of a sandbox on this side: a guest, and the shim of one that runs commands.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::connection::{Connection, connect};
use super::launch::{Connected, StartError};
use super::layers::Layers;
use super::process::Process;
use crate::protocol::{GuestLimits, GuestRole};

/// What was launched, sorted by what becomes of it.
pub(super) struct Ends {
    pub(super) processes: Processes,
    pub(super) streams: Streams,
}

/// The processes; dropped before their end, they are ended.
pub(super) struct Processes {
    pub(super) guest: Process,
    pub(super) shim: Option<Process>,
}

/// Streams on which nobody has spoken yet.
pub(super) struct Streams {
    guest: OwnedFd,
    shim: Option<OwnedFd>,
}

/// Connections that have heard hello.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    pub(super) guest: Arc<Connection>,
    pub(super) shim: Option<Arc<Connection>>,
}

/// Connections, and the version of Landlock that each other side says restricts it.
pub(super) struct Greeted {
    guest: (Arc<Connection>, u32),
    shim: Option<(Arc<Connection>, u32)>,
}

impl Ends {
    pub(super) fn of(guest: Connected, shim: Option<Connected>) -> Self {
        let (shim_process, shim_stream) = shim.map(|shim| (shim.process, shim.stream)).unzip();
        Self {
            processes: Processes { guest: guest.process, shim: shim_process },
            streams: Streams { guest: guest.stream, shim: shim_stream },
        }
    }
}

impl Streams {
    /// Says hello to both and hears it.
    pub(super) async fn greet(self, role: GuestRole, limits: GuestLimits) -> Result<Greeted, StartError> {
        let greet_shim = async {
            match self.shim {
                Some(stream) => connect(stream, GuestRole::Shim, limits).await.map(Some),
                None => Ok(None),
            }
        };
        let (guest, shim) = tokio::try_join!(connect(self.guest, role, limits), greet_shim)?;
        Ok(Greeted { guest, shim })
    }
}

impl Processes {
    /// Their numbers on this machine.
    pub(super) fn ids(&self) -> Vec<u32> {
        [Some(&self.guest), self.shim.as_ref()].into_iter().flatten().map(Process::id).collect()
    }

    /// The walls that stand around all of them.
    pub(super) fn inspect(&self, role: GuestRole, greeted: Greeted) -> (Connections, Layers) {
        let (guest, landlock_abi) = greeted.guest;
        let mut layers = Layers::inspect(self.guest.id(), role, landlock_abi);
        if let (Some(process), Some((_, landlock_abi))) = (&self.shim, &greeted.shim) {
            layers = layers.of_both(&Layers::inspect(process.id(), GuestRole::Shim, *landlock_abi));
        }
        (Connections { guest, shim: greeted.shim.map(|(connection, _)| connection) }, layers)
    }
}

impl Connections {
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        [Some(&self.guest), self.shim.as_ref()].into_iter().flatten().cloned().collect()
    }

    /// Waits until one of them is.
    pub(super) async fn closed(&self) {
        let shim_closed = async {
            match &self.shim {
                Some(shim) => shim.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.guest.closed() => {}
            () = shim_closed => {}
        }
    }
}

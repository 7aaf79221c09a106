//! The outside of a sandbox: how guests are started, spoken to and ended.
//!
//! A [`Runtime`] makes sandboxes of one kind. It starts a guest from a [`Spec`] and answers with a [`Guest`], through
//! which everything else goes. A runtime differs from another only in how the guest starts and how its stream is
//! connected.

mod capabilities;
mod connection;
mod ends;
mod enter;
mod exec;
mod handle;
mod keeper;
mod launch;
mod layers;
mod limits;
mod port;
mod process;
mod remedy;
mod spec;
mod spool;
mod terminal;
mod view;
mod watch;
mod write;

pub(crate) use capabilities::{become_user, drop_capabilities};
pub use connection::CallError;
pub use exec::{ExecError, ExecEvent, ExecHandle, ExecInput, Finished, Output};
pub use handle::Guest;
pub use launch::StartError;
pub use layers::{Layer, Layers};
pub use limits::{Backend, Limit};
#[cfg(feature = "attack")]
pub use spec::Sabotage;
pub use spec::{Access, Identity, Limits, Mount, Overlay, Spec, Workspace};
pub use terminal::{Terminal, TerminalError, TerminalEvent, TerminalOutput};
pub use watch::{Changes, Watch};
pub use write::FileWrite;

use launch::Launcher;
use limits::Limiter;

/// How sandboxes are made; a cheap handle.
#[derive(Debug, Clone)]
pub struct Runtime {
    launcher: Launcher,
    limiter: Limiter,
}

impl Runtime {
    /// Sandboxes as processes of this machine, made of its kernel's namespaces and held by the best that it offers.
    pub fn process() -> Result<Self, StartError> {
        Ok(Self { launcher: Launcher::new()?, limiter: Limiter::best() })
    }

    /// The same, held in one way; an error where this machine does not offer it to this user.
    pub fn process_held_by(backend: Backend) -> Result<Self, StartError> {
        let limiter = Limiter::of(backend).map_err(|source| StartError::Limits { backend, source })?;
        Ok(Self { launcher: Launcher::new()?, limiter })
    }

    /// Who adds up what a sandbox uses.
    pub fn backend(&self) -> Backend {
        self.limiter.backend()
    }

    /// Starts a guest and waits until it has said hello.
    pub async fn start(&self, spec: Spec) -> Result<Guest, StartError> {
        handle::start(&self.launcher, &self.limiter, spec).await
    }
}

//! The outside of a sandbox: how guests are started, spoken to and ended.
//!
//! A [`Runtime`] makes sandboxes of one kind. It starts a guest from a [`Spec`] and answers with a [`Guest`], through
//! which everything else goes. A runtime differs from another only in how the guest starts and how its stream is
//! connected.

mod bubblewrap;
mod connection;
mod exec;
mod handle;
mod launch;
mod layers;
mod overlay;
mod port;
mod spec;
mod terminal;
mod watch;
mod watchdog;

pub use connection::CallError;
pub use exec::{ExecError, ExecEvent, ExecHandle, Finished, Output};
pub use handle::Guest;
pub use launch::StartError;
pub use layers::{Layer, Layers};
pub use spec::{Access, Identity, Limits, Mount, Overlay, Spec, Workspace};
pub use terminal::{Terminal, TerminalError, TerminalEvent, TerminalOutput};
pub use watch::{Changes, Watch};
pub use watchdog::Limit;

use launch::Launcher;

/// How sandboxes are made; a cheap handle.
#[derive(Debug, Clone)]
pub struct Runtime {
    launcher: Launcher,
}

impl Runtime {
    /// Sandboxes as processes of this machine, made of its kernel's namespaces by bubblewrap.
    pub fn process() -> Result<Self, StartError> {
        Ok(Self { launcher: Launcher::new()? })
    }

    /// Starts a guest and waits until it has said hello.
    pub async fn start(&self, spec: Spec) -> Result<Guest, StartError> {
        handle::start(&self.launcher, spec).await
    }
}

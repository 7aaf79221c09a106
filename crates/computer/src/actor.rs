//! The supervision tree: `Application → EventStore, EventBus, Session → Desktop, Run…, Task…`. Each actor is a thin shell around decisions of `core`.

mod application;
mod desktop;
mod handle;
mod run;
mod session;
mod task;
mod tree;
mod watcher;

pub use application::{Application, Started};
pub use choir_core::actor::run::RunCommand;
pub use desktop::DesktopMessage;
pub use handle::{Handle, Seat};
pub use session::SessionMessage;
pub use tree::Tree;

use crate::harness::HarnessError;
use choir_core::fold::desktop::Refused;
use choir_proto::Seq;
use ractor::RpcReplyPort;

/// How many runs and tasks are at work at once, each with its agents in memory. More than that many wait for a place, whether they
/// were just accepted or found unfinished.
#[derive(Debug, Clone, Copy)]
pub struct Places(pub usize);

impl Default for Places {
    fn default() -> Self {
        Self(10_000)
    }
}

/// Why an actor did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ActorError {
    /// It has ended.
    #[error("it is not at work")]
    NotAtWork,
    /// What it made is on its way already.
    #[error("its changes are on their way into the workspace")]
    TooLate,
    /// The desktop refused.
    #[error("the desktop refused: {0:?}")]
    Desktop(Refused),
    /// The log failed.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// It did not answer in time, or is being restarted.
    #[error("{0} did not answer")]
    Silent(&'static str),
}

/// An answer that tells where the change is in the log.
pub type Reply = RpcReplyPort<Result<Seq, ActorError>>;

/// Answers whoever asked; they may have stopped waiting.
fn answer(reply: Reply, result: Result<Seq, ActorError>) {
    reply.send(result).ok();
}

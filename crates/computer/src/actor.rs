//! The supervision tree: `Application → EventStore, EventBus, Session → Desktop, Run…, Task…`. Each actor is a thin shell around decisions of `core`.

mod application;
mod desktop;
mod run;
mod session;
mod task;
mod tree;
mod watcher;

pub use application::{Application, Started};
pub use desktop::DesktopMessage;
pub use run::RunCommand;
pub use session::SessionMessage;
pub use tree::Tree;

use crate::harness::HarnessError;
use choir_core::fold::desktop::Refused;
use choir_proto::Seq;
use ractor::{ActorRef, RpcReplyPort};
use std::time::Duration;

/// How long a question to an actor may take.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

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

/// Asks an actor and waits for its answer, but not for ever.
pub async fn ask<M: ractor::Message>(
    actor: &ActorRef<M>,
    name: &'static str,
    message: impl FnOnce(Reply) -> M,
) -> Result<Seq, ActorError> {
    match actor.call(message, Some(CALL_DEADLINE)).await {
        Ok(ractor::rpc::CallResult::Success(answer)) => answer,
        _ => Err(ActorError::Silent(name)),
    }
}

/// Answers whoever asked; they may have stopped waiting.
fn answer(reply: Reply, result: Result<Seq, ActorError>) {
    reply.send(result).ok();
}

//! The desktop: one command at a time, decided by `core` on what the log says.

use super::handle::Seated;
use super::{ActorError, Reply, answer};
use crate::harness::{Harness, HarnessError};
use crate::journal::Scope;
use choir_core::fold::desktop::{Desktops, Refused, step};
use choir_core::fold::run::Runs;
use choir_proto::desktop::{Desktop as View, DesktopCommand};
use choir_proto::event::Actor as By;
use choir_proto::{RunId, Seq, WindowId};
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// The desktop's actor.
pub(super) struct Desktop;

/// What the desktop can be told.
pub enum DesktopMessage {
    /// What a person did to a window.
    Command(Box<DesktopCommand>, Reply),
}

impl Actor for Desktop {
    type Msg = Seated<DesktopMessage>;
    type State = Harness;
    type Arguments = Harness;

    async fn pre_start(&self, _: ActorRef<Self::Msg>, harness: Harness) -> Result<Harness, ActorProcessingErr> {
        Ok(harness)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        harness: &mut Harness,
    ) -> Result<(), ActorProcessingErr> {
        let DesktopMessage::Command(command, reply) = message.message;
        answer(reply, perform(harness, *command).await);
        Ok(())
    }
}

async fn perform(harness: &Harness, command: DesktopCommand) -> Result<Seq, ActorError> {
    let desktop =
        harness.views.get::<Desktops>(Desktops::KEY).await.map_err(HarnessError::Read)?.unwrap_or(View::default());
    let fresh = WindowId::new(harness.journal.world().uuid());
    let scope = match command {
        DesktopCommand::Dismiss { run_id } if is_dismissed(harness, run_id).await? => {
            return Ok(harness.journal.log().head().seq);
        }
        DesktopCommand::Dismiss { run_id } => Scope::of(By::Person).run(run_id),
        _ => Scope::of(By::Person),
    };
    let events = match step(&desktop, command, fresh) {
        Ok(events) => events,
        // Two browsers, or two clicks in one, race: a window that was just closed can no longer be touched, and needs not be.
        Err(Refused::NoWindow(_)) => return Ok(harness.journal.log().head().seq),
        Err(refused) => return Err(ActorError::Desktop(refused)),
    };
    Ok(harness.journal.append(&scope, events).await.map_err(HarnessError::Append)?)
}

/// Whether nothing is left to put away: another browser did, or there is no such run.
async fn is_dismissed(harness: &Harness, run_id: RunId) -> Result<bool, ActorError> {
    let run = harness.views.get::<Runs>(&run_id.to_string()).await.map_err(HarnessError::Read)?;
    Ok(run.is_none_or(|run| run.dismissed_at.is_some()))
}

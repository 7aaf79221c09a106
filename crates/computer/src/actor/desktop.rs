//! The desktop: one command at a time, decided by `core` on what the log says.

use super::{ActorError, Reply, answer};
use crate::harness::{Harness, HarnessError};
use crate::journal::Scope;
use choir_core::fold::desktop::{Desktops, Refused, step};
use choir_proto::desktop::{Desktop as View, DesktopCommand};
use choir_proto::event::Actor as By;
use choir_proto::{Seq, WindowId};
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// The desktop's actor.
pub(super) struct Desktop;

impl Desktop {
    pub(super) const NAME: &'static str = "Desktop";
}

/// What the desktop can be told.
pub enum DesktopMessage {
    /// What a person did to a window.
    Command(Box<DesktopCommand>, Reply),
}

impl Actor for Desktop {
    type Msg = DesktopMessage;
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
        let DesktopMessage::Command(command, reply) = message;
        answer(reply, perform(harness, *command).await);
        Ok(())
    }
}

async fn perform(harness: &Harness, command: DesktopCommand) -> Result<Seq, ActorError> {
    let desktop =
        harness.views.get::<Desktops>(Desktops::KEY).await.map_err(HarnessError::Read)?.unwrap_or(View::default());
    let fresh = WindowId::new(harness.journal.world().uuid());
    let events = match step(&desktop, command, fresh) {
        Ok(events) => events,
        // Two browsers, or two clicks in one, race: a window that was just closed can no longer be touched, and needs not be.
        Err(Refused::NoWindow(_)) => return Ok(harness.journal.log().head().seq),
        Err(refused) => return Err(ActorError::Desktop(refused)),
    };
    Ok(harness.journal.append(&Scope::of(By::Person), events).await.map_err(HarnessError::Append)?)
}

//! The root of the tree: keeps a session running.

use super::session::{Session, SessionArguments, SessionMessage};
use super::tree::Tree;
use crate::harness::Harness;
use choir_core::supervise::{INTENSITY, Supervisor, Verdict};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::time::Duration;
use tokio::sync::watch;

/// The root actor.
pub struct Application;

/// What the root actor needs.
pub struct ApplicationArguments {
    /// What agents share.
    pub harness: Harness,
    /// What is known of every actor.
    pub tree: Tree,
    /// Where the present session is told.
    pub session: watch::Sender<Option<ActorRef<SessionMessage>>>,
}

/// The root actor's own.
pub struct ApplicationState {
    arguments: ApplicationArguments,
    supervisor: Supervisor,
}

impl Application {
    /// Starts the tree. The session appears in the returned channel, and again after every restart.
    pub async fn start(
        harness: Harness,
        tree: Tree,
    ) -> Result<(ActorRef<()>, watch::Receiver<Option<ActorRef<SessionMessage>>>), ractor::SpawnErr> {
        let (session, receiver) = watch::channel(None);
        let arguments = ApplicationArguments { harness, tree: tree.clone(), session };
        let (actor, _) = Actor::spawn(None, Self, arguments).await?;
        tree.started("Application", None, actor.get_id());
        Ok((actor, receiver))
    }
}

impl Actor for Application {
    type Msg = ();
    type State = ApplicationState;
    type Arguments = ApplicationArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        start_session(&myself, &arguments).await?;
        Ok(ApplicationState { arguments, supervisor: Supervisor::new(INTENSITY) })
    }

    /// The only message: the wait before a restart is over.
    async fn handle(&self, myself: ActorRef<()>, (): (), state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        Ok(start_session(&myself, &state.arguments).await?)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(_, error) = event else { return Ok(()) };
        tracing::error!(%error, "the session failed");
        state.arguments.tree.restarting(Session::NAME);
        let now = state.arguments.harness.journal.world().elapsed().as_millis() as u64;
        match state.supervisor.failed(Session::NAME, now) {
            Verdict::Restart { after_ms, .. } => {
                myself.send_after(Duration::from_millis(after_ms), || ());
                Ok(())
            }
            // Nobody is above: the process ends, and control starts it anew.
            Verdict::Escalate => Err("the session fails again and again".into()),
        }
    }
}

async fn start_session(myself: &ActorRef<()>, arguments: &ApplicationArguments) -> Result<(), ractor::SpawnErr> {
    let session = SessionArguments { harness: arguments.harness.clone(), tree: arguments.tree.clone() };
    let (actor, _) = Actor::spawn_linked(None, Session, session, myself.get_cell()).await?;
    arguments.tree.started(Session::NAME, Some("Application"), actor.get_id());
    arguments.session.send_replace(Some(actor));
    Ok(())
}

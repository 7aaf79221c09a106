//! The root of the tree: the log and its views, which nobody can do without, and the session, which can be started anew.

use super::Places;
use super::handle::{Handle, Seated};
use super::session::{Session, SessionArguments, SessionMessage};
use super::tree::Tree;
use super::watcher::{EventBus, EventStore};
use crate::harness::Harness;
use choir_core::supervise::{INTENSITY, Supervisor, Verdict};
use choir_store::LiveViews;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The root actor.
pub struct Application;

impl Application {
    const NAME: &'static str = "Application";
}

/// What the root actor needs.
pub struct ApplicationArguments {
    harness: Harness,
    views: LiveViews,
    tree: Tree,
    places: Places,
    session: watch::Sender<Option<ActorRef<Seated<SessionMessage>>>>,
}

/// The root actor's own.
pub struct ApplicationState {
    arguments: ApplicationArguments,
    supervisor: Supervisor,
    session: Option<ActorId>,
}

/// A tree at work.
pub struct Started {
    /// The root.
    pub actor: ActorRef<()>,
    /// Resolves when the root has ended: in order, or because something failed again and again.
    pub ended: JoinHandle<()>,
    /// The way to the session, also after a restart.
    pub session: Handle,
}

impl Application {
    /// Starts the tree.
    pub async fn start(
        harness: Harness,
        views: LiveViews,
        tree: Tree,
        places: Places,
    ) -> Result<Started, ractor::SpawnErr> {
        let (sender, session) = watch::channel(None);
        let arguments = ApplicationArguments { harness, views, tree: tree.clone(), places, session: sender };
        let (actor, ended) = Actor::spawn(None, Self, arguments).await?;
        tree.started(Self::NAME, None, actor.get_id());
        Ok(Started { actor, ended, session: Handle::new(session) })
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
        let log = arguments.harness.journal.log().clone();
        let (store, _) = Actor::spawn_linked(None, EventStore, log, myself.get_cell()).await?;
        arguments.tree.started(EventStore::NAME, Some(Self::NAME), store.get_id());
        let (bus, _) = Actor::spawn_linked(None, EventBus, arguments.views.clone(), myself.get_cell()).await?;
        arguments.tree.started(EventBus::NAME, Some(Self::NAME), bus.get_id());
        let mut state = ApplicationState { arguments, supervisor: Supervisor::new(INTENSITY), session: None };
        state.start_session(&myself).await?;
        Ok(state)
    }

    /// The only message: the wait before a restart of the session is over.
    async fn handle(&self, myself: ActorRef<()>, (): (), state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.start_session(&myself).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(cell, error) = event else { return Ok(()) };
        if Some(cell.get_id()) != state.session {
            // Without log or views nothing can go on: the process ends, and control starts it anew.
            return Err(error);
        }
        state.session_failed(&myself, &error.to_string())
    }
}

impl ApplicationState {
    /// Starts the session. One that cannot even start has failed like one that fails later.
    async fn start_session(&mut self, myself: &ActorRef<()>) -> Result<(), ActorProcessingErr> {
        match start_session(myself, &self.arguments).await {
            Ok(session) => {
                self.session = Some(session);
                Ok(())
            }
            Err(error) => self.session_failed(myself, &error.to_string()),
        }
    }

    fn session_failed(&mut self, myself: &ActorRef<()>, reason: &str) -> Result<(), ActorProcessingErr> {
        tracing::error!(%reason, "the session failed");
        self.session = None;
        self.arguments.session.send_replace(None);
        self.arguments.tree.restarting(Session::NAME);
        let now = self.arguments.harness.journal.world().elapsed().as_millis() as u64;
        match self.supervisor.failed(Session::NAME, now) {
            Verdict::Restart { after_ms, .. } => {
                myself.send_after(Duration::from_millis(after_ms), || ());
                Ok(())
            }
            Verdict::Escalate => Err("the session fails again and again".into()),
        }
    }
}

async fn start_session(myself: &ActorRef<()>, arguments: &ApplicationArguments) -> Result<ActorId, ractor::SpawnErr> {
    let ApplicationArguments { harness, tree, places, .. } = arguments;
    let session = SessionArguments { harness: harness.clone(), tree: tree.clone(), places: *places };
    let (actor, _) = Actor::spawn_linked(None, Session, session, myself.get_cell()).await?;
    let id = actor.get_id();
    arguments.tree.started(Session::NAME, Some(Application::NAME), id);
    arguments.session.send_replace(Some(actor.clone()));
    // A session that has ended already is told of by the tree.
    actor.send_message(Seated::own(SessionMessage::PickUp)).ok();
    Ok(id)
}

//! The root of the tree: the log and its views, which nobody can do without, and the session, which can be started anew.

use super::Places;
use super::handle::{Handle, Seated};
use super::session::{Session, SessionArguments, SessionMessage};
use super::tree::Tree;
use super::watcher::{EventBus, EventStore};
use crate::harness::Harness;
use choir_core::actor::application::{self, Child, Effect, Input};
use choir_store::LiveViews;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The shell around [`application::Application`].
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
    root: application::Application,
    children: HashMap<ActorId, Child>,
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
        let mut state = ApplicationState { arguments, root: Default::default(), children: HashMap::new() };
        state.step(&myself, Input::Begun).await?;
        Ok(state)
    }

    /// The only message: the wait before a restart of the session is over.
    async fn handle(&self, myself: ActorRef<()>, (): (), state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.step(&myself, Input::Waited).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(cell, error) = event else { return Ok(()) };
        let Some(child) = state.children.remove(&cell.get_id()) else { return Ok(()) };
        let failed = state.failed(child, error.to_string());
        state.step(&myself, failed).await
    }
}

impl ApplicationState {
    /// Does what the root decides, and tells it what came of that.
    async fn step(&mut self, myself: &ActorRef<()>, input: Input) -> Result<(), ActorProcessingErr> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for effect in self.root.step(input) {
                match effect {
                    Effect::Start(child) => match self.start(myself, child).await {
                        Ok(id) => drop(self.children.insert(id, child)),
                        Err(error) => next = Some(self.failed(child, error.to_string())),
                    },
                    Effect::ForgetSession { reason } => {
                        tracing::error!(%reason, "the session failed");
                        self.arguments.session.send_replace(None);
                        self.arguments.tree.restarting(Session::NAME);
                    }
                    Effect::Wait { after_ms } => drop(myself.send_after(Duration::from_millis(after_ms), || ())),
                    Effect::Fail(reason) => return Err(reason.into()),
                }
            }
        }
        Ok(())
    }

    fn failed(&self, child: Child, reason: String) -> Input {
        let at_ms = self.arguments.harness.journal.world().elapsed().as_millis() as u64;
        Input::Failed { child, reason, at_ms }
    }

    async fn start(&self, myself: &ActorRef<()>, child: Child) -> Result<ActorId, ractor::SpawnErr> {
        let arguments = &self.arguments;
        let id = match child {
            Child::EventStore => {
                let log = arguments.harness.journal.log().clone();
                Actor::spawn_linked(None, EventStore, log, myself.get_cell()).await?.0.get_id()
            }
            Child::EventBus => {
                Actor::spawn_linked(None, EventBus, arguments.views.clone(), myself.get_cell()).await?.0.get_id()
            }
            Child::Session => return start_session(myself, arguments).await,
        };
        arguments.tree.started(child.name(), Some(Application::NAME), id);
        Ok(id)
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

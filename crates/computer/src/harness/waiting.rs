//! Whether a run waits, so that the log says it once, and says it as long as anybody of the run has a question open.

use super::HarnessError;
use crate::journal::{Journal, Scope};
use choir_proto::event::{Actor, BlockedOn, RunBlocked, RunResumed, RunStarted};
use choir_proto::{Event, RunId, Seq};
use tokio::sync::Mutex;

/// What a run waits for. Held while the log is told, so that what it says last is true.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// As the log has it.
    said: Option<BlockedOn>,
    /// Agents that wait for the person.
    asking: usize,
    /// What the newest of them asks.
    question: String,
}

impl Waiting {
    /// A run of which the log says that it waits, or that it does not.
    pub fn new(said: Option<BlockedOn>) -> Self {
        Self(Mutex::new(State { said, ..State::default() }))
    }

    /// An agent has no model to ask.
    pub(super) async fn for_model(&self, journal: &Journal, run: RunId, message: String) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        if state.said.is_none() {
            say(journal, run, RunBlocked { on: BlockedOn::Model, message }.into()).await?;
            state.said = Some(BlockedOn::Model);
        }
        Ok(())
    }

    /// Whether the log says that a plan waits for the person.
    pub(super) async fn has_plan(&self) -> bool {
        self.0.lock().await.said == Some(BlockedOn::Plan)
    }

    /// The plan waits for the person.
    pub(super) async fn for_plan(&self, journal: &Journal, run: RunId, message: String) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        if state.said != Some(BlockedOn::Plan) {
            say(journal, run, RunBlocked { on: BlockedOn::Plan, message }.into()).await?;
            state.said = Some(BlockedOn::Plan);
        }
        Ok(())
    }

    /// An agent waits for the person.
    pub(super) async fn for_person(&self, journal: &Journal, run: RunId, message: String) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        if state.said != Some(BlockedOn::Inbox) {
            say(journal, run, RunBlocked { on: BlockedOn::Inbox, message: message.clone() }.into()).await?;
            state.said = Some(BlockedOn::Inbox);
        }
        state.question = message;
        state.asking += 1;
        Ok(())
    }

    /// The person says go on, and the log says that the run does. Who waits for a model asks for it once more; questions are
    /// still open, and a plan that waited goes on by itself.
    pub(crate) async fn resume(&self, journal: &Journal, run: RunId) -> Result<Seq, HarnessError> {
        let mut state = self.0.lock().await;
        let seq = journal.append(&Scope::of(Actor::Person).run(run), vec![RunResumed {}.into()]).await?;
        if state.asking > 0 {
            let message = state.question.clone();
            say(journal, run, RunBlocked { on: BlockedOn::Inbox, message }.into()).await?;
            state.said = Some(BlockedOn::Inbox);
        } else if state.said != Some(BlockedOn::Plan) {
            state.said = None;
        }
        Ok(seq)
    }

    /// An agent has heard from the person.
    pub(super) async fn heard(&self, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        state.asking = state.asking.saturating_sub(1);
        go_on(&mut state, journal, run).await
    }

    /// An agent goes on. The run does too, unless somebody else waits for the person.
    pub(super) async fn go_on(&self, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        go_on(&mut state, journal, run).await
    }
}

async fn go_on(state: &mut State, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
    if state.asking == 0 && state.said.is_some() {
        say(journal, run, RunStarted {}.into()).await?;
        state.said = None;
    }
    Ok(())
}

async fn say(journal: &Journal, run: RunId, event: Event) -> Result<(), HarnessError> {
    journal.append(&Scope::of(Actor::Computer).run(run), vec![event]).await?;
    Ok(())
}

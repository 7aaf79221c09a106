//! Whether a run waits, so that the log says it once, and says it as long as anybody of the run has a question open. A run that the
//! person has paused goes on when they say so, and not because somebody heard an answer.

use super::{HarnessError, Past};
use crate::journal::{Journal, Scope};
use choir_core::actor::Signal;
use choir_proto::event::{Actor, BlockedOn, RunBlocked, RunPaused, RunResumed, RunStarted};
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
    /// Whether the person has paused it.
    paused: bool,
    /// Whether the log says last that it is paused, and not what it waits for.
    says_paused: bool,
}

impl Waiting {
    /// A run as the log has it: what it waits for, if it does, and whether it was paused.
    pub fn new(past: &Past) -> Self {
        let (said, paused) = (past.blocked_on(), Signal::of(past.all()).paused);
        Self(Mutex::new(State { said, paused, ..State::default() }))
    }

    /// The person wants it to wait.
    pub(crate) async fn pause(&self, journal: &Journal, run: RunId) -> Result<Seq, HarnessError> {
        let mut state = self.0.lock().await;
        let seq = journal.append(&Scope::of(Actor::Person).run(run), vec![RunPaused {}.into()]).await?;
        (state.paused, state.says_paused) = (true, true);
        Ok(seq)
    }

    /// An agent has no model to ask. A run that the person has paused stays paused: who goes on says then what it lacks.
    pub(super) async fn for_model(&self, journal: &Journal, run: RunId, message: String) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        if state.said.is_none() && !state.paused {
            state.block(journal, run, BlockedOn::Model, message).await?;
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
            state.block(journal, run, BlockedOn::Plan, message).await?;
        }
        Ok(())
    }

    /// An agent waits for the person.
    pub(super) async fn for_person(&self, journal: &Journal, run: RunId, message: String) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        if state.said != Some(BlockedOn::Inbox) {
            state.block(journal, run, BlockedOn::Inbox, message.clone()).await?;
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
        (state.paused, state.says_paused) = (false, false);
        if state.asking > 0 {
            let message = state.question.clone();
            state.block(journal, run, BlockedOn::Inbox, message).await?;
        } else if state.said != Some(BlockedOn::Plan) {
            state.said = None;
        }
        Ok(seq)
    }

    /// An agent has heard from the person.
    pub(super) async fn heard(&self, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
        let mut state = self.0.lock().await;
        state.asking = state.asking.saturating_sub(1);
        state.go_on(journal, run).await
    }

    /// An agent goes on. The run does too, unless somebody else waits for the person or the person has paused it.
    pub(super) async fn go_on(&self, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
        self.0.lock().await.go_on(journal, run).await
    }
}

impl State {
    async fn block(
        &mut self,
        journal: &Journal,
        run: RunId,
        on: BlockedOn,
        message: String,
    ) -> Result<(), HarnessError> {
        say(journal, run, RunBlocked { on, message }.into()).await?;
        (self.said, self.says_paused) = (Some(on), false);
        Ok(())
    }

    async fn go_on(&mut self, journal: &Journal, run: RunId) -> Result<(), HarnessError> {
        if self.asking > 0 || self.said.is_none() {
            return Ok(());
        }
        match (self.paused, self.says_paused) {
            (true, true) => {}
            (true, false) => say(journal, run, RunPaused {}.into()).await?,
            (false, _) => say(journal, run, RunStarted {}.into()).await?,
        }
        (self.said, self.says_paused) = (None, self.paused);
        Ok(())
    }
}

async fn say(journal: &Journal, run: RunId, event: Event) -> Result<(), HarnessError> {
    journal.append(&Scope::of(Actor::Computer).run(run), vec![event]).await?;
    Ok(())
}

//! A model that did not answer: asked again, waited for, or given up, as `core` decides.

use super::account::Whom;
use super::{Driver, HarnessError, cancelled, stopped};
use choir_core::agent::{Ending, Reaction, patience, react, wall};
use choir_proto::Event;
use choir_proto::event::ModelFailed;
use choir_proto::model::{ErrorClass, ModelError, Usage};
use choir_proto::task::TaskStatus;
use std::time::Duration;
use tokio::sync::watch;

impl Driver {
    /// Writes down that a model did not answer, and does what that calls for. `models` and `resumed` are from before it was
    /// asked, so that nothing that changed meanwhile is missed.
    pub(super) async fn failed(
        &mut self,
        (error, took): (ModelError, Usage),
        models: watch::Receiver<u64>,
        resumed: u64,
    ) -> Result<Option<Ending>, HarnessError> {
        let attempt = self.agent.failures() + 1;
        let reaction = react(&error, attempt, self.context.harness.journal.world().chance());
        // A missing model is not the model's failure: the run waits and says so, once.
        if error.class != ErrorClass::NoModel {
            self.write_down(&error, (attempt, took), reaction).await?;
        }
        match reaction {
            // What it took in vain may have been all that there was.
            Reaction::Stop(TaskStatus::Failed) if let Some(ending) = wall(&self.purse.accounts()) => Ok(Some(ending)),
            Reaction::Stop(status) => Ok(Some(Ending { status, summary: error.message })),
            // Patience ends with the budget.
            Reaction::Retry { after_ms } => {
                let wait = Duration::from_millis(after_ms).min(self.purse.time_left());
                self.wait(Some(wait), models, resumed).await
            }
            Reaction::Park { again_ms } => {
                let message = format!("waiting for a model: {}", error.message);
                self.context.waiting.for_model(&self.context.harness.journal, self.identity.run, message).await?;
                self.park(again_ms, models, resumed).await
            }
        }
    }

    async fn write_down(
        &mut self,
        error: &ModelError,
        (attempt, usage): (u32, Usage),
        reaction: Reaction,
    ) -> Result<(), HarnessError> {
        let ModelError { class, message, .. } = error.clone();
        let delayed = match reaction {
            Reaction::Retry { after_ms } => patience::retried(class, &message, attempt, after_ms),
            Reaction::Park { .. } | Reaction::Stop(_) => None,
        };
        // Whoever waits goes on waiting; the others are at work, whatever the log says.
        if !matches!(reaction, Reaction::Park { .. }) {
            self.go_on().await?;
        }
        let failed = ModelFailed { turn: self.agent.next_turn(), attempt, class, message, usage };
        self.append([failed.into()].into_iter().chain(delayed.map(Event::from)).collect()).await
    }

    /// Waits until a model may be there. Asked again, it says by itself whether it goes on.
    async fn park(
        &mut self,
        again_ms: Option<u64>,
        models: watch::Receiver<u64>,
        resumed: u64,
    ) -> Result<Option<Ending>, HarnessError> {
        // Only the person can bring a model where there is none, and they take the time they need.
        let whom = if again_ms.is_some() { Whom::Model } else { Whom::Person };
        let _waits = self.purse.wait(whom);
        // A budget of time is a wall here too; the agent says so.
        let again = again_ms.map(Duration::from_millis);
        let again = again.map(|again| self.purse.patience_left().map_or(again, |left| again.min(left)));
        self.wait(again, models, resumed).await
    }

    /// Waits for its time, for models that may be there now, or for the person, whose word is asked at once.
    async fn wait(
        &mut self,
        time: Option<Duration>,
        mut models: watch::Receiver<u64>,
        resumed: u64,
    ) -> Result<Option<Ending>, HarnessError> {
        let mut signal = self.context.signal.clone();
        let over = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            changed = models.changed() => changed.map_err(|_| HarnessError::LetGo)?,
            told = signal.wait_for(|signal| signal.resumed > resumed) => {
                drop(told.map_err(|_| HarnessError::LetGo)?);
                self.insists = true;
            }
            stop = stopped(self.context.signal.clone()) => return stop.map(|()| Some(cancelled())),
        }
        Ok(None)
    }

    /// Says that the run goes on, if the log says that it waits.
    pub(super) async fn go_on(&self) -> Result<(), HarnessError> {
        self.context.waiting.go_on(&self.context.harness.journal, self.identity.run).await
    }
}

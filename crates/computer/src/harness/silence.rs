//! A model that says nothing: the person is told whom their run waits for, and how long it has been.

use super::{Driver, HarnessError};
use crate::control::Heard;
use choir_core::agent::patience;
use choir_proto::event::TaskDelayed;
use choir_proto::model::Usage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long control takes at most to see that there is no model.
const AT_ONCE: Duration = Duration::from_millis(200);

/// What was heard of one question to a model; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Pulse(Arc<Mutex<Beat>>);

#[derive(Debug)]
struct Beat {
    /// Who was asked, once somebody was.
    model: Option<String>,
    took: Usage,
    /// The last sign of life.
    at: Instant,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Beat { model: None, took: Usage::default(), at: Instant::now() })))
    }
}

impl Pulse {
    /// Something was heard.
    pub(super) fn feel(&self, heard: &Heard) {
        let mut beat = self.lock();
        beat.at = Instant::now();
        match heard {
            Heard::Asked(model) => beat.model = Some(model.clone()),
            Heard::Took(usage) => beat.took += *usage,
            Heard::Delta(_) => {}
        }
    }

    /// What answers took that broke off.
    pub(super) fn took(&self) -> Usage {
        self.lock().took
    }

    fn silent_ms(&self) -> u64 {
        self.lock().at.elapsed().as_millis() as u64
    }

    fn model(&self) -> Option<String> {
        self.lock().model.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver {
    /// Waits for an answer, and says so while nothing is heard. That there is no model is known at once: a run that waited for
    /// one and is let wait longer has one, and says so.
    pub(super) async fn tell_of_patience<T>(
        &self,
        answer: impl Future<Output = T>,
        pulse: &Pulse,
    ) -> Result<T, HarnessError> {
        let mut answer = std::pin::pin!(answer);
        if let Ok(answer) = tokio::time::timeout(AT_ONCE, &mut answer).await {
            return Ok(answer);
        }
        self.go_on().await?;
        let mut told_ms = 0;
        loop {
            let silent_ms = pulse.silent_ms();
            // A word in between begins a new silence.
            told_ms = if silent_ms < told_ms { 0 } else { told_ms };
            let due_ms = patience::next_word_ms(told_ms);
            if silent_ms >= due_ms {
                told_ms = silent_ms;
                self.tell(patience::silent(pulse.model().as_deref(), silent_ms, self.agent.failures())).await?;
                continue;
            }
            let wait = Duration::from_millis(due_ms - silent_ms);
            if let Ok(answer) = tokio::time::timeout(wait, &mut answer).await {
                return Ok(answer);
            }
        }
    }

    /// Says what the agent waits for. It is no part of what the agent is: nothing depends on it.
    pub(super) async fn tell(&self, delayed: TaskDelayed) -> Result<(), HarnessError> {
        self.context.harness.journal.append(&self.scope(), vec![delayed.into()]).await?;
        Ok(())
    }
}

//! Models that failed to the end of their chances a moment ago. Every turn of every run would wait for a dead one first, and for
//! one that hangs that is minutes each time.

use super::TRIES_EACH;
use choir_proto::model::{ErrorClass, ModelError};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long such a model is passed over while somebody else can be asked. Long against a turn, short against an outage that is over.
const PASSED_OVER: Duration = Duration::from_secs(5 * 60);

/// Models that are remembered; those that came first to be asked again are forgotten.
const MODELS_MAX: usize = 1000;

/// Which models fail, and until when they are passed over; by `PROVIDER/MODEL`. Whoever was passed over long enough is asked once
/// more, and has no second chance until it has answered.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<HashMap<String, Instant>>);

impl Failing {
    /// Whether somebody else is to be asked first.
    pub(super) fn knows(&self, model: &str) -> bool {
        self.lock().get(model).is_some_and(|until| *until > Instant::now())
    }

    /// A model did not answer, after it had failed so often in the same turn.
    pub(super) fn failed(&self, model: &str, error: &ModelError, failures: u32) {
        if !matches!(error.class, ErrorClass::Timeout | ErrorClass::Overloaded) {
            return;
        }
        let mut all = self.lock();
        let was_last_chance = (failures + 1).is_multiple_of(TRIES_EACH) || all.contains_key(model);
        if !was_last_chance {
            return;
        }
        let now = Instant::now();
        if all.len() >= MODELS_MAX {
            all.retain(|_, until| *until > now);
        }
        if all.len() < MODELS_MAX {
            all.insert(model.to_owned(), now + PASSED_OVER);
        }
    }

    /// A model has answered.
    pub(super) fn answered(&self, model: &str) {
        self.lock().remove(model);
    }

    /// Something about a provider is new. Whether anything of it was remembered.
    pub(super) fn forget(&self, provider: &str) -> bool {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|model, _| super::provider_name(model) != provider);
        all.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: ErrorClass) -> ModelError {
        ModelError { class, message: String::new(), retry_after_ms: None }
    }

    #[tokio::test(start_paused = true)]
    async fn who_failed_to_the_end_is_passed_over_for_a_while_and_then_asked_once() {
        let failing = Failing::default();
        failing.failed("a/b", &error(ErrorClass::Garbage), TRIES_EACH - 1);
        failing.failed("a/b", &error(ErrorClass::Timeout), 0);
        assert!(!failing.knows("a/b"), "everybody has a second chance");
        failing.failed("a/b", &error(ErrorClass::Timeout), TRIES_EACH - 1);
        assert!(failing.knows("a/b") && !failing.knows("a/c"));
        tokio::time::advance(PASSED_OVER).await;
        assert!(!failing.knows("a/b"));
        failing.failed("a/b", &error(ErrorClass::Overloaded), 0);
        assert!(failing.knows("a/b"), "and was not any better");
        failing.answered("a/b");
        failing.failed("a/b", &error(ErrorClass::Overloaded), 0);
        assert!(!failing.knows("a/b"));
    }

    #[test]
    fn a_new_key_is_a_new_beginning_for_all_models_of_its_provider() {
        let failing = Failing::default();
        for model in ["a/b", "a/c", "ab/c"] {
            failing.failed(model, &error(ErrorClass::Timeout), TRIES_EACH - 1);
        }
        assert!(failing.forget("a") && !failing.forget("a"));
        assert_eq!(["a/b", "a/c", "ab/c"].map(|model| failing.knows(model)), [false, false, true]);
    }
}

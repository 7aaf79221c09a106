//! Models that asked for patience. What one run was told holds for every run: asking on would only make it longer.

use choir_proto::model::{ErrorClass, ModelError};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Models that are remembered; what is over is forgotten first.
const MODELS_MAX: usize = 1000;

/// The longest that a model is left alone without a question. Who asks for a day may have been topped up meanwhile, and one run
/// that asks again tells all others. As often as a run that is parked asks by itself.
const UNASKED_MAX: Duration = Duration::from_secs(15 * 60);

/// Which models want to be left alone, by `PROVIDER/MODEL`.
#[derive(Debug, Default)]
pub(super) struct Cooling(Mutex<HashMap<String, Rest>>);

/// What a model asked for.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// As it was said.
    until: Instant,
    /// When one run asks all the same.
    again: Instant,
}

/// Who wants to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// A run by itself.
    Run,
    /// The person, who has said that it is to go on.
    Person,
}

impl Cooling {
    /// Refuses a question that its model would refuse. The person's is asked, and now and then a run's.
    pub(super) fn check(&self, model: &str, asker: Asker) -> Result<(), ModelError> {
        let now = Instant::now();
        let mut all = self.lock();
        let Some(rest) = all.get_mut(model).filter(|rest| rest.until > now) else { return Ok(()) };
        if asker == Asker::Person || rest.again <= now {
            // The others wait for what it hears.
            rest.again = rest.until.min(now + UNASKED_MAX);
            return Ok(());
        }
        let left = rest.until - now;
        let message = format!("`{model}` asked to be left alone for {} s more", left.as_secs_f64().ceil());
        let retry_after_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
        Err(ModelError { class: ErrorClass::RateLimit, message, retry_after_ms })
    }

    /// Remembers what a model said of it, if it did.
    pub(super) fn heed(&self, model: &str, error: &ModelError) {
        let Some(wait) = error.retry_after_ms.filter(|_| error.class == ErrorClass::RateLimit) else { return };
        let now = Instant::now();
        let Some(until) = now.checked_add(Duration::from_millis(wait)) else { return };
        let mut all = self.lock();
        all.retain(|_, rest| rest.until > now);
        if all.len() < MODELS_MAX {
            all.insert(model.to_owned(), Rest { until, again: until.min(now + UNASKED_MAX) });
        }
    }

    /// A model has answered: it wants to be asked again.
    pub(super) fn answered(&self, model: &str) {
        self.lock().remove(model);
    }

    /// Something about a provider is new: what its models said before was said to somebody else. Whether they had said anything.
    pub(super) fn forget(&self, provider: &str) -> bool {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|model, _| super::provider_name(model) != provider);
        all.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: ErrorClass, retry_after_ms: Option<u64>) -> ModelError {
        ModelError { class, message: String::new(), retry_after_ms }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_model_asked_for_holds_until_its_time_and_for_it_alone() {
        let cooling = Cooling::default();
        let check = |model| cooling.check(model, Asker::Run);
        cooling.heed("a/b", &error(ErrorClass::RateLimit, None));
        cooling.heed("a/b", &error(ErrorClass::Overloaded, Some(9_000)));
        assert!(check("a/b").is_ok());
        cooling.heed("a/b", &error(ErrorClass::RateLimit, Some(3_000)));
        tokio::time::advance(Duration::from_millis(1_000)).await;
        let refused = check("a/b").unwrap_err();
        assert_eq!((refused.class, refused.retry_after_ms), (ErrorClass::RateLimit, Some(2_000)));
        assert!(check("a/c").is_ok());
        tokio::time::advance(Duration::from_millis(2_000)).await;
        assert!(check("a/b").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_left_alone_for_longer_than_a_while_without_one_question() {
        let cooling = Cooling::default();
        cooling.heed("a/b", &error(ErrorClass::RateLimit, Some(100_000_000)));
        for _ in 0..3 {
            assert!(cooling.check("a/b", Asker::Run).is_err());
            tokio::time::advance(UNASKED_MAX).await;
            assert!(cooling.check("a/b", Asker::Run).is_ok(), "one asks");
        }
        assert!(cooling.check("a/b", Asker::Run).is_err(), "and no other");
        cooling.answered("a/b");
        assert!(cooling.check("a/b", Asker::Run).is_ok(), "until it was answered");
    }

    #[test]
    fn a_word_of_the_person_asks_once_and_a_new_key_is_a_new_beginning() {
        let cooling = Cooling::default();
        for model in ["a/b", "a/c", "ab/c"] {
            cooling.heed(model, &error(ErrorClass::RateLimit, Some(100_000_000)));
        }
        assert!(cooling.check("a/b", Asker::Person).is_ok());
        assert!(cooling.check("a/b", Asker::Run).is_err(), "it is the person's word, and not the runs'");
        assert!(cooling.forget("a") && !cooling.forget("a"));
        let held = ["a/b", "a/c", "ab/c"].map(|model| cooling.check(model, Asker::Run).is_err());
        assert_eq!(held, [false, false, true]);
    }
}

//! Models that asked for patience. What one run was told holds for every run: asking on would only make it longer.

use choir_proto::model::{ErrorClass, ModelError};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Models that are remembered; what is over is forgotten first.
const MODELS_MAX: usize = 1000;

/// Which models want to be left alone, and until when; by `PROVIDER/MODEL`.
#[derive(Debug, Default)]
pub(super) struct Cooling(Mutex<HashMap<String, Instant>>);

impl Cooling {
    /// Refuses a question that its model would refuse.
    pub(super) fn check(&self, model: &str) -> Result<(), ModelError> {
        let Some(until) = self.lock().get(model).copied() else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
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
        all.retain(|_, until| *until > now);
        if all.len() < MODELS_MAX {
            all.insert(model.to_owned(), until);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_model_asked_for_holds_until_its_time_and_for_it_alone() {
        let cooling = Cooling::default();
        let error = |class, retry_after_ms| ModelError { class, message: String::new(), retry_after_ms };
        cooling.heed("a/b", &error(ErrorClass::RateLimit, None));
        cooling.heed("a/b", &error(ErrorClass::Overloaded, Some(9_000)));
        assert!(cooling.check("a/b").is_ok());
        cooling.heed("a/b", &error(ErrorClass::RateLimit, Some(3_000)));
        tokio::time::advance(Duration::from_millis(1_000)).await;
        let refused = cooling.check("a/b").unwrap_err();
        assert_eq!((refused.class, refused.retry_after_ms), (ErrorClass::RateLimit, Some(2_000)));
        assert!(cooling.check("a/c").is_ok());
        tokio::time::advance(Duration::from_millis(2_000)).await;
        assert!(cooling.check("a/b").is_ok());
    }
}

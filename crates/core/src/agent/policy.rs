//! What to do when a model does not answer, by the kind of failure.

use choir_proto::model::{ErrorClass, ModelError};
use choir_proto::task::TaskStatus;

/// Attempts at one turn.
pub const ATTEMPTS_MAX: u32 = 6;

/// Attempts at a turn whose provider hangs: each takes minutes.
const HANGS_MAX: u32 = 3;

/// Attempts at a turn whose answer is endless: once more, in case the next is not.
const LENGTHS_MAX: u32 = 2;

/// First wait between attempts; each further one doubles it.
const WAIT_MS: u64 = 500;

/// Waits of our own are no longer than this.
const WAIT_MS_MAX: u64 = 60_000;

/// Who wants us to wait longer than this wants us to go away.
const TOLD_WAIT_MS_MAX: u64 = 10 * 60_000;

/// First wait of a run that is parked; each further one doubles it.
const PARKED_MS: u64 = 30_000;

/// A parked run asks at least so often: whoever told it to wait longer may have changed their mind.
const PARKED_MS_MAX: u64 = 15 * 60_000;

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Ask again.
    Retry {
        /// After this wait.
        after_ms: u64,
    },
    /// Wait for a model, keeping everything.
    Park {
        /// When it is asked again by itself; nothing where only the person can help.
        again_ms: Option<u64>,
    },
    /// End: asking again would not help.
    Stop(TaskStatus),
}

/// How often a turn is tried that fails in this way.
pub fn attempts(class: ErrorClass) -> u32 {
    match class {
        ErrorClass::NoModel => u32::MAX,
        ErrorClass::Budget | ErrorClass::Refused | ErrorClass::BadRequest | ErrorClass::Auth => 1,
        ErrorClass::Oversized => LENGTHS_MAX,
        ErrorClass::Timeout => HANGS_MAX,
        // Each question is half as long as the one before.
        ErrorClass::TooLong => ATTEMPTS_MAX,
        ErrorClass::RateLimit | ErrorClass::Overloaded | ErrorClass::Truncated | ErrorClass::Garbage => ATTEMPTS_MAX,
    }
}

/// Whether it passes by itself, so that nothing is given up for it.
pub(super) fn passes(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::NoModel | ErrorClass::RateLimit | ErrorClass::Overloaded | ErrorClass::Timeout)
}

/// Whether asking the same model again is in vain, and another one may answer at once.
pub fn is_hopeless(error: &ModelError) -> bool {
    matches!(error.class, ErrorClass::Auth | ErrorClass::BadRequest) || is_sent_away(error)
}

fn is_sent_away(error: &ModelError) -> bool {
    error.retry_after_ms.is_some_and(|told| told > TOLD_WAIT_MS_MAX)
}

/// When a parked run asks again.
fn again_ms(error: &ModelError, attempt: u32) -> u64 {
    let doubled = PARKED_MS << attempt.saturating_sub(attempts(error.class)).min(8);
    error.retry_after_ms.map_or(doubled, |told| told.max(doubled)).min(PARKED_MS_MAX)
}

/// Decides by class. `attempt` counts from 1; `jitter` is a number from 0 to 1 that the shell drew.
pub fn react(error: &ModelError, attempt: u32, jitter: f64) -> Reaction {
    match error.class {
        ErrorClass::NoModel => Reaction::Park { again_ms: None },
        ErrorClass::Budget => Reaction::Stop(TaskStatus::OutOfBudget),
        class if passes(class) && (attempt >= attempts(class) || is_sent_away(error)) => {
            Reaction::Park { again_ms: Some(again_ms(error, attempt)) }
        }
        class if attempt >= attempts(class) => Reaction::Stop(TaskStatus::Failed),
        // What it does not fit into is made smaller first: see `Agent::next`.
        ErrorClass::TooLong => Reaction::Retry { after_ms: 0 },
        _ if is_sent_away(error) => Reaction::Stop(TaskStatus::Failed),
        _ => {
            let doubled = WAIT_MS << (attempt - 1).min(8);
            let jittered = (doubled as f64 * (0.5 + jitter.clamp(0.0, 1.0) / 2.0)) as u64;
            Reaction::Retry { after_ms: error.retry_after_ms.unwrap_or(jittered.min(WAIT_MS_MAX)) }
        }
    }
}

/// What is said when every attempt failed.
pub(super) fn given_up(class: ErrorClass, message: &str) -> String {
    match class {
        ErrorClass::Auth => format!("The provider did not accept the key: {message}"),
        _ => format!("The model did not answer: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_only_be_as_long_again_is_tried_once_more_and_what_hangs_not_for_ever() {
        let tries = |class| {
            let error = ModelError { class, message: String::new(), retry_after_ms: None };
            (1..).find(|attempt| !matches!(react(&error, *attempt, 0.5), Reaction::Retry { .. }))
        };
        let classes =
            [ErrorClass::Oversized, ErrorClass::TooLong, ErrorClass::Timeout, ErrorClass::Garbage, ErrorClass::Auth];
        assert_eq!(classes.map(tries), [Some(2), Some(ATTEMPTS_MAX), Some(3), Some(ATTEMPTS_MAX), Some(1)]);
    }

    #[test]
    fn what_passes_by_itself_is_waited_for_and_nothing_is_given_up_for_it() {
        let reaction =
            |class, attempt| react(&ModelError { class, message: String::new(), retry_after_ms: None }, attempt, 0.5);
        for (class, last) in [
            (ErrorClass::RateLimit, ATTEMPTS_MAX),
            (ErrorClass::Overloaded, ATTEMPTS_MAX),
            (ErrorClass::Timeout, HANGS_MAX),
        ] {
            assert!(matches!(reaction(class, last - 1), Reaction::Retry { .. }));
            assert_eq!(reaction(class, last), Reaction::Park { again_ms: Some(PARKED_MS) });
            assert_eq!(reaction(class, last + 1), Reaction::Park { again_ms: Some(2 * PARKED_MS) });
            assert_eq!(reaction(class, last + 1_000), Reaction::Park { again_ms: Some(PARKED_MS_MAX) });
        }
        for class in [ErrorClass::Auth, ErrorClass::BadRequest, ErrorClass::Refused, ErrorClass::Garbage] {
            assert_eq!(reaction(class, ATTEMPTS_MAX), Reaction::Stop(TaskStatus::Failed), "no time mends it");
        }
        assert_eq!(reaction(ErrorClass::NoModel, 1), Reaction::Park { again_ms: None });
    }

    #[test]
    fn a_provider_says_how_long_to_wait_within_reason() {
        let told = |retry_after_ms| {
            let error = ModelError { class: ErrorClass::RateLimit, message: String::new(), retry_after_ms };
            react(&error, 1, 0.5)
        };
        assert_eq!(told(Some(3_000)), Reaction::Retry { after_ms: 3_000 });
        assert_eq!(told(Some(120_000)), Reaction::Retry { after_ms: 120_000 }, "asking earlier would be in vain");
        let sent_away = Reaction::Park { again_ms: Some(PARKED_MS_MAX) };
        assert_eq!(told(Some(100_000_000)), sent_away, "nobody waits for a day without looking");
        assert!(matches!(told(None), Reaction::Retry { after_ms } if after_ms <= WAIT_MS_MAX));
    }
}

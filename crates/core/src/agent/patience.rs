//! What is said of an agent that waits, and when: nobody should look at a run that says nothing and does nothing.

use super::policy::attempts;
use choir_proto::event::TaskDelayed;
use choir_proto::model::ErrorClass;

/// A model that says nothing for so long is told of, in milliseconds of silence. People wait three seconds without wondering.
const TOLD_MS: [u64; 4] = [3_000, 10_000, 30_000, 60_000];

/// And from then on so often.
const AGAIN_MS: u64 = 60_000;

/// Waits between attempts that are shorter than this are over before anybody has read of them.
const RETRY_MS_MIN: u64 = 1_000;

/// The silence at which the next word is due, after one of so long.
pub fn next_word_ms(silent_ms: u64) -> u64 {
    let first = TOLD_MS.into_iter().find(|due| *due > silent_ms);
    first.unwrap_or_else(|| (silent_ms / AGAIN_MS + 1) * AGAIN_MS)
}

/// A model was asked and says nothing. `failures` are those of the same turn before.
pub fn silent(model: Option<&str>, silent_ms: u64, failures: u32) -> TaskDelayed {
    let (attempt, of) = (failures + 1, attempts(ErrorClass::Timeout).max(failures + 1));
    let name = model.unwrap_or("the model");
    TaskDelayed {
        message: format!("waiting for {name}: no word for {} s, attempt {attempt} of {of}", silent_ms / 1000),
        model: model.map(str::to_owned),
        attempt: Some(attempt),
        waited_ms: Some(silent_ms),
    }
}

/// A model failed and is asked again, if that is far enough away to be worth a word.
pub fn retried(class: ErrorClass, message: &str, attempt: u32, after_ms: u64) -> Option<TaskDelayed> {
    (after_ms >= RETRY_MS_MIN).then(|| TaskDelayed {
        message: format!(
            "{message}; asking again in {} s, attempt {} of {}",
            after_ms.div_ceil(1000),
            attempt + 1,
            attempts(class).max(attempt + 1)
        ),
        model: None,
        attempt: Some(attempt),
        waited_ms: None,
    })
}

/// As many work for the run as may at once.
pub fn in_line(at_work: usize) -> TaskDelayed {
    let message = format!("waiting in line: {at_work} are at work for this run, and no more may be at once");
    TaskDelayed { message, model: None, attempt: None, waited_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_of_soon_and_then_ever_less_often() {
        let mut told = vec![next_word_ms(0)];
        while told.len() < 7 {
            told.push(next_word_ms(told[told.len() - 1]));
        }
        assert_eq!(told, [3_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000]);
    }

    #[test]
    fn what_is_waited_for_is_named() {
        assert_eq!(silent(Some("a/b"), 3_000, 0).message, "waiting for a/b: no word for 3 s, attempt 1 of 3");
        assert_eq!(silent(None, 61_000, 4).message, "waiting for the model: no word for 61 s, attempt 5 of 5");
        let told = retried(ErrorClass::Overloaded, "it is overloaded", 2, 1_500).map(|delayed| delayed.message);
        assert_eq!(told.as_deref(), Some("it is overloaded; asking again in 2 s, attempt 3 of 6"));
        assert_eq!(retried(ErrorClass::Overloaded, "it is overloaded", 1, 500), None);
    }
}

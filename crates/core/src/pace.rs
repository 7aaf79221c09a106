//! When work begins that was just accepted. Accepting goes first: whoever sends many prompts at once, or sends one while somebody
//! else does, hears of each of them before the first work of all of them takes the processors.

/// Prompts closer together than this come together.
const TOGETHER_MS: u64 = 10;

/// How long work waits for the others to be accepted. A model takes far longer to say its first word.
const WAIT_MS: u64 = 40;

/// Who came when.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    newest_ms: Option<u64>,
}

impl Pace {
    /// Something was accepted: how long its work is put off. Nothing is put off for one that comes alone.
    pub fn put_off_ms(&mut self, now_ms: u64) -> u64 {
        let before = self.newest_ms.replace(now_ms);
        let together = before.is_some_and(|before| now_ms.saturating_sub(before) < TOGETHER_MS);
        if together { WAIT_MS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_alone_begins_at_once_and_a_crowd_is_accepted_first() {
        let mut pace = Pace::default();
        let waits = [5, 6, 9, 18, 28, 1000, 2000].map(|now| pace.put_off_ms(now));
        assert_eq!(waits, [0, WAIT_MS, WAIT_MS, WAIT_MS, 0, 0, 0]);
    }

    #[test]
    fn a_clock_that_stands_still_only_puts_off() {
        let mut pace = Pace { newest_ms: Some(50) };
        assert_eq!(pace.put_off_ms(50), WAIT_MS);
        assert_eq!(pace.put_off_ms(0), WAIT_MS);
    }
}

//! When work begins that was just accepted. Accepting goes first: whoever sends many prompts at once, or sends one while somebody
//! else does, hears of each of them before the first work of all of them takes the processors.

/// Prompts closer together than this come together.
const TOGETHER_MS: u64 = 10;

/// How long work waits for the others to be accepted. A model takes far longer to say its first word.
const WAIT_MS: u64 = 40;

/// How often work is put off at most, however long the crowd lasts.
const TIMES_MAX: u32 = 10;

/// Who came when.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    newest_ms: Option<u64>,
}

impl Pace {
    /// Something was accepted: how long its work is put off. Nothing is put off for one that comes alone.
    pub fn put_off_ms(&mut self, now_ms: u64) -> u64 {
        let before = self.newest_ms.replace(now_ms);
        if before.is_some_and(|before| are_together(before, now_ms)) { WAIT_MS } else { 0 }
    }

    /// Work was put off so many times: how much longer it waits, because others still come.
    pub fn still_ms(&self, times: u32, now_ms: u64) -> u64 {
        let crowded = self.newest_ms.is_some_and(|newest| are_together(newest, now_ms));
        if crowded && times < TIMES_MAX { WAIT_MS } else { 0 }
    }
}

fn are_together(before_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(before_ms) < TOGETHER_MS
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
    fn work_waits_until_the_crowd_is_gone_but_not_for_ever() {
        let mut pace = Pace::default();
        pace.put_off_ms(0);
        assert_eq!(pace.put_off_ms(5), WAIT_MS);
        assert_eq!(pace.still_ms(1, 45), 0, "nobody came since");
        pace.put_off_ms(50);
        // The clock may stand still: it ends all the same.
        let waits = (1..).take_while(|times| pace.still_ms(*times, 50) > 0).count();
        assert_eq!(waits, TIMES_MAX as usize - 1);
    }

    #[test]
    fn a_clock_that_stands_still_only_puts_off() {
        let mut pace = Pace { newest_ms: Some(50) };
        assert_eq!(pace.put_off_ms(50), WAIT_MS);
        assert_eq!(pace.put_off_ms(0), WAIT_MS);
    }
}

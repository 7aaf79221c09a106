//! When a failed actor is started again, and when its supervisor gives up on it.

use std::collections::{BTreeMap, VecDeque};

/// How often a child may fail before its failure is its parent's.
#[derive(Debug, Clone, Copy)]
pub struct Intensity {
    /// Restarts allowed within the window.
    pub restarts_max: u32,
    /// Length of the window.
    pub window_ms: u64,
}

/// The usual patience: a passing fault is mended, a lasting one is not hidden.
pub const INTENSITY: Intensity = Intensity { restarts_max: 5, window_ms: 30_000 };

/// Wait before the first restart; each further one within the window doubles it.
const BACKOFF_MS: u64 = 10;

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again.
    Restart {
        /// After this wait.
        after_ms: u64,
        /// How often within the window, this one included.
        restarts: u32,
    },
    /// Give up: the failure is the supervisor's own.
    Escalate,
}

/// What a supervisor remembers of its children, by name: a child that comes back under its name keeps its history.
#[derive(Debug, Clone)]
pub struct Supervisor {
    intensity: Intensity,
    failures: BTreeMap<String, VecDeque<u64>>,
}

impl Supervisor {
    /// A supervisor with some patience.
    pub fn new(intensity: Intensity) -> Self {
        Self { intensity, failures: BTreeMap::new() }
    }

    /// A child failed at a moment of monotonic time.
    pub fn failed(&mut self, name: &str, now_ms: u64) -> Verdict {
        let failures = self.failures.entry(name.to_owned()).or_default();
        while failures.front().is_some_and(|at| now_ms.saturating_sub(*at) > self.intensity.window_ms) {
            failures.pop_front();
        }
        failures.push_back(now_ms);
        let restarts = failures.len() as u32;
        if restarts > self.intensity.restarts_max {
            return Verdict::Escalate;
        }
        Verdict::Restart { after_ms: BACKOFF_MS << (restarts - 1), restarts }
    }

    /// A child ended in order and will not come back.
    pub fn forget(&mut self, name: &str) {
        self.failures.remove(name);
    }

    /// How often a child failed within the window.
    pub fn restarts(&self, name: &str) -> u32 {
        self.failures.get(name).map_or(0, |failures| failures.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_fault_escalates_and_a_passing_one_does_not() {
        let mut supervisor = Supervisor::new(Intensity { restarts_max: 2, window_ms: 1000 });
        assert_eq!(supervisor.failed("run", 0), Verdict::Restart { after_ms: 10, restarts: 1 });
        assert_eq!(supervisor.failed("run", 10), Verdict::Restart { after_ms: 20, restarts: 2 });
        assert_eq!(supervisor.failed("other", 10), Verdict::Restart { after_ms: 10, restarts: 1 });
        assert_eq!(supervisor.failed("run", 20), Verdict::Escalate);
        assert_eq!(supervisor.failed("run", 5000), Verdict::Restart { after_ms: 10, restarts: 1 });
    }
}

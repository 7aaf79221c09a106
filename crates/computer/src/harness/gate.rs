//! What comes first: a person's stop, or a task's changes on their way into the workspace.

use std::sync::atomic::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const STOPPED: u8 = 1;
const COMING_HOME: u8 = 2;

/// Decides it once. Whoever is second is told so, and nobody is promised a stop that comes too late.
#[derive(Debug, Default)]
pub struct Gate(AtomicU8);

impl Gate {
    /// Stops the task; false when its changes are on their way already.
    pub fn stop(&self) -> bool {
        self.pass(STOPPED)
    }

    /// Lets the changes through; false when the task was stopped before.
    pub fn come_home(&self) -> bool {
        self.pass(COMING_HOME)
    }

    /// What came home waits for the person: a stop is heard again.
    pub fn wait(&self) {
        // Only what was coming home waits; a stop that was heard stays one.
        self.0.compare_exchange(COMING_HOME, OPEN, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    fn pass(&self, wanted: u8) -> bool {
        match self.0.compare_exchange(OPEN, wanted, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(passed) => passed == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decides_and_may_say_so_again() {
        let (stopped, home) = (Gate::default(), Gate::default());
        assert!(stopped.stop() && !stopped.come_home() && stopped.stop());
        assert!(home.come_home() && !home.stop() && home.come_home());
        home.wait();
        assert!(home.stop() && !home.come_home(), "who waits for the person can be stopped");
        home.wait();
        assert!(!home.come_home());
    }
}

//! Taking the journal of effects away, so that whoever tests it can prove that its loss is noticed. Absent from every build that
//! ships.

use std::sync::atomic::{AtomicBool, Ordering};

static JOURNAL_OFF: AtomicBool = AtomicBool::new(false);

/// From now on agents of this process write down no intents, and a command has another name each time; or they do again.
pub fn switch_journal(off: bool) {
    JOURNAL_OFF.store(off, Ordering::Relaxed);
}

pub(crate) fn journal_is_off() -> bool {
    JOURNAL_OFF.load(Ordering::Relaxed)
}

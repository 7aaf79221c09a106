//! Taking durability away, so that whoever tests it can prove that its loss is noticed. Absent from every build that ships.

use std::sync::atomic::{AtomicBool, Ordering};

static SYNCS_OFF: AtomicBool = AtomicBool::new(false);

/// From now on every log of this process is opened with `synchronous=OFF`.
pub fn switch_syncs_off() {
    SYNCS_OFF.store(true, Ordering::Relaxed);
}

pub(crate) fn syncs_are_off() -> bool {
    SYNCS_OFF.load(Ordering::Relaxed)
}

//! Supervision beside counting by hand.

use anyhow::ensure;
use choir_core::supervise::{INTENSITY, Intensity, Supervisor, Verdict};
use std::collections::BTreeMap;

/// Failures of children under one seed.
pub(super) const FAILURES: u32 = 200;

/// Children fail at random times under a few names; verdicts are compared with counting by hand.
pub(super) fn supervise(seed: u64, patience: Intensity) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut supervisor = Supervisor::new(patience);
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut now = 0;
    for _ in 0..FAILURES {
        now += random.u64(..INTENSITY.window_ms / 8);
        let name = format!("run {}", random.u8(..3));
        let past = failures.entry(name.clone()).or_default();
        if random.u8(..12) == 0 {
            supervisor.forget(&name);
            past.clear();
            continue;
        }
        past.push(now);
        past.retain(|at| now - at <= INTENSITY.window_ms);
        let (verdict, recent) = (supervisor.failed(&name, now), past.len() as u32);
        let right = match verdict {
            Verdict::Restart { restarts, after_ms } => {
                recent <= INTENSITY.restarts_max && restarts == recent && after_ms == 10 << (recent - 1)
            }
            Verdict::Escalate => recent > INTENSITY.restarts_max,
        };
        ensure!(right, "{name} failed {recent} times in the window: {verdict:?}");
    }
    Ok(())
}

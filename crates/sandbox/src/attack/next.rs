//! What a task leaves in its workspace is all that the next one gets from it: no file there is a rule to anybody outside.

use super::suite::{AttackError, PROBE_MS_MAX, Suite, Verdict, judge};
use super::{Expect, Probe, Program};
use crate::protocol::Ending;
use crate::runtime::Spec;

/// What the next sandbox tries, with what must become of it.
const NEXT: [(Program, Expect); 3] = [
    (Program::Ask("CONNECT 127.0.0.1:{port}"), Expect::Turned),
    (Program::Act("capabilities"), Expect::Errno(&[libc::EPERM])),
    // As whoever comes by a door that reads such files, and finds a program by its name.
    (Program::Shell("bash -lc 'type -P sh'; echo \"preload $LD_PRELOAD\""), Expect::Says("preload ")),
];

impl Suite {
    /// Runs a probe, keeps what it left as a task's merge would, and looks at a new sandbox over it.
    pub(super) async fn next_is_the_same(
        &mut self,
        probe: &Probe,
        change: impl Fn(&mut Spec),
    ) -> Result<Verdict, AttackError> {
        let first = self.start_task(&change).await?;
        let seen = self.run_probe(&first, probe, PROBE_MS_MAX).await;
        if seen.ending != Some(Ending::Code(0)) || !seen.last_line.starts_with("done ") {
            return Ok(Verdict::Skipped(format!("nothing was left: {seen:?}")));
        }
        first.guest.shutdown().await;
        let left = self.keeper.capture_task(&first.name, self.base).await?.tree;
        if left == self.base {
            return Ok(Verdict::Skipped("what was left is in no tree".to_owned()));
        }
        let walls: Vec<_> = first.guest.layers().active().collect();
        let mut verdict = Verdict::Held(format!("{}; the next sandbox is the same", seen.last_line));
        for (program, expect) in NEXT {
            let next = self.start_task_over(left, &change).await?;
            if !next.guest.layers().active().eq(walls.iter().copied()) {
                verdict = Verdict::Escaped("the next sandbox has other walls".to_owned());
            }
            let tried = Probe { program, expect, ..*probe };
            let seen = self.run_probe(&next, &tried, PROBE_MS_MAX).await;
            if let other @ (Verdict::Escaped(_) | Verdict::Skipped(_)) = judge(expect, &seen) {
                verdict = other;
            }
            if let Some(unwell) = self.end_task_over(left, next).await? {
                verdict = unwell;
            }
        }
        self.end_task(first).await.map(|unwell| unwell.unwrap_or(verdict))
    }
}

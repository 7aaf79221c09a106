//! What belongs to somebody else, who has not allowed it to others.

use std::os::unix::fs::{PermissionsExt, chown};

use crate::keeper::{Kept, kept, task};
use crate::support::path;

/// A user who is nobody in any sandbox here.
const SOMEBODY_ELSE: u32 = 61_234;

/// Gives a path away and lets nobody but its new owner do what the mode says.
fn give_away(kept: &Kept, name: &str, mode: u32) {
    std::fs::set_permissions(kept.live(name), PermissionsExt::from_mode(mode)).expect("set");
    chown(kept.live(name), Some(SOMEBODY_ELSE), Some(SOMEBODY_ELSE)).expect("given away");
}

/// Only root can give files away; nobody else's computer meets what root can make there.
fn can_give_away() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn what_may_not_be_read_is_named_and_stops_nothing() {
    if !can_give_away() {
        return;
    }
    let kept = kept().await;
    kept.write("mine", "x");
    for name in ["secret", "closed/inside", "listed/inside"] {
        kept.write(name, "theirs");
    }
    give_away(&kept, "secret", 0o600);
    give_away(&kept, "closed", 0o700);
    give_away(&kept, "listed", 0o744);
    let base = kept.snapshot().await;
    let expected = vec![path("closed"), path("listed"), path("secret")];
    let mut named = base.forbidden.clone();
    named.sort();
    assert_eq!((base.skipped, &named), (3, &expected));
    kept.run_task("beside", base.tree, "test -e mine && echo y > mine").await;
    let mut named = kept.guest.capture_task(&task("beside"), base.tree).await.expect("captured").forbidden;
    named.sort();
    assert_eq!(named, expected, "and the task's result says so");
}

#[tokio::test]
async fn what_permissions_keep_as_it_is_is_no_conflict() {
    if !can_give_away() {
        return;
    }
    let kept = kept().await;
    kept.write("made-by-root/file", "before");
    kept.write("shut/file", "theirs");
    kept.write("mine", "before");
    give_away(&kept, "made-by-root", 0o755);
    give_away(&kept, "shut", 0o700);
    let base = kept.snapshot().await.tree;
    let command = "mkdir shut; for file in mine made-by-root/file made-by-root/new; do echo after > $file; done";
    let result = kept.run_task("denied", base, command).await;
    let report = kept.guest.merge(base, result, false).await.expect("merged");
    let forbidden: Vec<_> = report.forbidden.iter().map(ToString::to_string).collect();
    assert_eq!((report.applied, report.conflicts.len()), (1, 0), "{report:?}");
    assert_eq!(forbidden, ["made-by-root/file", "made-by-root/new", "shut"]);
}

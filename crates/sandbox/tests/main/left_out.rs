//! What no tree can hold is left out, and said to be.

use crate::keeper::{kept, task};
use crate::support::{path, shell};

#[tokio::test]
async fn what_lies_where_things_are_made_again_is_said_to_be_left_out() {
    let kept = kept().await;
    let base = kept.snapshot().await.tree;
    let guest = kept.task_sandbox("derived", base).await;
    let made = guest.exec(shell("mkdir -p archery/target; echo x > archery/target/notes")).await.expect("is sent");
    made.collect(1000).await.expect("ends");
    guest.shutdown().await;
    let captured = kept.guest.capture_task(&task("derived"), base).await.expect("captured");
    assert_eq!((captured.skipped, captured.skipped_paths), (1, vec![path("archery/target")]));
}

#[tokio::test]
async fn what_lies_too_deep_is_left_out_and_keeps_nobody_from_the_rest() {
    let kept = kept().await;
    let deep = |top: &str| format!("{top}{}", "/d".repeat(300));
    kept.write(&format!("{}/leaf", deep("live")), "deep");
    kept.write("beside", "before");
    let base = kept.snapshot().await;
    assert_eq!(base.skipped, 1, "the first folder that is too deep, with all that is in it");
    let made = format!("mkdir -p {} && echo x > {0}/leaf && echo after > beside", deep("made"));
    let result = kept.run_task("deep", base.tree, &made).await;
    let captured = kept.guest.capture_task(&task("deep"), base.tree).await.expect("captured");
    assert_eq!((captured.tree, captured.skipped), (result, 1));
    let named: Vec<String> = captured.skipped_paths.iter().map(ToString::to_string).collect();
    assert!(
        matches!(&named[..], [path] if path.starts_with("made/d/d") && deep("made").starts_with(path)),
        "{named:?}"
    );

    let merged = kept.guest.merge(base.tree, result, false).await.expect("merges");
    assert!(merged.conflicts.is_empty(), "{merged:?}");
    assert_eq!(
        (kept.read("beside").as_str(), kept.read(&format!("{}/leaf", deep("live"))).as_str()),
        ("after\n", "deep")
    );

    // Whoever removes what they could see of it removes nothing else.
    let base = kept.snapshot().await.tree;
    let result = kept.run_task("removes", base, "rm -r live").await;
    let merged = kept.guest.merge(base, result, false).await.expect("merges");
    assert!(!merged.conflicts.is_empty());
    assert_eq!(kept.read(&format!("{}/leaf", deep("live"))), "deep");
}

//! Changes of the workspace are heard of, wherever they come from.

use std::collections::BTreeSet;

use choir_sandbox::protocol::GuestRole;
use choir_sandbox::runtime::{Runtime, Watch};

use crate::support::{Sandbox, path, spec};

async fn keeper() -> Sandbox {
    let workspace = tempfile::tempdir().expect("a directory");
    let spec = spec(GuestRole::Keeper, workspace.path());
    let guest = Runtime::process().expect("a runtime").start(spec).await.expect("starts");
    Sandbox { guest, workspace }
}

/// Listens until all of these were told.
async fn hear(watch: &mut Watch, expected: &[&str]) {
    let mut missing: BTreeSet<_> = expected.iter().map(|text| path(text)).collect();
    while !missing.is_empty() {
        let changes = watch.next().await.expect("goes on");
        assert!(!changes.incomplete, "{changes:?}");
        for path in changes.paths {
            missing.remove(&path);
        }
    }
}

#[tokio::test]
async fn every_kind_of_change_is_told() {
    let sandbox = keeper().await;
    std::fs::create_dir_all(sandbox.host("deep/er")).expect("made");
    std::fs::write(sandbox.host("old"), "x").expect("writes");
    let mut watch = sandbox.guest.watch().await.expect("watches");
    std::fs::write(sandbox.host("new"), "x").expect("writes");
    hear(&mut watch, &["new"]).await;
    std::fs::write(sandbox.host("deep/er/file"), "x").expect("writes");
    hear(&mut watch, &["deep/er/file"]).await;
    std::fs::remove_file(sandbox.host("old")).expect("removed");
    std::fs::rename(sandbox.host("new"), sandbox.host("deep/moved")).expect("renamed");
    hear(&mut watch, &["old", "new", "deep/moved"]).await;
    sandbox.guest.write_file(&path("by-keeper"), "x".into(), None).await.expect("written");
    hear(&mut watch, &["by-keeper"]).await;
}

#[tokio::test]
async fn new_and_moved_directories_are_watched_under_their_names() {
    let sandbox = keeper().await;
    let mut watch = sandbox.guest.watch().await.expect("watches");
    std::fs::create_dir(sandbox.host("made")).expect("made");
    hear(&mut watch, &["made"]).await;
    std::fs::write(sandbox.host("made/file"), "x").expect("writes");
    hear(&mut watch, &["made/file"]).await;
    std::fs::rename(sandbox.host("made"), sandbox.host("named")).expect("renamed");
    hear(&mut watch, &["made", "named"]).await;
    std::fs::write(sandbox.host("named/other"), "x").expect("writes");
    hear(&mut watch, &["named/other"]).await;
}

#[tokio::test]
async fn too_much_at_once_is_told_as_such() {
    let sandbox = keeper().await;
    // Long paths, so that few of them are more than one report can name.
    let directory = sandbox.host(&vec!["d".repeat(250); 12].join("/"));
    std::fs::create_dir_all(&directory).expect("made");
    let mut watch = sandbox.guest.watch().await.expect("watches");
    let mut told = false;
    while !told {
        // Again, should a busy machine have spread them over two reports.
        for n in 0..100 {
            std::fs::write(directory.join(n.to_string()), "x").expect("writes");
        }
        told = watch.next().await.expect("goes on").incomplete;
    }
}

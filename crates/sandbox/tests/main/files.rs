//! Files beneath the workspace, and nothing beyond it.

use std::os::unix::fs::{PermissionsExt, symlink};

use bytes::Bytes;
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{FaultCode, FileKind, GuestRole, Removal};
use choir_sandbox::runtime::{Access, CallError, Runtime, Workspace};

use crate::support::{Sandbox, path, spec};

async fn keeper() -> Sandbox {
    keeper_with(Access::Write).await
}

async fn keeper_with(access: Access) -> Sandbox {
    let workspace = tempfile::tempdir().expect("a directory");
    let mut spec = spec(GuestRole::Keeper, workspace.path());
    spec.workspace = Workspace::Directory { path: workspace.path().into(), access };
    let guest = Runtime::process().expect("a runtime").start(spec).await.expect("starts");
    Sandbox { guest, workspace }
}

fn code<T>(result: Result<T, CallError>) -> FaultCode {
    match result {
        Err(CallError::Fault(fault)) => fault.code,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was done"),
    }
}

#[tokio::test]
async fn what_is_written_is_read() {
    let sandbox = keeper().await;
    let content: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    sandbox.guest.write_file(&path("big"), content.clone().into(), None).await.expect("written");
    assert_eq!(std::fs::read(sandbox.host("big")).expect("reads"), content);
    assert_eq!(sandbox.guest.read_file(&path("big"), 1 << 30).await.expect("reads"), content);
    let (part, _) = sandbox.guest.read_range(&path("big"), 4_999_990, 100).await.expect("reads");
    assert_eq!(part, content[4_999_990..]);
    assert!(matches!(sandbox.guest.read_file(&path("big"), 1000).await, Err(CallError::TooLong)));
    sandbox.guest.write_file(&path("empty"), Bytes::new(), None).await.expect("written");
    assert_eq!(sandbox.guest.read_file(&path("empty"), 10).await.expect("reads"), "");
}

#[tokio::test]
async fn writing_keeps_permissions_and_replaces_links() {
    let sandbox = keeper().await;
    std::fs::write(sandbox.host("tool"), "old").expect("writes");
    std::fs::set_permissions(sandbox.host("tool"), PermissionsExt::from_mode(0o755)).expect("set");
    symlink("tool", sandbox.host("link")).expect("linked");
    for name in ["tool", "link"] {
        sandbox.guest.write_file(&path(name), "new".into(), None).await.expect("written");
    }
    assert_eq!(std::fs::metadata(sandbox.host("tool")).expect("exists").permissions().mode() & 0o7777, 0o755);
    assert!(std::fs::symlink_metadata(sandbox.host("link")).expect("exists").is_file());
    sandbox.guest.write_file(&path("set"), "x".into(), Some(0o6755)).await.expect("written");
    assert_eq!(std::fs::metadata(sandbox.host("set")).expect("exists").permissions().mode() & 0o7777, 0o755);
    let left: Vec<_> = std::fs::read_dir(sandbox.workspace.path()).expect("lists").collect();
    assert_eq!(left.len(), 3, "no temporary file is left");
}

#[tokio::test]
async fn no_link_leads_outside() {
    let sandbox = keeper().await;
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("secret"), "secret").expect("writes");
    symlink("/etc", sandbox.host("absolute")).expect("linked");
    symlink("..", sandbox.host("above")).expect("linked");
    symlink("/proc/self/root", sandbox.host("magic")).expect("linked");
    symlink("/etc/passwd", sandbox.host("file")).expect("linked");
    let guest = &sandbox.guest;
    for name in ["absolute/passwd", "above/etc/passwd", "magic/etc/passwd", "file"] {
        assert_eq!(code(guest.read_file(&path(name), 1000).await), FaultCode::Escapes, "{name}");
    }
    for name in ["absolute/new", "above/tmp/new", "magic/tmp/new"] {
        assert_eq!(code(guest.write_file(&path(name), "x".into(), None).await), FaultCode::Escapes, "{name}");
        assert_eq!(code(guest.make_directory(&path(name)).await), FaultCode::Escapes, "{name}");
        assert_eq!(code(guest.remove(&path(name), Removal::Tree).await), FaultCode::Escapes, "{name}");
        assert_eq!(code(guest.rename(&path("file"), &path(name)).await), FaultCode::Escapes, "{name}");
        assert_eq!(code(guest.list(&path(name), None).await), FaultCode::Escapes, "{name}");
        assert_eq!(code(guest.stat(&path(name)).await), FaultCode::Escapes, "{name}");
    }
    // The link itself is beneath, and so is what a link names that stays inside.
    assert_eq!(guest.stat(&path("file")).await.expect("described").kind, FileKind::Link);
    std::fs::create_dir(sandbox.host("inside")).expect("made");
    symlink("inside", sandbox.host("near")).expect("linked");
    guest.write_file(&path("near/new"), "x".into(), None).await.expect("written");
    assert!(sandbox.host("inside/new").exists());
}

#[tokio::test]
async fn removing_a_tree_follows_no_link() {
    let sandbox = keeper().await;
    std::fs::create_dir_all(sandbox.host("tree/a/b")).expect("made");
    std::fs::create_dir(sandbox.host("kept")).expect("made");
    std::fs::write(sandbox.host("kept/file"), "x").expect("writes");
    symlink("../../kept", sandbox.host("tree/a/link")).expect("linked");
    assert_eq!(code(sandbox.guest.remove(&path("tree"), Removal::EmptyDirectory).await), FaultCode::NotEmpty);
    sandbox.guest.remove(&path("tree"), Removal::Tree).await.expect("removed");
    assert!(!sandbox.host("tree").exists());
    assert!(sandbox.host("kept/file").exists());
    assert_eq!(code(sandbox.guest.remove(&RelativePath::root(), Removal::Tree).await), FaultCode::BadRequest);
}

#[tokio::test]
async fn special_files_are_not_read() {
    let sandbox = keeper().await;
    rustix::fs::mknodat(rustix::fs::CWD, sandbox.host("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("made");
    assert_eq!(code(sandbox.guest.read_file(&path("pipe"), 10).await), FaultCode::NotAFile);
    assert_eq!(code(sandbox.guest.read_file(&RelativePath::root(), 10).await), FaultCode::NotAFile);
}

#[tokio::test]
async fn a_directory_is_listed_in_order_and_in_parts() {
    let sandbox = keeper().await;
    let mut names: Vec<String> = (0..1000).map(|n| format!("file-{n}")).collect();
    for name in &names {
        std::fs::write(sandbox.host(name), "").expect("writes");
    }
    names.sort();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let (entries, more) = sandbox.guest.list(&RelativePath::root(), after.as_ref()).await.expect("lists");
        listed.extend(entries.iter().map(|entry| entry.name.to_string()));
        after = entries.last().map(|entry| entry.name.clone());
        if !more {
            break;
        }
    }
    assert_eq!(listed, names);
}

#[tokio::test]
async fn what_was_never_written_to_its_end_is_no_file() {
    let sandbox = keeper().await;
    std::fs::write(sandbox.host("whole"), "").expect("writes");
    std::fs::write(sandbox.host(".choir-write-1-1"), "half of a file, by a keeper that was killed").expect("writes");
    let (entries, _) = sandbox.guest.list(&RelativePath::root(), None).await.expect("lists");
    assert_eq!(entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(), ["whole"]);
}

/// What would be cleared away is not acknowledged.
#[tokio::test]
async fn the_names_of_unfinished_files_are_given_to_nobody() {
    let sandbox = keeper().await;
    let (guest, unfinished) = (&sandbox.guest, path(".choir-write-18ab-7"));
    guest.write_file(&path(".choir-write-notes"), Bytes::from_static(b"x"), None).await.expect("written");
    let listed = guest.list(&RelativePath::root(), None).await.expect("lists").0;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(code(guest.write_file(&unfinished, Bytes::new(), None).await), FaultCode::BadRequest);
    assert_eq!(code(guest.rename(&path(".choir-write-notes"), &unfinished).await), FaultCode::BadRequest);
    let beneath = unfinished.join(b"beneath").expect("a path");
    assert_eq!(code(guest.make_directory(&beneath).await), FaultCode::BadRequest);
}

#[tokio::test]
async fn directories_are_made_and_paths_renamed() {
    let sandbox = keeper().await;
    sandbox.guest.make_directory(&path("a/b/c")).await.expect("made");
    sandbox.guest.make_directory(&path("a/b/c")).await.expect("is there already");
    sandbox.guest.write_file(&path("a/b/c/file"), "x".into(), None).await.expect("written");
    sandbox.guest.rename(&path("a/b/c/file"), &path("moved")).await.expect("renamed");
    assert_eq!(sandbox.guest.read_file(&path("moved"), 10).await.expect("reads"), "x");
    assert_eq!(code(sandbox.guest.make_directory(&path("moved/d")).await), FaultCode::NotADirectory);
    assert_eq!(code(sandbox.guest.read_file(&path("absent"), 10).await), FaultCode::NotFound);
}

#[tokio::test]
async fn a_read_only_workspace_is_not_changed() {
    let sandbox = keeper_with(Access::Read).await;
    std::fs::write(sandbox.host("file"), "x").expect("writes");
    assert_eq!(code(sandbox.guest.write_file(&path("file"), "y".into(), None).await), FaultCode::Denied);
    assert_eq!(code(sandbox.guest.remove(&path("file"), Removal::File).await), FaultCode::Denied);
    assert_eq!(std::fs::read(sandbox.host("file")).expect("reads"), b"x");
}

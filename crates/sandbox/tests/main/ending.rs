//! Nothing outlives its reason to be.
//!
//! A process proves that it lives by holding the writing end of a named pipe in the workspace; the reading end on the
//! host sees the end of file when the last holder is gone, without any waiting by the clock.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use choir_sandbox::protocol::Ending;
use choir_sandbox::runtime::ExecEvent;

use crate::support::{Sandbox, associate, shell};

/// A descendant that left its parent, its session and its group behind and holds the pipe. Its shell exits first, so
/// that the descendant is an orphan.
const ESCAPED: &str = "(setsid sh -c 'exec 9>alive; echo ready; exec sleep 1000' &)";

fn make_pipe(path: &Path) -> File {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let reader = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty()).expect("opens"));
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).expect("blocks");
    reader
}

/// Starts `command` and waits until the escaped descendant holds the pipe.
async fn start_escaped(sandbox: &Sandbox, command: &str) -> (choir_sandbox::runtime::ExecHandle, File) {
    start_escaped_with(sandbox, command, 60_000).await
}

async fn start_escaped_with(
    sandbox: &Sandbox,
    command: &str,
    timeout_ms: u64,
) -> (choir_sandbox::runtime::ExecHandle, File) {
    let pipe = make_pipe(&sandbox.host("alive"));
    let mut exec = shell(command);
    exec.timeout_ms = timeout_ms;
    let mut handle = sandbox.guest.exec(exec).await.expect("is sent");
    match handle.next().await.expect("goes on") {
        ExecEvent::Stdout(bytes) => assert_eq!(bytes, "ready\n"),
        other => panic!("{other:?}"),
    }
    (handle, pipe)
}

/// Waits until nobody holds the pipe.
async fn all_gone(mut pipe: File) {
    let reading = tokio::task::spawn_blocking(move || pipe.read(&mut [0; 16]).expect("reads"));
    let read = tokio::time::timeout(Duration::from_secs(20), reading).await.expect("everything is gone");
    assert_eq!(read.expect("reads"), 0);
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let sandbox = associate().await;
    let (handle, pipe) = start_escaped_with(&sandbox, &format!("{ESCAPED}; exec sleep 1000"), 500).await;
    let output = handle.collect(1000).await.expect("ends");
    assert_eq!(output.finished.exit.ending, Ending::TimedOut);
    all_gone(pipe).await;
    assert_eq!(sandbox.guest.health().await.expect("answers").processes, 1);
}

#[tokio::test]
async fn a_kill_ends_the_whole_tree_and_nothing_else() {
    let sandbox = associate().await;
    let waiting = shell("echo on; until [ -e go ]; do :; done; echo done");
    let mut bystander = sandbox.guest.exec(waiting).await.expect("is sent");
    assert!(matches!(bystander.next().await, Ok(ExecEvent::Stdout(_))));
    let (handle, pipe) = start_escaped(&sandbox, &format!("{ESCAPED}; exec sleep 1000")).await;
    handle.kill().await.expect("killed");
    assert_eq!(handle.collect(1000).await.expect("ends").finished.exit.ending, Ending::Killed);
    all_gone(pipe).await;
    std::fs::write(sandbox.host("go"), "").expect("writes");
    let output = bystander.collect(1000).await.expect("ends");
    assert_eq!(output.stdout, b"done\n");
    assert_eq!(output.finished.exit.ending, Ending::Code(0));
}

#[tokio::test]
async fn dropping_the_handle_ends_the_command() {
    let sandbox = associate().await;
    let (handle, pipe) = start_escaped(&sandbox, &format!("{ESCAPED}; exec sleep 1000")).await;
    drop(handle);
    all_gone(pipe).await;
}

#[tokio::test]
async fn a_process_that_hides_its_mark_goes_with_the_first() {
    let sandbox = associate().await;
    let hidden = "(env -i /usr/bin/setsid /bin/sh -c 'exec 9>alive; echo ready; exec sleep 1000' &); exec sleep 1000";
    let (handle, pipe) = start_escaped(&sandbox, hidden).await;
    handle.kill().await.expect("killed");
    all_gone(pipe).await;
}

#[tokio::test]
async fn a_background_process_outlives_its_command_but_not_the_sandbox() {
    let sandbox = associate().await;
    let until_said = format!("{ESCAPED}; until [ -e said ]; do :; done");
    let (handle, pipe) = start_escaped(&sandbox, &until_said).await;
    std::fs::write(sandbox.host("said"), "").expect("writes");
    assert_eq!(handle.collect(1000).await.expect("ends").finished.exit.ending, Ending::Code(0));
    assert_eq!(sandbox.guest.health().await.expect("answers").processes, 2);
    sandbox.guest.shutdown().await;
    all_gone(pipe).await;
}

#[tokio::test]
async fn losing_the_host_ends_everything() {
    let sandbox = associate().await;
    let (handle, pipe) = start_escaped(&sandbox, &format!("{ESCAPED}; exec sleep 1000")).await;
    drop((handle, sandbox.guest));
    all_gone(pipe).await;
}

#[tokio::test]
async fn terminating_ends_everything() {
    let sandbox = associate().await;
    let (_handle, pipe) = start_escaped(&sandbox, &format!("{ESCAPED}; exec sleep 1000")).await;
    sandbox.guest.terminate().await;
    all_gone(pipe).await;
}

#[tokio::test]
async fn zombies_are_collected() {
    let sandbox = associate().await;
    sandbox.stdout("for i in 1 2 3 4 5 6 7 8; do (sh -c 'sh -c true &' &); done; wait").await;
    // Only those whose parent is the guest are the guest's to collect; `grep` may be some shell's at this moment.
    let zombies = "cat /proc/[0-9]*/stat 2>/dev/null | grep -cE '^[0-9]+ \\(.*\\) Z 1 ' || true";
    while sandbox.stdout(zombies).await != "0\n" {}
}

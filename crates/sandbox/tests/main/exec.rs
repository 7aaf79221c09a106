//! Commands: what they say and how they end.

use bytes::Bytes;
use choir_sandbox::protocol::{Command, Ending, FaultCode, GuestRole, Input};
use choir_sandbox::record::{Outcome, Record, RecordError};
use choir_sandbox::runtime::{ExecError, ExecEvent, Runtime};

use crate::support::{associate, path, shell, spec, start};

#[tokio::test]
async fn a_command_says_how_it_ended() {
    let sandbox = associate().await;
    let output = sandbox.run("echo out; echo err >&2; exit 7").await;
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(output.finished.exit.ending, Ending::Code(7));
    assert!(!output.truncated);
    assert_eq!(sandbox.run("kill -9 $$").await.finished.exit.ending, Ending::Signal(9));
}

#[tokio::test]
async fn arguments_are_passed_without_a_shell() {
    let sandbox = associate().await;
    let mut exec = shell("");
    exec.command = Command::Arguments(["/bin/echo", "$HOME", "a b", ";true"].map(String::from).to_vec());
    let output = sandbox.guest.exec(exec).await.expect("is sent").collect(1000).await.expect("ends");
    assert_eq!(output.stdout, b"$HOME a b ;true\n");
}

#[tokio::test]
async fn a_command_runs_where_and_with_what_it_is_told() {
    let sandbox = associate().await;
    std::fs::create_dir(sandbox.host("below")).expect("made");
    let mut exec = shell("pwd; echo $WORD");
    exec.directory = path("below");
    exec.environment.insert("WORD".into(), "hallo".into());
    let output = sandbox.guest.exec(exec).await.expect("is sent").collect(1000).await.expect("ends");
    assert_eq!(output.stdout, b"/work/below\nhallo\n");
}

#[tokio::test]
async fn what_cannot_start_says_so_and_is_recorded_as_refused() {
    let books = tempfile::tempdir().expect("a directory");
    let record = Record::open(books.path()).expect("opens");
    let sandbox = start(|spec| spec.record = Some(record.clone())).await;
    let mut exec = shell("");
    exec.command = Command::Arguments(vec!["/no/such/program".into()]);
    let effect = exec.effect.clone();
    let failed = sandbox.guest.exec(exec).await.expect("is sent").collect(1000).await;
    assert!(matches!(failed, Err(ExecError::NotStarted(fault)) if fault.code == FaultCode::NotFound));
    assert_eq!(record.lookup(&effect), Some(Outcome::Refused));
}

#[tokio::test]
async fn a_large_output_arrives_whole() {
    let spools = tempfile::tempdir().expect("a directory");
    let sandbox = start(|spec| spec.spool_directory = Some(spools.path().into())).await;
    let mut handle = sandbox.guest.exec(shell("seq 1 300000")).await.expect("is sent");
    let mut streamed = Vec::new();
    let finished = loop {
        match handle.next().await.expect("goes on") {
            ExecEvent::Stdout(bytes) => streamed.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => panic!("{bytes:?}"),
            ExecEvent::Exit(finished) => break finished,
        }
    };
    let expected: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    assert_eq!((finished.output_bytes, finished.missed_bytes), (expected.len() as u64, 0));
    assert!(String::from_utf8(streamed).expect("text") == expected);
}

#[tokio::test]
async fn a_reader_that_sleeps_holds_nobody_up() {
    let spools = tempfile::tempdir().expect("a directory");
    let sandbox = start(|spec| spec.spool_directory = Some(spools.path().into())).await;
    let command = "seq 1 6000000; echo wrong >&2; echo end > done";
    let asleep = sandbox.guest.exec(shell(command)).await.expect("is sent");
    // Another command is served, and the first runs to its end, while nobody reads what it says.
    while sandbox.stdout("cat done 2>/dev/null || true").await != "end\n" {}
    let output = asleep.collect(usize::MAX).await.expect("ends");
    assert!(!output.truncated && output.finished.missed_bytes == 0, "{:?}", output.finished);
    assert_eq!(output.stderr, b"wrong\n");
    let expected: String = (1..=6_000_000).map(|number| format!("{number}\n")).collect();
    assert!(output.stdout == expected.into_bytes(), "all of it, in order");
    assert_eq!(std::fs::read_dir(spools.path()).expect("listed").count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn without_a_place_to_wait_a_sleeping_reader_misses_some_and_is_told() {
    let sandbox = associate().await;
    let asleep = sandbox.guest.exec(shell("head -c 50000000 /dev/zero; echo end > done")).await.expect("is sent");
    while sandbox.stdout("cat done 2>/dev/null || true").await != "end\n" {}
    let output = asleep.collect(1000).await.expect("ends");
    assert!(output.truncated && output.finished.missed_bytes > 0);
    assert_eq!(output.finished.output_bytes, 50_000_000);
}

#[tokio::test]
async fn many_commands_run_at_once() {
    let sandbox = associate().await;
    // Each waits for the next one's file, so they end only if all run together.
    let commands = (0..8).map(|n| format!("echo > at-{n}; while ! [ -e at-{} ]; do :; done; echo {n}", (n + 1) % 8));
    let mut handles = Vec::new();
    for command in commands {
        handles.push(sandbox.guest.exec(shell(&command)).await.expect("is sent"));
    }
    for (n, handle) in handles.into_iter().enumerate() {
        let output = handle.collect(1000).await.expect("ends");
        assert_eq!(output.stdout, format!("{n}\n").into_bytes());
    }
}

#[tokio::test]
async fn input_is_carried_whole_and_ends() {
    let sandbox = associate().await;
    let mut exec = shell("sha256sum; echo read");
    exec.input = Input::Stream;
    let handle = sandbox.guest.exec(exec).await.expect("is sent");
    // Several windows' worth, so that it only passes if the guest gives windows back.
    for _ in 0..20 {
        handle.write(Bytes::from(vec![0; 100_000])).await.expect("is taken");
    }
    handle.close_input().await.expect("is closed");
    let output = handle.collect(1000).await.expect("ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let expected = sandbox.stdout("head -c 2000000 /dev/zero | sha256sum").await;
    assert_eq!(text, expected + "read\n");
}

#[tokio::test]
async fn input_that_is_not_read_does_not_hold_up_a_kill() {
    let sandbox = associate().await;
    let mut exec = shell("exec sleep 1000");
    exec.input = Input::Stream;
    let handle = sandbox.guest.exec(exec).await.expect("is sent");
    let full = Bytes::from(vec![0; 10_000_000]);
    tokio::select! {
        Ok(()) = handle.write(full) => panic!("nobody reads it"),
        killed = async { sandbox.guest.health().await.expect("answers"); handle.kill().await } => killed.expect("killed"),
    }
    let output = handle.collect(1000).await.expect("ends");
    assert_eq!(output.finished.exit.ending, Ending::Killed);
}

#[tokio::test]
async fn starts_and_ends_are_on_record() {
    let books = tempfile::tempdir().expect("a directory");
    let record = Record::open(books.path()).expect("opens");
    let sandbox = start(|spec| spec.record = Some(record.clone())).await;
    let exec = shell("exit 4");
    let effect = exec.effect.clone();
    assert_eq!(record.lookup(&effect), None);
    let handle = sandbox.guest.exec(exec.clone()).await.expect("is sent");
    assert!(record.lookup(&effect).is_some(), "recorded before it is handed over");
    let exit = handle.collect(1000).await.expect("ends").finished.exit;
    assert_eq!(record.lookup(&effect), Some(Outcome::Exited(exit.clone())));
    let again = sandbox.guest.exec(exec).await;
    assert!(matches!(again, Err(ExecError::Record(RecordError::Known(Outcome::Exited(known)))) if known == exit));
}

#[tokio::test]
async fn a_lost_guest_leaves_started_on_record() {
    let books = tempfile::tempdir().expect("a directory");
    let record = Record::open(books.path()).expect("opens");
    let sandbox = start(|spec| spec.record = Some(record.clone())).await;
    let exec = shell("echo on; exec sleep 1000");
    let effect = exec.effect.clone();
    let mut handle = sandbox.guest.exec(exec).await.expect("is sent");
    assert!(matches!(handle.next().await, Ok(ExecEvent::Stdout(_))));
    sandbox.guest.terminate().await;
    assert!(matches!(handle.next().await, Err(ExecError::Lost)));
    assert_eq!(record.lookup(&effect), Some(Outcome::Started));
}

#[tokio::test]
async fn a_keeper_runs_nothing() {
    let workspace = tempfile::tempdir().expect("a directory");
    let runtime = Runtime::process().expect("a runtime");
    let guest = runtime.start(spec(GuestRole::Keeper, workspace.path())).await.expect("starts");
    let refused = guest.exec(shell("touch ran")).await.expect("is sent").collect(1000).await;
    assert!(matches!(refused, Err(ExecError::NotStarted(fault)) if fault.code == FaultCode::Role));
    assert!(!workspace.path().join("ran").exists());
}

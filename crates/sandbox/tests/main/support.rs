//! A sandbox on a fresh workspace, and short ways to use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{Command, EffectId, Ending, Exec, GuestRole, Input};
use choir_sandbox::runtime::{Backend, Guest, Output, Runtime, Spec};
use tempfile::TempDir;

/// Most output that a test looks at.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A running sandbox and its workspace.
pub(crate) struct Sandbox {
    pub(crate) guest: Guest,
    pub(crate) workspace: TempDir,
}

pub(crate) fn guest_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_choir-guest"))
}

pub(crate) fn spec(role: GuestRole, workspace: &Path) -> Spec {
    Spec::new(role, guest_program(), workspace)
}

pub(crate) async fn associate() -> Sandbox {
    start(|_| {}).await
}

pub(crate) async fn start(change: impl FnOnce(&mut Spec)) -> Sandbox {
    start_in(&Runtime::process().expect("a runtime"), change).await
}

/// Held from outside, which every machine offers to every user.
pub(crate) async fn start_watched(change: impl FnOnce(&mut Spec)) -> Sandbox {
    start_in(&Runtime::process_held_by(Backend::Watchdog).expect("a runtime"), change).await
}

pub(crate) async fn start_in(runtime: &Runtime, change: impl FnOnce(&mut Spec)) -> Sandbox {
    let workspace = tempfile::tempdir().expect("a directory");
    let mut spec = spec(GuestRole::Associate, workspace.path());
    change(&mut spec);
    let guest = runtime.start(spec).await.expect("starts");
    Sandbox { guest, workspace }
}

pub(crate) fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).expect("a good path")
}

/// A command of its own effect, with plenty of time.
pub(crate) fn shell(text: &str) -> Exec {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    Exec {
        effect: EffectId::parse(format!("test-{serial}")).expect("a good id"),
        command: Command::Shell(text.to_owned()),
        directory: RelativePath::root(),
        environment: BTreeMap::new(),
        timeout_ms: 60_000,
        input: Input::Empty,
    }
}

impl Sandbox {
    pub(crate) async fn run(&self, text: &str) -> Output {
        let handle = self.guest.exec(shell(text)).await.expect("is sent");
        handle.collect(OUTPUT_BYTES_MAX).await.expect("ends")
    }

    /// The output of a command that must succeed.
    pub(crate) async fn stdout(&self, text: &str) -> String {
        let output = self.run(text).await;
        assert_eq!(output.finished.exit.ending, Ending::Code(0), "{text}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }
}

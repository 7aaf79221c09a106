//! The processes of a sandbox: started, waited for, and ended with all their descendants.
//!
//! A guest is the first process of its namespace and collects also what others abandoned. A shim is outside of that
//! namespace: it knows its children by two numbers, its own and the one inside, and reaches their descendants through
//! `/proc`, which shows the inside.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::GuestError;
use crate::protocol::EffectId;

/// Carries the effect id in the environment of a command, so that a process which left its parents and its session
/// behind is still known as that command's.
pub(super) const EFFECT_VARIABLE: &str = "CHOIR_EFFECT";

/// How long the end of a tree may take. A tree that outruns it is a fork bomb which only the end of the whole sandbox
/// stops.
const KILL_TIME_MAX: Duration = Duration::from_secs(10);
/// How long killed processes are given to be gone before the table is read again.
const KILL_WAIT: Duration = Duration::from_millis(1);
/// How long a shim that ends waits for its commands to.
const COLLECT_TIME_MAX: Duration = Duration::from_millis(500);
/// What the guest exits with when a command could not be ended.
const UNKILLABLE_EXIT_CODE: i32 = 70;

/// The process table of the guest; a cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Processes {
    waiting: Arc<Mutex<HashMap<i32, Waiting>>>,
    /// The process inside that is never ended: the first of the namespace, or else the guest.
    spared: i32,
}

/// A child whose end somebody waits for, by its number for this process.
#[derive(Debug)]
struct Waiting {
    inside: i32,
    exit: oneshot::Sender<WaitStatus>,
}

/// A started process.
#[derive(Debug)]
pub(super) struct Started {
    /// Its streams; never waited for through this.
    pub(super) child: Child,
    /// Its number inside.
    pub(super) pid: Pid,
    /// How it ended, once it did.
    pub(super) exit: oneshot::Receiver<WaitStatus>,
}

impl Processes {
    /// Begins to collect every child of this process. Nothing else in the process may wait for children.
    pub(super) fn new() -> io::Result<Self> {
        let mut ended = signal(SignalKind::child())?;
        let waiting: Arc<Mutex<HashMap<i32, Waiting>>> = Arc::default();
        let collecting = waiting.clone();
        tokio::spawn(async move {
            loop {
                collect(&mut lock(&collecting));
                ended.recv().await;
            }
        });
        // A process that `/proc` does not show to itself is outside of what it shows.
        let is_inside = std::fs::exists("/proc/self").unwrap_or_default();
        Ok(Self { waiting, spared: if is_inside { rustix::process::getpid().as_raw_pid() } else { 1 } })
    }

    /// Starts a process. Children are collected by the same thread, so none is before it is registered here, nor one
    /// that the standard library itself waits for after a failed start.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Started> {
        let mut waiting = lock(&self.waiting);
        let on_inside = tell_inside(command)?;
        let child = command.spawn()?;
        let inside = hear_inside(on_inside)?;
        let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
        let (sender, exit) = oneshot::channel();
        waiting.insert(pid, Waiting { inside: inside.as_raw_pid(), exit: sender });
        Ok(Started { child, pid: inside, exit })
    }

    /// Ends a command and everything that came from it. When that is impossible the guest ends itself, and the sandbox
    /// ends with it: nothing gentler is left.
    pub(super) async fn end_tree(&self, root: Pid, effect: &EffectId) {
        if self.kill_tree(root.as_raw_pid(), effect).await.is_err() {
            std::process::exit(UNKILLABLE_EXIT_CODE);
        }
    }

    async fn kill_tree(&self, root: i32, effect: &EffectId) -> Result<(), GuestError> {
        let deadline = Instant::now() + KILL_TIME_MAX;
        while Instant::now() < deadline {
            let snapshot = self.snapshot();
            let victims = snapshot.processes.values().filter(|process| snapshot.belongs(process, root, effect));
            // All are opened before the first is killed: afterwards a number might already be another process's.
            let victims: Vec<OwnedFd> = victims.filter_map(|process| open_process(process.pid)).collect();
            if victims.is_empty() {
                return Ok(());
            }
            kill(&victims);
            tokio::time::sleep(KILL_WAIT).await;
        }
        Err(GuestError::Unkillable)
    }

    /// Ends the commands themselves and collects them, for a shim that ends: whoever would inherit them on the host may
    /// take its time, and their namespace does not end before they are collected.
    pub(super) async fn end_commands(&self) {
        let deadline = Instant::now() + COLLECT_TIME_MAX;
        for pid in lock(&self.waiting).keys().copied().filter_map(Pid::from_raw) {
            // Already gone is what is wanted.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        while Instant::now() < deadline && !lock(&self.waiting).is_empty() {
            collect(&mut lock(&self.waiting));
            tokio::time::sleep(KILL_WAIT).await;
        }
    }

    /// How many processes there are, the guest included.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.snapshot().processes.len()).unwrap_or(u32::MAX)
    }

    fn snapshot(&self) -> Snapshot {
        let roots = lock(&self.waiting).values().map(|waiting| waiting.inside).collect();
        Snapshot::take(self.spared, roots)
    }
}

fn lock(waiting: &Mutex<HashMap<i32, Waiting>>) -> MutexGuard<'_, HashMap<i32, Waiting>> {
    // The table stays whole when a holder panics: each change is one insertion or removal.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn collect(waiting: &mut HashMap<i32, Waiting>) {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if let Some(waiting) = waiting.remove(&pid.as_raw_pid()) {
            // Nobody listens when the request was given up.
            waiting.exit.send(status).ok();
        }
    }
}

/// Has the process say its number inside, which its parent may not know.
#[allow(unsafe_code)]
fn tell_inside(command: &mut Command) -> io::Result<OwnedFd> {
    let (on_inside, inside) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let tell = move || {
        let number = rustix::process::getpid().as_raw_pid().to_ne_bytes();
        rustix::io::write(&inside, &number)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(tell) };
    Ok(on_inside)
}

/// What was said before the program began, so that nobody waits for it. A process that was killed before it could say so
/// has said nothing, and never will: its command holds the other end too.
fn hear_inside(on_inside: OwnedFd) -> io::Result<Pid> {
    let mut number = [0; size_of::<i32>()];
    std::fs::File::from(on_inside).read_exact(&mut number)?;
    Pid::from_raw(i32::from_ne_bytes(number)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Stops them all before killing any, so that none starts another in between.
fn kill(victims: &[OwnedFd]) {
    for signal in [Signal::STOP, Signal::KILL] {
        for process in victims {
            // Already gone is what is wanted.
            pidfd_send_signal(process, signal).ok();
        }
    }
}

/// By its directory, which serves as well as a handle of the process, and is found by its number inside.
fn open_process(pid: i32) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty()).ok()
}

/// The process table at one moment, without processes that have ended and only wait to be collected.
struct Snapshot {
    /// The process that is never ended.
    spared: i32,
    /// First processes of the commands under way.
    roots: HashSet<i32>,
    processes: HashMap<i32, Process>,
}

struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
}

impl Snapshot {
    fn take(spared: i32, roots: HashSet<i32>) -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes = pids.filter_map(Process::read).map(|process| (process.pid, process)).collect();
        Self { spared, roots, processes }
    }

    /// Whether the process came from the command whose first process is `root`.
    fn belongs(&self, process: &Process, root: i32, effect: &EffectId) -> bool {
        process.pid != self.spared
            && match self.root_of(process) {
                Some(found) => found == root,
                None => process.group == root || process.session == root || process.bears(effect),
            }
    }

    /// The first process of the command under way from which the process descends; `None` when it was abandoned.
    fn root_of(&self, process: &Process) -> Option<i32> {
        self.ancestry(process.pid).find(|pid| self.roots.contains(pid))
    }

    /// The process and its ancestors, as far as they are below the first. Bounded by the table, because numbers may
    /// have been reused while it was read.
    fn ancestry(&self, pid: i32) -> impl Iterator<Item = i32> {
        let parent = |pid: &i32| self.processes.get(pid).map(|process| process.parent);
        std::iter::successors(Some(pid), parent).take(self.processes.len() + 1).take_while(|pid| *pid != self.spared)
    }
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, parentheses included; the last one closes it.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let mut number = || fields.next()?.parse().ok();
        Some(Self { pid, parent: number()?, group: number()?, session: number()? })
    }

    /// Whether the process bears the command's mark, or none: what hides its origin goes with the first.
    fn bears(&self, effect: &EffectId) -> bool {
        let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let prefix = format!("{EFFECT_VARIABLE}=");
        let mark = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()));
        mark.is_none_or(|mark| mark == effect.as_str().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Far longer than it takes; a test that reaches it has found a hang.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// As when the namespace ends in which the process was about to begin.
    #[test]
    #[allow(unsafe_code)]
    fn a_process_that_is_killed_before_it_begins_holds_nobody_up() {
        let (heard, on_heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut command = Command::new("true");
            let die = || rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).map_err(Into::into);
            // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and takes no lock.
            unsafe { command.pre_exec(die) };
            let on_inside = tell_inside(&mut command).expect("a pipe");
            let mut child = command.spawn().expect("is forked");
            heard.send(hear_inside(on_inside).is_err()).expect("somebody waits");
            child.wait().expect("is collected");
        });
        assert_eq!(on_heard.recv_timeout(PATIENCE), Ok(true));
    }
}

//! The processes of a sandbox: started, waited for, and ended with all their descendants.

use std::collections::{HashMap, HashSet};
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal,
};
use tokio::sync::oneshot;

use super::GuestError;
use crate::protocol::EffectId;

/// Carries the effect id in the environment of a command, so that a process which left its parents and its session
/// behind is still known as that command's.
pub(super) const EFFECT_VARIABLE: &str = "CHOIR_EFFECT";

/// How often the process table is read while ending a tree. A tree that outruns this many rounds is a fork bomb
/// which only the end of the whole sandbox stops.
const KILL_ROUNDS_MAX: u32 = 100;
/// What the guest exits with when a command could not be ended.
const UNKILLABLE_EXIT_CODE: i32 = 70;
/// How long one round waits for killed processes to be gone.
const KILL_WAIT: Duration = Duration::from_millis(100);

/// The process table of the guest; a cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Processes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Held while a process is being started, so that the reaper never takes a child that is not registered yet, nor
    /// one that the standard library itself waits for after a failed start.
    table: Mutex<Table>,
    started: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<i32, oneshot::Sender<WaitStatus>>,
    /// Every start, so that the reaper knows when waiting is worth while again.
    starts: u64,
}

/// A started process.
#[derive(Debug)]
pub(super) struct Started {
    /// Its streams; never waited for through this.
    pub(super) child: Child,
    /// Its number.
    pub(super) pid: Pid,
    /// How it ended, once it did.
    pub(super) exit: oneshot::Receiver<WaitStatus>,
}

impl Processes {
    /// Begins to collect every child of this process. Nothing else in the process may wait for children.
    pub(super) fn new() -> io::Result<Self> {
        let shared = Arc::new(Shared { table: Mutex::default(), started: Condvar::new() });
        let reaper = shared.clone();
        std::thread::Builder::new().name("reaper".into()).spawn(move || reap(&reaper))?;
        Ok(Self { shared })
    }

    /// Starts a process.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Started> {
        let mut table = self.shared.lock();
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let (sender, exit) = oneshot::channel();
        table.waiting.insert(pid.as_raw_pid(), sender);
        table.starts += 1;
        self.shared.started.notify_one();
        Ok(Started { child, pid, exit })
    }

    /// Ends a command and everything that came from it. When that is impossible the guest ends itself: as the first
    /// process of its namespace it takes every other along, and nothing gentler is left.
    pub(super) async fn end_tree(&self, root: Pid, effect: &EffectId) {
        let (this, effect) = (self.clone(), effect.clone());
        let killed = tokio::task::spawn_blocking(move || this.kill_tree(root, &effect)).await;
        if !matches!(killed, Ok(Ok(()))) {
            std::process::exit(UNKILLABLE_EXIT_CODE);
        }
    }

    fn kill_tree(&self, root: Pid, effect: &EffectId) -> Result<(), GuestError> {
        let root = root.as_raw_pid();
        self.kill_all(|snapshot, process| snapshot.belongs(process, root, effect))
    }

    /// Ends everything but the guest. Blocks.
    pub(super) fn kill_everything(&self) -> Result<(), GuestError> {
        self.kill_all(Snapshot::is_below_guest)
    }

    /// How many processes there are, the guest included.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.snapshot().processes.len()).unwrap_or(u32::MAX)
    }

    fn snapshot(&self) -> Snapshot {
        let roots = self.shared.lock().waiting.keys().copied().collect();
        Snapshot::take(roots)
    }

    fn kill_all(&self, chosen: impl Fn(&Snapshot, &Process) -> bool) -> Result<(), GuestError> {
        for _ in 0..KILL_ROUNDS_MAX {
            let snapshot = self.snapshot();
            let victims = snapshot.processes.values().filter(|process| chosen(&snapshot, process));
            // All are opened before the first is killed: afterwards a number might already be another process's.
            let victims: Vec<OwnedFd> = victims.filter_map(|process| open_process(process.pid)).collect();
            if victims.is_empty() {
                return Ok(());
            }
            kill_and_wait(&victims);
        }
        Err(GuestError::Unkillable)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table stays whole when a holder panics: each change is one insertion or removal.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for children for as long as the process lives.
fn reap(shared: &Shared) {
    let mut starts_seen = 0;
    loop {
        // Only looks, so that the lock is taken before a child is collected.
        match rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => collect(&mut shared.lock()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let table = shared.lock();
                let table = shared.started.wait_while(table, |table| table.starts == starts_seen);
                starts_seen = table.unwrap_or_else(PoisonError::into_inner).starts;
            }
        }
    }
}

fn collect(table: &mut Table) {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if let Some(waiting) = table.waiting.remove(&pid.as_raw_pid()) {
            // Nobody listens when the request was given up.
            waiting.send(status).ok();
        }
    }
}

/// Stops them all before killing any, so that none starts another in between.
fn kill_and_wait(victims: &[OwnedFd]) {
    for signal in [Signal::STOP, Signal::KILL] {
        for process in victims {
            // Already gone is what is wanted.
            pidfd_send_signal(process, signal).ok();
        }
    }
    victims.iter().for_each(wait_gone);
}

fn open_process(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

fn wait_gone(process: &OwnedFd) {
    let wait = Timespec { tv_sec: 0, tv_nsec: KILL_WAIT.subsec_nanos().into() };
    // Whether it is gone is what the next round finds out.
    rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&wait)).ok();
}

/// The process table at one moment, without processes that have ended and only wait to be collected.
struct Snapshot {
    guest: i32,
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
    fn take(roots: HashSet<i32>) -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes = pids.filter_map(Process::read).map(|process| (process.pid, process)).collect();
        Self { guest: rustix::process::getpid().as_raw_pid(), roots, processes }
    }

    /// Whether the process came from the command whose first process is `root`.
    fn belongs(&self, process: &Process, root: i32, effect: &EffectId) -> bool {
        process.pid != self.guest
            && match self.root_of(process) {
                Some(found) => found == root,
                None => process.group == root || process.session == root || process.bears(effect),
            }
    }

    /// Whether the process came from the guest.
    fn is_below_guest(&self, process: &Process) -> bool {
        process.pid != self.guest
            && self
                .ancestry(process.pid)
                .last()
                .and_then(|top| self.processes.get(&top))
                .is_some_and(|top| top.parent == self.guest)
    }

    /// The first process of the command under way from which the process descends; `None` when it was abandoned.
    fn root_of(&self, process: &Process) -> Option<i32> {
        self.ancestry(process.pid).find(|pid| self.roots.contains(pid))
    }

    /// The process and its ancestors, as far as they are below the guest. Bounded by the table, because numbers may
    /// have been reused while it was read.
    fn ancestry(&self, pid: i32) -> impl Iterator<Item = i32> {
        let parent = |pid: &i32| self.processes.get(pid).map(|process| process.parent);
        std::iter::successors(Some(pid), parent).take(self.processes.len() + 1).take_while(|pid| *pid != self.guest)
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

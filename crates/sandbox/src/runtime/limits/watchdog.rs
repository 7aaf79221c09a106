//! A whole sandbox, watched from outside while anything runs in it.
//!
//! Ten times a second it is looked at what the sandbox uses and what it has written. One that takes more than it may is
//! ended, unless the kernel has dealt with it already. Watching stops when only the guest is left.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::{Hold, Limit, Memory, Seen, sockets};
use crate::runtime::connection::Connection;
use crate::runtime::layers::is_separate;

/// How often it is looked.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most processes looked at; more than any limit on them allows.
const PROCESSES_MAX: usize = 65_536;

/// Measures what a sandbox has written in which everything came from these processes; the limit that it exceeds. May block
/// for long.
pub(in crate::runtime) type Measure = Box<dyn FnMut(&[u32]) -> Option<Limit> + Send>;

/// What is watched, and how the sandbox is ended.
pub(in crate::runtime) struct Watchdog {
    /// The guest and its shim, as this machine numbers them.
    pub(in crate::runtime) guests: Vec<u32>,
    /// How the sandbox is held.
    pub(in crate::runtime) hold: Arc<dyn Hold>,
    /// What it has written.
    pub(in crate::runtime) written: Written,
    /// Ends the sandbox; weak, because watching is no reason for it to live.
    pub(in crate::runtime) stop: mpsc::WeakSender<()>,
    /// Know what was asked to run.
    pub(in crate::runtime) connections: Vec<Arc<Connection>>,
    /// Told whenever something was asked to run.
    pub(in crate::runtime) started: Arc<Notify>,
    /// Filled before the sandbox is ended.
    pub(in crate::runtime) exceeded: Arc<OnceLock<Limit>>,
    /// Most processes and threads that it may have.
    pub(in crate::runtime) threads_max: u64,
    /// When it was last looked at and seen to have so many. The kernel says nothing of those that it refuses beyond.
    pub(in crate::runtime) crowded: Arc<Mutex<Option<Instant>>>,
}

impl Watchdog {
    /// Watches until the sandbox is gone.
    pub(in crate::runtime) async fn watch(mut self) {
        loop {
            self.started.notified().await;
            while self.look().await == Look::Busy {}
            if self.stop.upgrade().is_none_or(|stop| stop.is_closed()) {
                return;
            }
        }
    }

    /// Looks once, and waits until it is time for the next look, if there is one. What was written is measured beside: a
    /// walk over a large layer takes seconds, and memory is taken in less.
    async fn look(&mut self) -> Look {
        let Some(stop) = self.stop.upgrade().filter(|stop| !stop.is_closed()) else { return Look::Gone };
        drop(stop);
        let next = tokio::time::Instant::now() + INTERVAL;
        self.written.begin(&self.guests);
        let (guests, hold) = (self.guests.clone(), self.hold.clone());
        let looked_at = Instant::now();
        let looked = tokio::task::spawn_blocking(move || hold.look(&guests));
        let Ok(seen) = looked.await else { return Look::Gone };
        if seen.threads as u64 >= self.threads_max {
            *self.crowded.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked_at);
        }
        if seen.memory == Memory::Enforced {
            // Only the first reason counts.
            self.exceeded.set(Limit::Memory).ok();
        }
        if seen.memory == Memory::Beyond {
            return self.end(Limit::Memory);
        }
        // What was asked for may not have started yet, and what has ended may have left others behind. The guests
        // themselves are always there.
        let is_running = self.connections.iter().any(|connection| connection.is_running());
        let is_busy = is_running || seen.processes > self.guests.len();
        // Where nothing runs there is nothing else to look at.
        let measured = if is_busy {
            tokio::time::timeout_at(next, self.written.end()).await.unwrap_or_default()
        } else {
            self.written.end().await
        };
        match measured {
            Some(limit) => self.end(limit),
            None if is_busy => {
                tokio::time::sleep_until(next).await;
                Look::Busy
            }
            None => Look::Idle,
        }
    }

    /// Ends the sandbox for a limit.
    fn end(&self, limit: Limit) -> Look {
        self.exceeded.set(limit).ok();
        self.stop.upgrade().and_then(|stop| stop.try_send(()).ok());
        Look::Gone
    }
}

/// What a sandbox has written, or a walk that is finding out.
pub(in crate::runtime) struct Written {
    /// Nothing while it measures.
    measure: Option<Measure>,
    walk: Option<JoinHandle<(Option<Limit>, Measure)>>,
}

impl Written {
    pub(in crate::runtime) fn new(measure: Measure) -> Self {
        Self { measure: Some(measure), walk: None }
    }

    /// Begins to measure, unless it does.
    fn begin(&mut self, guests: &[u32]) {
        if let Some(mut measure) = self.measure.take() {
            let guests = guests.to_vec();
            self.walk = Some(tokio::task::spawn_blocking(move || (measure(&guests), measure)));
        }
    }

    /// Waits until it is measured; the limit that is exceeded. Given up, it goes on.
    async fn end(&mut self) -> Option<Limit> {
        let (limit, measure) = self.walk.as_mut()?.await.ok()?;
        (self.walk, self.measure) = (None, Some(measure));
        limit
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Look {
    Busy,
    Idle,
    Gone,
}

/// Adds memory up from outside, which everybody may.
#[derive(Debug)]
pub(super) struct Adding {
    /// Most memory of all processes together.
    pub(super) memory_bytes: u64,
}

impl Hold for Adding {
    fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    fn look(&self, guests: &[u32]) -> Seen {
        let usage = usage(guests, self.memory_bytes);
        let in_sockets = in_sockets(guests, self.memory_bytes.saturating_sub(usage.memory_bytes));
        let memory = if usage.memory_bytes.saturating_add(in_sockets) > self.memory_bytes {
            Memory::Beyond
        } else {
            Memory::Within
        };
        Seen { processes: usage.processes, threads: usage.threads, memory }
    }

    fn threads(&self, guests: &[u32]) -> usize {
        descendants(guests).1
    }

    fn counts_nameless(&self) -> bool {
        false
    }
}

/// What the guests' one network holds. A guest without one of its own, which never ships, would be taken for everybody.
fn in_sockets(guests: &[u32], room: u64) -> u64 {
    let own = guests.iter().find(|guest| is_separate(**guest, "net"));
    own.map_or(0, |guest| sockets::bytes(*guest, room))
}

#[derive(Debug, Default)]
struct Usage {
    processes: usize,
    threads: usize,
    memory_bytes: u64,
}

/// Adds up what processes and all that came from them use. Resident memory is quickly read but counts what is shared
/// once for each; only where that is too much is the exact, slow figure taken.
fn usage(roots: &[u32], limit: u64) -> Usage {
    let (processes, threads) = descendants(roots);
    let resident = processes.iter().map(|pid| resident_bytes(*pid).unwrap_or_default()).sum();
    let memory_bytes = if resident <= limit {
        resident
    } else {
        // A process whose figure cannot be read counts in full: hiding must not pay.
        let exact = |pid: &u32| proportional_bytes(*pid).or_else(|| resident_bytes(*pid)).unwrap_or_default();
        processes.iter().map(exact).sum()
    };
    Usage { processes: processes.len(), threads, memory_bytes }
}

/// Processes and all that came from them, and how many threads they have.
pub(super) fn descendants(roots: &[u32]) -> (Vec<u32>, usize) {
    let mut found = roots.to_vec();
    let (mut next, mut threads) = (0, 0);
    while next < found.len() && found.len() < PROCESSES_MAX {
        let (children, own) = children(found[next]);
        found.extend(children);
        threads += own;
        next += 1;
    }
    (found, threads)
}

/// The children that each of a process's threads has started, and how many threads it has.
fn children(pid: u32) -> (Vec<u32>, usize) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let (mut children, mut count) = (Vec::new(), 0);
    for thread in threads {
        count += 1;
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    (children, count)
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let pages: u64 = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn proportional_bytes(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = field.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_child_are_counted() {
        let mut child = std::process::Command::new("/bin/sleep").arg("1000").spawn().expect("starts");
        let (own, with_child) =
            (resident_bytes(std::process::id()).expect("read"), usage(&[std::process::id()], u64::MAX));
        assert!(descendants(&[std::process::id()]).0.contains(&child.id()));
        assert!(with_child.memory_bytes > 0 && own > 0 && with_child.processes >= 2);
        assert!(with_child.threads > with_child.processes, "a test has a thread of its own");
        assert!(proportional_bytes(std::process::id()).expect("read") > 0);
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    /// Takes too much, always.
    #[derive(Debug)]
    struct Greedy;

    impl Hold for Greedy {
        fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
            Ok(Vec::new())
        }

        fn look(&self, _guests: &[u32]) -> Seen {
            Seen { processes: 1, threads: 1, memory: Memory::Beyond }
        }

        fn counts_nameless(&self) -> bool {
            false
        }
    }

    /// How long nobody notices before this fails.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_walk_that_takes_long_does_not_delay_the_look_at_memory() {
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let (stop, mut on_stop) = mpsc::channel(1);
        let (started, exceeded) = <(Arc<Notify>, Arc<OnceLock<Limit>>)>::default();
        let walks = move |_: &[u32]| {
            may_go_on.recv().ok();
            None
        };
        let watchdog = Watchdog {
            guests: vec![u32::MAX],
            hold: Arc::new(Greedy),
            written: Written::new(Box::new(walks)),
            stop: stop.downgrade(),
            connections: Vec::new(),
            started: started.clone(),
            exceeded: exceeded.clone(),
            threads_max: u64::MAX,
            crowded: Arc::default(),
        };
        let watching = tokio::spawn(watchdog.watch());
        started.notify_one();
        let ended = tokio::time::timeout(PATIENCE, on_stop.recv()).await;
        drop(go_on);
        assert_eq!((ended, exceeded.get()), (Ok(Some(())), Some(&Limit::Memory)));
        watching.abort();
    }

    #[test]
    fn a_process_that_is_gone_uses_nothing() {
        assert_eq!(usage(&[u32::MAX], 0).memory_bytes, 0);
    }
}

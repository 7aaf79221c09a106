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

use super::{Hold, Limit, Memory, Meter, Seen, sockets};
use crate::runtime::connection::Connection;
use crate::runtime::layers::is_separate;

/// How often it is looked.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most processes looked at; more than any limit on them allows.
const PROCESSES_MAX: usize = 65_536;

/// What is watched, and how the sandbox is ended.
#[derive(Debug)]
pub(in crate::runtime) struct Watchdog {
    /// The guest and its shim, as this machine numbers them.
    pub(in crate::runtime) guests: Vec<u32>,
    /// How the sandbox is held.
    pub(in crate::runtime) hold: Arc<dyn Hold>,
    /// What it has written; nothing while somebody measures.
    pub(in crate::runtime) meter: Option<Meter>,
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
            while self.look().await == Look::Busy {
                tokio::time::sleep(INTERVAL).await;
            }
            if self.stop.upgrade().is_none_or(|stop| stop.is_closed()) {
                return;
            }
        }
    }

    async fn look(&mut self) -> Look {
        let Some(stop) = self.stop.upgrade().filter(|stop| !stop.is_closed()) else { return Look::Gone };
        drop(stop);
        let (guests, hold, mut meter) = (self.guests.clone(), self.hold.clone(), self.meter.take());
        let looked_at = Instant::now();
        let looked = tokio::task::spawn_blocking(move || {
            let written = meter.as_mut().and_then(|meter| meter.look(&guests));
            (hold.look(&guests), written, meter)
        });
        let Ok((seen, written, meter)) = looked.await else { return Look::Gone };
        self.meter = meter;
        if seen.threads as u64 >= self.threads_max {
            *self.crowded.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked_at);
        }
        if seen.memory == Memory::Enforced {
            // Only the first reason counts.
            self.exceeded.set(Limit::Memory).ok();
        }
        let beyond = (seen.memory == Memory::Beyond).then_some(Limit::Memory).or(written);
        if let Some(limit) = beyond {
            self.exceeded.set(limit).ok();
            self.stop.upgrade().and_then(|stop| stop.try_send(()).ok());
            return Look::Gone;
        }
        // What was asked for may not have started yet, and what has ended may have left others behind. The guests
        // themselves are always there.
        let is_running = self.connections.iter().any(|connection| connection.is_running());
        if is_running || seen.processes > self.guests.len() { Look::Busy } else { Look::Idle }
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

    #[test]
    fn a_process_that_is_gone_uses_nothing() {
        assert_eq!(usage(&[u32::MAX], 0).memory_bytes, 0);
    }
}

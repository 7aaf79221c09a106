//! How a sandbox is held to what it may use.
//!
//! The kernel holds single processes to the guest's own limits and memory directories to their sizes, for everybody. What
//! a whole sandbox uses is held by one of three [`Backend`]s behind one trait: groups of either version where this
//! machine lets us make some, else an outside that adds up memory. What it writes is measured from outside in any case.

mod disk;
mod group;
mod sockets;
mod unlinked;
mod watchdog;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

pub(super) use disk::Meter;
pub(super) use watchdog::{Measure, Watchdog, Written};

use super::spec::Limits;
use group::{Version1, Version2};
use watchdog::Adding;

/// A limit that a sandbox has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// All its processes together took too much memory.
    Memory,
    /// It wrote more to the workspace than it may.
    WorkspaceBytes,
    /// It made more files and directories in the workspace than it may.
    WorkspaceNames,
    /// It wrote until too little was left for others.
    FreeSpace,
    /// It wanted more processes and threads than it may have.
    Processes,
    /// It wanted a larger file than it may have.
    FileBytes,
}

/// Who adds up what a whole sandbox uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The kernel, by groups of the first version; for root.
    CgroupV1,
    /// The kernel, by groups of the second version; for whom one was delegated to.
    CgroupV2,
    /// This program, from outside, several times a second; for everybody.
    Watchdog,
}

/// What is seen of a sandbox at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many processes there are, the guests included.
    pub(super) processes: usize,
    /// How many threads they have together.
    pub(super) threads: usize,
    pub(super) memory: Memory,
}

/// How a sandbox stands with its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// It takes what it may.
    Within,
    /// It took more, and the kernel has ended one of its processes for it.
    Enforced,
    /// It takes more, and must be ended.
    Beyond,
}

/// How one sandbox is held.
pub(super) trait Hold: fmt::Debug + Send + Sync {
    /// Through these the first process joins before it gives anything up.
    fn entrances(&self) -> io::Result<Vec<OwnedFd>>;
    /// Looks at the sandbox in which everything came from `guests`. May block.
    fn look(&self, guests: &[u32]) -> Seen;
    /// How many threads there are in it. May block.
    fn threads(&self, guests: &[u32]) -> usize {
        self.look(guests).threads
    }
    /// How often the kernel has ended a process for its memory; quickly told.
    fn enforced(&self) -> u64 {
        0
    }
    /// How often the kernel has refused a process or a thread because there were as many as there may be; quickly told.
    /// Nothing where it does not count that for the sandbox as a whole.
    fn refused_processes(&self) -> Option<u64> {
        None
    }
    /// Whether memory is counted that belongs to no process.
    fn counts_nameless(&self) -> bool;
    /// Lets go, once everything in the sandbox has ended. May block.
    fn release(&self) {}
}

/// Makes holds of one kind.
#[derive(Debug, Clone)]
pub(super) enum Limiter {
    Version1(Arc<Version1>),
    Version2(Arc<Version2>),
    Adding,
}

impl Limiter {
    /// The best that this machine offers to this user.
    pub(super) fn best() -> Self {
        let kinds = [Backend::CgroupV2, Backend::CgroupV1, Backend::Watchdog];
        kinds.into_iter().find_map(|kind| Self::of(kind).ok()).unwrap_or(Self::Adding)
    }

    /// One kind, if this machine offers it to this user.
    pub(super) fn of(backend: Backend) -> io::Result<Self> {
        let (groups, own) = (Path::new("/sys/fs/cgroup"), std::fs::read_to_string("/proc/self/cgroup")?);
        match backend {
            Backend::CgroupV1 => Version1::open(groups, &own).map(|groups| Self::Version1(Arc::new(groups))),
            Backend::CgroupV2 => Version2::open(groups, &own).map(|groups| Self::Version2(Arc::new(groups))),
            Backend::Watchdog => Ok(Self::Adding),
        }
    }

    pub(super) fn backend(&self) -> Backend {
        match self {
            Self::Version1(_) => Backend::CgroupV1,
            Self::Version2(_) => Backend::CgroupV2,
            Self::Adding => Backend::Watchdog,
        }
    }

    /// Makes a hold for one sandbox.
    pub(super) fn hold(&self, limits: &Limits) -> io::Result<Arc<dyn Hold>> {
        Ok(match self {
            Self::Version1(groups) => Arc::new(groups.make(limits)?),
            Self::Version2(groups) => Arc::new(groups.make(limits)?),
            Self::Adding => Arc::new(Adding { memory_bytes: limits.memory_bytes }),
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CgroupV1 => "control groups, version 1",
            Self::CgroupV2 => "control groups, version 2",
            Self::Watchdog => "resource limits and an outside watchdog",
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::WorkspaceBytes => "bytes in the workspace",
            Self::WorkspaceNames => "files in the workspace",
            Self::FreeSpace => "free space on the disk",
            Self::Processes => "processes",
            Self::FileBytes => "bytes in one file",
        })
    }
}

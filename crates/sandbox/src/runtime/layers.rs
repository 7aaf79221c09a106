//! The walls around a guest, seen from outside before it is handed over.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use super::launch::StartError;
use crate::protocol::GuestRole;

/// One wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Its own users.
    UserNamespace,
    /// Its own mounts.
    MountNamespace,
    /// Its own processes.
    ProcessNamespace,
    /// Its own network, with nothing in it.
    NetworkNamespace,
    /// Its own shared memory and queues.
    IpcNamespace,
    /// Its own host name.
    UtsNamespace,
    /// Its own view of control groups.
    CgroupNamespace,
    /// No privilege, not even within its own namespaces.
    NoCapabilities,
    /// No way to gain one.
    NoNewPrivileges,
    /// System calls are filtered.
    Seccomp,
    /// Files are restricted a second time.
    Landlock,
    /// To the host it is not root.
    UnprivilegedUser,
}

/// Those without which no guest is handed over. Being unprivileged is the choice of whoever starts as root; it is
/// reported, and stands behind the namespaces.
const REQUIRED: [Layer; 11] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::ProcessNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::NoCapabilities,
    Layer::NoNewPrivileges,
    Layer::Seccomp,
    Layer::Landlock,
];
const NAMESPACES: [(Layer, &str); 7] = [
    (Layer::UserNamespace, "user"),
    (Layer::MountNamespace, "mnt"),
    (Layer::ProcessNamespace, "pid"),
    (Layer::NetworkNamespace, "net"),
    (Layer::IpcNamespace, "ipc"),
    (Layer::UtsNamespace, "uts"),
    (Layer::CgroupNamespace, "cgroup"),
];
/// Least version of Landlock, which the guest itself requires too.
const LANDLOCK_ABI_MIN: u32 = 2;
/// Filters of system calls that every guest puts on itself before it says hello.
const SECCOMP_FILTERS_MIN: u32 = 3;

/// The walls that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    active: BTreeSet<Layer>,
}

impl Layers {
    /// Those that are there.
    pub fn active(&self) -> impl Iterator<Item = Layer> {
        self.active.iter().copied()
    }

    /// Whether one is there.
    pub fn has(&self, layer: Layer) -> bool {
        self.active.contains(&layer)
    }

    /// Those that stand around both.
    pub(super) fn of_both(&self, other: &Self) -> Self {
        Self { active: self.active.intersection(&other.active).copied().collect() }
    }

    /// Inspects a process that says nothing of itself.
    pub(crate) fn of_process(pid: u32) -> Self {
        Self::inspect(pid, GuestRole::Associate, 0)
    }

    /// Inspects a process from outside; `landlock_abi` is the guest's own word, because nothing shows it. A shim is
    /// looked at for where its commands are: it is not in their process namespace itself.
    pub(super) fn inspect(pid: u32, role: GuestRole, landlock_abi: u32) -> Self {
        let seen_as =
            |name: &'static str| if (role, name) == (GuestRole::Shim, "pid") { "pid_for_children" } else { name };
        let mut active: BTreeSet<Layer> =
            NAMESPACES.iter().filter(|(_, name)| is_separate(pid, seen_as(name))).map(|(layer, _)| *layer).collect();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        let is_zero = |value: &str| value.trim_start_matches('0').is_empty();
        let filters = field("Seccomp_filters").and_then(|count| count.parse::<u32>().ok()).unwrap_or_default();
        let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
        let found = [
            (Layer::NoCapabilities, capabilities.iter().all(|name| field(name).is_some_and(is_zero))),
            (Layer::NoNewPrivileges, field("NoNewPrivs") == Some("1")),
            // 2 is filtering.
            (Layer::Seccomp, field("Seccomp") == Some("2") && filters >= SECCOMP_FILTERS_MIN),
            (Layer::Landlock, landlock_abi >= LANDLOCK_ABI_MIN),
            (Layer::UnprivilegedUser, field("Uid").is_some_and(|ids| ids.split('\t').all(|id| id != "0"))),
        ];
        active.extend(found.into_iter().filter(|(_, is_there)| *is_there).map(|(layer, _)| layer));
        Self { active }
    }

    /// Refuses where a required one is missing.
    pub(super) fn require(&self) -> Result<(), StartError> {
        let missing: Vec<Layer> = REQUIRED.into_iter().filter(|layer| !self.has(*layer)).collect();
        if missing.is_empty() { Ok(()) } else { Err(StartError::Layers(missing)) }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "user namespace",
            Self::MountNamespace => "mount namespace",
            Self::ProcessNamespace => "process namespace",
            Self::NetworkNamespace => "network namespace",
            Self::IpcNamespace => "ipc namespace",
            Self::UtsNamespace => "uts namespace",
            Self::CgroupNamespace => "cgroup namespace",
            Self::NoCapabilities => "empty capability set",
            Self::NoNewPrivileges => "no new privileges",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::UnprivilegedUser => "unprivileged user",
        })
    }
}

/// Whether a process has a namespace that is not ours. One that cannot be seen does not count.
pub(super) fn is_separate(pid: u32, name: &str) -> bool {
    let theirs = fs::read_link(format!("/proc/{pid}/ns/{name}"));
    let ours = fs::read_link(format!("/proc/self/ns/{name}"));
    matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_process_has_no_walls_and_is_refused() {
        let own = Layers::inspect(std::process::id(), GuestRole::Associate, 0);
        let shim = Layers::inspect(std::process::id(), GuestRole::Shim, 0);
        assert!(!shim.has(Layer::ProcessNamespace));
        assert!(!own.has(Layer::NetworkNamespace) && !own.has(Layer::Landlock));
        assert!(matches!(own.require(), Err(StartError::Layers(missing)) if missing.contains(&Layer::UserNamespace)));
    }

    #[test]
    fn one_missing_wall_is_enough_to_refuse() {
        for absent in REQUIRED {
            let active = REQUIRED.into_iter().filter(|layer| *layer != absent).collect();
            assert!(matches!(Layers { active }.require(), Err(StartError::Layers(missing)) if missing == [absent]));
        }
    }
}

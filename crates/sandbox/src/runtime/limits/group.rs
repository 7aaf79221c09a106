//! Control groups of both versions, one group for each sandbox.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Hold, Memory, Seen};
use crate::runtime::spec::Limits;

/// What the names of our groups begin with; the process that made one follows, and a number.
const PREFIX: &str = "choir-";
/// Where this program itself goes, where groups with children may have no processes of their own.
const CONTROL: &str = "choir-control";
/// How often a group that is still in use is tried to be removed.
const REMOVE_TRIES_MAX: u32 = 50;
/// And how long between: what was killed is in its group until the kernel has taken it apart, which takes a few milliseconds.
const REMOVE_PAUSE: Duration = Duration::from_millis(2);
/// The file by which a process joins.
const PROCESSES: &str = "cgroup.procs";
/// The file that counts threads, whatever its name says.
const THREADS: &str = "pids.current";

/// The file that says how often one more was refused.
const REFUSED: &str = "pids.events";

/// Groups of the first version, where each kind of resource has a tree of its own.
#[derive(Debug)]
pub(in crate::runtime) struct Version1 {
    memory: PathBuf,
    processes: PathBuf,
}

/// Groups of the second version, in the part of the tree that was delegated to us.
#[derive(Debug)]
pub(in crate::runtime) struct Version2 {
    own: PathBuf,
}

/// One sandbox's group, in one tree or two.
#[derive(Debug)]
pub(super) struct Group {
    /// Where memory is counted.
    memory: PathBuf,
    /// Where processes are counted.
    processes: PathBuf,
    /// The file that counts what was ended for memory.
    ended: &'static str,
}

impl Version1 {
    /// Finds this process's own groups; `own` is what the kernel says of them.
    pub(super) fn open(root: &Path, own: &str) -> io::Result<Self> {
        let find = |controller: &str| {
            let place = own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let is_it = fields.next()?.split(',').any(|name| name == controller);
                is_it.then(|| fields.next()).flatten()
            });
            let place =
                place.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no group of {controller}")))?;
            let place = root.join(controller).join(place.trim_start_matches('/'));
            may_make(&place).map(|()| place)
        };
        let groups = Self { memory: find("memory")?, processes: find("pids")? };
        sweep(&groups.memory);
        sweep(&groups.processes);
        Ok(groups)
    }

    pub(super) fn make(&self, limits: &Limits) -> io::Result<Group> {
        let name = next_name();
        let group = Group {
            memory: self.memory.join(&name),
            processes: self.processes.join(&name),
            ended: "memory.oom_control",
        };
        group.create()?;
        write(&group.memory, "memory.limit_in_bytes", limits.memory_bytes)?;
        // Absent where swap is not counted; there is none to escape to then.
        write(&group.memory, "memory.memsw.limit_in_bytes", limits.memory_bytes).ok();
        write(&group.processes, "pids.max", limits.guest.processes)?;
        Ok(group)
    }
}

impl Version2 {
    /// Takes over the group that this process is in, if it was delegated with what is needed.
    pub(super) fn open(root: &Path, own: &str) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no delegated group with memory and pids");
        let place = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or_else(missing)?;
        let own = root.join(place.trim_end_matches(&format!("/{CONTROL}")));
        let offered = fs::read_to_string(own.join("cgroup.controllers"))?;
        let offers = |wanted: &str| offered.split_ascii_whitespace().any(|name| name == wanted);
        if !offers("memory") || !offers("pids") {
            return Err(missing());
        }
        may_make(&own)?;
        sweep(&own);
        // A group with limited children may hold no process itself, so this program goes into a child first.
        let control = own.join(CONTROL);
        make_directory(&control)?;
        write(&control, PROCESSES, std::process::id())?;
        if let Err(refused) = fs::write(own.join("cgroup.subtree_control"), "+memory +pids") {
            // Others are in the group: everything is left as it was found, as far as that is still possible.
            write(&own, PROCESSES, std::process::id()).ok();
            fs::remove_dir(&control).ok();
            return Err(refused);
        }
        Ok(Self { own })
    }

    pub(super) fn make(&self, limits: &Limits) -> io::Result<Group> {
        let place = self.own.join(next_name());
        let group = Group { memory: place.clone(), processes: place, ended: "memory.events" };
        group.create()?;
        write(&group.memory, "memory.max", limits.memory_bytes)?;
        // Absent where swap is not counted.
        write(&group.memory, "memory.swap.max", 0).ok();
        write(&group.processes, "pids.max", limits.guest.processes)?;
        Ok(group)
    }
}

impl Group {
    fn create(&self) -> io::Result<()> {
        self.places().try_for_each(fs::create_dir)
    }

    fn places(&self) -> impl Iterator<Item = &PathBuf> {
        let second = (self.processes != self.memory).then_some(&self.processes);
        [&self.memory].into_iter().chain(second)
    }
}

impl Hold for Group {
    fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |place: &PathBuf| File::options().write(true).open(place.join(PROCESSES)).map(OwnedFd::from);
        self.places().map(open).collect()
    }

    fn look(&self, _guests: &[u32]) -> Seen {
        let processes = fs::read_to_string(self.processes.join(PROCESSES)).unwrap_or_default().lines().count();
        let threads = fs::read_to_string(self.processes.join(THREADS)).ok();
        let threads = threads.and_then(|count| count.trim().parse().ok()).unwrap_or(processes);
        let memory = if self.enforced() > 0 { Memory::Enforced } else { Memory::Within };
        Seen { processes, threads, memory }
    }

    fn enforced(&self) -> u64 {
        let ended = fs::read_to_string(self.memory.join(self.ended)).unwrap_or_default();
        let count = ended.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
        count.unwrap_or_default()
    }

    fn refused_processes(&self) -> Option<u64> {
        let refused = fs::read_to_string(self.processes.join(REFUSED)).ok()?;
        refused.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok())
    }

    fn counts_nameless(&self) -> bool {
        true
    }

    fn release(&self) {
        // What is still in use is tried once more at the end, and told then.
        self.remove();
    }
}

impl Group {
    /// Takes the groups away; those stay that are in use for too long.
    #[allow(clippy::disallowed_methods, reason = "a group of version 1 tells nobody when it is empty")]
    fn remove(&self) -> Vec<&Path> {
        let is_removed = |place: &Path| {
            (0..REMOVE_TRIES_MAX).any(|_| match fs::remove_dir(place) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(REMOVE_PAUSE);
                    false
                }
                _ => true,
            })
        };
        self.places().map(PathBuf::as_path).filter(|place| !is_removed(place)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for place in self.remove() {
            tracing::warn!(place = %place.display(), "a control group is left behind; the next start removes it");
        }
    }
}

/// A name that no other group of this program has, whichever runtime makes it.
fn next_name() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

fn write(place: &Path, name: &str, value: impl ToString) -> io::Result<()> {
    fs::write(place.join(name), value.to_string())
}

/// Whether groups can be made in a place, which only trying tells.
fn may_make(place: &Path) -> io::Result<()> {
    let trial = place.join(next_name());
    fs::create_dir(&trial)?;
    fs::remove_dir(&trial)
}

fn make_directory(place: &Path) -> io::Result<()> {
    match fs::create_dir(place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Removes the groups of programs that were killed.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            // One that is still in use is another start's to remove.
            fs::remove_dir(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let mut limits = Limits { memory_bytes: 1000, ..Limits::default() };
        limits.guest.processes = 10;
        limits
    }

    fn read(place: &Path, name: &str) -> String {
        fs::read_to_string(place.join(name)).expect("written")
    }

    /// Files stand in for the kernel's, which makes them by itself when a directory is made.
    #[test]
    fn a_group_of_the_second_version_is_made_beneath_ours() {
        let root = tempfile::tempdir().expect("a directory");
        let own = root.path().join("user/choir");
        fs::create_dir_all(&own).expect("made");
        fs::write(own.join("cgroup.controllers"), "cpu memory pids\n").expect("written");
        let groups = Version2::open(root.path(), "1:name=systemd:/x\n0::/user/choir\n").expect("opens");
        assert_eq!(read(&own, "cgroup.subtree_control"), "+memory +pids");
        assert_eq!(read(&own.join(CONTROL), PROCESSES), std::process::id().to_string());
        let group = groups.make(&limits()).expect("made");
        assert_eq!(read(&group.memory, "memory.max"), "1000");
        assert_eq!(read(&group.memory, "memory.swap.max"), "0");
        assert_eq!(read(&group.memory, "pids.max"), "10");
        assert!(group.memory.starts_with(&own));
    }

    #[test]
    fn a_group_that_was_not_delegated_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("cgroup.controllers"), "cpu pids\n").expect("written");
        assert!(Version2::open(root.path(), "0::/\n").is_err(), "memory is not offered");
        assert!(Version2::open(root.path(), "4:memory:/\n").is_err(), "there is no second version");
        assert!(Version2::open(root.path(), "0::/gone\n").is_err(), "the group is not there");
        assert!(!root.path().join("cgroup.subtree_control").exists(), "nothing was changed");
    }

    #[test]
    fn a_second_start_in_the_same_service_finds_the_same_place() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("service")).expect("made");
        fs::write(root.path().join("service/cgroup.controllers"), "memory pids").expect("written");
        for own in ["0::/service\n", "0::/service/choir-control\n"] {
            let groups = Version2::open(root.path(), own).expect("opens");
            assert_eq!(groups.own, root.path().join("service"));
        }
    }

    #[test]
    fn groups_of_the_first_version_are_two() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(root.path().join("memory/deep")).expect("made");
        fs::create_dir_all(root.path().join("pids")).expect("made");
        let groups = Version1::open(root.path(), "8:pids:/\n4:memory:/deep\n").expect("opens");
        let group = groups.make(&limits()).expect("made");
        assert!(group.memory.starts_with(root.path().join("memory/deep")));
        assert_eq!(read(&group.memory, "memory.limit_in_bytes"), "1000");
        assert_eq!(read(&group.processes, "pids.max"), "10");
        assert_eq!(group.look(&[]), Seen { processes: 0, threads: 0, memory: Memory::Within });
        fs::write(group.memory.join("memory.oom_control"), "under_oom 0\noom_kill 2\n").expect("written");
        fs::write(group.processes.join(PROCESSES), "1\n2\n").expect("written");
        fs::write(group.processes.join(THREADS), "7\n").expect("written");
        assert_eq!(group.look(&[]), Seen { processes: 2, threads: 7, memory: Memory::Enforced });
        assert_eq!(group.enforced(), 2);
        assert_eq!(group.refused_processes(), None, "a kernel that does not count them");
        fs::write(group.processes.join(REFUSED), "max 3\n").expect("written");
        assert_eq!(group.refused_processes(), Some(3));
    }

    #[test]
    fn what_a_killed_program_left_is_removed() {
        let root = tempfile::tempdir().expect("a directory");
        let (stale, alive) =
            (root.path().join("choir-4194305-0"), root.path().join(format!("choir-{}-9", std::process::id())));
        fs::create_dir(&stale).expect("made");
        fs::create_dir(&alive).expect("made");
        sweep(root.path());
        assert!(!stale.exists() && alive.exists());
    }
}

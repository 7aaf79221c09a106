//! What a sandbox keeps on the disk without a name: files that were removed while somebody had them open.
//!
//! No walk over names finds them, so the sandbox's own processes are looked through: what they have open, what they have
//! mapped, and what they run. A file in a message that nobody has received yet is in no process at all; that there are
//! such messages is seen, and what cannot be counted is at least said to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::disk::bytes_of;

/// Most descriptors looked at in one turn, so that no crowd of them keeps whoever measures from everything else; what
/// lies beyond is unseen.
const DESCRIPTORS_MAX: usize = 65_536;
/// What the kernel calls memory that processes share, which is on no disk.
const MEMORY_NAMES: [&str; 3] = ["/dev/zero", "/memfd:", "/SYSV"];
/// File systems that are memory, and counted as such.
const MEMORY_SYSTEMS: [i64; 2] = [libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC];

/// Files without names, each once, however many have it open.
#[derive(Debug, Default)]
pub(super) struct Unlinked {
    /// Where the workspace lies.
    device: Option<u64>,
    files: BTreeMap<(u64, u64), u64>,
    sockets: BTreeSet<u64>,
    looked: usize,
    /// There may be more, out of sight.
    pub(super) unseen: bool,
}

impl Unlinked {
    /// Looks through processes of a sandbox with this workspace.
    pub(super) fn of(processes: &[u32], workspace: &Path) -> Self {
        let device = rustix::fs::stat(workspace).ok().map(|stat| stat.st_dev);
        let mut unlinked = Self { device, ..Self::default() };
        for pid in processes {
            unlinked.process(*pid);
        }
        unlinked
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    fn process(&mut self, pid: u32) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut is_memory_known = false;
        // Every thread is found like a process, although only the first is listed. Memory is common to all, but one that has
        // ended shows none.
        for thread in threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok()) {
            let place = PathBuf::from(format!("/proc/{thread}"));
            if thread == pid || !shares_descriptors(pid, thread) {
                self.descriptors(&place);
            }
            is_memory_known = is_memory_known || self.memory(&place);
        }
    }

    fn descriptors(&mut self, thread: &Path) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(thread.join("fd"), flags, Mode::empty());
        let Some(directory) = self.seen(opened) else { return };
        let listed = Dir::read_from(&directory);
        let Some(entries) = self.seen(listed) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') {
                continue;
            }
            self.looked += 1;
            if self.looked > DESCRIPTORS_MAX {
                self.unseen = true;
                return;
            }
            let stat = rustix::fs::statat(&directory, name, AtFlags::empty());
            let Some(stat) = self.seen(stat) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => self.count(&stat, || thread.join("fd").join(name)),
                FileType::Socket => self.messages(&stat, &thread.join("fdinfo").join(name)),
                _ => {}
            }
        }
    }

    /// What a thread's process runs and has mapped; says whether it has any memory.
    fn memory(&mut self, thread: &Path) -> bool {
        let program = thread.join("exe");
        match rustix::fs::stat(&program) {
            Ok(stat) => self.count(&stat, || program),
            Err(errno) => {
                self.unseen |= is_refusal(errno);
                return false;
            }
        }
        let maps = fs::read(thread.join("maps")).unwrap_or_default();
        for range in String::from_utf8_lossy(&maps).lines().filter_map(removed) {
            let mapped = thread.join("map_files").join(range);
            let stat = rustix::fs::stat(&mapped);
            if let Some(stat) = self.seen(stat) {
                self.count(&stat, || mapped);
            }
        }
        true
    }

    fn count(&mut self, stat: &Stat, path: impl FnOnce() -> PathBuf) {
        let id = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 0 || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return;
        }
        if self.files.contains_key(&id) {
            return;
        }
        // An overlay has a device of its own, so what is not the workspace's may be as well, unless it is memory.
        let is_memory = || rustix::fs::statfs(path()).is_ok_and(|system| MEMORY_SYSTEMS.contains(&system.f_type));
        if self.device == Some(stat.st_dev) || !is_memory() {
            self.files.insert(id, bytes_of(stat));
        }
    }

    /// Whoever sends a file and closes it has hidden it well.
    fn messages(&mut self, socket: &Stat, about: &Path) {
        if !self.sockets.insert(socket.st_ino) {
            return;
        }
        let about = fs::read_to_string(about).unwrap_or_default();
        let sent = about.lines().find_map(|line| line.strip_prefix("scm_fds:")?.trim().parse::<u64>().ok());
        self.unseen |= sent.is_some_and(|sent| sent > 0);
    }

    /// What was found; what is gone again is nothing, and what was refused is out of sight.
    fn seen<T>(&mut self, found: Result<T, Errno>) -> Option<T> {
        self.unseen |= found.as_ref().is_err_and(|errno| is_refusal(*errno));
        found.ok()
    }
}

/// Whether two threads have the same descriptors, as those of one process usually do; large builds have thousands. Where
/// the kernel does not say, they have not.
#[allow(unsafe_code)]
fn shares_descriptors(first: u32, second: u32) -> bool {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: compares in the kernel what two threads have, and writes nothing.
    unsafe { libc::syscall(libc::SYS_kcmp, first, second, KCMP_FILES, 0, 0) == 0 }
}

fn is_refusal(errno: Errno) -> bool {
    !matches!(errno, Errno::NOENT | Errno::SRCH)
}

/// Where a line of maps says that a removed file is mapped.
fn removed(line: &str) -> Option<&str> {
    let (range, rest) = line.split_once(' ')?;
    let name = &rest[rest.find('/')?..];
    let is_file = !MEMORY_NAMES.iter().any(|memory| name.starts_with(memory));
    (is_file && name.ends_with(" (deleted)")).then_some(range)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead, BufReader, IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;
    use std::process::{Child, Command, Stdio};

    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
        socketpair,
    };

    use super::*;

    /// A pair of sockets; a file is on its way to the second.
    pub(in crate::runtime::limits) fn send_a_file() -> (OwnedFd, OwnedFd) {
        let (sender, receiver) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a pair");
        let file = fs::File::open("/dev/null").expect("opened");
        let (mut space, sent) = ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))], [file.as_fd()]);
        let mut message = SendAncillaryBuffer::new(&mut space);
        assert!(message.push(SendAncillaryMessage::ScmRights(&sent)));
        sendmsg(&sender, &[IoSlice::new(b"x")], &mut message, SendFlags::empty()).expect("sent");
        (sender, receiver)
    }

    /// A program that waits until it is ended.
    struct Waiting(Child);

    impl Waiting {
        fn shell(directory: &Path, text: &str) -> Self {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &format!("{text}; echo ready; read end")]).current_dir(directory);
            let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
            assert_eq!(line, "ready\n");
            Self(child)
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.kill().expect("ended");
            self.0.wait().expect("collected");
        }
    }

    #[test]
    fn a_removed_file_that_is_open_is_counted_once_and_one_with_a_name_is_not() {
        let place = tempfile::tempdir().expect("a directory");
        let text =
            "exec 3>gone 4>named; rm gone; head -c 3145728 /dev/zero >&3; head -c 3145728 /dev/zero >&4; exec 5>&3";
        let waiting = Waiting::shell(place.path(), text);
        let found = Unlinked::of(&[waiting.0.id(), waiting.0.id()], place.path());
        assert_eq!((found.files.len(), found.unseen), (1, false), "{found:?}");
        assert!((3 << 20..4 << 20).contains(&found.bytes()), "{found:?}");
    }

    #[test]
    fn a_removed_file_that_is_only_mapped_is_counted() {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join("cat");
        fs::copy("/bin/cat", &program).expect("copied");
        let blocks = fs::metadata(&program).expect("there").blocks();
        let mut cat = Command::new(&program);
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        // Once it answers it is no longer this program's copy.
        child.stdin.as_mut().expect("piped").write_all(b"x\n").expect("written");
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut String::new()).expect("read");
        let waiting = Waiting(child);
        assert_eq!(Unlinked::of(&[waiting.0.id()], place.path()).bytes(), 0);
        fs::remove_file(&program).expect("removed");
        assert_eq!(Unlinked::of(&[waiting.0.id()], place.path()).bytes(), blocks * 512);
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_thread_that_has_descriptors_of_its_own_hides_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("file");
        let own = std::process::id();
        let look = || {
            let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert!(shares_descriptors(own, thread));
            // SAFETY: from here on this thread has copies of all descriptors, and uses only those that it opens itself.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            assert!(!shares_descriptors(own, thread));
            let file = fs::File::create(&path).expect("made");
            fs::remove_file(&path).expect("removed");
            let stat = rustix::fs::fstat(&file).expect("there");
            Unlinked::of(&[own], place.path()).files.contains_key(&(stat.st_dev, stat.st_ino))
        };
        assert!(std::thread::scope(|scope| scope.spawn(look).join().expect("looked")));
    }

    #[test]
    fn a_file_in_a_message_is_said_to_be_out_of_sight() {
        let about = |socket: &OwnedFd| {
            let mut found = Unlinked::default();
            let name = format!("/proc/self/fdinfo/{}", socket.as_raw_fd());
            found.messages(&rustix::fs::fstat(socket).expect("there"), Path::new(&name));
            found.unseen
        };
        let (sender, receiver) = send_a_file();
        assert_eq!((about(&sender), about(&receiver)), (false, true));
    }

    #[test]
    fn only_removed_files_are_looked_for_among_what_is_mapped() {
        let line = |name: &str| format!("7f00-7f01 r--p 00000000 fe:00 42        {name}");
        assert_eq!(removed(&line("/work/a b (deleted)")), Some("7f00-7f01"));
        for other in ["/work/a", "/dev/zero (deleted)", "/memfd:x (deleted)", "/SYSV00000000 (deleted)", "[heap]", ""] {
            assert_eq!(removed(&line(other)), None, "{other}");
        }
    }
}

//! What a sandbox has written, measured from outside.
//!
//! File systems with quotas for directories are rare, so the layer is walked while something runs, as often as costs
//! little. Descriptors lead the walk, so that no link turns it elsewhere. What lost its name but is still open is looked
//! for in the sandbox's processes.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;

use super::Limit;
use super::unlinked::Unlinked;
use super::watchdog::descendants;
use crate::runtime::spec::{Limits, Spec, Workspace};

/// A walk may take this share of the time.
const SHARE: u32 = 20;
/// Least time between two walks.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// So many directories are kept open at once, as deep as any tree that the keeper takes; what lies deeper cannot be
/// merged, and is counted with a single one.
const OPEN_MAX: u32 = 256;
/// Entries of a deep directory are read in pieces of this size.
const PIECE_BYTES: usize = 4096;
/// What the kernel's blocks are counted in.
const BLOCK_BYTES: u64 = 512;
/// Less than this was not what filled a disk.
const GROWTH_BYTES_MIN: u64 = 1 << 20;

/// Measures one sandbox's layer.
#[derive(Debug)]
pub(in crate::runtime) struct Meter {
    directory: PathBuf,
    workspace_bytes: u64,
    workspace_names: u64,
    free_bytes: u64,
    first: Option<(Written, Free)>,
    next_walk: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Written {
    bytes: u64,
    names: u64,
    /// Something could not be looked into.
    hidden: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Free {
    bytes: u64,
    names: u64,
}

impl Meter {
    pub(in crate::runtime) fn new(spec: &Spec) -> Self {
        let directory = match &spec.workspace {
            Workspace::Directory { path, .. } => path.clone(),
            Workspace::Overlay(overlay) => overlay.upper.clone(),
        };
        let Limits { workspace_bytes, workspace_names, free_bytes, .. } = spec.limits;
        Self { directory, workspace_bytes, workspace_names, free_bytes, first: None, next_walk: Instant::now() }
    }

    /// Looks whether it is time; says which limit was exceeded by a sandbox in which everything came from `guests`. May
    /// block.
    pub(in crate::runtime) fn look(&mut self, guests: &[u32]) -> Option<Limit> {
        let began = Instant::now();
        let free = free(&self.directory)?;
        let is_short = free.bytes < self.free_bytes;
        if began < self.next_walk && !is_short {
            return None;
        }
        let mut written = measure(&self.directory, (self.workspace_bytes, self.workspace_names))?;
        let unlinked = Unlinked::of(&descendants(guests).0, &self.directory);
        written.bytes += unlinked.bytes();
        let (first, free_at_first) = *self.first.get_or_insert((written, free));
        let lost_bytes = free_at_first.bytes.saturating_sub(free.bytes);
        if written.hidden {
            // What it hides is at most what the whole disk has lost meanwhile.
            written.bytes = written.bytes.max(first.bytes + lost_bytes);
            written.names = written.names.max(first.names + free_at_first.names.saturating_sub(free.names));
        }
        self.next_walk = Instant::now() + (began.elapsed() * SHARE).max(INTERVAL_MIN);
        let has_grown = written.bytes.saturating_sub(first.bytes) > GROWTH_BYTES_MIN;
        // Nobody can say what such a process has written. That alone ends nothing: a neighbour may have filled the disk. But
        // a full disk ends everybody's work, so whoever is out of sight then is not given the benefit of the doubt.
        let may_have_grown = unlinked.unseen && lost_bytes > GROWTH_BYTES_MIN;
        if written.bytes > self.workspace_bytes {
            Some(Limit::WorkspaceBytes)
        } else if written.names > self.workspace_names {
            Some(Limit::WorkspaceNames)
        } else if is_short && (has_grown || may_have_grown) {
            Some(Limit::FreeSpace)
        } else {
            None
        }
    }
}

fn free(directory: &Path) -> Option<Free> {
    let system = rustix::fs::statvfs(directory).ok()?;
    Some(Free { bytes: system.f_bavail.saturating_mul(system.f_frsize), names: system.f_favail })
}

/// Adds up a tree; stops once both are known to be too much.
fn measure(directory: &Path, (bytes_max, names_max): (u64, u64)) -> Option<Written> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, flags, Mode::empty()).ok()?;
    let mut written = Written::default();
    let is_enough = |written: &Written| written.bytes > bytes_max || written.names > names_max;
    walk(&root, OPEN_MAX, &mut written, &is_enough);
    Some(written)
}

fn walk(directory: &OwnedFd, open_left: u32, written: &mut Written, is_enough: &impl Fn(&Written) -> bool) {
    let Ok(entries) = Dir::read_from(directory) else {
        written.hidden = true;
        return;
    };
    for entry in entries.flatten() {
        if is_enough(written) {
            return;
        }
        if !count(directory, entry.file_name(), written) {
            continue;
        }
        match open_below(directory, entry.file_name(), written) {
            Some(next) if open_left > 0 => walk(&next, open_left - 1, written, is_enough),
            Some(next) => written.hidden |= walk_deep(next, written, is_enough).is_err(),
            None => {}
        }
    }
}

/// What a file takes on the disk, which may be less than its length.
pub(super) fn bytes_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES
}

/// Adds one entry; says whether it is a directory to look into.
fn count(directory: &OwnedFd, name: &CStr, written: &mut Written) -> bool {
    if matches!(name.to_bytes(), b"." | b"..") {
        return false;
    }
    let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    written.names += 1;
    written.bytes += bytes_of(&stat);
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn open_below(directory: &OwnedFd, name: &CStr, written: &mut Written) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(next) => Some(next),
        // Removed or replaced since it was counted.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
        Err(_) => {
            written.hidden = true;
            None
        }
    }
}

/// A directory on the way down a deep tree: which one it is, and how much of it was seen.
struct Level {
    id: (u64, u64),
    cookie: u64,
}

impl Level {
    fn of(directory: &OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { id: (stat.st_dev, stat.st_ino), cookie: 0 })
    }
}

/// Adds up a tree of any depth with one open directory, which goes down by name and up by `..`. Whoever moves its
/// directories meanwhile could lead it out, so each one is known again on the way up, or the walk ends.
fn walk_deep(top: OwnedFd, written: &mut Written, is_enough: &impl Fn(&Written) -> bool) -> io::Result<()> {
    let mut levels = vec![Level::of(&top)?];
    let mut here = top;
    while let Some(level) = levels.last_mut() {
        if is_enough(written) {
            return Ok(());
        }
        if let Some(name) = next_directory(&here, &mut level.cookie, written, is_enough)? {
            if let Some(next) = open_below(&here, &name, written) {
                levels.push(Level::of(&next)?);
                here = next;
            }
            continue;
        }
        levels.pop();
        if let Some(above) = levels.last() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            here = rustix::fs::openat(&here, c"..", flags, Mode::empty())?;
            if Level::of(&here)?.id != above.id {
                return Err(io::Error::other("a directory was moved during the walk"));
            }
        }
    }
    Ok(())
}

/// Counts what comes next in a directory, as far as the next directory in it.
fn next_directory(
    here: &OwnedFd,
    cookie: &mut u64,
    written: &mut Written,
    is_enough: &impl Fn(&Written) -> bool,
) -> io::Result<Option<CString>> {
    rustix::fs::seek(here, SeekFrom::Start(*cookie))?;
    let mut piece = [MaybeUninit::uninit(); PIECE_BYTES];
    let mut entries = RawDir::new(here, &mut piece);
    while let Some(entry) = entries.next().filter(|_| !is_enough(written)) {
        let entry = entry?;
        *cookie = entry.next_entry_cookie();
        if count(here, entry.file_name(), written) {
            return Ok(Some(entry.file_name().to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::protocol::GuestRole;

    fn meter(directory: &Path, change: impl FnOnce(&mut Limits)) -> Meter {
        let mut spec = Spec::new(GuestRole::Associate, "/bin/true", directory);
        spec.limits.free_bytes = 0;
        change(&mut spec.limits);
        Meter::new(&spec)
    }

    #[test]
    fn bytes_and_names_are_counted_and_links_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("below")).expect("made");
        fs::write(directory.path().join("below/file"), vec![1; 100_000]).expect("written");
        symlink("/usr", directory.path().join("link")).expect("linked");
        let written = measure(directory.path(), (u64::MAX, u64::MAX)).expect("measured");
        assert_eq!((written.names, written.hidden), (3, false));
        assert!((100_000..200_000).contains(&written.bytes), "{written:?}");
    }

    #[test]
    fn the_deepest_directory_is_counted_like_the_first() {
        const DEEP: u64 = 600;
        let directory = tempfile::tempdir().expect("a directory");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here = rustix::fs::open(directory.path(), flags, Mode::empty()).expect("opened");
        for level in 0..DEEP {
            // Files on both sides of the way down.
            for name in [format!("a{level}"), format!("z{level}")] {
                rustix::fs::openat(&here, name, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).expect("a file");
            }
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("made");
            here = rustix::fs::openat(&here, "d", flags, Mode::empty()).expect("entered");
        }
        let written = measure(directory.path(), (u64::MAX, u64::MAX)).expect("measured");
        assert_eq!((written.names, written.hidden), (3 * DEEP, false));
        let enough = measure(directory.path(), (u64::MAX, 2 * DEEP)).expect("measured");
        assert_eq!(enough.names, 2 * DEEP + 1, "it stops once it knows");
    }

    #[test]
    fn a_file_that_lost_its_name_counts_as_long_as_it_is_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let file = fs::File::create(&path).expect("made");
        fs::write(&path, vec![1; 3 << 20]).expect("written");
        fs::remove_file(&path).expect("removed");
        let few = |limits: &mut Limits| limits.workspace_bytes = 2 << 20;
        assert_eq!(meter(directory.path(), few).look(&[]), None);
        assert_eq!(meter(directory.path(), few).look(&[std::process::id()]), Some(Limit::WorkspaceBytes));
        drop(file);
    }

    #[test]
    fn whoever_is_out_of_sight_is_suspected_only_when_the_disk_is_full() {
        let directory = tempfile::tempdir().expect("a directory");
        let _sent = crate::runtime::limits::unlinked::tests::send_a_file();
        let look = |free_bytes, free_at_first, guests: &[u32]| {
            let mut meter = meter(directory.path(), |limits| limits.free_bytes = free_bytes);
            meter.first = Some((Written { bytes: u64::MAX, ..Written::default() }, free_at_first));
            meter.look(guests)
        };
        let (lost, kept) = (Free { bytes: u64::MAX, names: 0 }, Free::default());
        assert_eq!(look(u64::MAX, lost, &[std::process::id()]), Some(Limit::FreeSpace));
        assert_eq!(look(u64::MAX, kept, &[std::process::id()]), None, "nothing was lost");
        assert_eq!(look(0, lost, &[std::process::id()]), None, "there is enough for everybody");
        assert_eq!(look(u64::MAX, lost, &[]), None, "nobody is out of sight");
    }

    #[test]
    fn each_limit_has_its_name() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("file"), vec![1; 3 << 20]).expect("written");
        assert_eq!(meter(directory.path(), |_| {}).look(&[]), None);
        assert_eq!(meter(directory.path(), |limits| limits.workspace_bytes = 1).look(&[]), Some(Limit::WorkspaceBytes));
        assert_eq!(meter(directory.path(), |limits| limits.workspace_names = 0).look(&[]), Some(Limit::WorkspaceNames));
        let mut full = meter(directory.path(), |limits| limits.free_bytes = u64::MAX);
        assert_eq!(full.look(&[]), None, "what was there before is nobody's fault");
        fs::write(directory.path().join("more"), vec![1; 3 << 20]).expect("written");
        assert_eq!(full.look(&[]), Some(Limit::FreeSpace));
    }
}

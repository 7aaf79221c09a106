//! Paths whose owner, which is this process, has forbidden them to itself.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Everything that an owner can do to a directory.
pub(super) const OWNER_ALL: u32 = 0o700;
/// What an owner needs to read a file.
const OWNER_READS: u32 = 0o400;

/// Opens a file, also one whose owner has forbidden that to itself. It stays forbidden to everybody.
pub(super) fn open_own(directory: &OwnedFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = Closed::find(directory, name)?;
            closed.allow(OWNER_READS)?;
            let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
            closed.forbid()?;
            opened
        }
        opened => opened,
    }
}

/// Such a path. Held, so that nothing else can take its place: whoever else may write here could put a link there.
pub(super) struct Closed {
    held: OwnedFd,
    mode: u32,
}

impl Closed {
    pub(super) fn find(directory: &OwnedFd, name: &CStr) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&held)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => Ok(Self { held, mode: stat.st_mode & 0o7777 }),
            _ => Err(Errno::ACCESS),
        }
    }

    /// A directory that is open.
    pub(super) fn hold(directory: &OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { held: rustix::io::fcntl_dupfd_cloexec(directory, 0)?, mode: stat.st_mode & 0o7777 })
    }

    pub(super) fn allow(&self, more: u32) -> Result<(), Errno> {
        self.change(self.mode | more)
    }

    pub(super) fn forbid(&self) -> Result<(), Errno> {
        self.change(self.mode)
    }

    /// Opens the directory that this is.
    pub(super) fn open_directory(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.held, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Whether its owner may read, change and enter it.
    pub(super) fn is_open(&self) -> bool {
        self.mode & OWNER_ALL == OWNER_ALL
    }

    /// What its owner and everybody else may do.
    pub(super) fn mode(&self) -> u32 {
        self.mode
    }

    /// Gives a directory, and nothing else that may have come in its place, other permissions.
    pub(super) fn set_directory_mode(&self, mode: u32) -> Result<(), Errno> {
        match FileType::from_raw_mode(rustix::fs::fstat(&self.held)?.st_mode) {
            FileType::Directory => self.change(mode),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn change(&self, mode: u32) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }
}

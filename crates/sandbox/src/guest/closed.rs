//! Paths whose owner, which is this process, has forbidden them to itself.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

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

    fn change(&self, mode: u32) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }
}

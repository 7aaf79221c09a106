//! Reading single paths into the store.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::super::closed::{Closed, open_own};
use super::super::files::on;
use super::index::{Index, Stamp, now_ns};
use super::store::{CONTENT_BYTES_MAX, Store, Stored};
use crate::path::{LinkTarget, RelativePath};
use crate::protocol::{Fault, FaultCode};
use crate::tree::{Node, Tree};

/// How often a file that changes while it is read is read again before it is taken as it is.
const READ_ATTEMPTS_MAX: u32 = 3;
/// Bytes that are read for one tree. Holes count like everything else, so that no number of them keeps the keeper busy for
/// ever.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Of what is left out, so many are named.
const SKIPPED_NAMED_MAX: usize = 10;
/// Deepest directory that is in a tree; each level holds a descriptor while it is walked. What lies deeper is left out, as all
/// else that no tree can hold: one such folder must not keep every task away from the rest.
pub(super) const DEPTH_MAX: u32 = 256;

/// Reads paths into a tree and their contents into the store.
pub(super) struct Reader<'a> {
    pub(super) store: &'a Store,
    pub(super) known: &'a Index,
    pub(super) tree: Tree,
    pub(super) index: Index,
    pub(super) files_read: u64,
    /// Sockets, pipes, devices, what is too large or lies too deep, and what may not be read.
    pub(super) skipped: Skipped,
    /// How many more bytes may be read.
    bytes_left: u64,
}

/// Paths that are in no tree.
#[derive(Default)]
pub(super) struct Skipped {
    pub(super) count: u64,
    /// The first of them.
    pub(super) paths: Vec<RelativePath>,
    /// The first of those that are kept out by nothing but their permissions.
    pub(super) forbidden: Vec<RelativePath>,
}

impl Skipped {
    /// Adds what may not be read: somebody else's, who has not allowed it to others.
    pub(super) fn add_forbidden(&mut self, path: RelativePath) {
        if self.forbidden.len() < SKIPPED_NAMED_MAX {
            self.forbidden.push(path.clone());
        }
        self.add(path);
    }

    pub(super) fn add(&mut self, path: RelativePath) {
        self.count += 1;
        if self.paths.len() < SKIPPED_NAMED_MAX {
            self.paths.push(path);
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(store: &'a Store, known: &'a Index, tree: Tree) -> Self {
        Self {
            store,
            known,
            tree,
            index: Index::default(),
            files_read: 0,
            skipped: Skipped::default(),
            bytes_left: READ_BYTES_MAX,
        }
    }

    /// Takes one path that is not a directory. One that vanished meanwhile is not there.
    pub(super) fn take(
        &mut self,
        directory: &OwnedFd,
        name: &CStr,
        path: RelativePath,
        stat: &Stat,
    ) -> Result<(), Fault> {
        let found = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(directory, name, &path, stat)?,
            FileType::Symlink => link(directory, name)?,
            _ => Found::Nothing,
        };
        match found {
            Found::Node(node) => self.tree.insert(path, node),
            Found::Nothing => self.skipped.add(path),
            Found::Forbidden => self.skipped.add_forbidden(path),
        }
        Ok(())
    }

    fn file(&mut self, directory: &OwnedFd, name: &CStr, path: &RelativePath, stat: &Stat) -> Result<Found, Fault> {
        let mode = stat.st_mode & 0o777;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if let Some((known, true)) = self.known.known(path, stat) {
            self.index.keep(path.clone(), known);
            return Ok(Found::Node(Node::File { mode, size, hash: known.hash }));
        }
        if size > CONTENT_BYTES_MAX {
            return Ok(Found::Nothing);
        }
        self.bytes_left = self.bytes_left.checked_sub(size).ok_or_else(too_much)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        for attempt in 1..=READ_ATTEMPTS_MAX {
            let file = match open_own(directory, name, flags) {
                Ok(file) => file,
                Err(Errno::NOENT | Errno::LOOP) => return Ok(Found::Nothing),
                // Also somebody else's: only its owner can allow it to itself.
                Err(Errno::ACCESS | Errno::PERM) => return Ok(Found::Forbidden),
                Err(errno) => return Err(on("read a file")(errno)),
            };
            let seen_ns = now_ns();
            let before = rustix::fs::fstat(&file).map_err(on("read a file"))?;
            if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
                return Ok(Found::Nothing);
            }
            let stored = match self.known.known(path, &before) {
                // It was looked at too soon after a change to be sure, but most often it is what it was.
                Some((known, _)) if self.store.is_content(&file, known.hash)? => {
                    Stored { hash: known.hash, size: u64::try_from(before.st_size).unwrap_or_default() }
                }
                _ => self.store.add(&file, &before)?,
            };
            let after = rustix::fs::fstat(&file).map_err(on("read a file"))?;
            if Stamp::of(&before) == Stamp::of(&after) || attempt == READ_ATTEMPTS_MAX {
                self.files_read += 1;
                self.index.learn(path.clone(), &before, stored.hash, seen_ns);
                let mode = before.st_mode & 0o777;
                return Ok(Found::Node(Node::File { mode, size: stored.size, hash: stored.hash }));
            }
        }
        Ok(Found::Nothing)
    }
}

/// What a path turned out to be.
enum Found {
    Node(Node),
    /// It vanished, or is nothing that a tree can hold.
    Nothing,
    /// It may not be read.
    Forbidden,
}

/// What an owner needs to walk a directory.
pub(super) const OWNER_WALKS: u32 = 0o500;

/// Lets its owner walk a directory that it has forbidden to itself, until that is forbidden again.
pub(super) fn open_up(parent: &OwnedFd, name: &CStr) -> Result<Closed, Errno> {
    let closed = Closed::find(parent, name)?;
    closed.allow(OWNER_WALKS)?;
    Ok(closed)
}

fn link(directory: &OwnedFd, name: &CStr) -> Result<Found, Fault> {
    match rustix::fs::readlinkat(directory, name, Vec::new()) {
        Ok(target) => {
            Ok(LinkTarget::parse(target.into_bytes())
                .map_or(Found::Nothing, |target| Found::Node(Node::Link { target })))
        }
        Err(Errno::NOENT | Errno::INVAL) => Ok(Found::Nothing),
        Err(errno) => Err(on("read a link")(errno)),
    }
}

fn too_much() -> Fault {
    Fault::new(FaultCode::Limit, "more has changed than can be read at once")
}

//! The live directory as a tree.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::super::closed::Closed;
use super::super::files::{Files, is_abandoned, is_unfinished, on};
use super::index::Index;
use super::reader::{DEPTH_MAX, OWNER_WALKS, Reader, Skipped, open_up};
use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::{Fault, FaultCode};
use crate::tree::{Node, Tree, is_derived};

/// What a scan found.
pub(super) struct Scanned {
    pub(super) tree: Tree,
    pub(super) index: Index,
    pub(super) files_read: u64,
    pub(super) skipped: Skipped,
}

/// Walks the live directory; only files that `known` does not vouch for are read.
pub(super) fn scan(files: &Files, store: &Store, known: &Index) -> Result<Scanned, Fault> {
    let root = files.open_root()?;
    let mut reader = Reader::new(store, known, Tree::default());
    walk(&mut reader, &root, &RelativePath::root(), DEPTH_MAX)?;
    let Reader { tree, index, files_read, skipped, .. } = reader;
    Ok(Scanned { tree, index, files_read, skipped })
}

fn walk(reader: &mut Reader<'_>, directory: &OwnedFd, at: &RelativePath, depth_left: u32) -> Result<(), Fault> {
    let found = match entries(directory) {
        // It may be listed and not be entered.
        Err(fault) if fault.code == FaultCode::Denied && !at.is_root() => {
            reader.skipped.add_forbidden(at.clone());
            return Ok(());
        }
        found => found?,
    };
    for (name, stat) in found {
        let Ok(path) = at.join(name.as_bytes()) else {
            reader.skipped.count += 1;
            continue;
        };
        if is_unfinished(name.as_bytes()) {
            if is_abandoned(name.as_bytes()) {
                // Best effort: what cannot be removed now is met again by the next snapshot.
                rustix::fs::unlinkat(directory, &name, AtFlags::empty()).ok();
            }
            continue;
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            reader.take(directory, &name, path, &stat)?;
        } else if is_derived(name.as_bytes()) {
            reader.tree.insert(path, Node::Derived);
        } else if depth_left == 0 {
            reader.skipped.add(path);
        } else {
            walk_below(reader, (directory, &name), path, stat.st_mode & 0o777, depth_left)?;
        }
    }
    Ok(())
}

/// Walks a directory, also one that its owner has forbidden to itself: what is in it is theirs all the same.
fn walk_below(
    reader: &mut Reader<'_>,
    (parent, name): (&OwnedFd, &CString),
    path: RelativePath,
    mode: u32,
    depth_left: u32,
) -> Result<(), Fault> {
    let closed = if mode & OWNER_WALKS == OWNER_WALKS { None } else { open_up(parent, name).ok() };
    let walked = match open_directory(parent, name)? {
        Some(below) => {
            reader.tree.insert(path.clone(), Node::Directory { mode });
            walk(reader, &below, &path, depth_left - 1)
        }
        None if Closed::find(parent, name).is_ok() => {
            reader.skipped.add_forbidden(path);
            Ok(())
        }
        None => {
            reader.skipped.add(path);
            Ok(())
        }
    };
    if let Some(closed) = closed {
        closed.forbid().map_err(on("close a directory"))?;
    }
    walked
}

/// The names in a directory, with what they are. Names that vanish meanwhile are left out.
pub(super) fn entries(directory: &OwnedFd) -> Result<Vec<(CString, Stat)>, Fault> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory).map_err(on("list a directory"))? {
        let name = entry.map_err(on("list a directory"))?.file_name().to_owned();
        if matches!(name.as_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push((name, stat)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(on("describe a path")(errno)),
        }
    }
    Ok(found)
}

/// Opens a directory; `None` when it vanished or may not be read.
pub(super) fn open_directory(parent: &OwnedFd, name: &CString) -> Result<Option<OwnedFd>, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(on("open a directory")(errno)),
    }
}

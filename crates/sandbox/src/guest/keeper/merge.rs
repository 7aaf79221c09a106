//! Bringing a task's changes into the live directory.
//!
//! A changed path is applied where the live one is still what it was in the base; where it already is what the result
//! says nothing is done; anywhere else it is a conflict and stays as it is. Done again after a crash, it does the rest.
//!
//! What was so already is somebody else's work, and none of what this merge brought: taking the merge back must not take
//! that too. Only one that is done again counts it, because there it may be what the first try did.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;

use super::super::closed::OWNER_ALL;
use super::super::files::Files;
use super::super::writing::Expected;
use super::index::Index;
use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::{Fault, FaultCode};
use crate::tree::{Node, Tree};

/// Bytes copied at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// What is merged.
pub(super) struct Sides<'a> {
    pub(super) base: &'a Tree,
    pub(super) result: &'a Tree,
    pub(super) live: &'a Tree,
    /// Of the live directory, to notice a change since it was scanned.
    pub(super) index: &'a Index,
    /// It was begun before, and may find its own work.
    pub(super) again: bool,
}

/// What a merge did.
pub(super) struct Merged {
    /// The base with what this merge brought to the live directory.
    pub(super) tree: Tree,
    pub(super) applied: u64,
    /// Paths that were as wanted before.
    pub(super) already: Vec<RelativePath>,
    /// Paths that are neither as before nor as wanted, and were left alone.
    pub(super) conflicts: Vec<RelativePath>,
    /// Paths that nobody else changed, and that their permissions, or those of what is above them, kept as they are.
    pub(super) forbidden: Vec<RelativePath>,
    /// Files beside these that somebody else had changed since the base.
    pub(super) meanwhile: Vec<RelativePath>,
}

/// Merges, path by path.
pub(super) fn merge(sides: &Sides<'_>, files: &Files, store: &Store) -> Result<Merged, Fault> {
    let mut merged = Merged {
        tree: sides.base.clone(),
        applied: 0,
        already: Vec::new(),
        conflicts: Vec::new(),
        forbidden: Vec::new(),
        meanwhile: Vec::new(),
    };
    let changes = sides.base.changes(sides.result);
    let own: BTreeSet<&RelativePath> = changes.iter().map(|(path, _)| path).collect();
    let is_file = |path: &RelativePath| {
        [sides.base, sides.live].iter().any(|tree| tree.get(path).is_some_and(|node| !is_directory(node)))
    };
    let others = sides.base.changes(sides.live).into_iter().map(|(path, _)| path);
    merged.meanwhile = others.filter(|path| !own.contains(path) && is_file(path)).collect();
    // What is removed goes first, the deepest before what holds it; then what is new, what holds it first.
    let (removed, put): (Vec<_>, Vec<_>) =
        changes.iter().map(|(path, _)| path).partition(|path| is_absent(sides.result, path));
    // Before anything is changed, so that nothing that cannot be read stops it half-way.
    for path in &put {
        if let Some(Node::File { mode, hash, .. }) = sides.result.get(path) {
            store.object(*hash, *mode)?;
        }
    }
    let mut doors = Doors { sides, files, seen: BTreeMap::new() };
    for path in removed.into_iter().rev().chain(put) {
        doors.open_above(path);
        match merge_path(sides, path, &mut doors, store)? {
            Came::Applied => merged.applied += 1,
            Came::Already => {
                merged.already.push(path.clone());
                if !sides.again {
                    continue;
                }
            }
            Came::Conflict => {
                merged.conflicts.push(path.clone());
                continue;
            }
            Came::Forbidden => {
                merged.forbidden.push(path.clone());
                continue;
            }
        }
        merged.tree.set(path, sides.result.get(path).cloned());
    }
    Ok(merged)
}

/// What came of one path.
enum Came {
    Applied,
    Already,
    Conflict,
    Forbidden,
}

fn merge_path(sides: &Sides<'_>, path: &RelativePath, doors: &mut Doors<'_>, store: &Store) -> Result<Came, Fault> {
    let files = doors.files;
    let (base, live, result) = (present(sides.base, path), present(sides.live, path), present(sides.result, path));
    if live == result {
        return Ok(Came::Already);
    }
    let is_base = live == base || sides.again && (was_opened(live, base) || was_opened(live, result));
    if !is_base || !is_untouched(sides, path, files) {
        // Nobody could see what is there, so nobody knows whether it changed.
        return Ok(if live.is_none() && files.is_forbidden(path) { Came::Forbidden } else { Came::Conflict });
    }
    let is_it = |parent: &OwnedFd, name: &CStr| is_known(sides, path, parent, name);
    let expected = if live.is_some() { Expected::Known(&is_it) } else { Expected::Nothing };
    match change(path, (live, result), &expected, doors, store) {
        Ok(()) => Ok(Came::Applied),
        // A directory that holds what the base did not know, somebody else's file, or a name that changed its nature in
        // this moment.
        Err(fault) if is_conflict(fault.code) => Ok(Came::Conflict),
        Err(fault) if fault.code == FaultCode::Denied => Ok(Came::Forbidden),
        Err(fault) => Err(fault),
    }
}

fn change(
    path: &RelativePath,
    (live, result): (Option<&Node>, Option<&Node>),
    expected: &Expected<'_>,
    doors: &mut Doors<'_>,
    store: &Store,
) -> Result<(), Fault> {
    let files = doors.files;
    let mut expected = expected;
    // What cannot be replaced by a rename, because one of the two is a directory, is removed first.
    if let (Some(old), Some(new)) = (live, result)
        && is_directory(old) != is_directory(new)
    {
        remove(path, old, expected, files)?;
        expected = &Expected::Nothing;
    }
    match (live, result) {
        (Some(old), None) => remove(path, old, expected, files),
        (_, Some(Node::File { mode, size, hash })) => {
            put_file(path, (*mode, *size), store.object(*hash, *mode)?, expected, files)
        }
        (_, Some(Node::Link { target })) => files.put_link(path, target, expected),
        (_, Some(Node::Directory { mode })) => doors.put_directory(path, *mode),
        (_, Some(Node::Derived)) | (None, None) => Ok(()),
    }
}

fn remove(path: &RelativePath, node: &Node, expected: &Expected<'_>, files: &Files) -> Result<(), Fault> {
    match is_directory(node) {
        true => files.remove(path, crate::protocol::Removal::EmptyDirectory),
        false => files.remove_expected(path, expected),
    }
}

fn put_file(
    path: &RelativePath,
    (mode, size): (u32, u64),
    content: OwnedFd,
    expected: &Expected<'_>,
    files: &Files,
) -> Result<(), Fault> {
    use std::io::Read;
    let mut writing = files.begin_write(path, Some(mode), size)?;
    let (mut content, mut buffer) = (std::fs::File::from(content), vec![0; CHUNK_BYTES]);
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return writing.finish_over(expected),
            Ok(read) => writing = writing.append(&buffer[..read])?,
            Err(error) => return Err(super::super::files::fault("read from the store", error.raw_os_error())),
        }
    }
}

/// Directories that their owner has forbidden to itself, open for as long as a merge works in them. Afterwards each has the
/// permissions that it had, or that the merge brought.
struct Doors<'a> {
    sides: &'a Sides<'a>,
    files: &'a Files,
    /// Those that were looked at, with what each shall have at the end if it is not as it is.
    seen: BTreeMap<RelativePath, Option<u32>>,
}

impl Doors<'_> {
    /// Opens what stands above a path. What cannot be opened is met again by whoever wants to go through.
    fn open_above(&mut self, path: &RelativePath) {
        let above = |path: &RelativePath| path.split().map(|(above, _)| above).filter(|above| !above.is_root());
        let mut directories: Vec<_> = std::iter::successors(above(path), above).collect();
        while let Some(directory) = directories.pop() {
            if !self.seen.contains_key(&directory)
                && let Ok(mode) = self.files.open_closed_directory(&directory)
            {
                let mode = mode.or_else(|| self.left_open(&directory));
                self.seen.insert(directory, mode);
            }
        }
    }

    /// What a directory shall have that a merge which was broken off has opened and not closed.
    fn left_open(&self, path: &RelativePath) -> Option<u32> {
        let wanted = present(self.sides.result, path).filter(|_| self.sides.again);
        match wanted {
            Some(Node::Directory { mode }) if was_opened(present(self.sides.live, path), wanted) => Some(*mode),
            _ => None,
        }
    }

    /// Makes a directory, or gives one that is there other permissions: at the end, because something may come into it.
    fn put_directory(&mut self, path: &RelativePath, mode: u32) -> Result<(), Fault> {
        self.files.put_directory(path, mode | OWNER_ALL)?;
        self.seen.insert(path.clone(), Some(mode));
        Ok(())
    }
}

impl Drop for Doors<'_> {
    fn drop(&mut self) {
        // The deepest first: through what is closed nobody could walk to them.
        for (path, mode) in self.seen.iter().rev() {
            if let Some(mode) = mode {
                // One that is gone needs no permissions.
                self.files.close_directory(path, *mode).ok();
            }
        }
    }
}

/// Whether a directory is what a merge that was broken off left open.
fn was_opened(live: Option<&Node>, wanted: Option<&Node>) -> bool {
    let (Some(Node::Directory { mode: live }), Some(Node::Directory { mode: wanted })) = (live, wanted) else {
        return false;
    };
    *live == wanted | OWNER_ALL
}

/// Whether a live file is still the one that was scanned.
fn is_untouched(sides: &Sides<'_>, path: &RelativePath, files: &Files) -> bool {
    match sides.live.get(path) {
        Some(Node::File { .. }) => files.raw_stat(path).is_ok_and(|stat| sides.index.is_same(path, &stat)),
        Some(_) => true,
        None => files.raw_stat(path).is_err(),
    }
}

/// Whether what was taken out of its place in this moment is what was scanned there.
fn is_known(sides: &Sides<'_>, path: &RelativePath, parent: &OwnedFd, name: &CStr) -> bool {
    match sides.live.get(path) {
        Some(Node::File { .. }) => rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| sides.index.is_same_renamed(path, &stat)),
        Some(Node::Link { target }) => {
            rustix::fs::readlinkat(parent, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target.as_bytes())
        }
        _ => false,
    }
}

/// Derived directories are neither applied nor in the way.
pub(super) fn present<'a>(tree: &'a Tree, path: &RelativePath) -> Option<&'a Node> {
    tree.get(path).filter(|node| **node != Node::Derived)
}

fn is_absent(tree: &Tree, path: &RelativePath) -> bool {
    present(tree, path).is_none()
}

fn is_directory(node: &Node) -> bool {
    matches!(node, Node::Directory { .. })
}

fn is_conflict(code: FaultCode) -> bool {
    use FaultCode::{Escapes, Exists, NotADirectory, NotAFile, NotEmpty, NotFound};
    matches!(code, Escapes | Exists | NotADirectory | NotAFile | NotEmpty | NotFound)
}

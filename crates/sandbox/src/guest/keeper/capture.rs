//! The tree that a task made: its base, changed by what the overlay's upper layer says.
//!
//! Only what the task changed is read. The layer is a fact of the kernel's making: a task cannot write the marks that
//! stand for removed paths, because the overlay refuses them.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};

use super::super::files::is_unfinished;
use super::index::Index;
use super::reader::{DEPTH_MAX, Reader, Skipped, open_up};
use super::scan::{entries, open_directory};
use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::{EffectId, Fault, SnapshotReport};
use crate::tree::{Node, TreeId, is_derived};

/// Marks a directory whose lower content is gone.
const OPAQUE: &str = "user.overlay.opaque";

/// Takes a task's result.
/// `forbidden` is what the live directory holds and no task can see.
pub(super) fn capture(
    store: &Store,
    task: &EffectId,
    base: TreeId,
    forbidden: Vec<RelativePath>,
) -> Result<SnapshotReport, Fault> {
    let layer = store.task_layer(task)?;
    let known = Index::default();
    let mut reader = Reader::new(store, &known, store.get_tree(base)?);
    apply(&mut reader, &layer, &RelativePath::root(), DEPTH_MAX)?;
    let Reader { tree, files_read, skipped, .. } = reader;
    // Contents before the tree that names them.
    store.sync()?;
    let id = store.put_tree(&tree)?;
    let Skipped { count: skipped, paths: skipped_paths, .. } = skipped;
    let (paths, bytes) = (tree.len() as u64, tree.bytes());
    Ok(SnapshotReport { tree: id, paths, bytes, files_read, skipped, skipped_paths, forbidden })
}

fn apply(reader: &mut Reader<'_>, layer: &OwnedFd, at: &RelativePath, depth_left: u32) -> Result<(), Fault> {
    for (name, stat) in entries(layer)? {
        let Ok(path) = at.join(name.as_bytes()) else {
            reader.skipped.count += 1;
            continue;
        };
        if is_removed(&stat) {
            reader.tree.remove(&path);
        } else if is_unfinished(name.as_bytes()) {
            // In the workspace it would be cleared away by the next look at it.
            reader.skipped.add(path);
        } else if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let before = reader.tree.get(&path).cloned();
            reader.tree.remove(&path);
            reader.take(layer, &name, path.clone(), &stat)?;
            // A file that cannot be kept is not one that was removed.
            if let (Some(before), FileType::RegularFile, None) =
                (before, FileType::from_raw_mode(stat.st_mode), reader.tree.get(&path))
            {
                reader.tree.insert(path, before);
            }
        } else if is_derived(name.as_bytes()) {
            let is_known = matches!(reader.tree.get(&path), Some(Node::Derived));
            reader.tree.remove(&path);
            reader.tree.insert(path.clone(), Node::Derived);
            // Whoever did not know what such a name means hears that nothing in it was kept.
            if !is_known {
                reader.skipped.add(path);
            }
        } else if depth_left == 0 {
            reader.skipped.add(path);
        } else if let Some(below) = open_walkable(layer, &name)? {
            if !matches!(reader.tree.get(&path), Some(Node::Directory { .. })) || is_opaque(&below) {
                reader.tree.remove(&path);
            }
            reader.tree.insert(path.clone(), Node::Directory { mode: stat.st_mode & 0o777 });
            apply(reader, &below, &path, depth_left - 1)?;
        } else {
            reader.skipped.add(path);
        }
    }
    Ok(())
}

/// A directory of the layer, which goes when the task does, also one that its task has forbidden to itself.
fn open_walkable(layer: &OwnedFd, name: &CString) -> Result<Option<OwnedFd>, Fault> {
    match open_directory(layer, name)? {
        None if open_up(layer, name).is_ok() => open_directory(layer, name),
        opened => Ok(opened),
    }
}

/// A device with the number zero stands for a path that was removed.
fn is_removed(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn is_opaque(directory: &OwnedFd) -> bool {
    let mut value = [0; 1];
    matches!(rustix::fs::fgetxattr(directory, OPAQUE, &mut value[..]), Ok(1)) && value == *b"y"
}

//! What only the keeper does: trees, snapshots, the results of tasks, differences and merging.
//!
//! Tasks do not run over the live directory. What is written beneath a mounted overlay shows through at once, so a
//! person's edit would change a task's world while it runs, and its result would be compared with a base that never
//! existed. A task runs over a snapshot: a read-only directory of links into a store of contents.

mod capture;
mod check;
mod diff;
mod ignore;
mod index;
mod merge;
mod reader;
mod scan;
mod store;
mod undo;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::diff::{Between, Writing};
use self::index::Index;
use self::merge::Merged;
use self::store::Store;
use super::files::Files;
use crate::path::RelativePath;
use crate::protocol::{
    Dropped, EffectId, Fault, FaultCode, MergeReport, NAMED_PATHS_BYTES_MAX, NAMED_PATHS_MAX, READ_BYTES_MAX,
    SnapshotReport, TreeChange, UNDONE_MAX,
};
use crate::tree::{ContentHash, Node, Tree, TreeId};

/// The keeper's work on one workspace and one store.
#[derive(Debug)]
pub(super) struct Keeper {
    files: Arc<Files>,
    store: Store,
    /// Held by every operation: they are long, and two at once would only see each other's halves.
    state: Mutex<State>,
    /// Long differences that are being read, each with how much of it was; the oldest first. Not part of the state: they
    /// only read the store.
    writings: Mutex<Vec<(u64, Writing)>>,
    /// The last differences asked for, because they are asked for in parts; the oldest first. Held while one is made, and
    /// not part of the state either: nobody else waits for what may take seconds.
    diffs: Mutex<Vec<Diff>>,
}

/// A difference and the trees that it lies between.
#[derive(Debug)]
struct Diff {
    trees: (TreeId, TreeId),
    text: Vec<u8>,
}

/// Differences that are kept, each until it was read to its end.
const DIFFS_MAX: usize = 4;

/// Long differences that are read at once. A reader whose difference is forgotten has to begin again.
const WRITINGS_MAX: usize = 4;

#[derive(Debug)]
struct State {
    index: Index,
    /// The last tree taken, with its name.
    last: Option<(TreeId, Tree)>,
    /// What could not be read then.
    forbidden: Vec<RelativePath>,
}

impl Keeper {
    /// Opens a store.
    pub(super) fn open(files: Arc<Files>, store: OwnedFd) -> Result<Self, Fault> {
        let store = Store::open(store)?;
        let index = Index::load(&store);
        let state = Mutex::new(State { index, last: None, forbidden: Vec::new() });
        Ok(Self { files, store, state, writings: Mutex::default(), diffs: Mutex::default() })
    }

    /// Takes the live directory's tree and its contents. The directory of links over which a task runs is made when the
    /// first task needs it; most trees never do.
    pub(super) fn snapshot(&self) -> Result<SnapshotReport, Fault> {
        self.scan(&mut self.lock())
    }

    /// A part of a tree's manifest, and the size of the whole.
    pub(super) fn read_tree(&self, tree: TreeId, offset: u64, length: u64) -> Result<(Vec<u8>, u64), Fault> {
        self.store.read_manifest(tree, offset, length.min(READ_BYTES_MAX))
    }

    /// A part of a file as it is in a tree, and the size of the whole.
    pub(super) fn read_content(
        &self,
        tree: TreeId,
        path: &RelativePath,
        offset: u64,
        length: u64,
    ) -> Result<(Vec<u8>, u64), Fault> {
        match self.store.get_tree(tree)?.get(path) {
            Some(Node::File { mode, hash, .. }) => {
                self.store.read_object(*hash, *mode, offset, length.min(READ_BYTES_MAX))
            }
            Some(Node::Link { .. } | Node::Directory { .. } | Node::Derived) => {
                Err(Fault::new(FaultCode::BadRequest, "this is not a file"))
            }
            None => Err(Fault::new(FaultCode::NotFound, "there is no such file in the tree")),
        }
    }

    /// Makes the directories of a task's overlay over the snapshot of `base`.
    pub(super) fn prepare_task(&self, task: &EffectId, base: TreeId) -> Result<(), Fault> {
        let _state = self.lock();
        let tree = self.store.get_tree(base)?;
        self.store.make_snapshot(base, &tree)?;
        self.store.make_task(task)
    }

    /// Takes the tree that a task made of `base`.
    pub(super) fn capture_task(&self, task: &EffectId, base: TreeId) -> Result<SnapshotReport, Fault> {
        let state = self.lock();
        capture::capture(&self.store, task, base, state.forbidden.clone())
    }

    /// Removes the directories of links that no task needs.
    pub(super) fn drop_snapshots(&self, keep: &[TreeId]) -> Result<(), Fault> {
        let _state = self.lock();
        self.store.drop_snapshots(keep)
    }

    /// Removes trees that nobody names any more.
    pub(super) fn drop_trees(&self, trees: &[TreeId]) -> Result<(), Fault> {
        if trees.len() > UNDONE_MAX {
            return Err(Fault::new(FaultCode::BadRequest, "too many trees are to be removed at once"));
        }
        let mut state = self.lock();
        // Whoever takes a tree that is remembered would name one that is gone.
        state.last = None;
        let removed = self.store.remove_trees(trees);
        drop(state);
        // After the trees, so that none of them comes back by a difference that is being made.
        self.diffs().clear();
        removed
    }

    /// Removes contents that no tree holds. What the index vouches for is not read again, so it must be there. Where a tree
    /// cannot be read nobody knows what it holds, and everything stays.
    pub(super) fn drop_contents(&self) -> Result<Dropped, Fault> {
        let state = self.lock();
        let mut held: HashSet<ContentHash> = state.index.contents().collect();
        for tree in self.store.tree_ids()? {
            let tree = self.store.get_tree(tree)?;
            held.extend(tree.iter().filter_map(|(_, node)| match node {
                Node::File { hash, .. } => Some(*hash),
                Node::Directory { .. } | Node::Link { .. } | Node::Derived => None,
            }));
        }
        self.store.retain_contents(&held)
    }

    /// The tree on which a result is checked.
    pub(super) fn check_tree(
        &self,
        base: TreeId,
        result: TreeId,
        from_base: &[RelativePath],
    ) -> Result<SnapshotReport, Fault> {
        let trees = (self.store.get_tree(base)?, self.store.get_tree(result)?);
        let tree = check::check_tree(&self.store, &trees.0, &trees.1, from_base)?;
        self.put_made([base, result], &tree)
    }

    /// A tree with some paths of another one in it.
    pub(super) fn graft(
        &self,
        onto: TreeId,
        from: TreeId,
        paths: &[(RelativePath, RelativePath)],
    ) -> Result<SnapshotReport, Fault> {
        let (mut tree, with) = (self.store.get_tree(onto)?, self.store.get_tree(from)?);
        paths.iter().for_each(|(there, here)| check::put(&mut tree, here, &with, there));
        self.put_made([onto, from], &tree)
    }

    /// Keeps a tree that was made of others.
    fn put_made(&self, of: [TreeId; 2], tree: &Tree) -> Result<SnapshotReport, Fault> {
        // The state is held only now, for nobody should wait for the making; so the trees may be gone, and their contents.
        let _state = self.lock();
        of.iter().try_for_each(|tree| self.store.read_manifest(*tree, 0, 0).map(drop))?;
        let id = self.store.put_tree(tree)?;
        let (paths, bytes) = (tree.len() as u64, tree.bytes());
        let (skipped_paths, forbidden) = (Vec::new(), Vec::new());
        Ok(SnapshotReport { tree: id, paths, bytes, files_read: 0, skipped: 0, skipped_paths, forbidden })
    }

    /// Removes a task's directories.
    pub(super) fn drop_task(&self, task: &EffectId) -> Result<(), Fault> {
        let _state = self.lock();
        self.store.remove_task(task)
    }

    /// A part of the difference between two trees in git's format, and the size of the whole.
    pub(super) fn diff(&self, (from, to): (TreeId, TreeId), offset: u64, length: u64) -> Result<(Vec<u8>, u64), Fault> {
        let mut diffs = self.diffs();
        let known = diffs.iter().position(|diff| diff.trees == (from, to));
        let at = match known {
            Some(at) => at,
            None => {
                let text = diff::bounded(&self.store, &Between::read(&self.store, (from, to))?)?;
                if diffs.len() >= DIFFS_MAX {
                    diffs.remove(0);
                }
                diffs.push(Diff { trees: (from, to), text });
                diffs.len() - 1
            }
        };
        let text = &diffs[at].text;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let end = start.saturating_add(usize::try_from(length.min(READ_BYTES_MAX)).unwrap_or(0)).min(text.len());
        let (part, size) = (text[start..end].to_vec(), text.len());
        if end == size {
            diffs.remove(at);
        }
        Ok((part, size as u64))
    }

    fn diffs(&self) -> MutexGuard<'_, Vec<Diff>> {
        // As with the others: whole even after a panic.
        self.diffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next part of the difference between two trees, however long it is, and whether it is the last.
    pub(super) fn whole_diff(&self, trees: (TreeId, TreeId), offset: u64) -> Result<(Vec<u8>, bool), Fault> {
        let mut writing = match offset {
            0 => Writing::new(Between::read(&self.store, trees)?),
            _ => self.take_writing(trees, offset).ok_or_else(broken)?,
        };
        let part = writing.next(&self.store, READ_BYTES_MAX as usize)?;
        let is_last = (part.len() as u64) < READ_BYTES_MAX;
        if !is_last {
            let mut writings = self.writings();
            if writings.len() >= WRITINGS_MAX {
                writings.remove(0);
            }
            writings.push((offset + part.len() as u64, writing));
        }
        Ok((part, is_last))
    }

    fn take_writing(&self, trees: (TreeId, TreeId), offset: u64) -> Option<Writing> {
        let mut writings = self.writings();
        let at = writings.iter().position(|(at, writing)| (*at, writing.trees()) == (offset, trees))?;
        Some(writings.remove(at).1)
    }

    fn writings(&self) -> MutexGuard<'_, Vec<(u64, Writing)>> {
        // Each change is one insertion or removal, so the list is whole even after a panic.
        self.writings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changes from `base` to `result` to the live directory, where it still is as in `base`.
    pub(super) fn merge(&self, base: TreeId, result: TreeId, again: bool) -> Result<MergeReport, Fault> {
        let mut state = self.lock();
        let trees = (self.store.get_tree(base)?, self.store.get_tree(result)?);
        let merged = self.apply(&mut state, (&trees.0, &trees.1), again)?;
        self.report(base, merged)
    }

    /// Takes changes back as one, or only what they did to one path, where the live directory still is as they left it.
    pub(super) fn undo(
        &self,
        changes: &[TreeChange],
        only: Option<&RelativePath>,
        again: bool,
    ) -> Result<MergeReport, Fault> {
        if changes.is_empty() || changes.len() > UNDONE_MAX {
            return Err(Fault::new(FaultCode::BadRequest, "nothing, or too much, is to be undone at once"));
        }
        let mut state = self.lock();
        let mut inverse = undo::Inverse::default();
        for change in changes {
            inverse.add(&self.store.get_tree(change.base)?, self.store.get_tree(change.result)?);
        }
        if let Some(path) = only {
            inverse.keep_only(path);
        }
        let undo::Sides { from, to, kept } = inverse.finish();
        let base = self.store.put_tree(&from)?;
        let mut merged = self.apply(&mut state, (&from, &to), again)?;
        merged.conflicts.extend(kept);
        self.report(base, merged)
    }

    fn apply(&self, state: &mut State, (base, result): (&Tree, &Tree), again: bool) -> Result<Merged, Fault> {
        self.scan(state)?;
        let State { index, last, .. } = &*state;
        let (_, live) = last.as_ref().ok_or_else(broken)?;
        merge::merge(&merge::Sides { base, result, live, index, again }, &self.files, &self.store)
    }

    fn report(&self, base: TreeId, merged: Merged) -> Result<MergeReport, Fault> {
        let Merged { tree, applied, already, conflicts, forbidden, meanwhile } = merged;
        let merged = self.store.put_tree(&tree)?;
        let (left, already_paths) = (named(&conflicts), named(&already));
        let conflicts_more = (conflicts.len() - left.len()) as u64;
        Ok(MergeReport {
            base,
            merged,
            applied,
            already: already.len() as u64,
            already_paths,
            conflicts: left,
            conflicts_more,
            forbidden: named(&forbidden),
            meanwhile: named(&meanwhile),
        })
    }

    fn scan(&self, state: &mut State) -> Result<SnapshotReport, Fault> {
        let scanned = scan::scan(&self.files, &self.store, &state.index)?;
        // Contents before the tree that names them.
        self.store.sync()?;
        let known = state.last.as_ref().filter(|(_, tree)| *tree == scanned.tree).map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None => self.store.put_tree(&scanned.tree)?,
        };
        let mut index = scanned.index;
        index.save(&state.index, &self.store)?;
        let report = SnapshotReport {
            tree: id,
            paths: scanned.tree.len() as u64,
            bytes: scanned.tree.bytes(),
            files_read: scanned.files_read,
            skipped: scanned.skipped.count,
            skipped_paths: scanned.skipped.paths,
            forbidden: scanned.skipped.forbidden,
        };
        state.forbidden.clone_from(&report.forbidden);
        state.index = index;
        state.last = Some((id, scanned.tree));
        Ok(report)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept here is only ever replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first of many paths: as many as a reply has room for.
fn named(paths: &[RelativePath]) -> Vec<RelativePath> {
    let mut bytes = 0;
    let fits = |path: &&RelativePath| {
        bytes += path.as_bytes().len();
        bytes <= NAMED_PATHS_BYTES_MAX
    };
    paths.iter().take(NAMED_PATHS_MAX).take_while(fits).cloned().collect()
}

fn broken() -> Fault {
    Fault::new(FaultCode::System, "the keeper lost its place")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn directory(place: &std::path::Path) -> OwnedFd {
        std::fs::File::open(place).expect("opened").into()
    }

    #[test]
    fn nobody_waits_for_a_difference_that_is_made() {
        let (live, store) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let keeper =
            Keeper::open(Arc::new(Files::new(directory(live.path()))), directory(store.path())).expect("opens");
        let before = keeper.snapshot().expect("taken").tree;
        std::fs::write(live.path().join("file"), "text").expect("written");
        let after = keeper.snapshot().expect("taken").tree;
        let state = keeper.lock();
        let (made, on_made) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| made.send(keeper.diff((before, after), 0, READ_BYTES_MAX)));
            let diff = on_made.recv_timeout(Duration::from_secs(20));
            drop(state);
            let (text, size) = diff.expect("made although the keeper is busy").expect("a difference");
            assert_eq!(text.len() as u64, size);
            assert!(text.ends_with(b"+text\n\\ No newline at end of file\n"));
        });
        assert!(keeper.diffs().is_empty(), "what was read is not kept");
        keeper.diff((before, after), 0, 10).expect("a part");
        assert_eq!(keeper.diffs().len(), 1);
        keeper.drop_trees(&[before]).expect("dropped");
        assert!(keeper.diffs().is_empty(), "nor is what nobody may know any more");
    }
}

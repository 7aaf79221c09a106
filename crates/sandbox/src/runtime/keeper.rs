//! What only a keeper is asked for: trees and what is made of them.

use bytes::Bytes;

use super::connection::CallError;
use super::handle::{Guest, done};
use crate::path::RelativePath;
use crate::protocol::{
    Answer, Ask, DIFF_BYTES_MAX, Dropped, EffectId, MergeReport, READ_BYTES_MAX, SnapshotReport, TreeChange,
};
use crate::tree::{MANIFEST_BYTES_MAX, Tree, TreeId};

impl Guest {
    /// Takes the live directory's tree and keeps its contents. For a keeper.
    pub async fn take_snapshot(&self) -> Result<SnapshotReport, CallError> {
        snapshot(self.call(Ask::TakeSnapshot).await?)
    }

    /// Reads a tree from a keeper's store.
    pub async fn read_tree(&self, tree: TreeId) -> Result<Tree, CallError> {
        let part = |offset| Ask::ReadTree { tree, offset, length: READ_BYTES_MAX };
        let manifest = self.read_parts(MANIFEST_BYTES_MAX, part).await?;
        // A guest is believed no more than its hash.
        if TreeId::of(&manifest) != tree {
            return Err(CallError::Unexpected);
        }
        Tree::parse(&manifest).map_err(|_| CallError::Unexpected)
    }

    /// Makes the directories of a task over the snapshot of `base`: those of [`super::Overlay::of_task`].
    pub async fn prepare_task(&self, task: &EffectId, base: TreeId) -> Result<(), CallError> {
        done(self.call(Ask::PrepareTask { task: task.clone(), base }).await?)
    }

    /// Takes the tree that a task has made of `base`. The task's sandbox should have ended.
    pub async fn capture_task(&self, task: &EffectId, base: TreeId) -> Result<SnapshotReport, CallError> {
        snapshot(self.call(Ask::CaptureTask { task: task.clone(), base }).await?)
    }

    /// A file as it is in a tree of a keeper's store, if it is no longer than the limit.
    pub async fn read_content(&self, tree: TreeId, path: &RelativePath, limit_bytes: u64) -> Result<Bytes, CallError> {
        let part = |offset| Ask::ReadContent { tree, path: path.clone(), offset, length: READ_BYTES_MAX };
        self.read_parts(limit_bytes, part).await
    }

    /// The tree on which a task's result is checked: what the project ignores is as in the base, and so is what is named.
    pub async fn check_tree(
        &self,
        base: TreeId,
        result: TreeId,
        from_base: Vec<RelativePath>,
    ) -> Result<SnapshotReport, CallError> {
        snapshot(self.call(Ask::CheckTree { base, result, from_base }).await?)
    }

    /// A tree with some paths of another one in it: what each is called there, and shall be called here.
    pub async fn graft(
        &self,
        onto: TreeId,
        from: TreeId,
        paths: Vec<(RelativePath, RelativePath)>,
    ) -> Result<TreeId, CallError> {
        Ok(snapshot(self.call(Ask::Graft { onto, from, paths }).await?)?.tree)
    }

    /// Removes a task's directories.
    pub async fn drop_task(&self, task: &EffectId) -> Result<(), CallError> {
        done(self.call(Ask::DropTask { task: task.clone() }).await?)
    }

    /// Removes the snapshots of trees that are not named. They are made again when a task needs them.
    pub async fn drop_snapshots(&self, keep: Vec<TreeId>) -> Result<(), CallError> {
        done(self.call(Ask::DropSnapshots { keep }).await?)
    }

    /// Removes trees that nobody names any more, at most [`crate::protocol::UNDONE_MAX`].
    pub async fn drop_trees(&self, trees: Vec<TreeId>) -> Result<(), CallError> {
        done(self.call(Ask::DropTrees { trees }).await?)
    }

    /// Removes contents that no tree holds and no file of the live directory has.
    pub async fn drop_contents(&self) -> Result<Dropped, CallError> {
        match self.call(Ask::DropContents).await? {
            (Answer::Dropped(dropped), _) => Ok(dropped),
            _ => Err(CallError::Unexpected),
        }
    }

    /// The part of the difference between two trees that begins at `offset`, where the part before ended, and whether it is
    /// the last. However long the whole is, no more than [`READ_BYTES_MAX`] of it is anywhere.
    pub async fn whole_diff(&self, from: TreeId, to: TreeId, offset: u64) -> Result<(Bytes, bool), CallError> {
        match self.call(Ask::WholeDiff { from, to, offset }).await? {
            (Answer::Next { last }, bytes) if last || !bytes.is_empty() => Ok((bytes, last)),
            _ => Err(CallError::Unexpected),
        }
    }

    /// The difference between two trees in git's format, as far as it has room in 64 MiB; else it says what it lacks.
    pub async fn diff(&self, from: TreeId, to: TreeId) -> Result<Bytes, CallError> {
        let part = |offset| Ask::Diff { from, to, offset, length: READ_BYTES_MAX };
        self.read_parts(DIFF_BYTES_MAX as u64, part).await
    }

    /// Applies the changes from `base` to `result` to the live directory, where it still is as in `base`. The other
    /// way round it undoes them. `again` where it was begun before, and may find what it did then.
    pub async fn merge(&self, base: TreeId, result: TreeId, again: bool) -> Result<MergeReport, CallError> {
        match self.call(Ask::Merge { base, result, again }).await? {
            (Answer::Merged(report), _) => Ok(report),
            _ => Err(CallError::Unexpected),
        }
    }

    /// Takes changes back as one, the oldest named first, or only what they did to one path. What changed since is left as it is
    /// and named. `again` as for [`Guest::merge`].
    pub async fn undo(
        &self,
        changes: Vec<TreeChange>,
        only: Option<RelativePath>,
        again: bool,
    ) -> Result<MergeReport, CallError> {
        match self.call(Ask::Undo { changes, only, again }).await? {
            (Answer::Merged(report), _) => Ok(report),
            _ => Err(CallError::Unexpected),
        }
    }
}

fn snapshot((answer, _): (Answer, Bytes)) -> Result<SnapshotReport, CallError> {
    match answer {
        Answer::Snapshot(report) => Ok(report),
        _ => Err(CallError::Unexpected),
    }
}

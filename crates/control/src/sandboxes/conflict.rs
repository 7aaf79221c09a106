//! What a person said of paths that changed on both sides: the task's version takes the place of theirs, or comes beside it.

use super::associate::{Outcome, hash, text, tree};
use super::{Error, Sandboxes};
use choir_proto::task::Side;
use choir_proto::wire::{AssociateFinished, TakeSide};
use choir_proto::{Hash, TaskId};
use choir_sandbox::path::RelativePath;
use choir_sandbox::tree::{Node, Tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What is put behind the name of a version that comes beside another.
const BESIDE: &str = "theirs";

/// Names that are tried for one of them before it is left out.
const NAMES_TRIED_MAX: u32 = 100;

/// What came of a person's words so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sides {
    /// How many words were acted upon.
    #[serde(default)]
    done: u32,
    /// The workspace as it was before the one that is being acted upon: a crash must not take its own work for the person's.
    #[serde(default)]
    live: Option<Hash>,
    /// The base, with what gave way.
    #[serde(default)]
    pub(super) over: Option<Hash>,
    /// What came beside.
    #[serde(default)]
    pub(super) beside: Vec<String>,
}

/// Where a path of the result is, and where it shall be.
type Move = (RelativePath, RelativePath);

impl Sandboxes {
    /// Acts upon a person's word about what a merge left out. Asked again after a crash, it does the rest and says the same.
    pub(super) async fn take_side(&self, task: TaskId, take: TakeSide) -> Result<AssociateFinished, Error> {
        let _turn = self.0.merging.lock().await;
        let Some(mut outcome) = self.finished(task).await? else { return Err(Error::NoAssociate) };
        if outcome.sides.done <= take.attempt && take.side != Side::Mine {
            self.bring_side(task, &mut outcome, take.side).await?;
            outcome.sides.done = take.attempt + 1;
            outcome.sides.live = None;
            self.keep(task, &outcome).await?;
        }
        self.describe(outcome).await
    }

    async fn bring_side(&self, task: TaskId, outcome: &mut Outcome, side: Side) -> Result<(), Error> {
        let Some(merged) = outcome.merged else { return Err(Error::NoAssociate) };
        let keeper = self.keeper().await?;
        let again = outcome.sides.live.is_some();
        let live = match outcome.sides.live {
            Some(live) => live,
            None => hash(keeper.take_snapshot().await?.tree),
        };
        outcome.sides.live = Some(live);
        self.keep(task, outcome).await?;
        let trees = (keeper.read_tree(tree(merged)).await?, keeper.read_tree(tree(outcome.result)).await?);
        let left_out = trees.0.changes(&trees.1).into_iter().map(|(path, _)| path);
        let left_out = left_out.filter(|path| outcome.conflicts.contains(&text(path)));
        let moves: Vec<Move> = match side {
            Side::Mine => Vec::new(),
            Side::Theirs => left_out.map(|path| (path.clone(), path)).collect(),
            Side::Both => beside(left_out, &trees.1, &keeper.read_tree(tree(live)).await?),
        };
        // Nothing but these paths differs between the two, so that nothing else is touched.
        let from = keeper.graft(tree(merged), tree(live), in_place(&moves)).await?;
        let to = keeper.graft(tree(merged), tree(outcome.result), moves.clone()).await?;
        self.expect_mirrors(task, hash(from), hash(to)).await?;
        let report = keeper.merge(from, to, again).await?;
        let left: BTreeSet<&RelativePath> = report.conflicts.iter().chain(&report.forbidden).collect();
        let came: Vec<Move> = moves.iter().filter(|(_, path)| !left.contains(path)).cloned().collect();
        let over = outcome.sides.over.unwrap_or(outcome.base);
        outcome.sides.over = Some(hash(keeper.graft(tree(over), tree(live), in_place(&came)).await?));
        outcome.merged = Some(hash(keeper.graft(tree(merged), tree(outcome.result), came.clone()).await?));
        match side {
            Side::Mine => {}
            Side::Theirs => outcome.conflicts = left.into_iter().map(text).collect(),
            Side::Both => outcome.sides.beside = came.iter().map(|(_, path)| text(path)).collect(),
        }
        Ok(())
    }
}

fn in_place(moves: &[Move]) -> Vec<Move> {
    moves.iter().map(|(_, path)| (path.clone(), path.clone())).collect()
}

/// Names beside theirs, for files and links: a directory is there already, and what is gone has nothing to show.
fn beside(paths: impl Iterator<Item = RelativePath>, result: &Tree, live: &Tree) -> Vec<Move> {
    let is_file = |path: &RelativePath| matches!(result.get(path), Some(Node::File { .. } | Node::Link { .. }));
    paths.filter(is_file).filter_map(|path| free_name(&path, live).map(|free| (path, free))).collect()
}

fn free_name(path: &RelativePath, live: &Tree) -> Option<RelativePath> {
    let named = |number: u32| {
        let more = if number == 1 { String::new() } else { format!("-{number}") };
        RelativePath::parse([path.as_bytes(), format!(".{BESIDE}{more}").as_bytes()].concat()).ok()
    };
    (1..=NAMES_TRIED_MAX).filter_map(named).find(|name| live.get(name).is_none())
}

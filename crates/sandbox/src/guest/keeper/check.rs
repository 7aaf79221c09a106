//! The tree on which a task's result is checked: the result, but what the project ignores is as it was before the task,
//! and so is whatever the checks themselves are made of.
//!
//! What a worker built, cached or downloaded there could make a check pass that fails everywhere else.

use super::diff::read_all;
use super::ignore::{FILE_BYTES_MAX, Rules, Steps, files};
use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::Fault;
use crate::tree::{Node, Tree};

/// The tree to check. A path is ignored when the rules of either side say so: a worker can hide its own files by a new
/// rule, and show none by removing one.
pub(super) fn check_tree(store: &Store, base: &Tree, result: &Tree, from_base: &[RelativePath]) -> Result<Tree, Fault> {
    let (mut rules, steps) = ([rules(store, base)?, rules(store, result)?], Steps::default());
    let mut checked = result.clone();
    for (path, _) in base.changes(result) {
        let Some(node) = result.get(&path) else { continue };
        let is_directory = matches!(node, Node::Directory { .. });
        let [before, after] = &mut rules;
        if before.ignores(&path, is_directory, &steps)? || after.ignores(&path, is_directory, &steps)? {
            checked.set(&path, base.get(&path).cloned());
        }
    }
    from_base.iter().for_each(|path| put_back(&mut checked, path, base, path));
    Ok(checked)
}

/// Makes a path what another one is elsewhere. Of two directories, what is in the first stays: it has paths of its own.
pub(super) fn put(onto: &mut Tree, path: &RelativePath, from: &Tree, there: &RelativePath) {
    match (onto.get(path), from.get(there)) {
        (Some(Node::Directory { .. }), Some(node @ Node::Directory { .. })) => onto.set(path, Some(node.clone())),
        _ => put_back(onto, path, from, there),
    }
}

/// Makes a path what one is in the base, with the directories above it, which may be gone or something else by now.
fn put_back(checked: &mut Tree, path: &RelativePath, base: &Tree, there: &RelativePath) {
    let node = base.get(there).cloned();
    checked.remove(path);
    if node.is_some() {
        let parent = |path: &RelativePath| path.split().map(|(parent, _)| parent);
        let above: Vec<_> = std::iter::successors(parent(path), parent).collect();
        for directory in above.iter().rev().filter(|directory| !directory.is_root()) {
            if !matches!(checked.get(directory), Some(Node::Directory { .. })) {
                checked.remove(directory);
                checked.set(directory, base.get(directory).cloned());
            }
        }
    }
    checked.set(path, node);
}

fn rules(store: &Store, tree: &Tree) -> Result<Rules, Fault> {
    let mut rules = Rules::default();
    for (path, node) in files(tree) {
        if let Node::File { mode, size, hash } = node
            && size <= FILE_BYTES_MAX
        {
            rules.add(&path, &read_all(store.object(hash, mode)?)?);
        }
    }
    Ok(rules)
}

//! Several changes taken back as one.
//!
//! Where one change begins with what another left, the two are one change of that path. Where somebody else wrote in
//! between, taking back both would lose those words, so the path is left as it is and named.

use std::collections::BTreeMap;

use super::merge::present;
use crate::path::RelativePath;
use crate::tree::{Node, Tree};

/// Permission bits of a directory that only holds what a change left.
const DIRECTORY_MODE: u32 = 0o755;

/// What a series of changes did to each path.
#[derive(Debug, Default)]
pub(super) struct Inverse {
    touched: BTreeMap<RelativePath, Touched>,
    /// The newest result: everything around the touched paths.
    around: Tree,
}

#[derive(Debug)]
struct Touched {
    before: Option<Node>,
    after: Option<Node>,
    /// Nobody else wrote between the changes.
    unbroken: bool,
}

/// A merge that takes the series back.
pub(super) struct Sides {
    pub(super) from: Tree,
    pub(super) to: Tree,
    /// Paths that are left as they are.
    pub(super) kept: Vec<RelativePath>,
}

impl Inverse {
    /// Adds the next change.
    pub(super) fn add(&mut self, base: &Tree, result: Tree) {
        for (path, _) in base.changes(&result) {
            let (before, after) = (present(base, &path).cloned(), present(&result, &path).cloned());
            match self.touched.get_mut(&path) {
                Some(touched) => {
                    touched.unbroken &= touched.after == before;
                    touched.after = after;
                }
                None => drop(self.touched.insert(path, Touched { before, after, unbroken: true })),
            }
        }
        self.around = result;
    }

    /// Forgets what was done to other paths.
    pub(super) fn keep_only(&mut self, path: &RelativePath) {
        self.touched.retain(|touched, _| touched == path);
    }

    pub(super) fn finish(self) -> Sides {
        let (whole, broken): (Vec<_>, Vec<_>) = self.touched.into_iter().partition(|(_, touched)| touched.unbroken);
        let mut from = self.around;
        for (path, touched) in &whole {
            from.set(path, touched.after.clone());
        }
        for (path, _) in &whole {
            make_parents(&mut from, path);
        }
        let mut to = from.clone();
        for (path, touched) in whole {
            to.set(&path, touched.before);
        }
        Sides { from, to, kept: broken.into_iter().map(|(path, _)| path).collect() }
    }
}

/// A tree names the directories above everything that it names; other changes may have removed some of them since.
fn make_parents(tree: &mut Tree, path: &RelativePath) {
    if tree.get(path).is_none() {
        return;
    }
    let above = |path: &RelativePath| path.split().map(|(above, _)| above).filter(|above| !above.is_root());
    for parent in std::iter::successors(above(path), above) {
        if tree.get(&parent).is_none() {
            tree.insert(parent, Node::Directory { mode: DIRECTORY_MODE });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ContentHash;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).expect("a good path")
    }

    fn tree(files: Files<'_>) -> Tree {
        let mut tree = Tree::default();
        for (name, content) in files {
            let hash = ContentHash::of(content.as_bytes());
            tree.insert(path(name), Node::File { mode: 0o644, size: content.len() as u64, hash });
        }
        tree
    }

    /// Names and contents.
    type Files<'a> = &'a [(&'a str, &'a str)];

    fn inverse(changes: &[(Files<'_>, Files<'_>)]) -> Sides {
        let mut inverse = Inverse::default();
        for (base, result) in changes {
            inverse.add(&tree(base), tree(result));
        }
        inverse.finish()
    }

    #[test]
    fn changes_that_follow_each_other_are_one() {
        let sides = inverse(&[(&[("a", "1")], &[("a", "2")]), (&[("a", "2")], &[("a", "3"), ("b", "new")])]);
        assert_eq!((sides.from, sides.to), (tree(&[("a", "3"), ("b", "new")]), tree(&[("a", "1")])));
        assert!(sides.kept.is_empty());
    }

    #[test]
    fn what_somebody_wrote_in_between_is_kept() {
        let sides = inverse(&[(&[("a", "1")], &[("a", "2")]), (&[("a", "mine")], &[("a", "3")])]);
        assert_eq!(sides.from, sides.to);
        assert_eq!(sides.kept, [path("a")]);
    }

    #[test]
    fn one_path_is_taken_back_and_the_rest_stays() {
        let mut inverse = Inverse::default();
        inverse.add(&tree(&[("a", "1")]), tree(&[("a", "2"), ("b", "new")]));
        inverse.keep_only(&path("a"));
        let sides = inverse.finish();
        assert_eq!((sides.from, sides.to), (tree(&[("a", "2"), ("b", "new")]), tree(&[("a", "1"), ("b", "new")])));
    }

    #[test]
    fn what_came_and_went_is_no_change() {
        let sides = inverse(&[(&[], &[("a", "1")]), (&[("a", "1")], &[])]);
        assert_eq!(sides.from, sides.to);
    }

    #[test]
    fn a_tree_names_the_directories_above_what_it_names() {
        let sides = inverse(&[(&[], &[("a/b/c", "1")]), (&[], &[("d", "1")])]);
        assert!(matches!(sides.from.get(&path("a/b")), Some(Node::Directory { .. })));
        assert!(sides.to.get(&path("a/b/c")).is_none());
    }
}

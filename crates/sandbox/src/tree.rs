//! Trees: what a workspace holds, as a manifest that can be stored, compared and named by its hash.
//!
//! Pure: who fills a tree from a disk, or a disk from a tree, is the keeper.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::path::{LinkTarget, RelativePath, from_hex, to_hex};

/// First line of every manifest.
const HEADER: &str = "choir-tree 1";
/// Length of the line of a file whose path is not very long.
const LINE_BYTES_USUAL: usize = 192;
/// Largest manifest in bytes: some hundred thousand files.
pub const MANIFEST_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Directories that are made from the rest and can be made again. Trees hold their name and nothing of their content.
pub const DERIVED_DIRECTORIES: [&str; 9] =
    ["target", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".gradle", ".mypy_cache", ".pytest_cache"];

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ContentHash([u8; 32]);

/// The text is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 hexadecimal digits")]
pub struct HashError;

impl ContentHash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash that a hasher has arrived at.
    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let bytes = from_hex(text).ok_or(HashError)?;
        bytes.try_into().map(Self).map_err(|_| HashError)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        to_hex(&hash.0)
    }
}

impl TryFrom<String> for ContentHash {
    type Error = HashError;

    fn try_from(text: String) -> Result<Self, HashError> {
        Self::parse(&text)
    }
}

/// Name of a tree: the hash of its manifest.
pub type TreeId = ContentHash;

/// What a path is in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Node {
    /// A directory, empty or not.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Bytes.
        size: u64,
        /// Of its content.
        hash: ContentHash,
    },
    /// A symbolic link.
    Link {
        /// What it names.
        target: LinkTarget,
    },
    /// A directory of [`DERIVED_DIRECTORIES`], by its name only.
    Derived,
}

/// A workspace's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<RelativePath, Node>,
}

#[derive(Serialize, Deserialize)]
struct Line<'tree> {
    path: Cow<'tree, RelativePath>,
    #[serde(flatten)]
    node: Cow<'tree, Node>,
}

/// Why bytes are not a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// They begin otherwise.
    #[error("this is not a tree of a known version")]
    Header,
    /// A line cannot be read, or is out of order.
    #[error("line {0} of the tree is damaged")]
    Line(usize),
}

/// How a path differs between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the second has it.
    Added,
    /// Both have it, differently.
    Modified,
    /// Only the first has it.
    Deleted,
}

impl Tree {
    /// What the path is; `None` when it is not there.
    pub fn get(&self, path: &RelativePath) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Every path and what it is, in the order of the paths' bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&RelativePath, &Node)> {
        self.nodes.iter()
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many bytes its files have together.
    pub fn bytes(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::File { size, .. } => *size,
            Node::Directory { .. } | Node::Link { .. } | Node::Derived => 0,
        };
        self.nodes.values().map(size).fold(0, u64::saturating_add)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts a path.
    pub fn insert(&mut self, path: RelativePath, node: Node) {
        self.nodes.insert(path, node);
    }

    /// Makes one path what it is said to be; what is beneath it stays.
    pub fn set(&mut self, path: &RelativePath, node: Option<Node>) {
        match node {
            Some(node) => drop(self.nodes.insert(path.clone(), node)),
            None => drop(self.nodes.remove(path)),
        }
    }

    /// Removes a path and everything beneath it.
    pub fn remove(&mut self, path: &RelativePath) {
        self.nodes.remove(path);
        self.remove_beneath(path);
    }

    /// Removes everything beneath a path.
    pub fn remove_beneath(&mut self, path: &RelativePath) {
        if path.is_root() {
            return self.nodes.clear();
        }
        // Everything beneath begins with the path and a slash, so it is one range of the order.
        let mut prefix = path.as_bytes().to_vec();
        prefix.push(b'/');
        let beneath: Vec<_> = self
            .nodes
            .range(path.clone()..)
            .map(|(found, _)| found)
            .skip_while(|found| found.as_bytes() < prefix.as_slice())
            .take_while(|found| found.as_bytes().starts_with(&prefix))
            .cloned()
            .collect();
        for found in beneath {
            self.nodes.remove(&found);
        }
    }

    /// The manifest: the same bytes for the same tree, always.
    pub fn manifest(&self) -> Vec<u8> {
        let mut manifest = Vec::with_capacity((self.nodes.len() + 1) * LINE_BYTES_USUAL);
        manifest.extend_from_slice(HEADER.as_bytes());
        manifest.push(b'\n');
        for (path, node) in &self.nodes {
            let line = Line { path: Cow::Borrowed(path), node: Cow::Borrowed(node) };
            serde_json::to_writer(&mut manifest, &line).expect("writing to memory cannot fail");
            manifest.push(b'\n');
        }
        manifest
    }

    /// Reads a manifest.
    pub fn parse(manifest: &[u8]) -> Result<Self, ManifestError> {
        let mut lines = manifest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if lines.next() != Some(HEADER.as_bytes()) {
            return Err(ManifestError::Header);
        }
        let mut nodes = BTreeMap::new();
        for (index, line) in lines.enumerate() {
            let damaged = ManifestError::Line(index + 2);
            let Line { path, node } = serde_json::from_slice(line).map_err(|_| damaged)?;
            if nodes.last_key_value().is_some_and(|(last, _)| *last >= *path) {
                return Err(damaged);
            }
            nodes.insert(path.into_owned(), node.into_owned());
        }
        Ok(Self { nodes })
    }

    /// The paths that differ from here to `other`, in order. Derived directories never differ.
    pub fn changes(&self, other: &Self) -> Vec<(RelativePath, Change)> {
        let here = self.nodes.iter().filter(|(_, node)| **node != Node::Derived);
        let mut changes: BTreeMap<RelativePath, Change> = BTreeMap::new();
        for (path, node) in here {
            match other.nodes.get(path) {
                None | Some(Node::Derived) => changes.insert(path.clone(), Change::Deleted),
                Some(same) if same == node => None,
                Some(_) => changes.insert(path.clone(), Change::Modified),
            };
        }
        for (path, node) in &other.nodes {
            if *node != Node::Derived && matches!(self.nodes.get(path), None | Some(Node::Derived)) {
                changes.insert(path.clone(), Change::Added);
            }
        }
        changes.into_iter().collect()
    }
}

/// Whether a directory of this name is derived.
pub fn is_derived(name: &[u8]) -> bool {
    DERIVED_DIRECTORIES.iter().any(|derived| derived.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).expect("a good path")
    }

    fn file(content: &str) -> Node {
        Node::File { mode: 0o644, size: content.len() as u64, hash: ContentHash::of(content.as_bytes()) }
    }

    fn tree(nodes: &[(&str, Node)]) -> Tree {
        Tree { nodes: nodes.iter().map(|(text, node)| (path(text), node.clone())).collect() }
    }

    fn example() -> Tree {
        let target = LinkTarget::parse(*b"\xff/away").expect("a good target");
        tree(&[
            ("a", Node::Directory { mode: 0o755 }),
            ("a-b", file("beside")),
            ("a/b", file("beneath")),
            ("a/c/d", file("deep")),
            ("link", Node::Link { target }),
            ("target", Node::Derived),
        ])
    }

    #[test]
    fn a_manifest_is_read_back_and_its_bytes_are_fixed() {
        let manifest = example().manifest();
        assert_eq!(Tree::parse(&manifest), Ok(example()));
        // Stored trees are named by this hash: it may never change.
        assert_eq!(
            TreeId::of(&manifest).to_string(),
            "e720506c6c328a67e364bbae315482540779f4abc47629bd1ba93e0b8aa2bfa9"
        );
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(Tree::parse(b"something else\n"), Err(ManifestError::Header));
        assert_eq!(Tree::parse(b"choir-tree 1\n{}\n"), Err(ManifestError::Line(2)));
        let twice = br#"choir-tree 1
{"path":"b","kind":"derived"}
{"path":"a","kind":"derived"}
"#;
        assert_eq!(Tree::parse(twice), Err(ManifestError::Line(3)));
    }

    #[test]
    fn removing_takes_what_is_beneath_and_nothing_beside() {
        let mut tree = example();
        tree.remove(&path("a"));
        let left: Vec<_> = tree.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(left, ["a-b", "link", "target"]);
    }

    #[test]
    fn changes_name_every_difference() {
        let mut after = example();
        after.insert(path("a/b"), file("other"));
        after.insert(path("new"), file("new"));
        after.remove(&path("a-b"));
        after.remove(&path("target"));
        let changes = example().changes(&after);
        let expected = [("a-b", Change::Deleted), ("a/b", Change::Modified), ("new", Change::Added)];
        assert_eq!(changes, expected.map(|(text, change)| (path(text), change)));
    }
}

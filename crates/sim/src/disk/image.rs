//! What is on a disk: files, directories, and names.

use super::{Node, Op, Place, ROOT};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// A file or a directory.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<String, Node>),
}

/// Everything on a disk. A node without a name is kept: it may still be open, and a name may still reach the disk.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    nodes: HashMap<Node, Content>,
}

impl Default for Image {
    fn default() -> Self {
        Self { nodes: HashMap::from([(ROOT, Content::Directory(BTreeMap::new()))]) }
    }
}

impl Image {
    pub(crate) fn node(&self, node: Node) -> Option<&Content> {
        self.nodes.get(&node)
    }

    /// A number that no node has.
    pub(crate) fn unused(&self) -> Node {
        self.nodes.keys().max().map_or(ROOT, |last| last + 1)
    }

    pub(crate) fn names(&self, directory: Node) -> Option<&BTreeMap<String, Node>> {
        match self.nodes.get(&directory)? {
            Content::Directory(names) => Some(names),
            Content::File(_) => None,
        }
    }

    /// What a file is called, wherever it lies.
    pub(crate) fn names_of(&self, node: Node) -> impl Iterator<Item = &str> {
        let directories = self.nodes.values().filter_map(|content| match content {
            Content::Directory(names) => Some(names),
            Content::File(_) => None,
        });
        directories.flatten().filter(move |(_, named)| **named == node).map(|(name, _)| name.as_str())
    }

    pub(crate) fn find(&self, place: &Place) -> Option<Node> {
        self.names(place.directory)?.get(&place.name).copied()
    }

    /// The node itself, before any name for it is there.
    pub(crate) fn make(&mut self, node: Node, content: Content) {
        self.nodes.entry(node).or_insert(content);
    }

    /// Does what was done. Syncs and acknowledgements change nothing here.
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Make { place, node, content } => {
                self.make(*node, content.clone());
                self.name(place, *node);
            }
            Op::Write { node, offset, bytes } => self.write(*node, *offset, bytes),
            Op::Resize { node, size } => {
                if let Some(file) = self.file(*node) {
                    file.resize(*size, 0);
                }
            }
            Op::Rename { from, to, node } => {
                // The old name may never have got here, or may mean something else by now.
                if self.find(from) == Some(*node) {
                    self.unname(from);
                }
                self.name(to, *node);
            }
            Op::Remove { place } => self.unname(place),
            Op::Sync { .. } | Op::Acknowledge(_) => {}
        }
    }

    pub(crate) fn write(&mut self, node: Node, offset: usize, bytes: &[u8]) {
        let Some(file) = self.file(node) else { return };
        let end = offset + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset..end].copy_from_slice(bytes);
    }

    pub(crate) fn name(&mut self, place: &Place, node: Node) {
        if let Some(Content::Directory(names)) = self.nodes.get_mut(&place.directory) {
            names.insert(place.name.clone(), node);
        }
    }

    pub(crate) fn unname(&mut self, place: &Place) {
        if let Some(Content::Directory(names)) = self.nodes.get_mut(&place.directory) {
            names.remove(&place.name);
        }
    }

    fn file(&mut self, node: Node) -> Option<&mut Vec<u8>> {
        match self.nodes.get_mut(&node)? {
            Content::File(bytes) => Some(bytes),
            Content::Directory(_) => None,
        }
    }

    /// Everything in a real directory.
    pub(crate) fn read_from(directory: &Path) -> std::io::Result<Self> {
        let mut image = Self::default();
        image.read_directory(ROOT, directory)?;
        Ok(image)
    }

    fn read_directory(&mut self, directory: Node, path: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let (node, name) = (self.unused(), entry.file_name().to_string_lossy().into_owned());
            let is_directory = entry.file_type()?.is_dir();
            let content = match is_directory {
                true => Content::Directory(BTreeMap::new()),
                false => Content::File(fs::read(entry.path())?),
            };
            self.apply(&Op::Make { place: Place { directory, name }, node, content });
            if is_directory {
                self.read_directory(node, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes everything that has a name into a real directory.
    pub(crate) fn write_to(&self, directory: &Path) -> std::io::Result<()> {
        self.write_directory(ROOT, directory)
    }

    fn write_directory(&self, node: Node, path: &Path) -> std::io::Result<()> {
        for (name, node) in self.names(node).into_iter().flatten() {
            let path = path.join(name);
            match self.nodes.get(node) {
                Some(Content::File(bytes)) => fs::write(path, bytes)?,
                Some(Content::Directory(_)) => {
                    fs::create_dir(&path)?;
                    self.write_directory(*node, &path)?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

//! The difference of two trees as git would write it, so that `git apply` makes one of the other.
//!
//! What git cannot say is left out: empty directories, and permissions beyond "executable".

mod literal;
mod section;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;

use self::literal::Literal;
pub(super) use self::section::read_all;
use self::section::{Piece, changed, quoted, renamed, unread, unsaid};
use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::{DIFF_BYTES_MAX, Fault};
use crate::tree::{Change, ContentHash, Node, Tree, TreeId};

/// Largest file that is compared line by line, which takes its whole content. A larger one is carried as it is.
const TEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of large files that are read for a difference that is held as a whole: somebody waits for it, and large files may be
/// nothing but holes.
const LARGE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Room for a preface.
const PREFACE_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = DIFF_BYTES_MAX - PREFACE_BYTES_MAX;
/// Of the files that are missing, so many are named.
const MISSING_NAMED_MAX: usize = 10;

/// Two trees with their names.
pub(super) struct Between {
    pub(super) from: (TreeId, Tree),
    pub(super) to: (TreeId, Tree),
}

impl Between {
    pub(super) fn read(store: &Store, (from, to): (TreeId, TreeId)) -> Result<Self, Fault> {
        Ok(Self { from: (from, store.get_tree(from)?), to: (to, store.get_tree(to)?) })
    }

    fn steps(&self) -> Vec<Step> {
        steps(&self.from.1, &self.to.1)
    }

    fn unsaid(&self, path: &RelativePath) -> Vec<u8> {
        unsaid(path, (self.from.1.get(path), self.to.1.get(path)))
    }

    /// Bytes of large files that must be read before anything can be said of a change.
    fn large_bytes(&self, step: &Step) -> u64 {
        match step {
            Step::Changed(path) => {
                [&self.from.1, &self.to.1].iter().filter_map(|tree| large(tree, path)).map(|it| it.size).sum()
            }
            Step::Renamed { .. } => 0,
        }
    }

    fn pieces(&self, store: &Store, step: &Step) -> Result<Vec<Piece>, Fault> {
        match step {
            Step::Changed(path) => changed(store, path, (self.from.1.get(path), self.to.1.get(path))),
            Step::Renamed { from, to, modes } => Ok(renamed(from, to, *modes)),
        }
    }
}

/// What happened to a path, or to two.
enum Step {
    Changed(RelativePath),
    /// Permissions before and after.
    Renamed {
        from: RelativePath,
        to: RelativePath,
        modes: (u32, u32),
    },
}

impl Step {
    fn path(&self) -> &RelativePath {
        match self {
            Self::Changed(path) | Self::Renamed { to: path, .. } => path,
        }
    }
}

/// Every change in order. Of large files those are found that only have another name: others are quickly carried twice.
fn steps(from: &Tree, to: &Tree) -> Vec<Step> {
    let changes = from.changes(to);
    let mut gone: HashMap<ContentHash, Vec<(RelativePath, u32)>> = HashMap::new();
    for (path, _) in changes.iter().filter(|(_, change)| *change == Change::Deleted) {
        if let Some(Large { hash, mode, .. }) = large(from, path) {
            gone.entry(hash).or_default().push((path.clone(), mode));
        }
    }
    let (mut steps, mut moved) = (BTreeMap::new(), Vec::new());
    for (path, change) in changes {
        let found = large(to, &path).filter(|_| change == Change::Added);
        let old = found.and_then(|new| Some((gone.get_mut(&new.hash)?.pop()?, new.mode)));
        let step = match old {
            Some(((from, old_mode), mode)) => {
                moved.push(from.clone());
                Step::Renamed { from, to: path.clone(), modes: (old_mode, mode) }
            }
            None => Step::Changed(path.clone()),
        };
        steps.insert(path, step);
    }
    moved.iter().for_each(|path| drop(steps.remove(path)));
    steps.into_values().collect()
}

/// A file that is not held as a whole.
struct Large {
    hash: ContentHash,
    mode: u32,
    size: u64,
}

fn large(tree: &Tree, path: &RelativePath) -> Option<Large> {
    match tree.get(path) {
        Some(Node::File { mode, size, hash }) if *size > TEXT_BYTES_MAX => {
            Some(Large { hash: *hash, mode: *mode, size: *size })
        }
        _ => None,
    }
}

/// A difference that can be held as a whole. What has no room in it is named, and git refuses to apply it then.
pub(super) fn bounded(store: &Store, between: &Between) -> Result<Vec<u8>, Fault> {
    let (mut out, mut missing, mut large_left) = (Vec::new(), Missing::default(), LARGE_BYTES_MAX);
    let fits = |out: &Vec<u8>, pieces: &[Piece]| {
        out.len() as u64 + pieces.iter().map(Piece::bytes).sum::<u64>() <= BODY_BYTES_MAX as u64
    };
    for step in between.steps() {
        let large = between.large_bytes(&step);
        let pieces = if large > large_left { None } else { Some(between.pieces(store, &step)?) };
        large_left -= large.min(large_left);
        let pieces = pieces.filter(|pieces| fits(&out, pieces)).unwrap_or_else(|| {
            missing.add(step.path());
            vec![Piece::Text(between.unsaid(step.path()))]
        });
        if fits(&out, &pieces) {
            pieces.into_iter().try_for_each(|piece| write_piece(store, piece, &mut out))?;
        }
    }
    Ok(missing.preface(between, out))
}

fn write_piece(store: &Store, piece: Piece, out: &mut Vec<u8>) -> Result<(), Fault> {
    match piece {
        Piece::Text(text) => out.extend(text),
        Piece::Content(content) => drop(content.literal(store)?.write(out, usize::MAX).map_err(unread)?),
    }
    Ok(())
}

/// Files whose content a difference does not carry.
#[derive(Default)]
struct Missing {
    count: u64,
    named: Vec<String>,
}

impl Missing {
    fn add(&mut self, path: &RelativePath) {
        self.count += 1;
        if self.named.len() < MISSING_NAMED_MAX {
            self.named.push(quoted("", path));
        }
    }

    /// A difference says before anything else that it is not whole, where git reads over it. With what is missing git
    /// refuses to apply it, unless it is told to leave that out: half a tree is never made unknowingly.
    fn preface(self, between: &Between, body: Vec<u8>) -> Vec<u8> {
        if self.count == 0 {
            return body;
        }
        let more = if self.count > self.named.len() as u64 { " and others" } else { "" };
        let mut out = format!(
            "This difference is not whole. It has room for {} MiB, and does not hold the content of {}: {}{more}. \
             The whole is at /api/trees/diff?from={}&to={}.\n\n",
            DIFF_BYTES_MAX >> 20,
            self.count,
            self.named.join(", "),
            between.from.0,
            between.to.0,
        )
        .into_bytes();
        out.extend(body);
        out
    }
}

/// A difference of any length that is written part by part: no more of it is held than what is said of one file, and of a
/// large one not even that.
pub(super) struct Writing {
    between: Between,
    steps: std::vec::IntoIter<Step>,
    pieces: VecDeque<Piece>,
    literal: Option<Literal<Box<dyn Read + Send>>>,
    /// What is written and was not taken.
    text: Vec<u8>,
}

impl std::fmt::Debug for Writing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Writing").field("trees", &self.trees()).finish_non_exhaustive()
    }
}

impl Writing {
    pub(super) fn new(between: Between) -> Self {
        let steps = between.steps().into_iter();
        Self { between, steps, pieces: VecDeque::new(), literal: None, text: Vec::new() }
    }

    /// Which trees it lies between.
    pub(super) fn trees(&self) -> (TreeId, TreeId) {
        (self.between.from.0, self.between.to.0)
    }

    /// The next part, of this length; a shorter one is the last.
    pub(super) fn next(&mut self, store: &Store, length: usize) -> Result<Vec<u8>, Fault> {
        while self.text.len() < length && self.write(store, length)? {}
        let rest = self.text.split_off(length.min(self.text.len()));
        Ok(std::mem::replace(&mut self.text, rest))
    }

    /// Writes some more. Answers whether there was more.
    fn write(&mut self, store: &Store, length: usize) -> Result<bool, Fault> {
        if let Some(literal) = &mut self.literal {
            if !literal.write(&mut self.text, length).map_err(unread)? {
                self.literal = None;
            }
            return Ok(true);
        }
        match self.pieces.pop_front() {
            Some(Piece::Text(text)) => self.text.extend(text),
            Some(Piece::Content(content)) => self.literal = Some(content.literal(store)?),
            None => match self.steps.next() {
                Some(step) => self.pieces = self.between.pieces(store, &step)?.into(),
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}

//! The difference of two trees as git would write it, so that `git apply` makes one of the other.
//!
//! What git cannot say is left out: empty directories, permissions beyond "executable", and what it keeps for itself in a
//! repository, of which it applies nothing. With that in it, it would apply none of the rest either.

mod literal;
mod section;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::time::{Duration, Instant};

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
/// How long such a difference is compared in all. What is not compared by then is missing.
const WHOLE_TIME: Duration = Duration::from_secs(10);
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
        let mut steps = steps(&self.from.1, &self.to.1);
        steps.retain(|step| !step.is_of_git());
        steps
    }

    /// Says first what is left out, where git reads over it.
    fn preface(&self) -> Vec<u8> {
        match self.from.1.changes(&self.to.1).iter().filter(|(path, _)| is_of_git(path)).count() {
            0 => Vec::new(),
            count => format!(
                "Without {count} changes in `.git`, where git keeps a repository's own things: it would apply nothing \
                 of this with them.\n\n"
            )
            .into_bytes(),
        }
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

    /// No less than so many bytes are said of a change: what was added is carried whole, and so is what was removed unless
    /// it is large.
    fn bytes_min(&self, step: &Step) -> u64 {
        match step {
            Step::Changed(path) => match (self.from.1.get(path), self.to.1.get(path)) {
                (Some(Node::File { size, .. }), None) if *size <= TEXT_BYTES_MAX => *size,
                (None, Some(Node::File { size, .. })) => *size,
                _ => 0,
            },
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
    fn is_of_git(&self) -> bool {
        match self {
            Self::Changed(path) => is_of_git(path),
            Self::Renamed { from, to, .. } => is_of_git(from) || is_of_git(to),
        }
    }

    fn path(&self) -> &RelativePath {
        match self {
            Self::Changed(path) | Self::Renamed { to: path, .. } => path,
        }
    }
}

/// Whether git refuses to write there, however the name is spelt.
fn is_of_git(path: &RelativePath) -> bool {
    path.as_bytes().split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(b".git"))
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
    let deadline = Instant::now() + WHOLE_TIME;
    bounded_while(store, between, BODY_BYTES_MAX as u64, || Instant::now() < deadline)
}

/// The same in so many bytes; before each comparison it is asked whether there is time for it.
fn bounded_while(
    store: &Store,
    between: &Between,
    bytes_max: u64,
    mut has_time: impl FnMut() -> bool,
) -> Result<Vec<u8>, Fault> {
    let (mut out, mut missing, mut large_left) = (between.preface(), Missing::default(), LARGE_BYTES_MAX);
    for step in between.steps() {
        let room = bytes_max.saturating_sub(out.len() as u64);
        let large = between.large_bytes(&step);
        let unsaid = between.unsaid(step.path());
        // What cannot be carried is not compared either.
        let is_hopeless = unsaid.len() as u64 > room || between.bytes_min(&step) > room || large > large_left;
        large_left -= large.min(large_left);
        let pieces = if is_hopeless || !has_time() { None } else { Some(between.pieces(store, &step)?) };
        let pieces = pieces.filter(|pieces| bytes(pieces) <= room).unwrap_or_else(|| {
            missing.add(step.path());
            vec![Piece::Text(unsaid)]
        });
        if bytes(&pieces) <= room {
            pieces.into_iter().try_for_each(|piece| write_piece(store, piece, &mut out))?;
        }
    }
    Ok(missing.preface(between, out))
}

fn bytes(pieces: &[Piece]) -> u64 {
    pieces.iter().map(Piece::bytes).sum()
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
            "This difference is not whole. It has room for {} MiB and {} seconds, and does not hold the content \
             of {}: {}{more}. The whole is at /api/trees/diff?from={}&to={}.\n\n",
            DIFF_BYTES_MAX >> 20,
            WHOLE_TIME.as_secs(),
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
        let (steps, text) = (between.steps().into_iter(), between.preface());
        Self { between, steps, pieces: VecDeque::new(), literal: None, text }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The difference from nothing to ten files of 600 bytes and more, and how often there was time for a comparison.
    fn diff_of_ten(bytes_max: u64, comparisons_max: u32) -> (String, u32) {
        let place = tempfile::tempdir().expect("a directory");
        let store = Store::open(std::fs::File::open(place.path()).expect("opened").into()).expect("a store");
        let mut tree = Tree::default();
        for number in 0..10 {
            let path = place.path().join("file");
            std::fs::write(&path, format!("{number}").repeat(600)).expect("written");
            let file = std::fs::File::open(path).expect("opened").into();
            let stored = store.add(&file, &rustix::fs::fstat(&file).expect("there")).expect("stored");
            let mode = rustix::fs::fstat(&file).expect("there").st_mode & 0o777;
            let name = RelativePath::parse(format!("file-{number}")).expect("a good path");
            tree.insert(name, Node::File { mode, size: stored.size, hash: stored.hash });
        }
        let trees = (store.put_tree(&Tree::default()).expect("put"), store.put_tree(&tree).expect("put"));
        let (between, mut comparisons) = (Between::read(&store, trees).expect("read"), 0);
        let has_time = || {
            comparisons += 1;
            comparisons <= comparisons_max
        };
        let text = bounded_while(&store, &between, bytes_max, has_time).expect("a difference");
        (String::from_utf8(text).expect("text"), comparisons)
    }

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    #[test]
    fn what_there_is_no_time_for_is_missing_and_said_to_be() {
        let (text, _) = diff_of_ten(u64::MAX, 3);
        assert!(text.starts_with("This difference is not whole."), "{text}");
        assert!(text.contains("the content of 7: file-3,"), "{text}");
        assert_eq!((count(&text, "+++ b/file-"), count(&text, "Binary files")), (3, 7));
        let (text, comparisons) = diff_of_ten(u64::MAX, 10);
        assert_eq!((count(&text, "+++ b/file-"), count(&text, "not whole"), comparisons), (10, 0, 10));
    }

    #[test]
    fn what_has_no_room_is_not_even_compared() {
        let (text, comparisons) = diff_of_ten(1200, u32::MAX);
        assert!(text.contains("the content of 9: "), "{text}");
        assert_eq!((count(&text, "+++ b/file-"), comparisons), (1, 1));
        let (text, comparisons) = diff_of_ten(10, u32::MAX);
        assert!(text.contains("the content of 10: ") && !text.contains("diff --git"), "{text}");
        assert_eq!(comparisons, 0);
    }
}

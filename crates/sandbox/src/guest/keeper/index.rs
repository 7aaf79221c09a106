//! What is known of the live directory's files, so that an unchanged one is not read again.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::store::Store;
use crate::path::RelativePath;
use crate::protocol::Fault;
use crate::tree::ContentHash;

/// A file that was changed this short before it was looked at may change again without a new time: the kernel's clock
/// for files is coarse. Such a file is read again.
const COARSE_NS: i64 = 50_000_000;

/// The files known, as they were at one moment.
#[derive(Debug, Default)]
pub(super) struct Index {
    files: HashMap<RelativePath, Known>,
    /// Those of them that were looked at anew.
    learned: Vec<RelativePath>,
    /// Lines of the stored index, of which later ones replace earlier ones.
    lines: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    stamp: Stamp,
    /// When it was looked at, nanoseconds since 1970.
    seen_ns: i64,
    pub(super) hash: ContentHash,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    inode: u64,
    size: i64,
    modified_ns: i64,
    changed_ns: i64,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: u64| {
            seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(rest).unwrap_or_default())
        };
        Self {
            inode: stat.st_ino,
            size: stat.st_size,
            modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as _),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as _),
        }
    }
}

impl Index {
    /// Reads the stored index. One that is missing or damaged only costs reading every file again.
    pub(super) fn load(store: &Store) -> Self {
        let content = store.read_index().unwrap_or_default();
        Self::parse(&content).unwrap_or_default()
    }

    fn parse(content: &[u8]) -> Option<Self> {
        let mut index = Self::default();
        for line in content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (path, known): (RelativePath, Option<Known>) = serde_json::from_slice(line).ok()?;
            index.lines += 1;
            match known {
                Some(known) => drop(index.files.insert(path, known)),
                None => drop(index.files.remove(&path)),
            }
        }
        Some(index)
    }

    /// Stores what is known now; `before` is what was stored last and what everything was kept from. Only what differs is
    /// written, until the file holds twice as much as it needs to. Nothing is synced: an index that a crash damaged costs
    /// reading every file again.
    pub(super) fn save(&mut self, before: &Self, store: &Store) -> Result<(), Fault> {
        let changes = self.changes(before);
        let lines = before.lines + changes.len();
        if changes.is_empty() {
            self.lines = lines;
        } else if before.lines > 0 && lines <= 2 * self.files.len() {
            store.append_index(&as_lines(changes))?;
            self.lines = lines;
        } else {
            store.write_index(&as_lines(self.files.iter().map(|(path, known)| (path, Some(known)))))?;
            self.lines = self.files.len();
        }
        Ok(())
    }

    /// What is different from what was known before. An unchanged workspace is not compared file by file.
    fn changes<'a>(&'a self, before: &'a Self) -> Vec<(&'a RelativePath, Option<&'a Known>)> {
        let kept = self.files.len() - self.learned.len();
        let known_before = self.learned.iter().filter(|path| before.files.contains_key(*path)).count();
        let mut changes: Vec<_> = self.learned.iter().map(|path| (path, self.files.get(path))).collect();
        if before.files.len() > kept + known_before {
            changes.extend(before.files.keys().filter(|path| !self.files.contains_key(*path)).map(|path| (path, None)));
        }
        changes
    }

    /// Every content that it vouches for.
    pub(super) fn contents(&self) -> impl Iterator<Item = ContentHash> + '_ {
        self.files.values().map(|known| known.hash)
    }

    /// What is known of a file that looks as it did, and whether it is certainly still the same.
    pub(super) fn known(&self, path: &RelativePath, stat: &Stat) -> Option<(&Known, bool)> {
        let known = self.files.get(path).filter(|known| known.stamp == Stamp::of(stat))?;
        let settled = known.stamp.changed_ns.max(known.stamp.modified_ns) < known.seen_ns - COARSE_NS;
        Some((known, settled))
    }

    /// Whether the file is as it was when it was last looked at.
    pub(super) fn is_same(&self, path: &RelativePath, stat: &Stat) -> bool {
        self.files.get(path).is_some_and(|known| known.stamp == Stamp::of(stat))
    }

    /// The same for a file that was renamed since, which the system notes as a change of it.
    pub(super) fn is_same_renamed(&self, path: &RelativePath, stat: &Stat) -> bool {
        let as_known = |known: &Known| Stamp { changed_ns: known.stamp.changed_ns, ..Stamp::of(stat) };
        self.files.get(path).is_some_and(|known| known.stamp == as_known(known))
    }

    /// Remembers a file; `stat` was taken before it was read.
    pub(super) fn learn(&mut self, path: RelativePath, stat: &Stat, hash: ContentHash, seen_ns: i64) {
        self.learned.push(path.clone());
        self.files.insert(path, Known { stamp: Stamp::of(stat), seen_ns, hash });
    }

    /// Takes over what was known before.
    pub(super) fn keep(&mut self, path: RelativePath, known: &Known) {
        self.files.insert(path, known.clone());
    }
}

fn as_lines<'a>(entries: impl IntoIterator<Item = (&'a RelativePath, Option<&'a Known>)>) -> Vec<u8> {
    let mut content = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut content, &entry).expect("writing to memory cannot fail");
        content.push(b'\n');
    }
    content
}

/// This moment, nanoseconds since 1970, by the clock that file times come from.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

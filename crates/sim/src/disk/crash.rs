//! What a power cut may leave behind.
//!
//! The rules are those that a careful program may rely on, and no kinder: what was written to a file survives once that file
//! was synced, a name once its directory was. Until then each write may be there, be missing, or be torn at the edge of a
//! sector or page, whatever came before or after it; each name may be there or not. A rename is one step: both of its names
//! change or neither does.

use super::image::Image;
use super::{Node, Op};

/// Units in which a disk tears a write.
const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// A disk with what it must keep and what it may lose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volatile {
    durable: Image,
    pending: Vec<Op>,
    acknowledged: Vec<String>,
}

/// How a cut treats what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All of it is gone.
    Clean,
    /// All of it is there.
    Late,
    /// Everything before some moment is there, nothing after.
    Prefix,
    /// Each piece has its own fate.
    Torn,
}

impl Cut {
    pub(crate) const ALL: [Self; 4] = [Self::Clean, Self::Late, Self::Prefix, Self::Torn];
}

impl Volatile {
    /// A disk whose present content is safe.
    pub(crate) fn new(durable: Image) -> Self {
        Self { durable, ..Self::default() }
    }

    /// Goes one step further in time.
    pub(crate) fn step(&mut self, op: &Op) {
        match op {
            Op::Acknowledge(line) => self.acknowledged.push(line.clone()),
            Op::Sync { node } => self.sync(*node),
            Op::Make { node, content, .. } => {
                self.durable.make(*node, content.clone());
                self.pending.push(op.clone());
            }
            _ => self.pending.push(op.clone()),
        }
    }

    /// What no cut can take.
    pub(crate) fn durable(&self) -> &Image {
        &self.durable
    }

    /// What the load was told is safe.
    pub(crate) fn acknowledged(&self) -> &[String] {
        &self.acknowledged
    }

    fn sync(&mut self, node: Node) {
        let (kept, waiting) = std::mem::take(&mut self.pending).into_iter().partition(|op| concerns(op, node));
        self.pending = waiting;
        for op in kept {
            self.settle(&op);
        }
    }

    /// Makes a step durable. With a moved name, the making of the old one is settled too.
    fn settle(&mut self, op: &Op) {
        if let Op::Rename { from, node, .. } = op {
            self.pending
                .retain(|made| !matches!(made, Op::Make { place, node: made, .. } if place == from && made == node));
        }
        self.durable.apply(op);
    }

    /// One disk that a cut at this moment may leave.
    pub(crate) fn cut(&self, cut: Cut, random: &mut fastrand::Rng) -> Image {
        let mut image = self.durable.clone();
        let prefix = random.usize(..=self.pending.len());
        for (index, op) in self.pending.iter().enumerate() {
            match cut {
                Cut::Clean => {}
                Cut::Late => image.apply(op),
                Cut::Prefix if index < prefix => image.apply(op),
                Cut::Prefix => {}
                Cut::Torn => tear(&mut image, op, random),
            }
        }
        image
    }
}

fn concerns(op: &Op, synced: Node) -> bool {
    match op {
        Op::Write { node, .. } | Op::Resize { node, .. } => *node == synced,
        Op::Make { place, .. } | Op::Remove { place } => place.directory == synced,
        Op::Rename { from, to, .. } => from.directory == synced || to.directory == synced,
        Op::Sync { .. } | Op::Acknowledge(_) => false,
    }
}

fn tear(image: &mut Image, op: &Op, random: &mut fastrand::Rng) {
    match (op, random.u8(..8)) {
        (_, 0..3) => {}
        (Op::Write { node, offset, bytes }, 3..5) => {
            let unit = if random.bool() { SECTOR } else { PAGE };
            // The edges are those of the disk, not of the write.
            let (first, last) = (offset / unit, (offset + bytes.len()).div_ceil(unit));
            let edge = (random.usize(first..=last) * unit).clamp(*offset, offset + bytes.len()) - offset;
            match random.bool() {
                true => image.write(*node, *offset, &bytes[..edge]),
                false => image.write(*node, offset + edge, &bytes[edge..]),
            }
        }
        _ => image.apply(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::image::Content;
    use crate::disk::{Place, ROOT};

    fn place(name: &str) -> Place {
        Place { directory: ROOT, name: name.into() }
    }

    fn written() -> Vec<Op> {
        let file = Content::File(Vec::new());
        vec![
            Op::Make { place: place("a"), node: 2, content: file },
            Op::Write { node: 2, offset: 0, bytes: vec![7; 9000] },
        ]
    }

    fn after(ops: &[Op]) -> Volatile {
        let mut disk = Volatile::default();
        ops.iter().for_each(|op| disk.step(op));
        disk
    }

    fn bytes(image: &Image, name: &str) -> Option<Vec<u8>> {
        match image.node(image.find(&place(name))?)? {
            Content::File(bytes) => Some(bytes.clone()),
            Content::Directory(_) => None,
        }
    }

    #[test]
    fn what_was_synced_survives_every_cut() {
        let mut ops = written();
        ops.extend([
            Op::Sync { node: 2 },
            Op::Sync { node: ROOT },
            Op::Write { node: 2, offset: 9000, bytes: vec![8; 10] },
        ]);
        let (disk, mut random) = (after(&ops), fastrand::Rng::with_seed(1));
        for _ in 0..100 {
            for cut in Cut::ALL {
                assert_eq!(bytes(&disk.cut(cut, &mut random), "a").unwrap()[..9000], [7; 9000]);
            }
        }
    }

    #[test]
    fn a_file_without_a_synced_name_and_a_name_without_synced_bytes_can_be_lost() {
        let mut random = fastrand::Rng::with_seed(1);
        let nameless = after(&[written(), vec![Op::Sync { node: 2 }]].concat());
        assert_eq!(bytes(&nameless.cut(Cut::Clean, &mut random), "a"), None);
        let empty = after(&[written(), vec![Op::Sync { node: ROOT }]].concat());
        assert_eq!(bytes(&empty.cut(Cut::Clean, &mut random), "a"), Some(Vec::new()));
    }

    #[test]
    fn a_synced_rename_keeps_a_file_whose_first_name_never_was() {
        let ops =
            [written(), vec![Op::Sync { node: 2 }, Op::Rename { from: place("a"), to: place("b"), node: 2 }]].concat();
        let (mut disk, mut random) = (after(&ops), fastrand::Rng::with_seed(1));
        assert_eq!(bytes(&disk.cut(Cut::Clean, &mut random), "b"), None);
        assert_eq!(bytes(&disk.cut(Cut::Late, &mut random), "b"), Some(vec![7; 9000]));
        disk.step(&Op::Sync { node: ROOT });
        let kept = disk.cut(Cut::Clean, &mut random);
        assert_eq!((bytes(&kept, "a"), bytes(&kept, "b")), (None, Some(vec![7; 9000])));
    }

    #[test]
    fn unsynced_writes_are_torn_at_sectors() {
        let disk = after(&[written(), vec![Op::Sync { node: ROOT }]].concat());
        let mut random = fastrand::Rng::with_seed(3);
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..200 {
            lengths.insert(bytes(&disk.cut(Cut::Torn, &mut random), "a").unwrap().len());
        }
        assert!(lengths.contains(&0) && lengths.contains(&9000) && lengths.len() > 5, "{lengths:?}");
        assert!(lengths.iter().all(|length| *length == 9000 || length % SECTOR == 0), "{lengths:?}");
    }
}

//! The newest events, known from memory until they are written down.

use super::{Entry, Of};
use choir_proto::{EventId, Seq};
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Events that are written down together. Once it is full nothing is added, so that it is written, and at last dropped as a
/// whole, while nobody waits.
#[derive(Debug, Default)]
pub(super) struct Segment {
    entries: Vec<Entry>,
    /// Every event of the log passes through here, so the usual hasher would be felt.
    ids: HashMap<EventId, Seq, RandomState>,
}

impl Segment {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn newest(&self) -> Option<Seq> {
        self.entries.last().map(|entry| entry.seq)
    }
}

#[derive(Debug)]
pub(super) struct Tail {
    /// Everything up to here is written down.
    written_upto: Seq,
    /// The greatest id that is written down.
    greatest: Option<EventId>,
    /// Segments that wait to be written down, oldest first.
    full: VecDeque<Arc<Segment>>,
    young: Segment,
    segment_events: usize,
}

impl Tail {
    pub(super) fn new(written_upto: Seq, greatest: Option<EventId>, segment_events: usize) -> Self {
        Self { written_upto, greatest, full: VecDeque::new(), young: Segment::default(), segment_events }
    }

    pub(super) fn len(&self) -> usize {
        self.segments().map(|segment| segment.entries.len()).sum()
    }

    pub(super) fn written_upto(&self) -> Seq {
        self.written_upto
    }

    /// The newest event that is known.
    pub(super) fn newest(&self) -> Seq {
        self.segments().filter_map(Segment::newest).last().unwrap_or(self.written_upto)
    }

    pub(super) fn push(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.young.ids.insert(entry.id, entry.seq);
            self.young.entries.push(entry);
            if self.young.entries.len() >= self.segment_events {
                self.end_segment();
            }
        }
    }

    /// Nothing is added to the segment that is growing.
    pub(super) fn end_segment(&mut self) {
        if !self.young.entries.is_empty() {
            self.full.push_back(Arc::new(std::mem::take(&mut self.young)));
        }
    }

    /// The next segment to write down.
    pub(super) fn next_full(&self) -> Option<Arc<Segment>> {
        self.full.front().cloned()
    }

    /// It is written down.
    pub(super) fn forget(&mut self, written: &Segment, greatest: Option<EventId>) {
        let upto = written.newest().unwrap_or(self.written_upto);
        self.full.retain(|segment| segment.newest().is_some_and(|newest| newest > upto));
        self.written_upto = upto;
        self.greatest = greatest;
    }

    pub(super) fn seq_of(&self, id: EventId) -> Option<Seq> {
        self.segments().find_map(|segment| segment.ids.get(&id)).copied()
    }

    pub(super) fn may_be_written(&self, id: EventId) -> bool {
        self.greatest.is_some_and(|greatest| id.as_bytes() <= greatest.as_bytes())
    }

    /// Up to where everything is written down, and what is wanted of the rest.
    pub(super) fn seqs_of(&self, of: Of, after: Seq, upto: Seq, limit: usize) -> (Seq, Vec<Seq>) {
        let wanted = |entry: &&Entry| entry.seq > after && entry.seq <= upto && of.holds(entry);
        let entries = self.segments().flat_map(|segment| &segment.entries);
        let seqs = entries.filter(wanted).take(limit).map(|entry| entry.seq).collect();
        (self.written_upto, seqs)
    }

    /// All segments, oldest first.
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.full.iter().map(|full| &**full).chain(std::iter::once(&self.young))
    }
}

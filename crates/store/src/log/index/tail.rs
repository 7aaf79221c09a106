//! The newest events, known from memory until they are written down.

use super::{Entry, Of};
use choir_proto::{EventId, Seq};
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
pub(super) struct Tail {
    /// Everything up to here is written down.
    written_upto: Seq,
    /// The greatest id that is written down.
    greatest: Option<EventId>,
    entries: VecDeque<Entry>,
    /// Every event of the log passes through here, so the usual hasher would be felt.
    ids: HashMap<EventId, Seq, RandomState>,
}

impl Tail {
    pub(super) fn new(written_upto: Seq, greatest: Option<EventId>) -> Self {
        Self { written_upto, greatest, entries: VecDeque::new(), ids: HashMap::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn written_upto(&self) -> Seq {
        self.written_upto
    }

    /// The newest event that is known.
    pub(super) fn newest(&self) -> Seq {
        self.entries.back().map_or(self.written_upto, |entry| entry.seq)
    }

    pub(super) fn push(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.ids.insert(entry.id, entry.seq);
            self.entries.push_back(entry);
        }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().copied().collect()
    }

    /// They are written down.
    pub(super) fn forget(&mut self, upto: Seq, greatest: Option<EventId>) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.seq <= upto) {
            self.ids.remove(&entry.id);
        }
        self.written_upto = upto;
        self.greatest = greatest;
    }

    pub(super) fn seq_of(&self, id: EventId) -> Option<Seq> {
        self.ids.get(&id).copied()
    }

    pub(super) fn may_be_written(&self, id: EventId) -> bool {
        self.greatest.is_some_and(|greatest| id.as_bytes() <= greatest.as_bytes())
    }

    /// Up to where everything is written down, and what is wanted of the rest.
    pub(super) fn seqs_of(&self, of: Of, after: Seq, upto: Seq, limit: usize) -> (Seq, Vec<Seq>) {
        let wanted = |entry: &&Entry| entry.seq > after && entry.seq <= upto && of.holds(entry);
        let seqs = self.entries.iter().filter(wanted).take(limit).map(|entry| entry.seq).collect();
        (self.written_upto, seqs)
    }
}

//! The newest lines of a log, serialised once and shared by every reader. Pure: no clock, no socket.

use axum::extract::ws::Utf8Bytes;
use choir_proto::Seq;
use std::collections::VecDeque;

/// Lines that are kept for readers that fall behind.
const LINES_MAX: usize = 4096;
/// And their bytes.
const BYTES_MAX: usize = 8 << 20;

/// A window over the end of a log, plus what is published live between its events.
#[derive(Debug)]
pub struct Ring {
    lines: VecDeque<Line>,
    /// Position of the first line. Positions count lines, live ones too, and are never reused.
    first: u64,
    /// Every event after this one is in the window.
    floor: Seq,
    /// The newest event.
    head: Seq,
    bytes: usize,
    /// Lines before this position left because the window was full; later ones that are gone were forgotten.
    lapped: u64,
}

#[derive(Debug)]
struct Line {
    /// Nothing for a live line.
    seq: Option<Seq>,
    text: Utf8Bytes,
}

/// What a reader finds at its position.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// Lines; at the position after all of them there are none.
    Lines {
        /// In order, each with the last event that whoever has it has seen.
        lines: Vec<(Seq, Utf8Bytes)>,
        /// The position after them.
        next: u64,
    },
    /// The position has left the window.
    Lapped,
    /// What stood there was erased: it is read anew from the log.
    Forgotten,
}

/// Which lines a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The log and nothing else.
    Events,
    /// What is said live too.
    Live,
}

impl Ring {
    /// A window that begins after an event.
    pub fn after(head: Seq) -> Self {
        Self { lines: VecDeque::new(), first: 0, floor: head, head, bytes: 0, lapped: 0 }
    }

    /// The newest event.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Adds the next event. The caller has checked that it follows `head`.
    pub fn push(&mut self, seq: Seq, text: Utf8Bytes) {
        debug_assert_eq!(seq, self.head.next(), "a log has no holes");
        self.head = seq;
        self.add(Line { seq: Some(seq), text });
    }

    /// Adds a line that is in no log.
    pub fn push_live(&mut self, text: Utf8Bytes) {
        self.add(Line { seq: None, text });
    }

    fn add(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        // The newest line always stays, however long it is.
        while self.lines.len() > 1 && (self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX) {
            self.drop_first();
            self.lapped = self.first;
        }
    }

    /// Forgets an event and everything before it: what an erased event said is in no memory either. Readers find it in the
    /// log, as it is there now.
    pub fn forget(&mut self, erased: Seq) {
        while self.floor < erased && !self.lines.is_empty() {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some(gone) = self.lines.pop_front() else { return };
        self.first += 1;
        self.bytes -= gone.text.len();
        self.floor = gone.seq.unwrap_or(self.floor);
    }

    /// Where a reader that has seen everything up to `after` goes on; nothing if the window begins later.
    pub fn position(&self, after: Seq) -> Option<u64> {
        if after < self.floor {
            return None;
        }
        // Live lines do not disturb the search: each belongs to the event before it.
        let seen = self.lines.iter().rposition(|line| line.seq.is_some_and(|seq| seq <= after));
        Some(self.first + seen.map_or(0, |index| index as u64 + 1))
    }

    /// What is wanted of up to `count` lines from a position, leaving out events that are not after `after`.
    pub fn read(&self, position: u64, after: Seq, wanted: Wanted, count: usize) -> Read {
        let Some(skip) = position.checked_sub(self.first) else {
            return if position < self.lapped { Read::Lapped } else { Read::Forgotten };
        };
        let rest = self.lines.range((skip as usize).min(self.lines.len())..);
        let batch: Vec<&Line> = rest.take(count).collect();
        let next = position + batch.len() as u64;
        let is_wanted = |line: &&Line| line.seq.map_or(wanted == Wanted::Live, |seq| seq > after);
        let mut seen = after;
        let lines = batch.into_iter().filter(is_wanted).map(|line| {
            seen = line.seq.unwrap_or(seen);
            (seen, line.text.clone())
        });
        Read::Lines { lines: lines.collect(), next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(first: u64, last: u64) -> Ring {
        let mut ring = Ring::after(Seq(first - 1));
        for seq in first..=last {
            ring.push(Seq(seq), format!("{seq}").into());
        }
        ring
    }

    fn all(ring: &Ring, after: u64) -> Vec<String> {
        let mut position = ring.position(Seq(after)).unwrap();
        let mut seen = Vec::new();
        while let Read::Lines { lines, next } = ring.read(position, Seq(after), Wanted::Live, 3) {
            if next == position {
                break;
            }
            seen.extend(lines.iter().map(|(_, text)| text.to_string()));
            position = next;
        }
        seen
    }

    #[test]
    fn a_reader_gets_exactly_what_it_has_not_seen() {
        let ring = ring(11, 20);
        assert_eq!(all(&ring, 17), ["18", "19", "20"]);
        assert_eq!(all(&ring, 10).len(), 10);
        assert_eq!(all(&ring, 20), [""; 0]);
        assert_eq!(ring.position(Seq(9)), None, "event 10 is not in the window");
    }

    #[test]
    fn a_reader_that_knows_more_than_the_window_waits_without_duplicates() {
        let mut ring = ring(1, 3);
        let position = ring.position(Seq(5)).unwrap();
        for seq in 4..=6 {
            ring.push(Seq(seq), format!("{seq}").into());
        }
        assert_eq!(
            ring.read(position, Seq(5), Wanted::Live, 9),
            Read::Lines { lines: vec![(Seq(6), "6".into())], next: 6 }
        );
    }

    #[test]
    fn a_lapped_reader_is_told() {
        let mut ring = ring(1, 3);
        let position = ring.position(Seq(0)).unwrap();
        for seq in 4..=4 + LINES_MAX as u64 {
            ring.push(Seq(seq), "x".into());
        }
        assert_eq!(ring.read(position, Seq(0), Wanted::Live, 9), Read::Lapped);
        assert_eq!(ring.position(Seq(0)), None);
    }

    #[test]
    fn bytes_are_bounded_and_the_newest_line_stays() {
        let mut ring = ring(1, 3);
        ring.push(Seq(4), "y".repeat(BYTES_MAX + 1).into());
        assert_eq!(ring.lines.len(), 1);
        assert_eq!(ring.position(Seq(3)), Some(3));
    }

    #[test]
    fn live_lines_come_between_events() {
        let mut ring = ring(1, 2);
        ring.push_live("a".into());
        ring.push(Seq(3), "3".into());
        assert_eq!(all(&ring, 1), ["2", "a", "3"]);
        assert_eq!(all(&ring, 2), ["a", "3"]);
        let first_two = Read::Lines { lines: vec![(Seq(2), "2".into()), (Seq(2), "a".into())], next: 3 };
        assert_eq!(
            ring.read(1, Seq(1), Wanted::Live, 2),
            first_two,
            "a live line does not move the place to resume from"
        );
        let without = Read::Lines { lines: vec![(Seq(2), "2".into())], next: 3 };
        assert_eq!(ring.read(1, Seq(1), Wanted::Events, 2), without, "whoever wants the log gets the log");
    }

    #[test]
    fn what_was_erased_is_forgotten_with_everything_before_it() {
        let mut ring = ring(5, 9);
        let position = ring.position(Seq(5)).unwrap();
        ring.forget(Seq(7));
        assert_eq!(ring.position(Seq(6)), None, "it is read from the log");
        assert_eq!(ring.read(position, Seq(5), Wanted::Live, 10), Read::Forgotten);
        assert_eq!(all(&ring, 7), ["8", "9"]);
        ring.forget(Seq(6));
        assert_eq!(all(&ring, 7), ["8", "9"], "what is gone is not forgotten twice");
        ring.push(Seq(10), "10".into());
        assert_eq!(all(&ring, 9), ["10"]);
    }
}

//! Changes of a text, and who wrote which part of it. How two changes meet is decided elsewhere; here they are counted.

use choir_proto::Seq;
use choir_proto::document::TextChange;
use choir_proto::event::Actor;
use serde::{Deserialize, Serialize};

/// The text after changes, each of them against the text as it was before all of them. Nothing when they do not fit it.
pub fn changed(text: &str, changes: &[TextChange]) -> Option<String> {
    let mut new = String::with_capacity(text.len());
    let mut at = 0;
    for change in changes {
        let (from, to) = range(change)?;
        new.push_str(text.get(at..from)?);
        new.push_str(change.text.as_deref()?);
        at = to;
        text.get(from..to)?;
    }
    new.push_str(text.get(at..)?);
    Some(new)
}

fn range(change: &TextChange) -> Option<(usize, usize)> {
    let from = usize::try_from(change.from).ok()?;
    Some((from, from.checked_add(usize::try_from(change.removed).ok()?)?))
}

/// Who wrote which part of a text: pieces from its beginning to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorship {
    /// In order; their lengths add up to the text's.
    pub pieces: Vec<Piece>,
    /// What came by later events is still being written, and one edit however often its author paused for a moment.
    #[serde(default)]
    pub named: Seq,
}

/// A part of a text that one author wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// In bytes.
    pub length: u64,
    /// Who wrote it.
    pub author: Actor,
    /// The event by which it came.
    pub seq: Seq,
}

impl Authorship {
    /// A text that came as a whole.
    pub fn whole(length: u64, author: Actor, seq: Seq) -> Self {
        let mut authorship = Self::default();
        authorship.push(Piece { length, author, seq });
        authorship
    }

    /// Folds changes of one author.
    pub fn apply(&mut self, changes: &[TextChange], author: &Actor, seq: Seq) {
        let mut old = Cursor { pieces: &self.pieces, taken: 0 };
        let mut new = Self { pieces: Vec::new(), named: self.named };
        let mut at = 0;
        for change in changes {
            old.take(change.from.saturating_sub(at), |piece| new.push(piece));
            old.take(change.removed, drop);
            new.push(Piece { length: change.inserted, author: author.clone(), seq });
            at = change.from.saturating_add(change.removed);
        }
        old.take(u64::MAX, |piece| new.push(piece));
        *self = new;
    }

    /// Pieces that a range touches, each with where it begins, cut to the range.
    pub fn within(&self, from: u64, to: u64) -> Vec<(u64, Piece)> {
        let mut begin = 0;
        let mut found = Vec::new();
        for piece in &self.pieces {
            let end = begin + piece.length;
            let (start, stop) = (begin.max(from), end.min(to));
            if start < stop {
                found.push((start, Piece { length: stop - start, ..piece.clone() }));
            }
            begin = end;
        }
        found
    }

    /// Whether a change would touch what a person wrote: take some of it away, or stand in the middle of it.
    pub fn touches_a_person(&self, from: u64, removed: u64) -> bool {
        let is_person = |piece: &Piece| piece.author == Actor::Person;
        if self.within(from, from.saturating_add(removed)).iter().any(|(_, piece)| is_person(piece)) {
            return true;
        }
        let around = self.within(from.saturating_sub(1), from.saturating_add(1));
        from > 0
            && around.iter().map(|(_, piece)| piece.length).sum::<u64>() == 2
            && around.iter().all(|(_, piece)| is_person(piece))
    }

    fn push(&mut self, piece: Piece) {
        // What a person types without a longer pause is one edit of many events. Everything else names the event it came by.
        let is_open = |piece: &Piece| piece.author == Actor::Person && piece.seq > self.named;
        let is_one = |last: &Piece, next: &Piece| last.seq == next.seq || (is_open(last) && is_open(next));
        match self.pieces.last_mut() {
            _ if piece.length == 0 => {}
            Some(last) if last.author == piece.author && is_one(last, &piece) => {
                last.length += piece.length;
                last.seq = last.seq.max(piece.seq);
            }
            _ => self.pieces.push(piece),
        }
    }
}

/// Walks over pieces.
struct Cursor<'a> {
    pieces: &'a [Piece],
    /// Of the first of them.
    taken: u64,
}

impl Cursor<'_> {
    fn take(&mut self, mut length: u64, mut each: impl FnMut(Piece)) {
        while let (Some(piece), 1..) = (self.pieces.first(), length) {
            let step = (piece.length - self.taken).min(length);
            each(Piece { length: step, ..piece.clone() });
            length -= step;
            self.taken += step;
            if self.taken == piece.length {
                self.pieces = &self.pieces[1..];
                self.taken = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::Role;

    const WRITER: Actor = Actor::Agent(Role::Writer);

    fn change(from: u64, removed: u64, text: &str) -> TextChange {
        TextChange { from, removed, inserted: text.len() as u64, text: Some(text.to_owned()) }
    }

    fn shown(authorship: &Authorship) -> String {
        let piece = |piece: &Piece| format!("{}{}@{}", piece.length, &piece.author.as_str()[..1], piece.seq);
        authorship.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changes_are_against_the_text_before_all_of_them() {
        let changes = [change(0, 3, "ONE"), change(4, 0, "and "), change(8, 5, "")];
        assert_eq!(changed("one two three", &changes).as_deref(), Some("ONE and two "));
        assert_eq!(changed("one", &[change(2, 5, "x")]), None, "beyond the end");
        assert_eq!(changed("é", &[change(1, 0, "x")]), None, "in the middle of a letter");
        assert_eq!(changed("ab", &[change(1, 0, "x"), change(0, 0, "y")]), None, "out of order");
        let unsaid = TextChange { text: None, ..change(0, 0, "x") };
        assert_eq!(changed("ab", &[unsaid]), None);
    }

    #[test]
    fn who_wrote_what_follows_the_changes() {
        let mut authorship = Authorship::whole(10, WRITER, Seq(1));
        authorship.apply(&[change(5, 0, "xyz")], &Actor::Person, Seq(2));
        assert_eq!(shown(&authorship), "5w@1 3p@2 5w@1");
        authorship.apply(&[change(0, 2, "q"), change(8, 1, "")], &Actor::Person, Seq(3));
        assert_eq!(shown(&authorship), "1p@3 3w@1 3p@2 4w@1");
        authorship.apply(&[change(1, 3, "")], &WRITER, Seq(4));
        assert_eq!(shown(&authorship), "4p@3 4w@1", "neighbours of one person are one piece while they write");
        let pieces = authorship.within(2, 6).into_iter().map(|(_, piece)| piece).collect();
        assert_eq!(shown(&Authorship { pieces, ..Authorship::default() }), "2p@3 2w@1");
        authorship.apply(&[change(0, u64::MAX, "")], &WRITER, Seq(5));
        assert_eq!(shown(&authorship), "");
    }

    #[test]
    fn edits_of_one_person_are_told_apart_once_they_are_named() {
        let mut authorship = Authorship::whole(6, Actor::Person, Seq(1));
        authorship.named = Seq(1);
        authorship.apply(&[change(0, 2, "ab")], &Actor::Person, Seq(2));
        authorship.apply(&[change(2, 0, "c")], &Actor::Person, Seq(3));
        assert_eq!(shown(&authorship), "3p@3 4p@1", "typing goes on");
        authorship.named = Seq(4);
        authorship.apply(&[change(3, 1, "d")], &Actor::Person, Seq(5));
        assert_eq!(shown(&authorship), "3p@3 1p@5 3p@1");
        assert!(authorship.touches_a_person(3, 0) && authorship.touches_a_person(4, 0), "between a person's own words");
        assert!(!authorship.touches_a_person(0, 0) && !authorship.touches_a_person(7, 0));
    }

    #[test]
    fn an_agent_is_free_beside_a_persons_words_but_not_within_them() {
        let mut authorship = Authorship::whole(10, WRITER, Seq(1));
        authorship.apply(&[change(5, 0, "xyz")], &Actor::Person, Seq(2));
        assert!(!authorship.touches_a_person(0, 5) && !authorship.touches_a_person(8, 5));
        assert!(!authorship.touches_a_person(5, 0) && !authorship.touches_a_person(8, 0), "beside them");
        assert!(authorship.touches_a_person(6, 0), "within them");
        assert!(authorship.touches_a_person(4, 2) && authorship.touches_a_person(0, 13));
    }
}

//! Events that cannot be read: a page of the file is damaged, or somebody took a row away. What lies around them is read all the
//! same, and whoever reads is told.

use crate::StoreError;
use crate::verify::is_damage;
use choir_proto::Seq;

/// Places that are tried one by one before larger steps are taken: far more than one page holds.
const ONE_BY_ONE: u64 = 4096;

/// Events in a row that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The first of them.
    pub first: Seq,
    /// The last of them.
    pub last: Seq,
}

impl std::fmt::Display for Hole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last } = self;
        match first == last {
            true => write!(f, "event {first} cannot be read"),
            false => write!(f, "events {first} to {last} cannot be read"),
        }
    }
}

/// The hole after a place, which ends before the next event that can be read and at `upto` at the latest. Nothing where the next
/// event can be read: then something else is wrong.
pub(crate) fn after<E>(
    place: Seq,
    upto: Seq,
    mut is_readable: impl FnMut(Seq) -> Result<bool, E>,
) -> Result<Option<Hole>, E> {
    let first = place.next();
    let mut beyond = first;
    let mut step = 1;
    while beyond <= upto && !is_readable(beyond)? {
        if beyond.0 - first.0 >= ONE_BY_ONE {
            step *= 2;
        }
        beyond = Seq(beyond.0.saturating_add(step));
    }
    // Larger steps may have gone too far.
    let (mut bad, mut good) = (Seq(beyond.0.saturating_sub(step)), beyond.min(upto.next()));
    while good.0 > bad.0 + 1 {
        let middle = Seq(bad.0 + (good.0 - bad.0) / 2);
        match is_readable(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok((good > first).then_some(Hole { first, last: Seq(good.0 - 1) }))
}

/// Whether it is what was read that is wrong, not the disk or the moment.
pub(crate) fn is_unreadable(error: &StoreError) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match error {
        StoreError::Row { .. } => true,
        StoreError::Sqlite(FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..)) => true,
        StoreError::Sqlite(Utf8Error(..)) => true,
        StoreError::Sqlite(error) => is_damage(error),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log up to 100,000 of which these cannot be read.
    fn found(place: u64, unreadable: &[std::ops::RangeInclusive<u64>]) -> (u64, u64) {
        let is_readable = |seq: Seq| Ok::<_, ()>(!unreadable.iter().any(|range| range.contains(&seq.0)));
        let hole = after(Seq(place), Seq(100_000), is_readable).unwrap();
        hole.map_or((0, 0), |Hole { first, last }| (first.0, last.0))
    }

    #[test]
    fn a_hole_ends_before_the_next_event_that_can_be_read() {
        assert_eq!(found(4, &[5..=5]), (5, 5));
        assert_eq!(found(4, &[5..=40, 42..=50]), (5, 40), "what lies between two is not lost");
        assert_eq!(found(41, &[5..=40, 42..=50]), (42, 50));
        assert_eq!(found(0, &[1..=77_777]), (1, 77_777));
        assert_eq!(found(99, &[100..=100_000]), (100, 100_000), "up to the end");
        assert_eq!(found(4, &[6..=7]), (0, 0), "there is none");
        assert_eq!(found(9, &[10..=10 + ONE_BY_ONE]), (10, 10 + ONE_BY_ONE));
    }
}

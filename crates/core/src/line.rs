//! Who is at work and who stands in line for it. More than there are places for is no reason to forget anybody.

use std::collections::VecDeque;

/// Places, and who waits for one, in the order in which they came.
#[derive(Debug, Clone)]
pub struct Line<T> {
    places: usize,
    waiting: VecDeque<T>,
}

impl<T> Line<T> {
    /// An empty line before so many places.
    pub fn new(places: usize) -> Self {
        Self { places, waiting: VecDeque::new() }
    }

    /// Whether somebody who comes now may begin at once: nobody overtakes.
    pub fn is_open(&self, at_work: usize) -> bool {
        self.waiting.is_empty() && at_work < self.places
    }

    /// Stands at its end.
    pub fn join(&mut self, who: T) {
        self.waiting.push_back(who);
    }

    /// Whose turn it is, if there is a place.
    pub fn next(&mut self, at_work: usize) -> Option<T> {
        if at_work < self.places { self.waiting.pop_front() } else { None }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_goes_first_and_nobody_overtakes() {
        let mut line = Line::new(2);
        assert!(line.is_open(1) && !line.is_open(2));
        line.join('a');
        line.join('b');
        assert!(!line.is_open(0), "somebody waits already");
        assert_eq!((line.next(2), line.next(1), line.next(5), line.next(0)), (None, Some('a'), None, Some('b')));
        assert!(line.is_empty() && line.is_open(1));
    }
}

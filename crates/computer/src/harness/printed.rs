//! What a command of an agent printed: all of it while that is not too much, else how it began and how it ended. What went wrong
//! stands at the end.

/// Bytes from the beginning that are kept.
const HEAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes from the end that are kept of what is longer.
const TAIL_BYTES_MAX: usize = 64 * 1024;

/// The output of one command, as it comes.
#[derive(Debug, Default)]
pub(super) struct Printed {
    head: Vec<u8>,
    /// What came behind that; at most twice as much as is kept.
    tail: Vec<u8>,
    /// Bytes between both that are gone.
    missed: usize,
}

/// What of an output was not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) bytes: usize,
    /// How long the words are that stand in its place.
    pub(super) note_bytes: usize,
}

impl Printed {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES_MAX - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * TAIL_BYTES_MAX {
            self.forget();
        }
    }

    /// Everything that is left of it, and between its parts how much is not.
    pub(super) fn whole(mut self) -> (Vec<u8>, Gone) {
        let mut note = String::new();
        if self.missed > 0 || self.tail.len() > TAIL_BYTES_MAX {
            self.forget();
            note = format!("\n[{} bytes here were not kept]\n", self.missed);
        }
        self.head.extend_from_slice(note.as_bytes());
        self.head.append(&mut self.tail);
        (self.head, Gone { bytes: self.missed, note_bytes: note.len() })
    }

    fn forget(&mut self) {
        let gone = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..gone);
        self.missed += gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(bytes: usize, piece: usize) -> Vec<u8> {
        let mut all = vec![b'x'; bytes];
        all[bytes - 1] = b'!';
        let mut printed = Printed::default();
        all.chunks(piece).for_each(|piece| printed.take(piece));
        let (left, gone) = printed.whole();
        assert_eq!(left.len() - gone.note_bytes + gone.bytes, bytes, "every byte is accounted for");
        left
    }

    #[test]
    fn the_end_of_an_endless_output_is_kept_however_it_comes() {
        for piece in [70_000, 64 << 20] {
            assert_eq!(printed(1_000, piece).len(), 1_000);
            let fits = HEAD_BYTES_MAX + TAIL_BYTES_MAX;
            assert_eq!(printed(fits, piece).len(), fits, "nothing is missing, {piece}");
            let flood = printed(fits + 300_001, piece);
            assert!(flood.ends_with(b"!") && flood.len() < fits + 100, "{piece}");
            let said = String::from_utf8_lossy(&flood[HEAD_BYTES_MAX..HEAD_BYTES_MAX + 60]).into_owned();
            assert!(said.starts_with("\n[300001 bytes here were not kept]\n"), "{said}");
        }
    }
}

//! What of a flood of lines is never seen, because it is scrolled away before anybody could look.
//!
//! Drawing every line of it would make the screen the slowest part of a terminal. Lines can be left out where it is
//! certain that nothing of them stays: plain text, after which at least two screens full of lines follow, on a screen that
//! scrolls as a whole. [`Orders`] listens for whatever would make a screen scroll in another way.

use crate::protocol::TerminalSize;

/// Shorter output is drawn as it is.
const WORTH_BYTES_MIN: usize = 2048;
/// Longest order that is understood; a longer one might be anything.
const ORDER_BYTES_MAX: usize = 32;

/// Longest title, or whatever else is said beside the text.
const NAME_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that are judged together; so few that a byte counts them.
const PIECE_BYTES: usize = 128;

/// What a program has ordered so far, as far as it concerns scrolling.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The order that is being read.
    reading: Reading,
    /// The screen may not scroll as a whole, or may not show text as it comes.
    is_special: bool,
    /// The lines that scroll, as they were ordered.
    region: Option<Vec<u8>>,
    /// How long the name is that is being read.
    name_bytes: usize,
}

#[derive(Debug, Default)]
enum Reading {
    /// Text.
    #[default]
    Nothing,
    /// After an escape.
    Escape,
    /// After an escape and a bracket, with what followed.
    Order(Vec<u8>),
    /// A title, which a bell ends as well.
    Name,
    /// Something else that is not text, to the next escape.
    Other,
}

/// The beginning of some output of which nothing stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScrolledAway {
    /// How long it is.
    pub(super) bytes: usize,
    /// Where in its line the cursor is after it.
    pub(super) column: u16,
}

impl Orders {
    /// Hears what a program says. Answers whether it is nothing but text in lines, on a screen that scrolls as a whole.
    pub(super) fn listen(&mut self, bytes: &[u8]) -> bool {
        self.name_bytes = if self.is_reading_name() { self.name_bytes + bytes.len() } else { 0 };
        let is_between = matches!(self.reading, Reading::Nothing);
        let is_text = is_between && is_plain(bytes);
        // The rest of an order may look like text.
        if !is_text {
            bytes.iter().for_each(|byte| self.read(*byte));
        }
        is_text && !self.is_special
    }

    fn is_reading_name(&self) -> bool {
        matches!(self.reading, Reading::Name | Reading::Other)
    }

    /// Whether a program says something that no title, colour or answer is as long as. The emulator would keep all of it.
    pub(super) fn is_endless(&self) -> bool {
        self.is_reading_name() && self.name_bytes > NAME_BYTES_MAX
    }

    /// What was being said is over.
    pub(super) fn end(&mut self) {
        self.reading = Reading::Nothing;
        self.name_bytes = 0;
    }

    /// The whole screen scrolls again.
    pub(super) fn forget_region(&mut self) {
        self.region = None;
    }

    /// The first and last line that scroll, if not all do.
    pub(super) fn region(&self, size: TerminalSize) -> Option<(u16, u16)> {
        let text = std::str::from_utf8(self.region.as_deref()?).ok()?;
        let (top, bottom) = text.split_once(';').unwrap_or((text, ""));
        let number = |text: &str, else_: u16| text.parse().ok().filter(|number| *number > 0).unwrap_or(else_);
        let (top, bottom) = (number(top, 1), number(bottom, size.rows).min(size.rows));
        (top < bottom).then_some((top, bottom))
    }

    fn read(&mut self, byte: u8) {
        self.reading = match (std::mem::take(&mut self.reading), byte) {
            (_, 0x1b) => Reading::Escape,
            (Reading::Name, 0x07) => Reading::Nothing,
            (Reading::Name, _) | (Reading::Escape, b']') => Reading::Name,
            (Reading::Other, _) | (Reading::Escape, b'P' | b'X' | b'^' | b'_') => Reading::Other,
            // Obeyed at once, in the middle of the other.
            (Reading::Escape, ..0x20 | 0x7f..) => Reading::Escape,
            (Reading::Escape, b'[') => Reading::Order(Vec::new()),
            (Reading::Escape, b'c') => {
                self.is_special = false;
                self.region = None;
                Reading::Nothing
            }
            // A character set, or another order without a name here: text may mean something else from now on.
            (Reading::Escape, 0x20..=0x2f) | (Reading::Nothing, 0x0e | 0x0f) => {
                self.is_special = true;
                Reading::Nothing
            }
            (Reading::Order(order), 0x40..=0x7e) => {
                self.obey(&order, byte);
                Reading::Nothing
            }
            (Reading::Order(mut order), _) if order.len() < ORDER_BYTES_MAX => {
                order.push(byte);
                Reading::Order(order)
            }
            (Reading::Order(_), _) => {
                self.is_special = true;
                Reading::Nothing
            }
            _ => Reading::Nothing,
        };
    }

    /// Regions, and modes other than those which only concern keys, the cursor and the second screen.
    fn obey(&mut self, order: &[u8], last: u8) {
        const HARMLESS: [&[u8]; 8] = [b"?1", b"?12", b"?25", b"?1000", b"?1002", b"?1006", b"?1049", b"?2004"];
        match (order, last) {
            (b"", b'r') => {
                self.is_special = false;
                self.region = None;
            }
            (_, b'r') => {
                self.is_special = true;
                self.region = Some(order.to_vec());
            }
            // The columns of old, with which everything begins anew, and a soft reset.
            (b"?3", b'h' | b'l') | (b"!", b'p') => self.region = None,
            (_, b'h' | b'l') if !HARMLESS.contains(&order) => self.is_special = true,
            _ => {}
        }
    }
}

/// What of the beginning of plain text may be left out on a screen whose cursor is in this column.
pub(super) fn scrolled_away(text: &[u8], size: TerminalSize, column: u16) -> Option<ScrolledAway> {
    (text.len() >= WORTH_BYTES_MIN).then(|| find(text, size, column)).flatten()
}

/// Text in lines, and nothing that orders anything.
fn is_plain(bytes: &[u8]) -> bool {
    // Without a way out inside of a piece, and with numbers as wide as the bytes, the processor looks at many at once.
    let are_text = |piece: &[u8]| piece.iter().fold(0, |orders, byte| orders | u8::from(is_order(*byte))) == 0;
    let (pieces, rest) = bytes.as_chunks::<PIECE_BYTES>();
    pieces.iter().all(|piece| are_text(piece)) && are_text(rest)
}

/// What may order something: controls but the ends of lines and tabs, and what begins a control in UTF-8.
fn is_order(byte: u8) -> bool {
    let is_space = (byte == b'\t') | (byte == b'\n') | (byte == b'\r');
    ((byte < 0x20) & !is_space) | (byte == 0x7f) | (byte.wrapping_sub(0xc0) < 3)
}

/// The end of a line after which so many lines follow that it is gone in any case, and after which the column is known.
fn find(bytes: &[u8], size: TerminalSize, column: u16) -> Option<ScrolledAway> {
    let seen = 2 * usize::from(size.rows) + 1;
    let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    for end in ends.skip(seen).take(usize::from(size.rows)) {
        let before = &bytes[..=end];
        if before.ends_with(b"\r\n") {
            return Some(ScrolledAway { bytes: before.len(), column: 0 });
        }
        if let Some(column) = column_after(before, size.columns, column) {
            return Some(ScrolledAway { bytes: before.len(), column });
        }
    }
    None
}

/// Where a line of plain letters ends; nothing where that is beyond the edge, which no order can bring a cursor to.
fn column_after(bytes: &[u8], columns: u16, column: u16) -> Option<u16> {
    // What came before a return does not matter.
    let (from, column) = match last_return(bytes) {
        Some(at) => (at, 0),
        None => (0, column),
    };
    let bytes = &bytes[from..];
    let (pieces, rest) = bytes.as_chunks::<PIECE_BYTES>();
    let counted = pieces.iter().map(|piece| count(piece)).chain([count(rest)]);
    let (letters, ends) = counted.fold((0, 0), |all, piece| (all.0 + u64::from(piece.0), all.1 + u64::from(piece.1)));
    if letters + ends < bytes.len() as u64 {
        return None;
    }
    let (columns, end) = (u64::from(columns), u64::from(column) + letters);
    // A letter that finds the line full begins the next one.
    let column = if end <= columns { end } else { (end - 1) % columns + 1 };
    u16::try_from(column).ok().filter(|column| u64::from(*column) < columns)
}

/// Where the last return is, looked for in pieces, because most have none.
fn last_return(bytes: &[u8]) -> Option<usize> {
    let mut pieces = bytes.chunks(PIECE_BYTES).enumerate().rev();
    let (at, piece) = pieces.find(|(_, piece)| piece.contains(&b'\r'))?;
    piece.iter().rposition(|byte| *byte == b'\r').map(|within| at * PIECE_BYTES + within)
}

/// Letters and ends of lines in a piece.
fn count(piece: &[u8]) -> (u8, u8) {
    let is_letter = |byte: u8| byte.wrapping_sub(0x20) < 0x5f;
    let is_end = |byte: u8| (byte == b'\r') | (byte == b'\n');
    piece
        .iter()
        .fold((0, 0), |(letters, ends), byte| (letters + u8::from(is_letter(*byte)), ends + u8::from(is_end(*byte))))
}

//! What a terminal shows, so that a new viewer sees it at once.

mod orders;

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::orders::{Orders, ScrolledAway};
use crate::protocol::{SCREEN_BYTES_MAX, TERMINAL_SIZE_MAX, TerminalSize};

/// Clears the viewer's terminal before a screen is painted on it.
const RESET: &[u8] = b"\x1bc";
/// Switches the viewer to the screen that full-screen programs use.
const ALTERNATE_SCREEN: &[u8] = b"\x1b[?1049h";

/// A terminal's screen.
pub(super) struct Screen {
    parser: vt100::Parser,
    size: TerminalSize,
    orders: Orders,
    /// The beginning of a character whose rest has not come. The parser loses what follows one that it was given in two.
    begun: Vec<u8>,
}

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = clamp(size);
        Self { parser: parser(size), size, orders: Orders::default(), begun: Vec::new() }
    }

    /// The size it really has.
    pub(super) fn size(&self) -> TerminalSize {
        self.size
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.size = clamp(size);
        let (rows, columns) = dimensions(self.size);
        self.guarded(|parser| parser.set_size(rows, columns));
    }

    pub(super) fn show(&mut self, bytes: &[u8]) {
        let mut joined = std::mem::take(&mut self.begun);
        let bytes = match joined.is_empty() {
            true => bytes,
            false => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        let (whole, begun) = bytes.split_at(bytes.len() - begun_bytes(bytes));
        self.begun = begun.to_vec();
        self.show_whole(whole);
    }

    /// Shows what ends with a whole character.
    fn show_whole(&mut self, bytes: &[u8]) {
        let (_, column) = self.parser.screen().cursor_position();
        let Some(ScrolledAway { bytes: gone, column }) = self.orders.scrolled_away(bytes, self.size, column) else {
            return self.guarded(|parser| parser.process(bytes));
        };
        // Where the cursor would be, by the orders for it.
        let place = if column == 0 { "\r".to_owned() } else { format!("\r\x1b[{column}C") };
        self.guarded(|parser| {
            parser.process(place.as_bytes());
            parser.process(&bytes[gone..]);
        });
    }

    /// What must be written to another terminal of this size to make it look the same.
    pub(super) fn paint(&mut self) -> Vec<u8> {
        let mut painted = RESET.to_vec();
        if self.parser.screen().alternate_screen() {
            painted.extend_from_slice(ALTERNATE_SCREEN);
        }
        let state = catch_unwind(AssertUnwindSafe(|| self.parser.screen().state_formatted())).unwrap_or_default();
        painted.extend_from_slice(state.as_bytes());
        painted.truncate(SCREEN_BYTES_MAX);
        painted
    }

    /// Whatever bytes a program prints, the worst they may cost is the picture of its screen.
    fn guarded(&mut self, act: impl FnOnce(&mut vt100::Parser)) {
        if catch_unwind(AssertUnwindSafe(|| act(&mut self.parser))).is_err() {
            self.parser = parser(self.size);
        }
    }
}

/// How many bytes at the end are the beginning of a character.
fn begun_bytes(bytes: &[u8]) -> usize {
    const LONGEST: usize = 4;
    let needed = |first: u8| match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => LONGEST,
        _ => 0,
    };
    let last = bytes.iter().rev().take(LONGEST - 1).position(|byte| !matches!(byte, 0x80..=0xbf));
    match last {
        Some(after) if needed(bytes[bytes.len() - 1 - after]) > after + 1 => after + 1,
        _ => 0,
    }
}

fn parser(size: TerminalSize) -> vt100::Parser {
    let (rows, columns) = dimensions(size);
    vt100::Parser::new(rows, columns, 0)
}

fn dimensions(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let at_least_one = |length| NonZeroU16::new(length).unwrap_or(NonZeroU16::MIN);
    (at_least_one(size.rows), at_least_one(size.columns))
}

/// One column cannot hold a wide character, so two are the least.
fn clamp(size: TerminalSize) -> TerminalSize {
    TerminalSize { columns: size.columns.clamp(2, TERMINAL_SIZE_MAX), rows: size.rows.clamp(1, TERMINAL_SIZE_MAX) }
}

#[cfg(test)]
mod tests;

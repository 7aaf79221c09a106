//! What a terminal shows, so that a new viewer sees it at once.

mod orders;
mod paint;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::{Config, Osc52, Term};
use alacritty_terminal::vte::ansi::{Processor, Timeout};

use self::orders::{Orders, ScrolledAway, scrolled_away};
use crate::protocol::{SCREEN_BYTES_MAX, TERMINAL_SIZE_MAX, TerminalSize};

/// Marks over one letter that are kept. Texts need a few; a program could pile them up for ever.
const MARKS_MAX: usize = 16;
/// Characters that may be marks, after which the screen is looked through for piles of them.
const MARKS_UNSEEN_MAX: usize = 64 * 1024;
/// Text that is kept undrawn until somebody looks. Of a flood that long, little is ever drawn.
const UNDRAWN_BYTES_MAX: usize = 128 * 1024;
/// Ends whatever a program has begun to say without ending it.
const END_OF_NAME: &[u8] = b"\x1b\\";

/// A terminal's screen.
pub(super) struct Screen {
    parser: Parser,
    size: TerminalSize,
    orders: Orders,
    /// The beginning of a character whose rest has not come. The parser loses what follows one that it was given in two.
    begun: Vec<u8>,
    /// Plain text that is not drawn yet, because most of it may be scrolled away before anybody looks.
    undrawn: Vec<u8>,
    /// Characters that may be marks and were drawn since the screen was last looked through.
    marks_unseen: usize,
}

/// The emulator of a terminal, with what reads its orders.
struct Parser {
    term: Term<VoidListener>,
    orders: Processor<Never>,
}

/// Programs may ask that what follows is shown at once, when it is complete. Here nobody watches it being drawn.
#[derive(Default)]
struct Never;

impl Timeout for Never {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

impl Dimensions for TerminalSize {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        self.rows.into()
    }

    fn columns(&self) -> usize {
        self.columns.into()
    }
}

impl Parser {
    fn new(size: TerminalSize) -> Self {
        let config = Config { scrolling_history: 0, osc52: Osc52::Disabled, ..Config::default() };
        Self { term: Term::new(config, &size, VoidListener), orders: Processor::new() }
    }

    fn process(&mut self, bytes: &[u8]) {
        self.orders.advance(&mut self.term, bytes);
    }
}

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = clamp(size);
        let (parser, orders) = (Parser::new(size), Orders::default());
        Self { parser, size, orders, begun: Vec::new(), undrawn: Vec::new(), marks_unseen: 0 }
    }

    /// The size it really has.
    pub(super) fn size(&self) -> TerminalSize {
        self.size
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.draw_text();
        self.size = clamp(size);
        let size = self.size;
        self.orders.forget_region();
        self.guarded(|parser| parser.term.resize(size));
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
        if self.orders.listen(bytes) {
            self.undrawn.extend_from_slice(bytes);
            if self.undrawn.len() > UNDRAWN_BYTES_MAX {
                self.draw_text();
            }
            return;
        }
        self.draw_text();
        self.draw(bytes);
        if self.orders.is_endless() {
            self.orders.end();
            self.guarded(|parser| parser.process(END_OF_NAME));
        }
    }

    /// Draws the text that waits, without what nobody could see any more.
    fn draw_text(&mut self) {
        let mut text = std::mem::take(&mut self.undrawn);
        let cursor = &self.parser.term.grid().cursor;
        // After the last column the cursor is one further than any order could bring it.
        let column = cursor.point.column.0 + usize::from(cursor.input_needs_wrap);
        let column = u16::try_from(column).unwrap_or(u16::MAX);
        match scrolled_away(&text, self.size, column) {
            Some(ScrolledAway { bytes: gone, column }) => {
                // Where the cursor would be, by the orders for it.
                let place = if column == 0 { "\r".to_owned() } else { format!("\r\x1b[{column}C") };
                self.guarded(|parser| parser.process(place.as_bytes()));
                self.draw(&text[gone..]);
            }
            None => self.draw(&text),
        }
        // Its room is used again.
        text.clear();
        self.undrawn = text;
    }

    fn draw(&mut self, bytes: &[u8]) {
        self.guarded(|parser| parser.process(bytes));
        // Only characters of several bytes can be marks.
        self.marks_unseen += bytes.iter().filter(|byte| **byte >= 0xc0).count();
        if self.marks_unseen > MARKS_UNSEEN_MAX {
            self.marks_unseen = 0;
            self.guarded(thin_out);
        }
    }

    /// What must be written to another terminal of this size to make it look the same.
    pub(super) fn paint(&mut self) -> Vec<u8> {
        self.draw_text();
        let region = self.orders.region(self.size);
        let painted = catch_unwind(AssertUnwindSafe(|| paint::paint(&self.parser.term, region)));
        let mut painted = painted.unwrap_or_default();
        painted.truncate(SCREEN_BYTES_MAX);
        painted
    }

    /// Whatever bytes a program prints, the worst they may cost is the picture of its screen.
    fn guarded(&mut self, act: impl FnOnce(&mut Parser)) {
        if catch_unwind(AssertUnwindSafe(|| act(&mut self.parser))).is_err() {
            self.parser = Parser::new(self.size);
        }
    }
}

/// Keeps a few of the marks over each letter.
fn thin_out(parser: &mut Parser) {
    let grid = parser.term.grid_mut();
    for line in 0..grid.screen_lines() {
        let row = &mut grid[Line(i32::try_from(line).unwrap_or_default())];
        for cell in row {
            if let Some(marks) = cell.zerowidth().filter(|marks| marks.len() > MARKS_MAX) {
                let kept = marks[..MARKS_MAX].to_vec();
                cell.extra = None;
                kept.into_iter().for_each(|mark| cell.push_zerowidth(mark));
            }
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

/// One column cannot hold a wide character, so two are the least.
fn clamp(size: TerminalSize) -> TerminalSize {
    TerminalSize { columns: size.columns.clamp(2, TERMINAL_SIZE_MAX), rows: size.rows.clamp(1, TERMINAL_SIZE_MAX) }
}

#[cfg(test)]
mod tests;

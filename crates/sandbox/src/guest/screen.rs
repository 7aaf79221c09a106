//! What a terminal shows, so that a new viewer sees it at once.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::protocol::{SCREEN_BYTES_MAX, TERMINAL_SIZE_MAX, TerminalSize};

/// Clears the viewer's terminal before a screen is painted on it.
const RESET: &[u8] = b"\x1bc";
/// Switches the viewer to the screen that full-screen programs use.
const ALTERNATE_SCREEN: &[u8] = b"\x1b[?1049h";

/// A terminal's screen.
pub(super) struct Screen {
    parser: vt100::Parser,
    size: TerminalSize,
}

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let size = clamp(size);
        Self { parser: parser(size), size }
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
        self.guarded(|parser| parser.process(bytes));
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 4 };

    fn repainted(screen: &mut Screen) -> Screen {
        let mut other = Screen::new(screen.size());
        other.show(&screen.paint());
        other
    }

    #[test]
    fn a_painted_screen_looks_the_same() {
        let corpus: [&[u8]; 7] = [
            b"plain\r\ntext",
            b"\x1b[1;31mred\x1b[0m and \x1b[44mblue\x1b[m",
            b"\x1b[?1049h\x1b[2;3Hfull screen\x1b[?25l",
            "wide: 漢字, combining: e\u{301}, emoji: 🦀".as_bytes(),
            b"a long line that is wrapped at the edge of the screen",
            b"invalid \xff\xfe\xc3( bytes",
            b"1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[H\x1b[?2004h\x1b[?1h",
        ];
        for bytes in corpus {
            let mut screen = Screen::new(SIZE);
            screen.show(bytes);
            let other = repainted(&mut screen);
            let (screen, other) = (screen.parser.screen(), other.parser.screen());
            assert_eq!(other.contents_formatted(), screen.contents_formatted());
            assert_eq!(other.cursor_position(), screen.cursor_position());
            assert_eq!(other.alternate_screen(), screen.alternate_screen());
            assert_eq!(other.input_mode_formatted(), screen.input_mode_formatted());
        }
    }

    proptest! {
        #[test]
        fn no_output_and_no_size_harms(
            parts in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), any::<u16>(), any::<u16>()), 0..8),
        ) {
            let mut screen = Screen::new(SIZE);
            for (bytes, columns, rows) in parts {
                screen.show(&bytes);
                screen.resize(TerminalSize { columns: columns % 100, rows: rows % 50 });
                prop_assert!(!screen.paint().is_empty());
            }
        }
    }
}

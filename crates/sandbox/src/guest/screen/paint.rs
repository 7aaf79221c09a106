//! A screen as the bytes that make another terminal look the same.

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Term, TermMode};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, NamedColor, StandardCharset};

/// Makes the viewer's terminal as it was when it was new.
const RESET: &[u8] = b"\x1bc";
/// Modes with the orders for them, apart from those of the cursor and the second screen.
const MODES: [(TermMode, &[u8]); 11] = [
    (TermMode::APP_CURSOR, b"\x1b[?1h"),
    (TermMode::APP_KEYPAD, b"\x1b="),
    (TermMode::BRACKETED_PASTE, b"\x1b[?2004h"),
    (TermMode::MOUSE_REPORT_CLICK, b"\x1b[?1000h"),
    (TermMode::MOUSE_DRAG, b"\x1b[?1002h"),
    (TermMode::MOUSE_MOTION, b"\x1b[?1003h"),
    (TermMode::FOCUS_IN_OUT, b"\x1b[?1004h"),
    (TermMode::UTF8_MOUSE, b"\x1b[?1005h"),
    (TermMode::SGR_MOUSE, b"\x1b[?1006h"),
    (TermMode::LINE_FEED_NEW_LINE, b"\x1b[20h"),
    (TermMode::INSERT, b"\x1b[4h"),
];
/// Attributes with the numbers that switch them on.
const ATTRIBUTES: [(Flags, &str); 11] = [
    (Flags::BOLD, ";1"),
    (Flags::DIM, ";2"),
    (Flags::ITALIC, ";3"),
    (Flags::UNDERLINE, ";4"),
    (Flags::DOUBLE_UNDERLINE, ";4:2"),
    (Flags::UNDERCURL, ";4:3"),
    (Flags::DOTTED_UNDERLINE, ";4:4"),
    (Flags::DASHED_UNDERLINE, ";4:5"),
    (Flags::INVERSE, ";7"),
    (Flags::HIDDEN, ";8"),
    (Flags::STRIKEOUT, ";9"),
];
const PLAIN: &str = "\x1b[0m";

/// Paints everything: what is to be seen, and how the program's next output will be understood. `region` are the lines that
/// scroll, as they were ordered.
pub(super) fn paint<T>(term: &Term<T>, region: Option<(u16, u16)>) -> Vec<u8> {
    let mut painter = Painter { bytes: RESET.to_vec(), style: PLAIN.to_owned() };
    let mode = *term.mode();
    if mode.contains(TermMode::ALT_SCREEN) {
        painter.order(b"\x1b[?1049h");
    }
    for line in 0..term.screen_lines() {
        painter.line(term, line);
    }
    painter.cursor(term, region);
    MODES.iter().filter(|(flag, _)| mode.contains(*flag)).for_each(|(_, order)| painter.order(order));
    if !mode.contains(TermMode::LINE_WRAP) {
        painter.order(b"\x1b[?7l");
    }
    if !mode.contains(TermMode::SHOW_CURSOR) {
        painter.order(b"\x1b[?25l");
    }
    let cursor = &term.grid().cursor;
    painter.wear(&style(&cursor.template));
    for (set, order) in [(CharsetIndex::G0, b"\x1b(0"), (CharsetIndex::G1, b"\x1b)0")] {
        if cursor.charsets[set] == StandardCharset::SpecialCharacterAndLineDrawing {
            painter.order(order);
        }
    }
    painter.bytes
}

struct Painter {
    bytes: Vec<u8>,
    /// What the viewer's terminal writes in.
    style: String,
}

impl Painter {
    fn order(&mut self, order: &[u8]) {
        self.bytes.extend_from_slice(order);
    }

    fn wear(&mut self, style: &str) {
        if self.style != style {
            self.order(style.as_bytes());
            style.clone_into(&mut self.style);
        }
    }

    fn go(&mut self, line: usize, column: usize) {
        self.order(format!("\x1b[{};{}H", line + 1, column + 1).as_bytes());
    }

    fn line<T>(&mut self, term: &Term<T>, line: usize) {
        let row = &term.grid()[Line(i32::try_from(line).unwrap_or_default())];
        let cell = |column| &row[Column(column)];
        let Some(last) = (0..term.columns()).rev().find(|column| !is_blank(cell(*column))) else { return };
        self.go(line, 0);
        (0..=last).for_each(|column| self.cell(cell(column)));
    }

    fn cell(&mut self, cell: &Cell) {
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            return;
        }
        self.wear(&style(cell));
        let mut text = String::from(if cell.c == '\t' { ' ' } else { cell.c });
        text.extend(cell.zerowidth().unwrap_or_default());
        self.order(text.as_bytes());
    }

    fn cursor<T>(&mut self, term: &Term<T>, region: Option<(u16, u16)>) {
        let cursor = &term.grid().cursor;
        let (line, column) = (usize::try_from(cursor.point.line.0).unwrap_or_default(), cursor.point.column.0);
        let mut above = 0;
        if let Some((top, bottom)) = region {
            self.order(format!("\x1b[{top};{bottom}r").as_bytes());
            // From within the lines that scroll, no order would bring it to another line.
            let is_within = (usize::from(top) - 1..usize::from(bottom)).contains(&line);
            if term.mode().contains(TermMode::ORIGIN) && is_within {
                self.order(b"\x1b[?6h");
                above = usize::from(top) - 1;
            }
        }
        let line = line.saturating_sub(above);
        if !cursor.input_needs_wrap {
            return self.go(line, column);
        }
        // Beyond the edge no order brings it, but writing at the edge does.
        let row = &term.grid()[cursor.point.line];
        let is_second_half = row[cursor.point.column].flags.contains(Flags::WIDE_CHAR_SPACER);
        let column = column - usize::from(is_second_half);
        self.go(line, column);
        self.cell(&row[Column(column)]);
    }
}

fn is_blank(cell: &Cell) -> bool {
    let plain = Cell { flags: cell.flags & Flags::WRAPLINE, ..Cell::default() };
    *cell == plain || *cell == Cell { c: '\t', ..plain }
}

/// The order to write as a cell is written.
fn style(cell: &Cell) -> String {
    let mut style = String::from("\x1b[0");
    ATTRIBUTES.iter().filter(|(flag, _)| cell.flags.contains(*flag)).for_each(|(_, number)| style.push_str(number));
    style.push_str(&colour(cell.fg, 30));
    style.push_str(&colour(cell.bg, 40));
    style.push('m');
    style
}

/// The numbers for a colour; `from` is that of the first one.
fn colour(colour: Color, from: u16) -> String {
    match colour {
        Color::Named(named) if named < NamedColor::BrightBlack => format!(";{}", from + named as u16),
        Color::Named(named) if named <= NamedColor::BrightWhite => format!(";{}", from + 60 + named as u16 - 8),
        Color::Named(_) => String::new(),
        Color::Indexed(index) => format!(";{};5;{index}", from + 8),
        Color::Spec(rgb) => format!(";{};2;{};{};{}", from + 8, rgb.r, rgb.g, rgb.b),
    }
}

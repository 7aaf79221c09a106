//! Screens: recorded bytes of real programs and of terminals' own tests, beside what they must look like.
//!
//! A corpus is a file `NAME-COLUMNSxROWS.bytes` in `tests/screens`, its screen the `.screen` beside it, which
//! `CHOIR_RENEW=1` writes anew. The rows of each were compared with those that another terminal makes of the same bytes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor};
use proptest::prelude::*;

use super::*;

const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 4 };

fn repainted(screen: &mut Screen) -> Screen {
    let mut other = Screen::new(screen.size());
    other.show(&screen.paint());
    other.draw_text();
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
        assert_eq!(described(&other), described(&screen));
        assert_eq!(other.parser.term.mode(), screen.parser.term.mode());
    }
}

/// A program that never ends what it says, or piles up marks, does not fill the memory.
#[test]
fn what_has_no_end_is_not_kept() {
    for begun in ["\x1b]0;", "\x1bP", "\x1b_"] {
        let mut screen = Screen::new(SIZE);
        screen.show(begun.as_bytes());
        (0..40).for_each(|_| screen.show(&[b'x'; 32 * 1024]));
        screen.show(b"\r\nseen again");
        screen.draw_text();
        assert!(described(&screen).contains("|seen again\n"), "{begun:?}");
    }
    let mut screen = Screen::new(SIZE);
    screen.show(b"a");
    (0..10).for_each(|_| screen.show("\u{301}".repeat(16 * 1024).as_bytes()));
    let marks = |screen: &mut Screen| {
        screen.draw_text();
        cell(&screen.parser.term, 0, 0).zerowidth().map_or(0, <[char]>::len)
    };
    assert!(marks(&mut screen) <= MARKS_UNSEEN_MAX + 16 * 1024);
    screen.show("\u{301}".repeat(MARKS_UNSEEN_MAX + 1).as_bytes());
    assert_eq!(marks(&mut screen), MARKS_MAX);
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

/// Corpora, by their place.
fn corpora() -> Vec<(PathBuf, TerminalSize, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let paths = std::fs::read_dir(directory).expect("corpora").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = paths.filter(|path| path.extension().is_some_and(|kind| kind == "bytes")).map(read).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

fn read(path: PathBuf) -> (PathBuf, TerminalSize, Vec<u8>) {
    let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
    let (_, size) = name.rsplit_once('-').expect("a size");
    let (columns, rows) = size.split_once('x').expect("two lengths");
    let size = TerminalSize { columns: columns.parse().expect("a number"), rows: rows.parse().expect("a number") };
    let bytes = std::fs::read(&path).expect("bytes");
    (path, size, bytes)
}

fn shown(size: TerminalSize, parts: &[&[u8]]) -> Screen {
    let mut screen = Screen::new(size);
    parts.iter().for_each(|part| screen.show(part));
    screen.draw_text();
    screen
}

/// A screen for people: its rows, its modes, and whatever is not plain.
fn described(screen: &Screen) -> String {
    let (term, TerminalSize { columns, rows }) = (&screen.parser.term, screen.size());
    let (mode, cursor) = (*term.mode(), &term.grid().cursor);
    let mut text = String::new();
    for row in 0..rows {
        let cells = (0..columns).map(|column| cell(term, row, column));
        let letters = cells.filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER)).flat_map(letters);
        writeln!(text, "|{}", letters.collect::<String>().trim_end()).expect("memory");
    }
    let (row, column) = (cursor.point.line.0, cursor.point.column.0 + usize::from(cursor.input_needs_wrap));
    writeln!(text, "cursor {row} {column}, hidden {}", !mode.contains(TermMode::SHOW_CURSOR)).expect("memory");
    let modes = [TermMode::ALT_SCREEN, TermMode::APP_CURSOR, TermMode::BRACKETED_PASTE].map(|flag| mode.contains(flag));
    writeln!(text, "alternate, application cursor, bracketed paste: {modes:?}").expect("memory");
    for row in 0..rows {
        let style = |column| style(cell(term, row, column));
        let mut column = 0;
        while column < columns {
            let (from, this) = (column, style(column));
            while column < columns && style(column) == this {
                column += 1;
            }
            if !this.is_empty() {
                writeln!(text, "{row} {from}..{column}{this}").expect("memory");
            }
        }
    }
    text
}

fn cell(term: &Term<VoidListener>, row: u16, column: u16) -> &Cell {
    &term.grid()[Line(i32::from(row))][Column(usize::from(column))]
}

fn letters(cell: &Cell) -> Vec<char> {
    let letter = if cell.c == '\t' { ' ' } else { cell.c };
    std::iter::once(letter).chain(cell.zerowidth().unwrap_or_default().iter().copied()).collect()
}

fn style(cell: &Cell) -> String {
    let mut words = String::new();
    let marks = [
        ("bold", Flags::BOLD),
        ("dim", Flags::DIM),
        ("italic", Flags::ITALIC),
        ("underline", Flags::UNDERLINE),
        ("inverse", Flags::INVERSE),
        ("wide", Flags::WIDE_CHAR),
    ];
    let there = marks.iter().filter(|(_, flag)| cell.flags.contains(*flag));
    there.for_each(|(mark, _)| write!(words, " {mark}").expect("memory"));
    for (name, colour) in [("on", cell.bg), ("in", cell.fg)] {
        match colour {
            Color::Named(NamedColor::Foreground | NamedColor::Background) => {}
            Color::Named(named) => write!(words, " {name} {}", named as usize).expect("memory"),
            Color::Indexed(index) => write!(words, " {name} {index}").expect("memory"),
            Color::Spec(rgb) => write!(words, " {name} {},{},{}", rgb.r, rgb.g, rgb.b).expect("memory"),
        }
    }
    words
}

#[test]
fn recorded_programs_look_as_they_did() {
    let corpora = corpora();
    assert!(corpora.len() >= 20);
    for (path, size, bytes) in corpora {
        let now = described(&shown(size, &[&bytes]));
        let golden = path.with_extension("screen");
        if std::env::var_os("CHOIR_RENEW").is_some() {
            std::fs::write(&golden, &now).expect("written");
        }
        assert_eq!(now, std::fs::read_to_string(&golden).expect("a golden screen"), "{}", path.display());
    }
}

#[test]
fn a_screen_is_the_same_however_its_bytes_arrive() {
    for (path, size, bytes) in corpora() {
        let whole = described(&shown(size, &[&bytes]));
        let singly: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(described(&shown(size, &singly)), whole, "{} byte by byte", path.display());
        // In two at every place, as far as that is short; in halves of every length beyond.
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
            let (one, other) = bytes.split_at(at);
            assert_eq!(described(&shown(size, &[one, other])), whole, "{} cut at {at}", path.display());
        }
    }
}

/// A viewer that comes late, at any moment, sees what one sees that was there from the beginning.
#[test]
fn a_late_viewer_sees_the_same() {
    for (path, size, bytes) in corpora() {
        for at in (0..=bytes.len()).step_by(1 + bytes.len() / 200) {
            let mut screen = shown(size, &[&bytes[..at]]);
            let late = repainted(&mut screen);
            assert_eq!(described(&late), described(&screen), "{} at {at}", path.display());
        }
    }
}

#[test]
fn a_screen_survives_every_size() {
    for (path, size, bytes) in corpora() {
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        for (columns, rows) in [(2, 1), (10, 40), (200, 5), (500, 500)] {
            let mut screen = shown(size, &[first]);
            screen.resize(TerminalSize { columns, rows });
            assert_eq!(screen.size(), TerminalSize { columns, rows });
            screen.resize(size);
            screen.show(rest);
            // What a program draws anew is there again, whatever the size was meanwhile.
            screen.show(b"\x1b[!p\x1b[?7h\x1b[r\x1b[2J\x1b[Hdrawn anew");
            screen.draw_text();
            assert!(described(&screen).starts_with("|drawn anew\n"), "{} {columns}x{rows}", path.display());
            let late = repainted(&mut screen);
            assert_eq!(described(&late), described(&screen), "{} {columns}x{rows}", path.display());
        }
    }
}

/// The same without leaving anything out.
fn drawn(size: TerminalSize, parts: &[&[u8]]) -> Screen {
    let mut screen = Screen::new(size);
    parts.iter().for_each(|part| screen.guarded(|parser| parser.process(part)));
    screen
}

fn flood(lines: usize) -> Vec<u8> {
    let line = |number: usize| match number % 4 {
        0 => format!("{number} a line that is longer than the screen is wide, and therefore wrapped\r\n"),
        1 => format!("{number}\r\n"),
        2 => format!("\tétrange 漢字 {number}\r\n"),
        _ => "\r\n".to_owned(),
    };
    (0..lines).flat_map(|number| line(number).into_bytes()).collect()
}

/// What a program may have ordered before it floods.
const BEGINNINGS: [&[u8]; 14] = [
    b"\x1b]0;a title\x07",
    b"\x1b]0;a title without an end",
    b"",
    b"no line yet",
    b"\x1b[2;3H",
    b"\x1b[1;31;44m",
    b"\x1b[?1049h",
    b"\x1b[2;3r",
    b"\x1b[2;3r\x1b[2;1H",
    b"\x1b[2;3r\x1b[4;1H",
    b"\x1b[2;3r\x1b[r\x1b[3;1H",
    b"\x1b[?7l\x1b[4;1H",
    b"\x1b[?6h",
    b"\x1b(0",
];

/// An order that comes in parts is one: what is left of it looks like text.
#[test]
fn an_order_that_comes_in_parts_is_obeyed() {
    let flood = flood(301);
    for beginning in BEGINNINGS {
        for at in 0..beginning.len() {
            let (one, other) = beginning.split_at(at);
            let parts: [&[u8]; 5] = [one, other, b"\x1b[m", &flood, b"end"];
            assert_eq!(described(&shown(SIZE, &parts)), described(&drawn(SIZE, &parts)), "{beginning:?} cut at {at}");
            let (mut screen, mut whole) = (shown(SIZE, &parts), shown(SIZE, &[&parts.concat()]));
            assert_eq!(screen.paint(), whole.paint(), "{beginning:?} cut at {at}, painted");
        }
    }
}

/// Text waits to be drawn: whoever looks, or gives the screen another size, finds it drawn.
#[test]
fn what_waits_to_be_drawn_is_there_for_whoever_looks() {
    let (flood, half) = (flood(6000), b"half a line");
    assert!(flood.len() > UNDRAWN_BYTES_MAX);
    for size in [1, 100, 4096, 32 * 1024] {
        let mut screen = Screen::new(SIZE);
        for part in flood.chunks(size).chain([&half[..]]) {
            screen.show(part);
            assert!(screen.undrawn.len() <= UNDRAWN_BYTES_MAX + size, "{}", screen.undrawn.len());
        }
        let mut all = drawn(SIZE, &[&flood, half]);
        assert!(!screen.undrawn.is_empty(), "the control: something waits");
        assert_eq!(screen.paint(), all.paint(), "in parts of {size}");
        screen.show(b"more");
        all.guarded(|parser| parser.process(b"more"));
        let wide = TerminalSize { columns: 30, rows: 4 };
        screen.resize(wide);
        all.resize(wide);
        assert_eq!(described(&screen), described(&all), "resized, in parts of {size}");
    }
}

#[test]
fn what_is_scrolled_away_is_not_missed() {
    let endings: [&[u8]; 3] = [b"", b"half a line", b"and \x1b[1Aup"];
    let mut left_out = 0;
    for beginning in BEGINNINGS {
        for ending in endings {
            for lines in [0, 5, 9, 10, 100, 301] {
                let flood = flood(lines);
                let parts: [&[u8]; 3] = [beginning, &flood, ending];
                assert_eq!(described(&shown(SIZE, &parts)), described(&drawn(SIZE, &parts)), "{beginning:?} {lines}");
                let mut orders = Orders::default();
                orders.listen(beginning);
                let gone = orders.listen(&flood).then(|| scrolled_away(&flood, SIZE, 0)).flatten();
                left_out += gone.map_or(0, |gone| gone.bytes);
            }
        }
    }
    // Without returns every line begins where the one before ended.
    let stairs: Vec<u8> = (0..2000).flat_map(|number| format!("{number} of many\n").into_bytes()).collect();
    for cut in 0..60 {
        let parts: [&[u8]; 2] = [b"abc", &stairs[cut..]];
        assert_eq!(described(&shown(SIZE, &parts)), described(&drawn(SIZE, &parts)), "stairs from {cut}");
    }
    assert!(scrolled_away(&stairs, SIZE, 0).is_some_and(|gone| gone.bytes > stairs.len() / 2));
    assert!(left_out > 10_000, "the control: something was left out: {left_out}");
}

proptest! {
    #[test]
    fn nothing_that_is_left_out_was_seen(
        beginning in proptest::collection::vec(prop_oneof![Just(0x1b_u8), Just(b'['), Just(b'r'), Just(b';'), 0x30_u8..0x3a, any::<u8>()], 0..12),
        lines in proptest::collection::vec("[ -~é漢\t]{0,30}(\r\n|\n|\r)", 0..400),
    ) {
        let flood = lines.concat().into_bytes();
        let parts: [&[u8]; 2] = [&beginning, &flood];
        prop_assert_eq!(described(&shown(SIZE, &parts)), described(&drawn(SIZE, &parts)));
    }
}

//! Standard output. A reader that has seen enough (`choir events | head`) is not an error.

use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// One line for people.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// One line for programs.
pub(crate) fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string(value)?)?)
}

/// As they are.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

/// Standard error, as far as anybody hears it: who has closed it, or keeps it on a full disk, must not stop what runs here.
pub(crate) struct Told;

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes).or(Ok(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush().or(Ok(()))
    }
}

/// One line about what is done, beside what was asked for.
pub(crate) fn tell(text: impl std::fmt::Display) {
    tell_part(format_args!("{text}\n"));
}

/// A part of such a line.
pub(crate) fn tell_part(text: impl std::fmt::Display) {
    // Never in vain: what cannot be told is passed over by [`Told`].
    Told.write_all(text.to_string().as_bytes()).ok();
}

/// A text that agents wrote, as it is for a program that reads it. On a terminal nothing of it steers.
pub(crate) fn text(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() { line(harmless(text)) } else { line(text) }
}

/// Lines stay lines.
fn harmless(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

/// What agents and tools wrote must not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_steers_a_terminal() {
        assert_eq!(harmless("a\tb\n\u{1b}]52;c;x\u{7}\r\u{9b}2J"), "a\tb\n]52;c;x2J");
    }
}

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

//! Standard output. A reader that has seen enough (`choir events | head`) is not an error.

use serde::Serialize;
use std::io::{self, ErrorKind, Write};

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

/// What agents and tools wrote must not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

//! Server-sent events, out of bytes that may be cut anywhere.

use crate::classify::fault;
use choir_proto::model::{ErrorClass, ModelError};

/// Longest event, and longest line. Servers that do not stream arguments send a whole call in one event.
pub const EVENT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How much of a line that belongs to no event is kept, to say what came instead.
const STRAY_BYTES_MAX: usize = 256;

/// The words that a line may begin with.
const FIELDS: [&str; 4] = ["data", "event", "id", "retry"];

/// Reads events; remembers the line and the event that are not complete.
#[derive(Debug)]
pub struct Parser {
    /// Longest event, and longest line, in bytes.
    bytes_max: usize,
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed right after it belongs to the same line end.
    after_return: bool,
    stray: Option<String>,
}

/// What is left when the bytes have ended.
pub(crate) struct Tail {
    /// An event without the empty line that should end it. It may be cut off.
    pub(crate) event: Option<String>,
    /// The beginning of the first line that belongs to no event.
    pub(crate) stray: Option<String>,
}

impl Default for Parser {
    fn default() -> Self {
        Self::up_to(EVENT_BYTES_MAX)
    }
}

impl Parser {
    /// For events of so many bytes.
    pub fn up_to(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), data: None, after_return: false, stray: None }
    }

    /// Takes bytes from the front until an event is complete, and gives its data.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<String>, ModelError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                *bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.extend(piece)?;
            let Some((line_end, rest)) = rest.split_first() else {
                *bytes = rest;
                return Ok(None);
            };
            *bytes = rest;
            self.after_return = *line_end == b'\r';
            if let Some(event) = self.end_line()? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// What the bytes so far leave behind if none follow.
    pub(crate) fn finish(mut self) -> Tail {
        let line = std::mem::take(&mut self.line);
        // A line that was cut within its first word, or within a character, says nothing.
        if !FIELDS.iter().any(|field| field.as_bytes().starts_with(&line)) {
            self.line = line;
            self.end_line().ok();
        }
        Tail { event: self.data, stray: self.stray }
    }

    fn extend(&mut self, piece: &[u8]) -> Result<(), ModelError> {
        if self.line.len() + piece.len() > self.bytes_max {
            return Err(too_long(self.bytes_max));
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// An empty line ends the event, if there is one.
    fn end_line(&mut self) -> Result<Option<String>, ModelError> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(self.data.take());
        }
        let line = std::str::from_utf8(&line)
            .map_err(|_| fault(ErrorClass::Garbage, "the provider's answer is not valid UTF-8"))?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        match field {
            "data" => self.append(value.strip_prefix(' ').unwrap_or(value))?,
            // A comment: servers keep the connection alive with it.
            "" | "event" | "id" | "retry" => {}
            _ => {
                let start = || crate::arguments::prefix(line, STRAY_BYTES_MAX).to_owned();
                self.stray.get_or_insert_with(start);
            }
        }
        Ok(None)
    }

    fn append(&mut self, value: &str) -> Result<(), ModelError> {
        let Some(data) = &mut self.data else {
            self.data = Some(value.to_owned());
            return Ok(());
        };
        if data.len() + value.len() > self.bytes_max {
            return Err(too_long(self.bytes_max));
        }
        data.push('\n');
        data.push_str(value);
        Ok(())
    }
}

fn too_long(bytes_max: usize) -> ModelError {
    fault(ErrorClass::Oversized, &format!("the provider sent an event of more than {bytes_max} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of the bytes, fed in pieces of a size, and what is left.
    fn events(bytes: &[u8], piece: usize) -> (Vec<String>, Option<String>) {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(event) = parser.next(&mut piece).unwrap() {
                events.push(event);
            }
        }
        (events, parser.finish().event)
    }

    fn check(bytes: &[u8], expected: &[&str], left: Option<&str>) {
        for piece in 1..=bytes.len() {
            let (events, rest) = events(bytes, piece);
            assert_eq!(events, expected, "pieces of {piece}");
            assert_eq!(rest.as_deref(), left, "pieces of {piece}");
        }
    }

    #[test]
    fn every_line_end_and_every_cut_gives_the_same_events() {
        check(b"data: a\n\ndata:b\n\n", &["a", "b"], None);
        check(b"data: a\r\n\r\ndata:b\r\n\r\n", &["a", "b"], None);
        check(b"data: a\r\rdata:b\r\r", &["a", "b"], None);
        check("event: x\ndata: ä\ndata: b\nid: 1\n\n".as_bytes(), &["ä\nb"], None);
        check(b": keep-alive\n\n\n\ndata: a\n: note\n\n", &["a"], None);
        check(b"data\n\ndata:  two\n\n", &["", " two"], None);
    }

    #[test]
    fn an_event_without_its_end_is_left() {
        check(b"data: a\n\ndata: [DONE]", &["a"], Some("[DONE]"));
        check(b"data: a\n\ndata: b\n", &["a"], Some("b"));
        check(b"data: a\n\ndata: \xc3", &["a"], None);
    }

    #[test]
    fn lines_of_no_event_are_remembered() {
        let stray = |bytes: &[u8]| {
            let mut parser = Parser::default();
            assert!(parser.next(&mut &*bytes).unwrap().is_none());
            parser.finish().stray
        };
        assert_eq!(stray(b"upstream error\nand more").as_deref(), Some("upstream error"));
        assert_eq!(stray(b"upstream error").as_deref(), Some("upstream error"));
        assert_eq!(stray(b"dat"), None);
        assert_eq!(stray(b": note"), None);
    }

    #[test]
    fn endless_lines_and_events_are_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; EVENT_BYTES_MAX];
        assert!(parser.next(&mut piece.as_slice()).unwrap().is_none());
        assert_eq!(parser.next(&mut b"y".as_slice()).unwrap_err().class, ErrorClass::Oversized);

        let mut parser = Parser::default();
        let line = format!("data: {}\n", "x".repeat(EVENT_BYTES_MAX / 2));
        assert!(parser.next(&mut line.as_bytes()).is_ok());
        assert!(parser.next(&mut line.as_bytes()).is_ok());
        assert_eq!(parser.next(&mut line.as_bytes()).unwrap_err().class, ErrorClass::Oversized);
    }
}

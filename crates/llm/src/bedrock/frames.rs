//! Frames of an event stream, out of bytes that may be cut anywhere: two lengths and their checksum, headers, a payload,
//! and a checksum of all of it.

use crate::classify::fault;
use crate::sse::EVENT_BYTES_MAX;
use choir_proto::model::{ErrorClass, ModelError};
use serde_json::{Value, json};

/// The two lengths and their checksum.
const PRELUDE: usize = 12;
/// The checksum at the end.
const CHECKSUM: usize = 4;
/// The kind of header value that is a text.
const TEXT: u8 = 7;

/// Reads frames; remembers the one that is not complete.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    buffer: Vec<u8>,
}

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event as JSON: its payload under its name. An exception is an `error`.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, ModelError> {
        let Some((&[a, b, c, d, e, f, g, h, p, q, r, s], _)) = self.buffer.split_first_chunk::<PRELUDE>() else {
            return Ok(None);
        };
        let total = u32::from_be_bytes([a, b, c, d]) as usize;
        let headers = u32::from_be_bytes([e, f, g, h]) as usize;
        if checksum(&self.buffer[..8]) != u32::from_be_bytes([p, q, r, s]) {
            return Err(fault(ErrorClass::Garbage, "the provider answered with something that is no event stream"));
        }
        if total > EVENT_BYTES_MAX || PRELUDE + headers + CHECKSUM > total {
            return Err(fault(ErrorClass::Garbage, "the provider sent an event of an impossible length"));
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let frame: Vec<u8> = self.buffer.drain(..total).collect();
        let (whole, sum) = frame.split_at(total - CHECKSUM);
        if checksum(whole).to_be_bytes() != sum {
            return Err(fault(ErrorClass::Garbage, "an event of the provider was damaged on its way"));
        }
        let (headers, payload) = whole[PRELUDE..].split_at(headers);
        read(headers, payload).map(Some)
    }

    /// Whether a part of a frame is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

fn read(headers: &[u8], payload: &[u8]) -> Result<Value, ModelError> {
    let senseless = || fault(ErrorClass::Garbage, "the provider sent an event that makes no sense");
    let (mut kind, mut name) = (String::new(), String::new());
    let mut rest = headers;
    while !rest.is_empty() {
        let (header, value, after) = header(rest).ok_or_else(senseless)?;
        match header {
            ":message-type" => kind = value.to_owned(),
            ":event-type" | ":exception-type" | ":error-code" => name = value.to_owned(),
            _ => {}
        }
        rest = after;
    }
    let payload: Value = match payload {
        [] => json!({}),
        payload => serde_json::from_slice(payload).map_err(|_| senseless())?,
    };
    Ok(match kind.as_str() {
        "exception" | "error" => json!({"error": {"type": name, "message": payload["message"]}}),
        _ => json!({ name: payload }),
    })
}

/// A header's name and value, and what follows. Only texts matter; other kinds of value have known lengths.
fn header(bytes: &[u8]) -> Option<(&str, &str, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let (value, rest) = match kind {
        0 | 1 => (&[][..], rest),
        2 => rest.split_at_checked(1)?,
        3 => rest.split_at_checked(2)?,
        4 => rest.split_at_checked(4)?,
        5 | 8 => rest.split_at_checked(8)?,
        9 => rest.split_at_checked(16)?,
        6 | &TEXT => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?
        }
        _ => return None,
    };
    let value = if *kind == TEXT { std::str::from_utf8(value).ok()? } else { "" };
    Some((std::str::from_utf8(name).ok()?, value, rest))
}

/// A frame as a provider would send it.
pub(crate) fn frame(kind: &str, name: &str, payload: &Value) -> Vec<u8> {
    let named = if kind == "exception" { ":exception-type" } else { ":event-type" };
    let headers = [
        text_header(named, name),
        text_header(":content-type", "application/json"),
        text_header(":message-type", kind),
    ]
    .concat();
    let payload = payload.to_string().into_bytes();
    let total = (PRELUDE + headers.len() + payload.len() + CHECKSUM) as u32;
    let mut frame = [total.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
    frame.extend(checksum(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload);
    frame.extend(checksum(&frame).to_be_bytes());
    frame
}

fn text_header(name: &str, value: &str) -> Vec<u8> {
    let mut header = vec![name.len() as u8];
    header.extend(name.bytes());
    header.push(TEXT);
    header.extend((value.len() as u16).to_be_bytes());
    header.extend(value.bytes());
    header
}

/// CRC-32 as Ethernet has it.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn damage_and_impossible_lengths_are_refused() {
        let good = frame("event", "messageStart", &json!({"role": "assistant"}));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let mut parser = Parser::default();
            parser.push(&bad);
            assert!(parser.next().is_err(), "byte {at}");
        }
        let mut parser = Parser::default();
        parser.push(&good);
        assert_eq!(parser.next().unwrap(), Some(json!({"messageStart": {"role": "assistant"}})));
        assert!(parser.next().unwrap().is_none() && parser.is_empty());
    }
}

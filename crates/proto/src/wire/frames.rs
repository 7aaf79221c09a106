//! A socket between a browser and a computer, carried through control as one HTTP request: messages in its body,
//! messages in its answer. Each is a kind (one byte), a length (four bytes, big-endian) and so many bytes.

/// The longest message of a browser. Somebody who was away for long sends everything at once.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// The longest message of a computer: whoever comes to a document hears all of it at once, with everything that was ever deleted.
pub const ANSWER_BYTES_MAX: usize = 65 << 20;

/// Bytes from which on a piece between control and computer is large enough: thousands of small ones waiting unread would break
/// the connection for everybody, so what is there already travels together.
pub const TOGETHER_BYTES: usize = 16 * 1024;

/// How a visit to a document ends whose guest has to begin with nothing, because something of it was erased. Of the codes that
/// are an application's to give.
pub const ANEW: u16 = 4001;

const HEAD: usize = 5;
const MESSAGE: u8 = 0;
const CLOSE: u8 = 1;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A binary message, as it is.
    Message(Vec<u8>),
    /// The last one: a WebSocket's close code and a reason.
    Close {
        /// Of RFC 6455.
        code: u16,
        /// For people.
        reason: String,
    },
}

/// Something that is no frame: the other side is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a frame between control and computer is broken")]
pub struct BrokenFrame;

impl Frame {
    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Message(bytes) => (MESSAGE, bytes.clone()),
            Self::Close { code, reason } => (CLOSE, [&code.to_be_bytes(), reason.as_bytes()].concat()),
        };
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// Frames out of pieces that end anywhere.
#[derive(Debug)]
pub struct Frames {
    buffer: Vec<u8>,
    bytes_max: usize,
}

impl Frames {
    /// Those of a browser.
    pub fn of_browser() -> Self {
        Self { buffer: Vec::new(), bytes_max: MESSAGE_BYTES_MAX }
    }

    /// Those of a computer.
    pub fn of_computer() -> Self {
        Self { buffer: Vec::new(), bytes_max: ANSWER_BYTES_MAX }
    }

    /// Takes a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next whole frame, if it is there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, BrokenFrame> {
        let Some((&[kind, a, b, c, d], rest)) = self.buffer.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.bytes_max {
            return Err(BrokenFrame);
        }
        let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.buffer.drain(..HEAD + length);
        match (kind, body.split_first_chunk::<2>()) {
            (MESSAGE, _) => Ok(Some(Frame::Message(body))),
            (CLOSE, Some((code, reason))) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                Ok(Some(Frame::Close { code: u16::from_be_bytes(*code), reason }))
            }
            _ => Err(BrokenFrame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let sent = [
            Frame::Message(Vec::new()),
            Frame::Message(vec![1, 2, 3]),
            Frame::Close { code: 1008, reason: "no é".into() },
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
        for cut in 0..=bytes.len() {
            let mut frames = Frames::of_computer();
            let mut got = Vec::new();
            for piece in [&bytes[..cut], &bytes[cut..]] {
                frames.push(piece);
                while let Some(frame) = frames.next_frame().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, sent, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_too_long_or_unknown_is_broken() {
        let whole_document = [&[MESSAGE][..], &(20_u32 << 20).to_be_bytes()].concat();
        let too_long = [&[MESSAGE][..], &(99_u32 << 20).to_be_bytes()].concat();
        for (mut frames, head, answer) in [
            (Frames::of_computer(), &whole_document, Ok(None)),
            (Frames::of_computer(), &too_long, Err(BrokenFrame)),
            (Frames::of_browser(), &whole_document, Err(BrokenFrame)),
        ] {
            frames.push(head);
            assert_eq!(frames.next_frame(), answer);
        }
        let mut frames = Frames::of_browser();
        frames.push(&[9, 0, 0, 0, 0]);
        assert_eq!(frames.next_frame(), Err(BrokenFrame));
    }
}

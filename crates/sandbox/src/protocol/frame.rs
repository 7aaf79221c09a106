//! Frames: how messages and bulk bytes share one stream.
//!
//! ```text
//! u32 length of the rest, big-endian
//! u8  kind: 0 control (the rest is JSON), 1 data
//! data only: u64 request, u8 channel, then the bytes
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Longest frame after its length field. Large enough for the longest command line, small enough that a queue of
/// frames is a bounded amount of memory.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Most bulk bytes in one data frame.
pub const DATA_BYTES_MAX: usize = FRAME_BYTES_MAX - DATA_HEADER_BYTES;

const LENGTH_BYTES: usize = 4;
const DATA_HEADER_BYTES: usize = 10;
const KIND_CONTROL: u8 = 0;
const KIND_DATA: u8 = 1;

/// One frame of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message in JSON, not yet parsed.
    Control(Bytes),
    /// Bulk bytes that belong to a request.
    Data {
        /// The request.
        id: u64,
        /// Which of the request's streams.
        channel: Channel,
        /// The bytes.
        bytes: Bytes,
    },
}

/// The streams that a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    /// Into a command or a terminal.
    Input = 0,
    /// A command's standard output, or a terminal's.
    Output = 1,
    /// A command's standard error.
    Error = 2,
    /// Content of a file or a report, either way.
    Content = 3,
}

/// Why bytes are not frames, or a frame cannot be sent. The stream is of no further use after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// Too short for its kind.
    #[error("a frame is too short for its kind")]
    TooShort,
    /// A kind that does not exist.
    #[error("there is no frame kind {0}")]
    Kind(u8),
    /// A channel that does not exist.
    #[error("there is no channel {0}")]
    Channel(u8),
}

impl Channel {
    fn parse(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            0 => Self::Input,
            1 => Self::Output,
            2 => Self::Error,
            3 => Self::Content,
            other => return Err(FrameError::Channel(other)),
        })
    }
}

impl Frame {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), FrameError> {
        match self {
            Self::Control(json) => {
                put_header(out, 1 + json.len(), KIND_CONTROL)?;
                out.put_slice(json);
            }
            Self::Data { id, channel, bytes } => {
                put_header(out, DATA_HEADER_BYTES + bytes.len(), KIND_DATA)?;
                out.put_u64(*id);
                out.put_u8(*channel as u8);
                out.put_slice(bytes);
            }
        }
        Ok(())
    }
}

fn put_header(out: &mut BytesMut, length: usize, kind: u8) -> Result<(), FrameError> {
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    out.reserve(LENGTH_BYTES + length);
    out.put_u32(u32::try_from(length).map_err(|_| FrameError::TooLong(length))?);
    out.put_u8(kind);
    Ok(())
}

/// Takes the next whole frame off the front of `buffer`, or leaves it for more bytes to arrive.
///
/// A claimed length is judged before anything is reserved for it, so a peer cannot make the reader allocate more
/// than one frame. After an error the stream has lost its place and must be closed.
pub fn decode(buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(head) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    if length == 0 {
        return Err(FrameError::TooShort);
    }
    if buffer.len() < LENGTH_BYTES + length {
        buffer.reserve(LENGTH_BYTES + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(LENGTH_BYTES);
    parse(buffer.split_to(length).freeze()).map(Some)
}

fn parse(mut body: Bytes) -> Result<Frame, FrameError> {
    match body.get_u8() {
        KIND_CONTROL => Ok(Frame::Control(body)),
        KIND_DATA if body.len() < DATA_HEADER_BYTES - 1 => Err(FrameError::TooShort),
        KIND_DATA => {
            let id = body.get_u64();
            let channel = Channel::parse(body.get_u8())?;
            Ok(Frame::Data { id, channel, bytes: body })
        }
        other => Err(FrameError::Kind(other)),
    }
}

/// What a stream means, however it is cut.
#[cfg(test)]
pub(super) fn decode_in_pieces(stream: &[u8], pieces: &[usize]) -> (Vec<Frame>, Option<FrameError>) {
    let (mut buffer, mut frames, mut rest) = (BytesMut::new(), Vec::new(), stream);
    let mut sizes = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        rest = after;
        buffer.extend_from_slice(piece);
        loop {
            match decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(buffer.capacity() <= 4 * FRAME_BYTES_MAX, "grew to {}", buffer.capacity());
    }
    (frames, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..600).prop_map(Bytes::from);
        let channel =
            prop_oneof![Just(Channel::Input), Just(Channel::Output), Just(Channel::Error), Just(Channel::Content)];
        prop_oneof![
            bytes().prop_map(Frame::Control),
            (any::<u64>(), channel, bytes()).prop_map(|(id, channel, bytes)| Frame::Data { id, channel, bytes }),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_any_splitting(sent in proptest::collection::vec(frames(), 0..20),
                                        pieces in proptest::collection::vec(1_usize..700, 1..20)) {
            let mut stream = BytesMut::new();
            for frame in &sent {
                frame.encode(&mut stream).expect("fits");
            }
            prop_assert_eq!(decode_in_pieces(&stream, &pieces), (sent, None));
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(stream in proptest::collection::vec(any::<u8>(), 0..4000),
                                            pieces in proptest::collection::vec(1_usize..100, 1..9)) {
            let whole = decode_in_pieces(&stream, &[stream.len().max(1)]);
            prop_assert_eq!(decode_in_pieces(&stream, &pieces), whole);
        }

        #[test]
        fn short_frames_of_any_kind_never_panic(bodies in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..14), 0..30)) {
            let mut stream = Vec::new();
            for body in bodies {
                stream.extend_from_slice(&(body.len() as u32).to_be_bytes());
                stream.extend_from_slice(&body);
            }
            decode_in_pieces(&stream, &[3]);
        }
    }

    #[test]
    fn a_claimed_length_is_never_allocated() {
        let mut buffer = BytesMut::from(&u32::MAX.to_be_bytes()[..]);
        let before = buffer.capacity();
        assert_eq!(decode(&mut buffer), Err(FrameError::TooLong(u32::MAX as usize)));
        assert_eq!(buffer.capacity(), before);
    }

    #[test]
    fn the_longest_frame_passes_and_one_more_does_not() {
        let frame = |length| Frame::Data { id: 7, channel: Channel::Output, bytes: Bytes::from(vec![1; length]) };
        let mut out = BytesMut::new();
        frame(DATA_BYTES_MAX).encode(&mut out).expect("fits");
        assert_eq!(decode(&mut out), Ok(Some(frame(DATA_BYTES_MAX))));
        assert_eq!(frame(DATA_BYTES_MAX + 1).encode(&mut out), Err(FrameError::TooLong(FRAME_BYTES_MAX + 1)));
        assert!(out.is_empty(), "a refused frame leaves nothing behind");
    }
}

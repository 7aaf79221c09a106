//! Frames on an asynchronous byte stream.

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frame::{Frame, FrameError, decode};

/// Reserved for each read of the stream.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The peer does not speak the protocol.
    #[error("the peer broke the protocol: {0}")]
    Frame(#[from] FrameError),
    /// The stream broke.
    #[error("the stream broke")]
    Io(#[from] std::io::Error),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Torn,
}

/// Reads frames off a stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader at the beginning of a frame.
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(READ_BUFFER_BYTES) }
    }

    /// The next frame; `None` when the peer closed the stream between two.
    pub async fn next(&mut self) -> Result<Option<Frame>, StreamError> {
        loop {
            if let Some(frame) = decode(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(READ_BUFFER_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(StreamError::Torn) };
            }
        }
    }
}

/// A message as a control frame; fails when it is longer than a frame may be.
pub fn control_frame(message: &impl Serialize) -> Result<Frame, FrameError> {
    let json = serde_json::to_vec(message).expect("the protocol's messages have string keys only");
    if json.len() >= super::FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(json.len()));
    }
    Ok(Frame::Control(Bytes::from(json)))
}

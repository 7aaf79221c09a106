//! Why a socket is closed on somebody who did not keep to the protocol, in the codes of RFC 6455.

use axum::extract::ws::{CloseFrame, Utf8Bytes, close_code};
use tokio_tungstenite::tungstenite;

/// What is said to the sender of a frame that could not be taken; nothing when nobody is left to hear it.
pub(super) fn to_sender_of(error: axum::Error) -> Option<CloseFrame> {
    use tungstenite::Error;
    let error = error.into_inner().downcast::<Error>().ok()?;
    let (code, reason) = match *error {
        Error::Capacity(_) => (close_code::SIZE, "a frame was too long"),
        Error::Utf8(_) => (close_code::INVALID, "a text frame was not text"),
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => (close_code::PROTOCOL, "a frame broke the protocol"),
        _ => return None,
    };
    Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) })
}

//! Why a socket is closed on somebody who did not keep to the protocol, in the codes of RFC 6455.

use axum::extract::ws::{CloseFrame, Utf8Bytes, WebSocket, close_code};
use std::time::Duration;
use tokio_tungstenite::tungstenite;

/// How long whoever leaves may take for the answer to its goodbye.
const ANSWER: Duration = Duration::from_secs(5);

/// Answers the goodbye of whoever leaves first. The answer is ready and leaves when the socket is looked at again.
pub(super) async fn answer(socket: &mut WebSocket) {
    // Whoever does not wait for it has gone, which is what was said.
    tokio::time::timeout(ANSWER, socket.recv()).await.ok();
}

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

//! The bytes of a connection, on their way between the kernel and hyper.
//!
//! What hyper cannot read it refuses by itself, with a status and nothing else. That answer is held back here, and the
//! refusal is said in the one shape. And whoever is answered before they have sent everything is heard out, within limits, or
//! they would meet a broken connection instead of the answer. Which bytes are hyper's own is known from what it was given: it has written an answer of
//! ours whole when it flushes after the answer's body is gone, and until it asks for the next one it can only speak for itself.

use super::error::Refused;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// How long somebody may take to hear a refusal.
const FAREWELL: Duration = Duration::from_secs(3);
/// What is still heard of somebody who was answered before all was said: a connection that is closed with unread bytes is
/// reset, and the answer with it.
const UNHEARD_BYTES_MAX: u64 = 256 << 20;

/// One connection. Cheap to clone.
pub(super) struct Line<S>(Arc<Mutex<State<S>>>);

struct State<S> {
    stream: S,
    /// Requests whose answers hyper does not have whole yet.
    serving: usize,
    /// Whether something of an answer of ours may not be written yet.
    unwritten: bool,
    /// Whether a part of a request has come that nobody was asked about.
    heard: bool,
    /// What was read of the lines of a head.
    head: Head,
    /// The status that hyper answered with by itself.
    held_back: Option<StatusCode>,
    /// Whether somebody was answered before they had sent everything.
    unheard: bool,
}

impl<S> Clone for Line<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Line<S> {
    pub(super) fn new(stream: S) -> Self {
        let state = State {
            stream,
            serving: 0,
            unwritten: false,
            heard: false,
            head: Head::default(),
            held_back: None,
            unheard: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A request was read; the answer is ours until what this returns is gone.
    pub(super) fn serve(&self) -> Serving
    where
        S: Send + 'static,
    {
        let mut state = self.state();
        state.serving += 1;
        state.unwritten = true;
        let line = self.clone();
        Serving(Some(Box::new(move || line.served())))
    }

    /// A body, noticing when nobody reads it to its end.
    pub(super) fn hear(&self, body: Incoming) -> Body
    where
        S: Send + 'static,
    {
        let line = self.clone();
        Body::new(Heard { body, ended: false, unheard: Box::new(move || line.state().unheard = true) })
    }

    fn served(&self) {
        let mut state = self.state();
        state.serving -= 1;
        state.heard = false;
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// Hears somebody out who was answered before they had sent everything.
    pub(super) async fn end(self) {
        let Some(state) = self.alone().filter(|state| state.unheard) else { return };
        if !matches!(tokio::time::timeout(FAREWELL, hear_out(state.stream)).await, Ok(Ok(()))) {
            tracing::debug!("a connection was closed before everything was heard");
        }
    }

    /// Nothing when somebody else holds the connection because it was upgraded: it is theirs.
    fn alone(self) -> Option<State<S>> {
        Some(Arc::into_inner(self.0)?.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Says what hyper would not, after it has given the connection up.
    pub(super) async fn refuse(self, error: &hyper::Error) {
        let Some(state) = self.alone() else { return };
        let Some(refused) = state.refusal(error) else { return };
        if !matches!(tokio::time::timeout(FAREWELL, say(state.stream, &refused)).await, Ok(Ok(()))) {
            tracing::debug!("a connection was closed without hearing why");
        }
    }
}

/// How far the lines of a head have come.
#[derive(Default)]
struct Head {
    /// Whether the line that names the address has ended. Also where that is not known: in what comes after a body.
    named: bool,
    /// Whether there is something on the line that has not ended.
    begun: bool,
}

impl Head {
    /// Whether the line that names the address has begun and not ended.
    fn is_address(&self) -> bool {
        self.begun && !self.named
    }

    fn read(&mut self, bytes: &[u8], is_head: bool) {
        let says = |bytes: &[u8]| bytes.iter().any(|byte| *byte != b'\r');
        if !is_head {
            self.named |= bytes.contains(&b'\n');
            return;
        }
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.begun |= says(bytes);
            return;
        };
        let before = bytes[..end].iter().rposition(|byte| *byte == b'\n');
        let line = &bytes[before.map_or(0, |before| before + 1)..end];
        // An empty line ends a head, and the next line names an address again.
        self.named = says(line) || (before.is_none() && self.begun);
        self.begun = says(&bytes[end + 1..]);
    }
}

impl<S> State<S> {
    fn refusal(&self, error: &hyper::Error) -> Option<Refused> {
        match self.held_back {
            // A head that is too long before its first line has ended is too long for its address.
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) if self.head.is_address() => {
                Some(Refused::unreadable(StatusCode::URI_TOO_LONG, error))
            }
            Some(status) => Some(Refused::unreadable(status, error)),
            None if self.unwritten => None,
            None if error.is_parse() => Some(Refused::unreadable(StatusCode::BAD_REQUEST, error)),
            None if error.is_timeout() && self.heard => Some(Refused::slow_head()),
            None => None,
        }
    }

    /// Takes what hyper says by itself.
    fn hold_back(&mut self, bytes: &[u8]) {
        let status = bytes.get(9..12).and_then(|digits| StatusCode::from_bytes(digits).ok());
        self.held_back = self.held_back.or(status).or(Some(StatusCode::BAD_REQUEST));
    }
}

async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, refused: &Refused) -> io::Result<()> {
    stream.write_all(&refused.http1()).await?;
    stream.shutdown().await?;
    hear_out(stream).await
}

async fn hear_out(stream: impl AsyncRead + Unpin) -> io::Result<()> {
    tokio::io::copy(&mut stream.take(UNHEARD_BYTES_MAX), &mut tokio::io::sink()).await.map(drop)
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let before = buffer.filled().len();
        let read = Pin::new(&mut state.stream).poll_read(cx, buffer);
        state.heard |= buffer.filled().len() > before;
        let is_head = state.serving == 0;
        state.head.read(&buffer.filled()[before..], is_head);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if state.unwritten {
            return Pin::new(&mut state.stream).poll_write(cx, bytes);
        }
        state.hold_back(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if state.unwritten {
            return Pin::new(&mut state.stream).poll_write_vectored(cx, slices);
        }
        state.hold_back(slices.first().map_or(&[], |slice| slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        self.state().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let flushed = Pin::new(&mut state.stream).poll_flush(cx);
        // Hyper flushes us when it has handed over all that it had.
        if state.serving == 0 && flushed.is_ready() {
            state.unwritten = false;
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if state.held_back.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut state.stream).poll_shutdown(cx)
    }
}

/// An answer that hyper does not have whole yet.
pub(super) struct Serving(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(served) = self.0.take() {
            served();
        }
    }
}

impl Serving {
    /// Ends with the answer's body. What is said after an upgrade is all ours, so that never ends.
    pub(super) fn until_written(mut self, response: Response) -> Response {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.0 = None;
        }
        response.map(|body| Body::new(Written { body, _serving: self }))
    }
}

/// A body that is gone when hyper has all of it.
struct Written {
    body: Body,
    _serving: Serving,
}

impl http_body::Body for Written {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that may not be read to its end.
struct Heard {
    body: Incoming,
    /// Whether its end was seen: one that comes in chunks does not know it before.
    ended: bool,
    unheard: Box<dyn Fn() + Send>,
}

impl Drop for Heard {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            (self.unheard)();
        }
    }
}

impl http_body::Body for Heard {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! Asking the computer: HTTP/2 over the socket that only it holds the other end of.

use super::subscription::LINE_BYTES_MAX;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::watch;

/// How long a request waits for a computer that is being restarted.
const RESTART: Duration = Duration::from_secs(5);
/// How long the head of an answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// Longest answer that control reads whole.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Longest page of the log: it ends with the event that makes it long, whose length has a limit of its own.
const PAGE_BYTES_MAX: usize = 2 * LINE_BYTES_MAX;
/// Room for a large file in flight without one reader starving the others.
const WINDOW: u32 = 1 << 20;

/// How control feels whether a process is still there: one that hangs keeps its socket open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    every: Duration,
    /// How long it may be silent when asked. One that is merely busy answers within a fraction of it.
    silence: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { every: Duration::from_secs(10), silence: Duration::from_secs(20) }
    }
}

/// Why the computer did not answer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It is not running.
    #[error("the computer is restarting")]
    Down,
    /// The connection broke.
    #[error("the computer went away")]
    Broken(#[from] hyper::Error),
    /// It took too long.
    #[error("the computer did not answer in time")]
    Slow,
    /// It refused.
    #[error("the computer refused with status {0}")]
    Refused(StatusCode),
    /// It answered something else.
    #[error("the computer's answer cannot be read")]
    Garbage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A handle to whichever process is the computer now.
#[derive(Debug, Clone)]
pub struct Link {
    current: watch::Receiver<Option<SendRequest<Body>>>,
}

impl Link {
    pub(super) fn new() -> (watch::Sender<Option<SendRequest<Body>>>, Self) {
        let (set, current) = watch::channel(None);
        (set, Self { current })
    }

    /// Sends a request as it is and returns the head of the answer; the body streams.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, LinkError> {
        self.send_within(ANSWER, request).await
    }

    /// The same, for requests whose body takes its time.
    pub async fn send_within(&self, time: Duration, request: Request<Body>) -> Result<Response<Incoming>, LinkError> {
        let mut sender = self.connected().await?;
        tokio::time::timeout(time, sender.send_request(request)).await.map_err(|_| LinkError::Slow)?.map_err(Into::into)
    }

    /// `GET`, decoded.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LinkError> {
        self.answer(request(Method::GET, path, Body::empty())).await
    }

    /// A page of the log, decoded: it holds at least one event, however long that is.
    pub async fn page<T: DeserializeOwned>(&self, path: &str) -> Result<T, LinkError> {
        let body = self.whole_upto(PAGE_BYTES_MAX, request(Method::GET, path, Body::empty())).await?;
        serde_json::from_slice(&body).map_err(|error| LinkError::Garbage(error.into()))
    }

    /// Any request, its answer decoded.
    pub async fn answer<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, LinkError> {
        let body = self.whole(request).await?;
        serde_json::from_slice(&body).map_err(|error| LinkError::Garbage(error.into()))
    }

    /// `POST` of JSON; the answer's body is not looked at.
    pub async fn post<T: Serialize>(&self, path: &str, message: &T) -> Result<(), LinkError> {
        self.tell(path, message).await.map(drop)
    }

    /// `POST` of JSON, its answer decoded.
    pub async fn ask<T: Serialize, A: DeserializeOwned>(&self, path: &str, message: &T) -> Result<A, LinkError> {
        let body = self.tell(path, message).await?;
        serde_json::from_slice(&body).map_err(|error| LinkError::Garbage(error.into()))
    }

    async fn tell<T: Serialize>(&self, path: &str, message: &T) -> Result<bytes::Bytes, LinkError> {
        let body = serde_json::to_vec(message).map_err(|error| LinkError::Garbage(error.into()))?;
        let mut request = request(Method::POST, path, Body::from(body));
        request.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        self.whole(request).await
    }

    async fn whole(&self, request: Request<Body>) -> Result<bytes::Bytes, LinkError> {
        self.whole_upto(ANSWER_BYTES_MAX, request).await
    }

    async fn whole_upto(&self, bytes_max: usize, request: Request<Body>) -> Result<bytes::Bytes, LinkError> {
        let response = self.send(request).await?;
        let status = response.status();
        let limited = http_body_util::Limited::new(response.into_body(), bytes_max);
        let body = tokio::time::timeout(ANSWER, limited.collect()).await.map_err(|_| LinkError::Slow)?;
        let body = body.map_err(LinkError::Garbage)?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(LinkError::Refused(status)) }
    }

    async fn connected(&self) -> Result<SendRequest<Body>, LinkError> {
        let mut current = self.current.clone();
        let alive = current.wait_for(|sender| sender.as_ref().is_some_and(|sender| !sender.is_closed()));
        let sender = tokio::time::timeout(RESTART, alive).await.map_err(|_| LinkError::Down)?;
        sender.map_err(|_| LinkError::Down)?.clone().ok_or(LinkError::Down)
    }
}

/// A request to the computer. The authority is only a name: identity is the socket.
pub(crate) fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    let uri = format!("http://computer{path}").parse();
    *request.uri_mut() = uri.expect("paths to the computer are written in this crate or come from a parsed URI");
    request
}

/// Begins HTTP/2 on a fresh socket. The connection ends when the other side is silent for too long.
pub(super) async fn connect(
    stream: UnixStream,
    pulse: Option<Pulse>,
) -> Result<(SendRequest<Body>, impl Future<Output = Result<(), hyper::Error>>), hyper::Error> {
    hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_while_idle(true)
        .keep_alive_interval(pulse.map(|pulse| pulse.every))
        .keep_alive_timeout(pulse.unwrap_or_default().silence)
        .initial_stream_window_size(WINDOW)
        // Half of it may wait unread in small pieces before HTTP/2 breaks the connection off.
        .initial_connection_window_size(16 * WINDOW)
        .max_frame_size(64 << 10)
        .handshake(TokioIo::new(stream))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_is_given_up_and_a_silent_one_without_a_pulse_is_not() {
        for (pulse, ends) in [(Some(Pulse::default()), true), (None, false)] {
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            let (_sender, connection) = connect(ours, pulse).await.expect("begun");
            let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
            assert_eq!(ended.is_ok_and(|ended| ended.is_err()), ends);
        }
    }
}

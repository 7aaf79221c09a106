//! Bodies that are too long to be held: they pass through part by part, and a sender that falls silent is not waited for.

use super::error::Refused;
use super::json;
use axum::body::Body;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a sender may be silent in the middle of a body.
const SILENCE: Duration = Duration::from_secs(30);

/// A body on its way.
#[derive(Debug)]
pub(super) struct Upload {
    body: Body,
    /// Bytes that may still come.
    left: usize,
    bytes_max: usize,
}

impl Upload {
    /// A body of at most so many bytes. A length that was announced is believed when it is too long.
    pub(super) fn new(body: Body, bytes_max: usize) -> Result<Self, Refused> {
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(Refused::too_large(bytes_max));
        }
        Ok(Self { body, left: bytes_max, bytes_max })
    }

    /// Its length, when that was announced.
    pub(super) fn size(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next bytes; nothing after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refused> {
        loop {
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await.map_err(|_| json::too_slow())?;
            let Some(frame) = frame else { return Ok(None) };
            // Trailers say nothing here.
            let Ok(bytes) = frame.map_err(json::broken)?.into_data() else { continue };
            self.left = self.left.checked_sub(bytes.len()).ok_or_else(|| Refused::too_large(self.bytes_max))?;
            return Ok(Some(bytes));
        }
    }

    /// As a body to be passed on, and why it broke off if it does.
    pub(super) fn passed_on(self) -> (Body, oneshot::Receiver<Refused>) {
        let (tell, told) = oneshot::channel();
        let parts = futures_util::stream::unfold((self, Some(tell)), |(mut upload, tell)| async move {
            match upload.next().await {
                Ok(bytes) => bytes.map(|bytes| (Ok(bytes), (upload, tell))),
                Err(refused) => {
                    // Whoever passed it on may have an answer already.
                    tell.and_then(|tell| tell.send(refused).ok());
                    Some((Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)), (upload, None)))
                }
            }
        });
        (Body::from_stream(parts), told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use std::convert::Infallible;

    fn body(parts: &[&'static str], silent: bool) -> Body {
        let parts: Vec<Result<Bytes, Infallible>> =
            parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        let parts = futures_util::stream::iter(parts);
        match silent {
            true => Body::from_stream(futures_util::StreamExt::chain(parts, futures_util::stream::pending())),
            false => Body::from_stream(parts),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_falls_silent_is_given_up_after_a_while() {
        let mut upload = Upload::new(body(&["ab"], true), 10).unwrap();
        assert_eq!(upload.next().await.unwrap().unwrap(), "ab");
        let begun = tokio::time::Instant::now();
        assert_eq!(upload.next().await.unwrap_err().status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(begun.elapsed(), SILENCE);
    }

    #[tokio::test]
    async fn more_than_may_come_is_refused_and_whoever_passes_it_on_hears_why() {
        let upload = Upload::new(body(&["abc", "def", "g"], false), 6).unwrap();
        let (body, told) = upload.passed_on();
        assert!(body.collect().await.is_err());
        assert_eq!(told.await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
        let (body, told) = Upload::new(self::body(&["abc", "def"], false), 6).unwrap().passed_on();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
        assert!(told.await.is_err(), "nothing broke");
    }
}

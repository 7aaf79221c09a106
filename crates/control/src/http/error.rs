//! The one way in which control says no.

use crate::computer::LinkError;
use crate::db;
use axum::response::{IntoResponse, Response};
use choir_proto::ApiError;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use std::time::Duration;

/// A refusal with its status. Internals stay private: they go to the log, not to the caller.
#[derive(Debug)]
pub struct Refused {
    status: StatusCode,
    error: ApiError,
    retry_after: Option<Duration>,
}

impl Refused {
    /// A refusal from its parts.
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: ApiError::new(code, message, hint), retry_after: None }
    }

    /// 400: a field of the body, or a name behind the question mark, is unknown, missing or not what it should be. The same
    /// code as the computer's, so that one kind of mistake has one name on every route.
    pub fn bad_field(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_field", message, hint)
    }

    /// 400: the body is no JSON.
    pub(super) fn bad_json(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_json", message, hint)
    }

    /// 400: the body ended early, or its parts are none.
    pub(super) fn bad_body(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_body", message, hint)
    }

    /// 400: what came is no request that could be looked at.
    pub fn bad_request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message, hint)
    }

    /// 404, the same for what does not exist and for what is somebody else's.
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this address.", "See /api/openapi.json.")
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("The body is longer than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, "Send less, or send files by /api/files.")
    }

    /// 429.
    pub fn too_many(retry_after: Duration) -> Self {
        let seconds = retry_after.as_secs() + 1;
        let message = "Too many requests.";
        let hint = format!("Try again in {seconds} s.");
        Self {
            retry_after: Some(Duration::from_secs(seconds)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message, hint)
        }
    }

    /// 503: a part is not there now.
    pub fn unavailable(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message, hint)
    }

    /// 503: too many connections.
    pub(super) fn no_room() -> Self {
        let hint = "Close some connections and try again; `choir` on the same machine always gets in.";
        Self::unavailable("no_room", "There are too many connections.", hint)
    }

    /// What came was no request.
    pub(super) fn unreadable(status: StatusCode, error: &hyper::Error) -> Self {
        let (code, message, hint) = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                ("head_too_large", "The head of the request is too long.".to_owned(), "Send fewer and shorter headers.")
            }
            StatusCode::URI_TOO_LONG => {
                ("uri_too_long", "The address of the request is too long.".to_owned(), "Send what is long in a body.")
            }
            _ => {
                let message = format!("What came cannot be read as a request: {error}.");
                ("bad_request", message, "Speak HTTP/1.1, without TLS; a proxy in front of it may speak more.")
            }
        };
        Self::new(status, code, message, hint)
    }

    /// 408: half a head.
    pub(super) fn slow_head() -> Self {
        let message = "The head of the request did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message, "Send the request again.")
    }

    /// The refusal as it is written to a connection that is not served.
    pub(super) fn http1(&self) -> Vec<u8> {
        let body = self.body();
        let mut answer = format!(
            "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.status,
            body.len()
        )
        .into_bytes();
        answer.extend(body);
        answer
    }

    fn body(&self) -> Vec<u8> {
        serde_json::to_vec(&self.error).expect("three strings are always JSON")
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        response
    }
}

/// How a full disk is mended.
const NO_ROOM: &str = "Nothing was lost and nothing was changed. Free some space, then try again.";

impl From<db::Error> for Refused {
    fn from(error: db::Error) -> Self {
        tracing::error!(error = &error as &dyn std::error::Error, "control's database failed");
        let failed = "Control's database failed.";
        match error {
            db::Error::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "The disk is full.", NO_ROOM),
            db::Error::Disk(_) => {
                let hint = "Nothing was acknowledged. Look at the disk, then try again; /health tells how it is.";
                Self::unavailable("control_failed", failed, hint)
            }
            db::Error::Sqlite(_)
            | db::Error::Damaged(_)
            | db::Error::Newer { .. }
            | db::Error::Unsafe { .. }
            | db::Error::Closed => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", failed, "`choir doctor` tells more.")
            }
        }
    }
}

impl From<LinkError> for Refused {
    fn from(error: LinkError) -> Self {
        tracing::warn!(error = &error as &dyn std::error::Error, "the computer did not answer");
        let hint = "Try again in a moment; /health tells how it is.";
        // Also where the connection broke: the answer was lost, and nobody knows what came before it.
        let unknown = "What you asked for may still be done: look whether it was before you ask again.";
        match error {
            LinkError::Slow => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "computer_slow", "The computer did not answer in time.", unknown)
            }
            LinkError::Refused(StatusCode::INSUFFICIENT_STORAGE) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "The disk is full.", NO_ROOM)
            }
            LinkError::Down => Self::unavailable("computer_restarting", "The computer is restarting.", hint),
            LinkError::Broken(_) | LinkError::Refused(_) | LinkError::Garbage(_) => {
                Self::new(StatusCode::BAD_GATEWAY, "computer_failed", "The computer failed to answer.", unknown)
            }
        }
    }
}

//! Everything that is refused is refused in one shape.

use crate::actor::ActorError;
use crate::document::DocumentError;
use crate::harness::HarnessError;
use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use choir_core::fold::desktop::Refused;
use choir_proto::{ApiError, in_words, place};
use choir_store::{AppendError, StoreError};
use http::StatusCode;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;

/// A refusal with its status.
#[derive(Debug)]
pub struct Rejection {
    status: StatusCode,
    error: ApiError,
}

impl Rejection {
    /// The request is wrong.
    pub fn bad(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: ApiError::new(code, message, hint) }
    }

    /// There is no such thing. The same words whether it never was or is somebody else's.
    pub fn missing(what: &str) -> Self {
        let error = ApiError::new("not_found", format!("There is no such {what}."), "Check the id.");
        Self { status: StatusCode::NOT_FOUND, error }
    }

    /// There is more of it than is taken.
    pub fn too_large(message: impl Into<String>, hint: &str) -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, error: ApiError::new("too_large", message, hint) }
    }

    /// A page of the web did not come; the status says whose fault it was.
    pub(super) fn not_fetched(status: StatusCode, message: String, hint: &str) -> Self {
        Self { status, error: ApiError::new("not_fetched", message, hint) }
    }

    fn disk_full() -> Self {
        let hint = "Nothing was lost and nothing was changed. Free some space, then try again.";
        Self { status: StatusCode::INSUFFICIENT_STORAGE, error: ApiError::new("disk_full", "The disk is full.", hint) }
    }

    /// It cannot be done in the present state.
    pub fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, error: ApiError::new("conflict", message, hint) }
    }

    /// It cannot be done in the present state, for a reason with a name.
    pub fn conflict_as(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, error: ApiError::new(code, message, hint) }
    }

    /// It will exist one day.
    pub fn not_available(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_IMPLEMENTED, error: ApiError::new("not_available", message, hint) }
    }

    fn damaged(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, error: ApiError::new("damaged", message, hint) }
    }

    pub(super) fn unavailable(code: &str, message: impl Into<String>, hint: &str) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, error: ApiError::new(code, message, hint) }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        (self.status, Json(self.error)).into_response()
    }
}

impl From<StoreError> for Rejection {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing(_) => Self::missing("content"),
            StoreError::Hole(hole) => {
                let hint = format!("Go on with after={}; `choir verify` says what else is damaged.", hole.last);
                Self::damaged(format!("{hole}."), hint)
            }
            error if error.is_damage() => {
                Self::damaged(error.to_string(), "Run `choir verify` to see what is damaged.")
            }
            StoreError::File(error) if is_full(&error) => Self::disk_full(),
            StoreError::Closed => Self::unavailable("closing", "This computer is stopping.", "Try again in a moment."),
            other => {
                // The details are for the log of the process, not for whoever asked.
                tracing::error!(error = %other, source = ?std::error::Error::source(&other), "stored data could not be read");
                Self::unavailable(
                    "storage_failed",
                    "Stored data could not be read.",
                    "Check the disk; `choir doctor` helps.",
                )
            }
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl From<AppendError> for Rejection {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Full => Self::disk_full(),
            AppendError::Closed => Self::unavailable("closing", "This computer is stopping.", "Try again in a moment."),
            AppendError::Lingers => Self::unavailable(
                "erasure_unfinished",
                "The payload is erased, but a program that reads the log's file still holds its bytes.",
                "End that program (a backup, a SQLite shell), then erase again.",
            ),
            AppendError::Unremoved(_) => Self::unavailable(
                "erasure_unfinished",
                "The payload is erased, but a file that belongs to it could not be removed.",
                "Is the disk read-only, or does the file belong to somebody else? Mend that, then erase again.",
            ),
            AppendError::Missing(_) => Self::conflict(error.to_string(), "It was erased a moment ago. Send it again."),
            AppendError::TooLong { .. } => Self::too_large(error.to_string(), "Send less at once."),
            AppendError::Moved { .. } | AppendError::IdReused(_) => {
                Self::conflict(error.to_string(), "Read again, then retry.")
            }
            AppendError::Failed(source) => {
                tracing::error!(error = %source, "the log could not be written");
                // The disk may have taken it before it failed; only the next start, or the next append, will know.
                let message = "The log could not be written. Whether this was kept is not known.";
                let hint = "Nothing that was acknowledged is lost. Mend the disk, then look whether this is there \
                            before you send it again.";
                Self::unavailable("log_failed", message, hint)
            }
        }
    }
}

impl From<HarnessError> for Rejection {
    fn from(error: HarnessError) -> Self {
        match error {
            HarnessError::Append(error) => error.into(),
            HarnessError::Read(error) => error.into(),
            HarnessError::LetGo | HarnessError::Panicked(_) => StoreError::Closed.into(),
        }
    }
}

impl From<DocumentError> for Rejection {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Read(error) => error.into(),
            DocumentError::Append(error) => error.into(),
            DocumentError::Refused(refused) => {
                Self::bad("bad_document", format!("The document does not take that: {refused}."), "Send less.")
            }
        }
    }
}

impl From<ActorError> for Rejection {
    fn from(error: ActorError) -> Self {
        match error {
            ActorError::NotAtWork => {
                Self::conflict("It has ended already.", "Start a new one; a run can continue a document.")
            }
            ActorError::TooLate => {
                Self::conflict("Its changes are on their way into the workspace.", "Undo it when it has ended.")
            }
            ActorError::Desktop(Refused::NoWindow(_)) => Self::missing("window"),
            ActorError::Desktop(Refused::TooMany) => Self::conflict("There are too many windows.", "Close some."),
            ActorError::Harness(error) => error.into(),
            ActorError::Silent(_) => Self::unavailable("busy", error.to_string(), "Try again in a moment."),
        }
    }
}

/// A JSON body; what is wrong with it is said by name.
pub struct TypedJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for TypedJson<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        parse(&body(request, state).await?).map(Self)
    }
}

/// A JSON body that may be left out.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        let bytes = body(request, state).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Rejection> {
    Bytes::from_request(request, state).await.map_err(|error| Rejection {
        status: error.status(),
        error: ApiError::new("bad_body", "The body could not be read.", "Send a smaller body."),
    })
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Rejection> {
    // Every body is an object. Without this an array would do, field by field and without a name.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes).map_err(|error| unexpected(&error, ""))?;
        return Err(Rejection::bad("bad_field", "The body is an array, not an object.", "See /api/openapi.json."));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let at = place(&path).map(|place| format!(" at `{place}`")).unwrap_or_default();
        unexpected(error.inner(), &at)
    })?;
    deserializer.end().map_err(|error| unexpected(&error, ""))?;
    Ok(value)
}

fn unexpected(error: &serde_json::Error, at: &str) -> Rejection {
    let code = if error.is_data() { "bad_field" } else { "bad_json" };
    let error = in_words(&error.to_string());
    Rejection::bad(code, format!("The body is not what is expected{at}: {error}."), "See /api/openapi.json.")
}

pub(super) async fn no_route() -> Rejection {
    let error = ApiError::new("not_found", "There is no such route.", "See /api/openapi.json.");
    Rejection { status: StatusCode::NOT_FOUND, error }
}

pub(super) async fn no_method() -> Rejection {
    let error = ApiError::new("method_not_allowed", "This route does not do that.", "See /api/openapi.json.");
    Rejection { status: StatusCode::METHOD_NOT_ALLOWED, error }
}

/// An id in a path. One that cannot be read names nothing.
pub(super) fn id<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Rejection> {
    text.parse().map_err(|_| Rejection::missing(what))
}

/// An id behind the question mark. One that cannot be read is a mistake in the question.
pub(super) fn asked_id<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, Rejection> {
    let wrong = |_| Rejection::bad("bad_field", format!("`{name}` is no id."), "Give an id as the API shows it.");
    text.parse().map_err(wrong)
}

/// How many of a list are wanted: as many as there usually are when nobody says, and never more than is bearable.
pub(super) fn limit(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, Rejection> {
    match asked {
        Some(0) => Err(Rejection::bad("bad_field", "`limit` is 0.", "Ask for at least one.")),
        asked => Ok(asked.unwrap_or(usual).min(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_body_is_said_in_words_of_the_api() {
        let refused = |body: &str| match parse::<choir_proto::run::NewRun>(body.as_bytes()) {
            Err(Rejection { error: ApiError { error }, .. }) => (error.code, error.message),
            Ok(_) => panic!("{body} was taken"),
        };
        for body in ["[[[", "[", "{", "[1,"] {
            assert_eq!(refused(body).0, "bad_json", "{body}");
        }
        assert_eq!(refused("[]").0, "bad_field");
        for (body, said) in [
            (r#"{"prompt":"x","budget":7}"#, "expected an object"),
            (r#"{"prompt":"x","budget":{"usd":"much"}}"#, "expected a number"),
            (r#"{"prompt":"x","budget":{"steps":-1}}"#, "expected a whole number from 0 on"),
        ] {
            let (code, message) = refused(body);
            assert!(code == "bad_field" && message.contains(said), "{body}: {message}");
        }
    }

    #[test]
    fn a_full_disk_is_called_so_wherever_it_is_met() {
        let met = [
            Rejection::from(AppendError::Full),
            Rejection::from(StoreError::File(ErrorKind::StorageFull.into())),
            Rejection::from(StoreError::File(ErrorKind::QuotaExceeded.into())),
        ];
        for rejection in met {
            assert_eq!(
                (rejection.status, rejection.error.error.code.as_str()),
                (StatusCode::INSUFFICIENT_STORAGE, "disk_full")
            );
        }
        let other = Rejection::from(StoreError::File(ErrorKind::PermissionDenied.into()));
        assert_eq!(other.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}

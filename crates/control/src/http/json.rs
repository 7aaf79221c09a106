//! JSON bodies for control's own routes: typed, bounded, and refused by name.

use super::error::Refused;
use super::limits::JSON_BYTES_MAX;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use choir_proto::{in_words, place};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::time::Duration;

/// How long a small body may take to arrive.
const BODY: Duration = Duration::from_secs(15);

/// A typed body, in either direction.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        require_json(request.headers())?;
        let body = read(request.into_body(), JSON_BYTES_MAX).await?;
        parse(&body).map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Reads JSON; what is wrong with it is said with the path of the field.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    require_object(body)?;
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| refused(error.inner(), place(&error.path().to_string())))?;
    deserializer.end().map_err(|error| refused(&error, None))?;
    Ok(value)
}

/// Every body is an object. Without this an array would do, field by field and without a name, and what is wrong with a single
/// value would be said in words of our own code. What is no JSON at all is said elsewhere.
pub(super) fn require_object(body: &[u8]) -> Result<(), Refused> {
    let other = match body.trim_ascii_start().first() {
        Some(b'{') | None => return Ok(()),
        Some(b'[') => "an array",
        Some(b'"') => "a text",
        Some(b'n') => "`null`",
        Some(b't' | b'f') => "`true` or `false`",
        Some(_) => "a number",
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        return Ok(());
    }
    let message = format!("The body is {other}; this request takes an object.");
    Err(Refused::bad_field(message, "See /api/openapi.json for the fields of this request."))
}

fn refused(error: &serde_json::Error, path: Option<&str>) -> Refused {
    let at = path.map(|path| format!(" at `{path}`")).unwrap_or_default();
    let said = in_words(&error.to_string());
    let message = format!("The body is not what this request takes{at}: {said}.");
    let hint = "See /api/openapi.json for the fields of this request.";
    if error.is_data() { Refused::bad_field(message, hint) } else { Refused::bad_json(message, hint) }
}

/// A browser sends other content types without asking first, so none of them is taken for JSON.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Refused> {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next()).map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Refused::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        "The body of this request must be JSON.",
        "Send it with `Content-Type: application/json`.",
    ))
}

/// Reads a whole body within a size and a time.
pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Refused> {
    // A length that was announced is believed when it is too long: nobody waits for what will be refused.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Refused::too_large(bytes_max));
    }
    let collected = tokio::time::timeout(BODY, Limited::new(body, bytes_max).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refused::too_large(bytes_max)),
        Ok(Err(error)) => Err(broken(error)),
        Err(_) => Err(too_slow()),
    }
}

/// 408: half a body.
pub(super) fn too_slow() -> Refused {
    let message = "The body did not arrive in time.";
    Refused::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message, "Send the request again.")
}

/// A body that broke off, or whose chunks are none.
pub(super) fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Refused {
    let error = error.into();
    let causes = std::iter::successors(Some(&*error as &(dyn std::error::Error + 'static)), |error| error.source());
    let malformed = causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .find(|cause| matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData));
    match malformed {
        Some(cause) => {
            let message = format!("The chunks of the body cannot be read: {cause}.");
            Refused::bad_body(message, "Send each with its length in hexadecimal digits, or send Content-Length.")
        }
        None => Refused::bad_body("The body ended early.", "Send the request again."),
    }
}

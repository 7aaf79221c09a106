//! Sources and attachments: bytes that were brought in, kept by their hash.

use super::App;
use super::reject::{Rejection, id, parse};
use crate::control::NotFetched;
use crate::journal::Scope;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use choir_core::fold::evidence::Artifacts;
use choir_core::page::Format;
use choir_proto::ArtifactId;
use choir_proto::document::Artifact;
use choir_proto::event::{Actor, ArtifactImported};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;

/// The largest artifact. It is read as a whole, by us and by whoever quotes it.
const ARTIFACT_BYTES_MAX: usize = 64 << 20;

/// The longest name of a file or kind.
const NAME_CHARACTERS_MAX: usize = 300;

/// A page to bring in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromUrl {
    url: String,
}

/// Brings something in: bytes with their `Content-Type` and a name in `Content-Disposition`, or `{"url"}` as JSON. A file
/// that holds JSON needs its name.
#[utoipa::path(post, path = "/api/artifacts", request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = Artifact)))]
pub(super) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Artifact>), Rejection> {
    let bytes = Limited::new(body, ARTIFACT_BYTES_MAX).collect().await.map_err(|error| {
        if !error.is::<LengthLimitError>() {
            return Rejection::bad("bad_body", "The body ended early.", "Send the request again.");
        }
        let message = format!("An artifact has at most {ARTIFACT_BYTES_MAX} bytes.");
        Rejection::too_large(message, "Keep large things as files.")
    })?;
    let bytes = bytes.to_bytes().to_vec();
    let media_type = text(&headers, header::CONTENT_TYPE).unwrap_or_else(|| "application/octet-stream".into());
    let name = text(&headers, header::CONTENT_DISPOSITION).as_deref().and_then(file_name);
    // JSON without a name is a request like every other, and a file that holds JSON has a name.
    if name.is_none() && media_type.starts_with("application/json") {
        let FromUrl { url } = parse(&bytes)?;
        let page = app.harness.control.bring_in(url).await.map_err(|NotFetched { status, message }| {
            Rejection::not_fetched(status, message, "Send the bytes of the page, with its type in `Content-Type`.")
        })?;
        return keep(&app, page.bytes, page.media_type, page.url).await;
    }
    if bytes.is_empty() {
        return Err(Rejection::bad("empty_artifact", "There is nothing in it.", "Send the bytes of a file."));
    }
    keep(&app, bytes, media_type, name.unwrap_or_else(|| ArtifactImported::UNNAMED.to_owned())).await
}

async fn keep(
    app: &App,
    bytes: Vec<u8>,
    media_type: String,
    origin: String,
) -> Result<(StatusCode, Json<Artifact>), Rejection> {
    let journal = &app.harness.journal;
    let artifact_id = ArtifactId::new(journal.world().uuid());
    let (text, unreadable) = match Format::of(&media_type, &bytes) {
        Some(format) => match app.harness.read_alone(format, &media_type, &bytes).await {
            Ok(text) => (Some(app.harness.documents.keep(text.into_bytes()).await?), None),
            // The bytes are kept all the same: whoever brought them may have another way to read them.
            Err(why) => (None, Some(why)),
        },
        None => (None, None),
    };
    let size = bytes.len() as u64;
    let content_hash = app.harness.documents.keep(bytes).await?;
    let imported = ArtifactImported { artifact_id, content_hash, size, media_type, origin, text, unreadable };
    journal.append(&Scope::of(Actor::Person), vec![imported.into()]).await?;
    let artifact = app.harness.views.get::<Artifacts>(artifact_id).await?;
    Ok((StatusCode::CREATED, Json(artifact.ok_or_else(|| Rejection::missing("artifact"))?)))
}

/// What is known of an artifact; its bytes are under `/api/blobs/{content_hash}`.
#[utoipa::path(get, path = "/api/artifacts/{id}", params(("id" = String, Path)), responses((status = 200, body = Artifact)))]
pub(super) async fn get(State(app): State<App>, Path(artifact): Path<String>) -> Result<Json<Artifact>, Rejection> {
    let artifact: ArtifactId = id(&artifact, "artifact")?;
    let found = app.harness.views.get::<Artifacts>(artifact).await?;
    found.map(Json).ok_or_else(|| Rejection::missing("artifact"))
}

/// A header as a line that can be shown.
fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().filter(|letter| !letter.is_control()).take(NAME_CHARACTERS_MAX).collect())
}

/// The name in `attachment; filename="NAME"`. A claim, shown and never used as a path.
fn file_name(disposition: &str) -> Option<String> {
    let (_, rest) = disposition.split_once("filename=")?;
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split(';').next()?,
    };
    (!name.trim().is_empty()).then(|| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_however_it_is_written() {
        assert_eq!(file_name("attachment; filename=\"a b.md\"; x=1").as_deref(), Some("a b.md"));
        assert_eq!(file_name("attachment; filename=a.md; x=1").as_deref(), Some("a.md"));
        assert_eq!((file_name("attachment"), file_name("attachment; filename=\"\"")), (None, None));
    }
}

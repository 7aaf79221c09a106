//! What a computer may ask of control, on its own socket. Whoever asks here is that computer: no header says so.

use super::Gateway;
use crate::http::Refused;
use crate::inbox::Policy;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use choir_proto::RunId;
use choir_proto::model::Paid;
use choir_proto::wire::frames::TOGETHER_BYTES;
use choir_proto::wire::{ChangeSettings, DocumentSettings, ModelCall, ModelFrame, ToolSettings};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use std::convert::Infallible;
use tokio::sync::mpsc;

/// Longest request to a model: a long conversation with pictures.
const CALL_BYTES_MAX: usize = 64 << 20;
/// Frames that may wait for a computer that is slow to read.
const FRAMES: usize = 64;

/// The routes for models.
pub fn service(gateway: Gateway) -> Router {
    Router::new()
        .route("/model", post(model))
        .route("/settings/documents", get(documents))
        .route("/settings/changes", get(changes))
        .route("/settings/tools/{tool}", get(tool))
        .route("/paid/{run}", get(paid))
        .route("/models", get(models))
        .layer(DefaultBodyLimit::max(CALL_BYTES_MAX))
        .with_state(gateway)
}

async fn documents(State(gateway): State<Gateway>) -> axum::Json<DocumentSettings> {
    axum::Json(gateway.settings().documents)
}

async fn changes(State(gateway): State<Gateway>) -> axum::Json<ChangeSettings> {
    axum::Json(gateway.settings().changes)
}

async fn tool(State(gateway): State<Gateway>, Path(tool): Path<String>) -> axum::Json<ToolSettings> {
    axum::Json(ToolSettings { auto: gateway.settings().tools.policy(&tool) == Policy::Auto })
}

/// What a run has cost in all. Whoever asks has no call under way any more.
async fn paid(State(gateway): State<Gateway>, Path(run): Path<RunId>) -> Result<axum::Json<Paid>, Refused> {
    Ok(axum::Json(gateway.paid(run).await?))
}

async fn models(State(gateway): State<Gateway>) -> axum::Json<choir_proto::wire::Models> {
    axum::Json(gateway.models())
}

async fn model(State(gateway): State<Gateway>, body: Bytes) -> Result<Response, Refused> {
    let call: ModelCall = serde_json::from_slice(&body)
        .map_err(|error| Refused::bad_request(format!("This is no call to a model: {error}."), "Send a ModelCall."))?;
    drop(body);
    let (frames, stream) = mpsc::channel::<ModelFrame>(FRAMES);
    tokio::spawn(async move {
        tokio::select! {
            () = gateway.call(call, &frames) => {}
            // Whoever asked has gone: the connection to the provider goes too.
            () = frames.closed() => {}
        }
    });
    Ok(lines(stream))
}

/// One JSON line for each message, sent as soon as it is there. Lines that wait already go with it.
pub(crate) fn lines<T: Serialize + Send + 'static>(messages: mpsc::Receiver<T>) -> Response {
    let stream = futures_util::stream::unfold(messages, |mut messages| async {
        let mut lines = Vec::new();
        let mut next = Some(messages.recv().await?);
        while let Some(message) = next {
            serde_json::to_writer(&mut lines, &message).expect("frames are plain data");
            lines.push(b'\n');
            next = if lines.len() < TOGETHER_BYTES { messages.try_recv().ok() } else { None };
        }
        Some((Ok::<_, Infallible>(Bytes::from(lines)), messages))
    });
    let mut response = Body::from_stream(stream).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

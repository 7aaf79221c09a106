//! The desktop, the actor tree and blobs.

use super::App as Computer;
use super::reject::{Rejection, TypedJson, id};
use crate::actor::{DesktopMessage, SessionMessage};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use choir_core::fold::desktop::Desktops;
use choir_proto::api::{Acknowledged, Supervision};
use choir_proto::desktop::{App, Desktop, DesktopCommand};
use choir_proto::{Hash, Seq};
use http::header;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The desktop and the position of the log that it stands for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DesktopAt {
    #[serde(flatten)]
    desktop: Desktop,
    apps: [Installed; App::INSTALLED.len()],
    seq: Seq,
}

/// An app that can be opened.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Installed {
    app: App,
    title: &'static str,
}

impl From<App> for Installed {
    fn from(app: App) -> Self {
        Self { app, title: app.name() }
    }
}

/// Windows, theme and apps.
#[utoipa::path(get, path = "/api/desktop", responses((status = 200, body = DesktopAt)))]
pub(super) async fn desktop(State(app): State<Computer>) -> Result<Json<DesktopAt>, Rejection> {
    // Read before the view: folding an event twice is harmless here, missing one is not.
    let seq = app.harness.journal.log().head().seq;
    let desktop = app.harness.views.get::<Desktops>(Desktops::KEY).await?.unwrap_or_default();
    Ok(Json(DesktopAt { desktop, apps: App::INSTALLED.map(Installed::from), seq }))
}

/// Does something to a window.
#[utoipa::path(post, path = "/api/desktop", request_body = DesktopCommand, responses((status = 200, body = Acknowledged)))]
pub(super) async fn command(
    State(app): State<Computer>,
    TypedJson(command): TypedJson<DesktopCommand>,
) -> Result<Json<Acknowledged>, Rejection> {
    let message = |reply| SessionMessage::Desktop(DesktopMessage::Command(Box::new(command), reply));
    let seq = app.session.ask("the desktop", message).await?;
    Ok(Json(Acknowledged { seq }))
}

/// The actor tree. Its root is the computer's process, whose restarts are counted since control started.
#[utoipa::path(get, path = "/api/supervision", responses((status = 200, body = Supervision)))]
pub(super) async fn supervision(State(app): State<Computer>) -> Json<Supervision> {
    Json(Supervision { actors: app.tree.list() })
}

/// Stored content by its hash: bytes to save, never a page to show.
#[utoipa::path(get, path = "/api/blobs/{hash}", params(("hash" = String, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
pub(super) async fn blob(State(app): State<Computer>, Path(hash): Path<String>) -> Result<Response, Rejection> {
    let hash: Hash = id(&hash, "content")?;
    let blobs = Arc::clone(app.harness.journal.log().blobs());
    let read = tokio::task::spawn_blocking(move || blobs.get(&hash));
    let bytes = read.await.map_err(|_| choir_store::StoreError::Closed)??;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, bytes).into_response())
}

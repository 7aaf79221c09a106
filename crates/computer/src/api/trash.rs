//! The trash: what a person does not want to see any more. Nothing is deleted; a removed thing is only not listed.

use super::App;
use super::reject::{OptionalJson, Rejection};
use super::runs::Nothing;
use super::{documents, runs};
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, State};
use choir_proto::Event;
use choir_proto::api::Acknowledged;
use choir_proto::event::{Actor, DocumentRemoved, DocumentRestored, RunRemoved, RunRestored};

/// Puts a document into the trash.
#[utoipa::path(post, path = "/api/documents/{id}/trash", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn remove_document(
    State(app): State<App>,
    Path(document): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let document_id = documents::find(&app, &document).await?.document_id;
    said(&app, Scope::of(Actor::Person), DocumentRemoved { document_id }.into()).await
}

/// Takes a document out of the trash.
#[utoipa::path(post, path = "/api/documents/{id}/restore", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn restore_document(
    State(app): State<App>,
    Path(document): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let document_id = documents::find(&app, &document).await?.document_id;
    said(&app, Scope::of(Actor::Person), DocumentRestored { document_id }.into()).await
}

/// Puts a run into the trash, if it has ended: what goes on must stay in sight.
#[utoipa::path(post, path = "/api/runs/{id}/trash", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn remove_run(
    State(app): State<App>,
    Path(run): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let run = runs::find(&app, &run).await?;
    if !run.status.is_ending() {
        let message = "This run has not ended.";
        return Err(Rejection::conflict_as("at_work", message, "Cancel it first, or wait for its end."));
    }
    said(&app, Scope::of(Actor::Person).run(run.run_id), RunRemoved {}.into()).await
}

/// Takes a run out of the trash.
#[utoipa::path(post, path = "/api/runs/{id}/restore", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn restore_run(
    State(app): State<App>,
    Path(run): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let run = runs::find(&app, &run).await?.run_id;
    said(&app, Scope::of(Actor::Person).run(run), RunRestored {}.into()).await
}

async fn said(app: &App, scope: Scope, event: Event) -> Result<Json<Acknowledged>, Rejection> {
    let seq = app.harness.journal.append(&scope, vec![event]).await?;
    Ok(Json(Acknowledged { seq }))
}

//! What a run did, from the prompt to every tool call.

use super::App;
use super::reject::Rejection;
use super::runs::find;
use crate::harness::Past;
use axum::Json;
use axum::extract::{Path, State};
use choir_core::trace::Tracing;
use choir_proto::trace::Trace;

/// A run's spans: parents before children, with times and cost.
#[utoipa::path(get, path = "/api/runs/{id}/trace", params(("id" = String, Path)), responses((status = 200, body = Trace)))]
pub(super) async fn get(State(app): State<App>, Path(run): Path<String>) -> Result<Json<Trace>, Rejection> {
    let run = find(&app, &run).await?.run_id;
    let mut tracing = Tracing::new(run);
    for (header, event) in Past::read(app.harness.journal.log(), run).await?.events() {
        tracing.apply(header, event);
    }
    Ok(Json(tracing.finish()))
}

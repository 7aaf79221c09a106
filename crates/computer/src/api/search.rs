//! Finding things by their words.

use super::App;
use super::reject::{Rejection, limit};
use axum::Json;
use axum::extract::{Query, State};
use choir_proto::api::SearchResults;
use serde::Deserialize;
use utoipa::IntoParams;

/// Results in one answer when nobody says.
const LIMIT: usize = 20;

/// Results in one answer at most.
const LIMIT_MAX: usize = 100;

/// The longest question.
const QUESTION_BYTES_MAX: usize = 1024;

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// Words; the last one may be only begun.
    q: String,
    /// At most so many results.
    limit: Option<usize>,
}

/// Documents, runs, artifacts, files and events that hold every word.
#[utoipa::path(get, path = "/api/search", params(Question), responses((status = 200, body = SearchResults)))]
pub(super) async fn search(
    State(app): State<App>,
    Query(question): Query<Question>,
) -> Result<Json<SearchResults>, Rejection> {
    if question.q.len() > QUESTION_BYTES_MAX {
        let message = format!("A search holds at most {QUESTION_BYTES_MAX} bytes.");
        return Err(Rejection::bad("search_too_long", message, "Use a few words."));
    }
    let limit = limit(question.limit, LIMIT, LIMIT_MAX)?;
    Ok(Json(SearchResults { results: app.harness.finder.find(&question.q, limit).await? }))
}

//! `/api/trees…`: what lies between two trees, through the keeper.

use super::App;
use super::error::Refused;
use super::extract::Asked;
use crate::sandboxes::trees;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use choir_proto::Hash;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Deserialize;

/// Between which trees.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Between {
    from: Hash,
    to: Hash,
}

/// The whole difference between two trees, however long it is, in git's format.
#[utoipa::path(get, path = "/api/trees/diff", tag = "files",
    params(("from" = String, Query, description = "a `base_tree`"), ("to" = String, Query, description = "a `result_tree`")),
    responses((status = 200, content_type = "application/octet-stream"), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn diff(State(app): State<App>, Asked(between): Asked<Between>) -> Result<Response, Refused> {
    let whole = app.sandboxes.by_keeper(|keeper| trees::whole_diff(keeper, (between.from, between.to))).await?;
    let mut response = whole.into_response();
    let headers = response.headers_mut();
    // Whatever the files say, nothing of a workspace runs on our origin.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

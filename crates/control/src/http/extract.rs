//! Queries and names in paths: refused in the one shape, like bodies.

use super::error::Refused;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use serde::de::DeserializeOwned;

/// What stands behind the question mark.
#[derive(Debug)]
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let query = Query::from_request_parts(parts, state).await;
        let hint = "See /api/openapi.json for the parameters of this request.";
        query.map(|Query(query)| Self(query)).map_err(|error| Refused::bad_field(what_is_wrong(&error), hint))
    }
}

/// What is wrong with a query.
pub(super) fn what_is_wrong(error: &QueryRejection) -> String {
    format!("{}.", in_our_words(&error.body_text()))
}

/// A complaint about a query without the words of whoever read it for us.
pub(super) fn in_our_words(said: &str) -> String {
    match said.strip_prefix("Failed to deserialize query string: ") {
        Some(what) => format!("The query is not what this route takes: {what}"),
        None => said.to_owned(),
    }
}

/// A name in the path. One that cannot be read names nothing.
#[derive(Debug)]
pub(super) struct Named<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Path::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(|_| Refused::not_found())
    }
}

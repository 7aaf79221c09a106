//! Queries and names in paths: refused in the one shape, like bodies.

use super::error::Refused;
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
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| Refused::bad_field(format!("{}.", error.body_text()), hint))
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

//! `/api/tokens…`: which programs may come in. A token itself is shown once, by `choir token create`.

use super::App;
use super::error::Refused;
use super::extract::Named;
use super::json::Json;
use axum::extract::State;
use choir_proto::Timestamp;
use http::StatusCode;
use serde::Serialize;

/// Every token.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Tokens {
    tokens: Vec<Shown>,
}

/// A token without what makes it one.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Token)]
struct Shown {
    token_id: String,
    name: String,
    /// `read`, `run` or `admin`.
    scope: &'static str,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// Every token that opens something.
#[utoipa::path(get, path = "/api/tokens", tag = "session", responses((status = 200, body = Tokens)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Tokens>, Refused> {
    let tokens = app.db.tokens(app.clock.now()).await?;
    let shown = tokens.into_iter().map(|token| Shown {
        token_id: token.id,
        name: token.name,
        scope: token.scope.name(),
        created_at: token.created,
        expires_at: token.expires,
    });
    Ok(Json(Tokens { tokens: shown.collect() }))
}

/// Ends a token, here and in every open connection that it opened.
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "session", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn revoke(State(app): State<App>, Named(id): Named<String>) -> Result<StatusCode, Refused> {
    if !app.db.remove_token(id).await? {
        return Err(Refused::not_found());
    }
    app.revoked.send_replace(());
    Ok(StatusCode::NO_CONTENT)
}

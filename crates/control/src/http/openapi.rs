//! `GET /api/openapi.json`: control's own routes and the computer's, as one description.

use super::App;
use super::json::Json;
use super::{files, health, providers, session, settings, stream, terminals};
use axum::extract::State;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(title = "ChoirOS", description = "An automatic computer: one log, living documents, isolated work."),
    paths(health::get, settings::get, settings::put, providers::put, providers::test, session::end, stream::open, get,
        files::list, files::read, files::write, files::remove, files::rename,
        terminals::list, terminals::open, terminals::close, terminals::attach),
    components(schemas(choir_proto::ApiError, choir_proto::Envelope)),
    security(("session" = []), ("token" = []))
)]
struct Control;

/// Control's own part of the description.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut description = Control::openapi();
    let components = description.components.get_or_insert_default();
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(super::COOKIE_NAME)));
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    components.add_security_scheme("session", cookie);
    components.add_security_scheme("token", bearer);
    description
}

/// The complete description of this API.
#[utoipa::path(get, path = "/api/openapi.json", tag = "description", responses((status = 200)))]
pub(super) async fn get(State(app): State<App>) -> Json<utoipa::openapi::OpenApi> {
    let mut description = openapi();
    description.merge(app.computer_api.clone());
    Json(description)
}

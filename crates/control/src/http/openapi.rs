//! `GET /api/openapi.json`: control's own routes and the computer's, as one description.

use super::App;
use super::json::Json;
use super::{
    files, health, inbox, providers, session, settings, stream, supervision, sync, terminals, tokens, tours, trees,
};
use axum::extract::State;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

#[derive(OpenApi)]
#[openapi(
    info(title = "ChoirOS", description = "An automatic computer: one log, living documents, isolated work."),
    paths(health::get, settings::get, settings::put, providers::put, providers::test, session::end, stream::open, supervision::get, get,
        files::list, files::read, files::write, files::remove, files::rename, inbox::list, inbox::decide,
        sync::open, terminals::list, terminals::open, terminals::close, terminals::attach, tokens::list, tokens::revoke,
        tours::begin, tours::pull_the_plug, trees::diff),
    components(schemas(choir_proto::ApiError, choir_proto::Envelope)),
    security(("session" = []), ("token" = []))
)]
struct Control;

/// What can be refused anywhere under `/api`, whatever a route says of itself.
const REFUSALS: [(&str, &str); 6] = [
    ("400", "The request is not what this route takes; the message names what is wrong."),
    ("401", "Nobody is signed in."),
    ("403", "The token's scope is too narrow, or the request comes from another site."),
    ("413", "The body is too long."),
    ("429", "Too many requests; `Retry-After` says when to come back."),
    ("default", "Refused in another way, in the same shape."),
];

/// What goes well, where a route has no better word for it.
const WELL: [(&str, &str); 5] = [
    ("101", "From here on the connection is a WebSocket."),
    ("200", "What was asked for."),
    ("201", "It is made."),
    ("202", "It is in the log, and done from there."),
    ("204", "It is done; there is nothing to say."),
];

/// What can be refused where one thing is named.
const OF_ONE: (&str, &str) = ("404", "There is no such thing here, or not for you.");

/// What can be refused where something is changed.
const OF_CHANGE: (&str, &str) = ("409", "It is not in a state for that, or was changed meanwhile.");

/// The whole description: control's part and a computer's.
pub fn openapi(computer: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let mut description = Control::openapi();
    description.merge(computer);
    let components = description.components.get_or_insert_default();
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(cookie()));
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    components.add_security_scheme("session", cookie);
    components.add_security_scheme("token", bearer);
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in operations(item) {
            operation.operation_id = Some(operation_id(method, path));
            describe(operation);
            if path.starts_with("/api/") {
                let of_one = path.contains('{').then_some(OF_ONE);
                let of_change = (method != "get").then_some(OF_CHANGE);
                add_refusals(operation, of_one.into_iter().chain(of_change));
            }
        }
    }
    description
}

/// One description for all instances: what differs between their cookies is said, not shown.
fn cookie() -> ApiKeyValue {
    let name = format!("{}ID", super::CookieName::PREFIX);
    let description = "`ID` stands for eight digits of the instance's own: cookies are shared by all ports of a host.";
    ApiKeyValue::with_description(name, description.to_owned())
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, .. } = item;
    let all = [("get", get), ("put", put), ("post", post), ("delete", delete)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Names of handlers repeat from module to module; what they do to what does not.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(['/', '.', '{', '}']).filter(|word| !word.is_empty() && *word != "api");
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// Says something of every answer: a description of OpenAPI has to.
fn describe(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            let well = WELL.iter().find(|(known, _)| known == status);
            response.description = well.map_or(OF_ONE.1, |(_, description)| description).to_owned();
        }
    }
}

fn add_refusals(operation: &mut Operation, more: impl Iterator<Item = (&'static str, &'static str)>) {
    for (status, description) in REFUSALS.into_iter().chain(more) {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| refusal(description).into());
    }
}

fn refusal(description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// The complete description of this API.
#[utoipa::path(get, path = "/api/openapi.json", tag = "description", responses((status = 200, body = Object)))]
pub(super) async fn get(State(app): State<App>) -> Json<utoipa::openapi::OpenApi> {
    Json(openapi((app.computer_api)()))
}

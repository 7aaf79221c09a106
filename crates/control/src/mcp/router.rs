//! What a computer may ask of servers, on its own socket.

use super::{Error, Servers};
use crate::http::Refused;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use choir_proto::wire::mcp::{Called, Offers};
use http::StatusCode;
use serde::de::DeserializeOwned;

/// The longest call.
const CALL_BYTES_MAX: usize = 4 << 20;

/// The routes for tools from elsewhere.
pub fn service(servers: Servers) -> Router {
    Router::new()
        .route("/mcp/tools", post(tools))
        .route("/mcp/call", post(call))
        .layer(DefaultBodyLimit::max(CALL_BYTES_MAX))
        .with_state(servers)
}

async fn tools(State(servers): State<Servers>, body: Bytes) -> Result<axum::Json<Offers>, Refused> {
    Ok(axum::Json(servers.offers(parse(&body)?).await))
}

async fn call(State(servers): State<Servers>, body: Bytes) -> Result<axum::Json<Called>, Refused> {
    Ok(axum::Json(servers.call(parse(&body)?).await?))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::bad_request(format!("This cannot be read: {error}."), "See the wire messages."))
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Sandboxes(error) => error.into(),
            Error::Db(error) => error.into(),
            Error::NotAllowed => Self::new(
                StatusCode::FORBIDDEN,
                "not_allowed",
                "The person has not allowed this.",
                "Ask for it first, and change nothing of it.",
            ),
            Error::NoServer(_) => {
                Self::new(StatusCode::NOT_FOUND, "no_server", format!("{error}."), "Look at `[mcp]` in choir.toml.")
            }
            Error::Record(error) => Self::new(
                StatusCode::CONFLICT,
                "not_recorded",
                format!("{error}."),
                "Look at the record of the effect.",
            ),
        }
    }
}

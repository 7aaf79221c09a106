//! What a computer may ask of the person, on its own socket.

use super::Inbox;
use crate::http::Refused;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::{post, put};
use choir_proto::InboxId;
use choir_proto::inbox::{Ask, Asked, Verdict};
use std::collections::BTreeSet;

/// Longest question or call that is put to a person. More than that nobody reads before saying yes.
const ASK_BYTES_MAX: usize = 1 << 20;

/// The routes for questions.
pub fn service(inbox: Inbox) -> Router {
    Router::new()
        .route("/inbox/{id}", put(ask).get(verdict).delete(withdraw))
        .route("/tools/free", post(free))
        .layer(DefaultBodyLimit::max(ASK_BYTES_MAX))
        .with_state(inbox)
}

async fn ask(State(inbox): State<Inbox>, Path(id): Path<InboxId>, body: Bytes) -> Result<axum::Json<Asked>, Refused> {
    let ask: Ask = serde_json::from_slice(&body)
        .map_err(|error| Refused::bad_request(format!("This is no question: {error}."), "Send an Ask."))?;
    Ok(axum::Json(inbox.ask(id, ask).await?))
}

/// Which of these tools nobody has to be asked about.
async fn free(State(inbox): State<Inbox>, body: Bytes) -> Result<axum::Json<BTreeSet<String>>, Refused> {
    let tools: BTreeSet<String> = serde_json::from_slice(&body)
        .map_err(|error| Refused::bad_request(format!("These are no tools: {error}."), "Send a list of names."))?;
    Ok(axum::Json(tools.into_iter().filter(|tool| inbox.judge.is_free(tool)).collect()))
}

/// Answers when the person has spoken, however long that takes.
async fn verdict(State(inbox): State<Inbox>, Path(id): Path<InboxId>) -> Result<axum::Json<Verdict>, Refused> {
    Ok(axum::Json(inbox.verdict(id).await?))
}

async fn withdraw(State(inbox): State<Inbox>, Path(id): Path<InboxId>) -> Result<axum::Json<Option<Verdict>>, Refused> {
    Ok(axum::Json(inbox.withdraw(id).await?))
}

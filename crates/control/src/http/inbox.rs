//! `/api/inbox`: what waits for a person's word. A decision names the hash of what was shown; anything else is void.

use super::App;
use super::error::Refused;
use super::extract::Named;
use super::json::Json;
use crate::db::{Approval, Decided, Outcome, Reach};
use axum::extract::State;
use choir_proto::{Hash, TaskId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What waits.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Inbox {
    inbox: Vec<Item>,
}

/// One question.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = InboxItem)]
struct Item {
    id: String,
    /// `egress`: a task wants to reach what lies above the ceiling.
    kind: &'static str,
    /// In a sentence.
    question: String,
    /// What is wanted, exactly.
    subject: String,
    /// To be repeated by the decision.
    hash: Hash,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    asked_at: Timestamp,
}

/// A person's word.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    decision: Word,
    /// Of what was shown.
    hash: Hash,
    scope: Reach,
    /// For answers.
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DecisionWord)]
enum Word {
    Approve,
    Deny,
    Answer,
}

/// What counts now.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Decided)]
pub(super) struct Kept {
    id: String,
    decision: Word,
    scope: Reach,
}

/// Everything that waits for a person, oldest first.
#[utoipa::path(get, path = "/api/inbox", tag = "inbox", responses((status = 200, body = Inbox)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Inbox>, Refused> {
    Ok(Json(Inbox { inbox: app.db.waiting().await?.into_iter().map(item).collect() }))
}

/// Decides. What was approved for a task holds when its sandbox is started next.
#[utoipa::path(post, path = "/api/inbox/{id}", tag = "inbox", params(("id" = String, Path)), request_body = Decision,
    responses((status = 200, body = Kept), (status = 404, body = choir_proto::ApiError),
        (status = 409, description = "It was decided before, or something else was shown", body = choir_proto::ApiError)))]
pub(super) async fn decide(
    State(app): State<App>,
    Named(id): Named<Uuid>,
    Json(decision): Json<Decision>,
) -> Result<Json<Kept>, Refused> {
    let approved = match (decision.decision, &decision.text) {
        (Word::Approve, None) => true,
        (Word::Deny, None) => false,
        (Word::Answer, _) | (_, Some(_)) => {
            return Err(Refused::bad_request("This is not a question that takes a text.", "Approve it or deny it."));
        }
    };
    if decision.scope == Reach::Run {
        let hint = "Decide `once`, for the task that asked, or `always`.";
        return Err(Refused::bad_request("What a task wants to reach cannot be decided for its run yet.", hint));
    }
    let decided = Decided { approved, reach: decision.scope };
    match app.db.decide(id, decision.hash, decided, app.clock.now()).await? {
        Outcome::Kept(approval) => {
            tracing::info!(id = %approval.id, approved, reach = decision.scope.name(), "a person decided");
            Ok(Json(Kept { id: id.to_string(), decision: decision.decision, scope: decision.scope }))
        }
        Outcome::Unknown => Err(Refused::not_found()),
        Outcome::Differs => {
            Err(conflict("hash_differs", "The hash is not that of what waits here.", "Read the inbox again, and look."))
        }
        Outcome::Before(_) => Err(conflict("decided", "It was decided before.", "What was decided first counts.")),
    }
}

fn conflict(code: &str, message: &str, hint: &str) -> Refused {
    Refused::new(StatusCode::CONFLICT, code, message, hint)
}

fn item(approval: Approval) -> Item {
    Item {
        id: approval.id.to_string(),
        kind: "egress",
        question: format!("May a task reach {}?", approval.entry.escape_debug()),
        subject: approval.entry,
        hash: approval.hash,
        task_id: approval.task,
        asked_at: approval.asked,
    }
}

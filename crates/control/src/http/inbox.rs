//! `/api/inbox`: what waits for a person's word. A decision names the hash of what was shown; anything else is void.

use super::App;
use super::error::Refused;
use super::extract::Named;
use super::json::Json;
use crate::db::{Approval, Outcome};
use axum::extract::State;
use choir_proto::inbox::{AskKind, Reach, Verdict};
use choir_proto::task::Side;
use choir_proto::{Hash, InboxId, RunId, TaskId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// Longest answer to a question. More than that is a document or an artifact.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What waits.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Inbox {
    inbox: Vec<Item>,
}

/// One question.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = InboxItem)]
struct Item {
    id: InboxId,
    kind: AskKind,
    /// In a sentence.
    question: String,
    /// What is wanted, exactly; in questions for a yes, characters that cannot be seen are written out.
    subject: String,
    /// To be repeated by the decision.
    hash: Hash,
    /// The words of which one is an answer; absent where any text is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    answers: Vec<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
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
    #[serde(default)]
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
    id: InboxId,
    decision: Word,
    scope: Reach,
}

/// Everything that waits for a person, oldest first.
#[utoipa::path(get, path = "/api/inbox", tag = "inbox", responses((status = 200, body = Inbox)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Inbox>, Refused> {
    Ok(Json(Inbox { inbox: app.inbox.waiting().await?.into_iter().map(item).collect() }))
}

/// Decides. Whoever waits for it goes on at once.
#[utoipa::path(post, path = "/api/inbox/{id}", tag = "inbox", params(("id" = String, Path)), request_body = Decision,
    responses((status = 200, body = Kept), (status = 404, body = choir_proto::ApiError),
        (status = 409, description = "It was decided before, or something else was shown", body = choir_proto::ApiError)))]
pub(super) async fn decide(
    State(app): State<App>,
    Named(id): Named<InboxId>,
    Json(decision): Json<Decision>,
) -> Result<Json<Kept>, Refused> {
    let approval = app.inbox.find(id).await?.ok_or_else(Refused::not_found)?;
    let Decision { decision: word, hash, scope, text } = decision;
    let verdict = verdict(&approval, word, scope, text)?;
    match app.inbox.decide(id, hash, verdict).await? {
        Outcome::Kept(approval) => {
            tracing::info!(id = %approval.id, kind = approval.kind.name(), ?word, "a person decided");
            Ok(Json(Kept { id, decision: word, scope }))
        }
        Outcome::Unknown => Err(Refused::not_found()),
        Outcome::Differs => {
            Err(conflict("hash_differs", "The hash is not that of what waits here.", "Read the inbox again, and look."))
        }
        Outcome::Before(_) => Err(conflict("decided", "It was decided before.", "What was decided first counts.")),
    }
}

/// What a word means for what was asked.
fn verdict(approval: &Approval, word: Word, scope: Reach, text: Option<String>) -> Result<Verdict, Refused> {
    if scope == Reach::Run && approval.run.is_none() {
        let hint = "Decide `once` or `always`.";
        return Err(Refused::bad_field("This belongs to no run, so it cannot be decided for one.", hint));
    }
    match (approval.kind, word, text) {
        (_, Word::Deny, None) => Ok(Verdict::Denied { scope }),
        (AskKind::Question, Word::Answer, Some(text)) if text.len() <= ANSWER_BYTES_MAX => {
            Ok(Verdict::Answered { text })
        }
        (AskKind::Question, Word::Answer, Some(_)) => {
            let message = format!("The answer is longer than {ANSWER_BYTES_MAX} bytes.");
            Err(Refused::bad_field(message, "Put long texts into files of the workspace."))
        }
        (AskKind::Question, _, _) => {
            Err(Refused::bad_field("This is a question: `answer` it with a `text`.", "Or `deny` to answer it."))
        }
        (_, Word::Approve, None) => Ok(Verdict::Approved { scope }),
        (_, Word::Answer, _) | (_, _, Some(_)) => {
            Err(Refused::bad_field("This is not a question that takes a text.", "Approve it or deny it."))
        }
    }
}

fn conflict(code: &str, message: &str, hint: &str) -> Refused {
    Refused::new(StatusCode::CONFLICT, code, message, hint)
}

fn item(approval: Approval) -> Item {
    let Approval { id, kind, run, task, entry, question, hash, answers, asked, .. } = approval;
    let subject = if kind == AskKind::Question { entry } else { visible(&entry) };
    Item { id, kind, question, subject, hash, answers, run_id: run, task_id: task, asked_at: asked }
}

/// A text in which nothing hides: whoever says yes to a command must see what it holds. Lines stay lines, but none that is
/// empty: many of them would push the rest out of sight.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = '\0';
    for c in text.chars() {
        match c {
            '\n' if before == '\n' => shown.push_str("\\n\n"),
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || hides(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
        before = c;
    }
    shown
}

/// Characters that take no room, look like a blank or turn the text around.
fn hides(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}'
        | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_what_is_shown() {
        assert_eq!(visible("rm \u{202e}x\u{200b}\u{1b}[2K\ny"), "rm \\u{202e}x\\u{200b}\\u{1b}[2K\ny");
        assert_eq!(visible("grüße 你好"), "grüße 你好");
        let blanks = "\u{3164}\u{115f}\u{ffa0}\u{34f}\u{2800}\u{17b4}\u{180b}\u{fff9}\u{1d173}\u{a0}\u{2003}\u{3000}\u{2062}\u{e0041}";
        assert_eq!(visible(blanks).matches("\\u{").count(), blanks.chars().count());
        assert_eq!(visible("a\n\n\nrm b"), "a\n\\n\n\\n\nrm b", "empty lines are seen");
    }
}

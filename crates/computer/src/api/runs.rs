//! Runs: accepted in milliseconds, whatever the model does.

use super::App;
use super::reject::{OptionalJson, Rejection, TypedJson, asked_id, id, limit};
use crate::actor::{ActorError, RunCommand, SessionMessage};
use crate::harness::Harness;
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, Query, State};
use choir_core::evidence::byte;
use choir_core::fold::Fold;
use choir_core::fold::evidence::Artifacts;
use choir_core::fold::run::Runs;
use choir_proto::api::{Acknowledged, RunAccepted, Steer};
use choir_proto::event::Actor;
use choir_proto::run::{Context, NewRun, Run, Selection};
use choir_proto::task::Budget;
use choir_proto::{DocumentId, RunId, Seq, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// The longest prompt. More than that is a document or an artifact.
const PROMPT_BYTES_MAX: usize = 256 * 1024;

/// The longest selection. More than that is the document.
const SELECTION_BYTES_MAX: usize = 64 * 1024;

/// Rows in one list.
const LIST_MAX: usize = 100;

/// How often more is read to fill a page. Whoever is told where to go on goes on from there.
const LOOKS_MAX: usize = 100;

/// Characters of a title that was made from a prompt.
const TITLE_CHARACTERS_MAX: usize = 60;

/// Which part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Start after this one.
    before: Option<String>,
    /// At most so many.
    limit: Option<usize>,
    /// What is in the trash, instead of what is not.
    #[serde(default)]
    removed: bool,
}

impl Page {
    pub(super) fn limit(&self) -> Result<usize, Rejection> {
        limit(self.limit, LIST_MAX, LIST_MAX)
    }

    /// What is in the trash, or what is not, and where to go on. What is not wanted is read over, so that a page is as full as
    /// there is something to fill it with; but not without end.
    pub(super) async fn fill<F: Fold, Id: FromStr + ToString>(
        &self,
        app: &App,
        removed_at: impl Fn(&F::Row) -> Option<Timestamp>,
    ) -> Result<(Vec<F::Row>, Option<String>), Rejection> {
        let (mut before, limit) = (self.before::<Id>()?, self.limit()?);
        let (mut wanted, mut looks) = (Vec::new(), LOOKS_MAX);
        // Mostly the first look is enough; whoever looks again looks at more at once.
        let mut at_once = limit;
        while wanted.len() < limit && looks > 0 {
            let rows = app.harness.views.newest::<F>(before, at_once).await?;
            let is_last = rows.len() < at_once;
            before = None;
            for (key, row) in rows {
                if wanted.len() == limit {
                    return Ok((wanted, before));
                }
                before = Some(key);
                wanted.extend(Some(row).filter(|row| removed_at(row).is_some() == self.removed));
            }
            if is_last {
                return Ok((wanted, None));
            }
            (at_once, looks) = (LIST_MAX, looks - 1);
        }
        Ok((wanted, before))
    }

    /// The key of the row after which the page begins.
    pub(super) fn before<Id: FromStr + ToString>(&self) -> Result<Option<String>, Rejection> {
        let id = self.before.as_deref().map(|before| asked_id::<Id>(before, "before")).transpose()?;
        Ok(id.map(|id| id.to_string()))
    }
}

/// A body that says nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunList {
    runs: Vec<Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Gives the computer an objective.
#[utoipa::path(post, path = "/api/runs", request_body = NewRun, responses((status = 202, body = RunAccepted)))]
pub(super) async fn create(
    State(app): State<App>,
    TypedJson(mut request): TypedJson<NewRun>,
) -> Result<(StatusCode, Json<RunAccepted>), Rejection> {
    check(&request)?;
    find_context(&app, &request.context).await?;
    let journal = &app.harness.journal;
    let run_id = RunId::new(journal.world().uuid());
    let (document_id, mut facts) = match request.document_id {
        Some(document) => {
            let head = app.harness.documents.find(document).await?.ok_or_else(|| Rejection::missing("document"))?;
            if let Some(selection) = &mut request.selection {
                let text = app.harness.documents.head_text(&head).await?;
                selection.quote = Some(selected(&text, selection)?);
            }
            (document, Vec::new())
        }
        None => {
            let document = DocumentId::new(journal.world().uuid());
            let title = title(&request.prompt);
            (document, app.harness.documents.create(document, &title, &request.prompt, "the prompt").await?)
        }
    };
    let accepted = choir_proto::event::RunAccepted { request, document_id: Some(document_id) };
    facts.insert(0, accepted.into());
    let scope = Scope::of(Actor::Person).run(run_id);
    let after_it = facts.len() as u64 - 1;
    // Where the run begins, so that whoever follows from there misses nothing of it.
    let seat = app.session.seat().await?;
    let seq = Seq(journal.append(&scope, facts).await?.0 - after_it);
    app.session.tell(seat, SessionMessage::Start(run_id));
    Ok((StatusCode::ACCEPTED, Json(RunAccepted { run_id, seq })))
}

/// What a person points at is there, as far as that can be known at once. Files and pages are looked for by whoever reads them.
async fn find_context(app: &App, contexts: &[Context]) -> Result<(), Rejection> {
    let Harness { documents, views, .. } = &app.harness;
    for context in contexts {
        let (what, is_there) = match context {
            Context::Document(document) => ("document", documents.find(document.document_id).await?.is_some()),
            Context::Artifact(artifact) => ("artifact", views.get::<Artifacts>(artifact.artifact_id).await?.is_some()),
            Context::Run(run) => ("run", views.get::<Runs>(run.run_id).await?.is_some()),
            // Where nobody can be asked, the agents will see for themselves.
            Context::Path(at) => {
                ("file", app.harness.control.live(at.path.clone()).await.map_or(true, |live| live.is_there))
            }
            Context::Url(_) => continue,
        };
        if !is_there {
            return Err(Rejection::missing(what));
        }
    }
    Ok(())
}

fn check(request: &NewRun) -> Result<(), Rejection> {
    if request.prompt.chars().all(|c| c.is_whitespace() || c.is_control()) {
        return Err(Rejection::bad("empty_prompt", "The prompt is empty.", "Say what you want done."));
    }
    check_budget(request.budget.as_ref())?;
    if request.selection.is_some() && request.document_id.is_none() {
        return Err(Rejection::bad("bad_selection", "A selection is of a document.", "Give `document_id` too."));
    }
    request.context.iter().try_for_each(check_context)?;
    if request.prompt.len() > PROMPT_BYTES_MAX {
        let message = format!("The prompt is longer than {PROMPT_BYTES_MAX} bytes.");
        return Err(Rejection::bad("prompt_too_long", message, "Attach long texts as files."));
    }
    Ok(())
}

/// The words that a person selected.
fn selected(text: &str, selection: &Selection) -> Result<String, Rejection> {
    let (from, to) = (byte(text, selection.from), byte(text, selection.to));
    match text.get(from..to) {
        Some(words) if !words.trim().is_empty() && words.len() <= SELECTION_BYTES_MAX => Ok(words.to_owned()),
        _ => Err(Rejection::bad(
            "bad_selection",
            format!("A selection holds from 1 to {SELECTION_BYTES_MAX} bytes of the document."),
            "Give `from` and `to` in characters of the newest version.",
        )),
    }
}

/// What a person points at must at least be something that can be pointed at.
fn check_context(context: &Context) -> Result<(), Rejection> {
    let wrong = match context {
        Context::Document(range) if range.from.zip(range.to).is_some_and(|(from, to)| from > to) => "range",
        Context::Path(path) if !is_inside(&path.path) => "path",
        Context::Url(url) if !url.url.starts_with("http://") && !url.url.starts_with("https://") => "url",
        _ => return Ok(()),
    };
    let message = format!("A {wrong} in `context` points nowhere.");
    Err(Rejection::bad(
        "bad_context",
        message,
        "Name a file of the workspace, an http address, or a range from start to end.",
    ))
}

/// Whether a path stays in the workspace by its words alone; links are the keeper's business.
fn is_inside(path: &str) -> bool {
    let odd = |part: &str| part == ".." || part.contains('\0');
    !path.is_empty() && !path.starts_with('/') && !path.split('/').any(odd)
}

/// Time that is not a length of time is refused before anybody counts with it.
pub(super) fn check_budget(budget: Option<&Budget>) -> Result<(), Rejection> {
    match budget.and_then(|budget| budget.time_s) {
        Some(time_s) if !time_s.is_finite() || time_s < 0.0 => {
            let message = format!("`budget.time_s` is {time_s}, which is no length of time.");
            Err(Rejection::bad("bad_field", message, "Give seconds from 0."))
        }
        _ => Ok(()),
    }
}

/// A title for a document of which only the prompt is known.
fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default().trim();
    let mut title: String = line.chars().filter(|c| !c.is_control()).take(TITLE_CHARACTERS_MAX).collect();
    if line.chars().count() > TITLE_CHARACTERS_MAX {
        title.push('…');
    }
    title
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/api/runs", params(Page), responses((status = 200, body = RunList)))]
pub(super) async fn list(State(app): State<App>, Query(page): Query<Page>) -> Result<Json<RunList>, Rejection> {
    let (runs, next) = page.fill::<Runs, RunId>(&app, |run| run.removed_at).await?;
    Ok(Json(RunList { runs, next }))
}

/// One run.
#[utoipa::path(get, path = "/api/runs/{id}", params(("id" = String, Path)), responses((status = 200, body = Run)))]
pub(super) async fn get(State(app): State<App>, Path(run): Path<String>) -> Result<Json<Run>, Rejection> {
    find(&app, &run).await.map(Json)
}

pub(super) async fn find(app: &App, run: &str) -> Result<Run, Rejection> {
    let run: RunId = id(run, "run")?;
    app.harness.views.get::<Runs>(run).await?.ok_or_else(|| Rejection::missing("run"))
}

/// Stops a run with everything it has going.
#[utoipa::path(post, path = "/api/runs/{id}/cancel", params(("id" = String, Path)), responses((status = 202, body = Acknowledged)))]
pub(super) async fn cancel(
    State(app): State<App>,
    Path(run): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    command(&app, &run, RunCommand::Cancel).await
}

/// Holds a run before its next step.
#[utoipa::path(post, path = "/api/runs/{id}/pause", params(("id" = String, Path)), responses((status = 202, body = Acknowledged)))]
pub(super) async fn pause(
    State(app): State<App>,
    Path(run): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    command(&app, &run, RunCommand::Pause).await
}

/// Lets a run go on.
#[utoipa::path(post, path = "/api/runs/{id}/resume", params(("id" = String, Path)), responses((status = 202, body = Acknowledged)))]
pub(super) async fn resume(
    State(app): State<App>,
    Path(run): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    command(&app, &run, RunCommand::Resume).await
}

/// Says something to the agents of a run.
#[utoipa::path(post, path = "/api/runs/{id}/steer", params(("id" = String, Path)), request_body = Steer,
    responses((status = 202, body = Acknowledged)))]
pub(super) async fn steer(
    State(app): State<App>,
    Path(run): Path<String>,
    TypedJson(steer): TypedJson<Steer>,
) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    if steer.text.trim().is_empty() || steer.text.len() > PROMPT_BYTES_MAX {
        let message = format!("`text` has from 1 to {PROMPT_BYTES_MAX} bytes.");
        return Err(Rejection::bad("bad_field", message, "Say what the agents should know."));
    }
    command(&app, &run, RunCommand::Steer(steer.text)).await
}

async fn command(app: &App, run: &str, command: RunCommand) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    let id = find(app, run).await?.run_id;
    let asked = app.session.ask("the session", |reply| SessionMessage::Run(id, command, reply)).await;
    let seq = match asked {
        // Whoever had just said its last word hears nothing more, and that is not a session that is busy.
        Err(ActorError::Silent(_)) if find(app, run).await?.status.is_ending() => {
            return Err(ActorError::NotAtWork.into());
        }
        asked => asked?,
    };
    Ok((StatusCode::ACCEPTED, Json(Acknowledged { seq })))
}

//! What runs and tasks changed in the workspace, and taking it back.

use super::App;
use super::reject::{OptionalJson, Rejection, id};
use crate::undo::UndoError;
use axum::Json;
use axum::extract::{Path, State};
use choir_core::fold::run::Runs;
use choir_core::fold::task::{TaskRuns, Tasks};
use choir_core::undo::Scope;
use choir_proto::api::{Changes, NewUndo, Undo};
use choir_proto::{RunId, TaskId};

/// Takes back what a run changed, as one new change. Asked again, it takes that back.
#[utoipa::path(post, path = "/api/runs/{id}/undo", params(("id" = String, Path)), request_body = Option<NewUndo>,
    responses((status = 200, body = Undo)))]
pub(super) async fn run(
    State(app): State<App>,
    Path(run): Path<String>,
    OptionalJson(wanted): OptionalJson<NewUndo>,
) -> Result<Json<Undo>, Rejection> {
    undo(&app, scope_of_run(&app, &run).await?, wanted).await
}

/// Takes back what a task changed, as one new change. Asked again, it takes that back.
#[utoipa::path(post, path = "/api/tasks/{id}/undo", params(("id" = String, Path)), request_body = Option<NewUndo>,
    responses((status = 200, body = Undo)))]
pub(super) async fn task(
    State(app): State<App>,
    Path(task): Path<String>,
    OptionalJson(wanted): OptionalJson<NewUndo>,
) -> Result<Json<Undo>, Rejection> {
    undo(&app, scope_of_task(&app, &task).await?, wanted).await
}

/// Brings into the workspace what a run changed and what was held for review, as one new change.
#[utoipa::path(post, path = "/api/runs/{id}/merge", params(("id" = String, Path)), request_body = Option<NewUndo>,
    responses((status = 200, body = Undo)))]
pub(super) async fn merge_run(
    State(app): State<App>,
    Path(run): Path<String>,
    OptionalJson(wanted): OptionalJson<NewUndo>,
) -> Result<Json<Undo>, Rejection> {
    let scope = scope_of_run(&app, &run).await?;
    Ok(Json(app.undoer.merge(scope, wanted).await?))
}

/// The same, for one task.
#[utoipa::path(post, path = "/api/tasks/{id}/merge", params(("id" = String, Path)), request_body = Option<NewUndo>,
    responses((status = 200, body = Undo)))]
pub(super) async fn merge_task(
    State(app): State<App>,
    Path(task): Path<String>,
    OptionalJson(wanted): OptionalJson<NewUndo>,
) -> Result<Json<Undo>, Rejection> {
    let scope = scope_of_task(&app, &task).await?;
    Ok(Json(app.undoer.merge(scope, wanted).await?))
}

/// What a run changed, task by task, with the differences.
#[utoipa::path(get, path = "/api/runs/{id}/changes", params(("id" = String, Path)),
    responses((status = 200, body = Changes)))]
pub(super) async fn run_changes(State(app): State<App>, Path(run): Path<String>) -> Result<Json<Changes>, Rejection> {
    Ok(Json(app.undoer.changes(scope_of_run(&app, &run).await?).await?))
}

/// What a task changed, with the difference.
#[utoipa::path(get, path = "/api/tasks/{id}/changes", params(("id" = String, Path)),
    responses((status = 200, body = Changes)))]
pub(super) async fn task_changes(State(app): State<App>, Path(task): Path<String>) -> Result<Json<Changes>, Rejection> {
    Ok(Json(app.undoer.changes(scope_of_task(&app, &task).await?).await?))
}

async fn undo(app: &App, scope: Scope, wanted: NewUndo) -> Result<Json<Undo>, Rejection> {
    Ok(Json(app.undoer.undo(scope, wanted).await?))
}

/// A run's name, or that of a task of its own, which bears the same.
async fn scope_of_run(app: &App, run: &str) -> Result<Scope, Rejection> {
    let run: RunId = id(run, "run")?;
    if app.harness.views.get::<Runs>(run).await?.is_some() {
        return Ok(Scope::Run(run));
    }
    let alone = TaskId::from(*run.as_bytes());
    match app.harness.views.get::<Tasks>(alone).await? {
        Some(_) => Ok(Scope::Task(run, alone)),
        None => Err(Rejection::missing("run")),
    }
}

async fn scope_of_task(app: &App, task: &str) -> Result<Scope, Rejection> {
    let task: TaskId = id(task, "task")?;
    let run = app.harness.views.get::<TaskRuns>(task).await?.ok_or_else(|| Rejection::missing("task"))?;
    Ok(Scope::Task(run, task))
}

impl From<UndoError> for Rejection {
    fn from(error: UndoError) -> Self {
        match error {
            UndoError::NotHeld => Self::conflict_as(
                "nothing_held",
                "Nothing of it is held for review.",
                "See its changes; what was held and is there already can be taken back.",
            ),
            UndoError::Nothing => Self::conflict_as(
                "nothing_to_undo",
                "Nothing of it is in the workspace.",
                "See its changes; only what was merged can be taken back.",
            ),
            UndoError::TooMuch => Self::conflict("It made too many changes.", "Take its tasks back one by one."),
            UndoError::Elsewhere => Self::conflict("This name belongs to another undo.", "Choose another `undo_id`."),
            UndoError::Refused(why) => Self::unavailable("undo_failed", why, "It can be asked for again."),
            UndoError::Harness(error) => error.into(),
        }
    }
}

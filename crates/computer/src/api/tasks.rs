//! Tasks without a conductor, and the schemas of their contract.

use super::App;
use super::reject::{OptionalJson, Rejection, TypedJson, id};
use super::runs::{Nothing, check_budget};
use crate::actor::SessionMessage;
use crate::control::ControlError;
use crate::harness::Past;
use crate::journal::Scope;
use axum::Json;
use axum::extract::{Path, State};
use choir_core::fold::carried::to_accept;
use choir_core::fold::run::Runs;
use choir_core::fold::task::{TaskRuns, TaskWishes, Tasks, run_of};
use choir_core::settle;
use choir_core::tool::{ELSEWHERE, specs};
use choir_proto::api::{Acknowledged, TaskAccepted};
use choir_proto::egress::impossible;
use choir_proto::event::{Actor, ChecksAccepted, TaskRequested};
use choir_proto::schema::standalone;
use choir_proto::task::{TaskKind, TaskRequest, TaskResult};
use choir_proto::wire::ReadTree;
use choir_proto::{Role, RunId, RunStatus, TaskId};
use http::StatusCode;
use serde_json::Value;

/// Commands in one task.
const COMMANDS_MAX: usize = 100;

/// The longest command or instruction.
const TEXT_BYTES_MAX: usize = 128 * 1024;

/// Gives work to a worker: commands without a model, or an agent.
#[utoipa::path(post, path = "/api/tasks", request_body = TaskRequest, responses((status = 202, body = TaskAccepted)))]
pub(super) async fn create(
    State(app): State<App>,
    TypedJson(request): TypedJson<TaskRequest>,
) -> Result<(StatusCode, Json<TaskAccepted>), Rejection> {
    check(&request)?;
    find_base(&app, &request).await?;
    let journal = &app.harness.journal;
    let task_id = TaskId::new(journal.world().uuid());
    let scope = Scope::of(Actor::Person).run(run_of(task_id)).task(task_id);
    let requested = TaskRequested { request, role: None, parent: None };
    let seat = app.session.seat().await?;
    let seq = journal.append(&scope, vec![requested.into()]).await?;
    app.session.tell(seat, SessionMessage::StartTask(task_id));
    Ok((StatusCode::ACCEPTED, Json(TaskAccepted { task_id, seq })))
}

fn check(request: &TaskRequest) -> Result<(), Rejection> {
    if request.git_action.is_some() || request.kind == TaskKind::Git && request.commands.is_empty() {
        let hint = "Leave out `git_action`, and give `commands` or use another kind.";
        return Err(Rejection::not_available("Git actions come with time travel, which does not exist yet.", hint));
    }
    if request.wanted.is_some_and(|wanted| wanted.artifacts) {
        let message = "A task gives back no artifacts: what it makes are files of the workspace.";
        let hint = "Leave `artifacts` out; `files_changed` names them, and `GET /api/files` reads them.";
        return Err(Rejection::not_available(message, hint));
    }
    if request.instruction.trim().is_empty() && request.commands.is_empty() {
        return Err(Rejection::bad("empty_instruction", "The instruction is empty.", "Say what you want done."));
    }
    check_budget(request.budget.as_ref())?;
    let long = |text: &String| text.len() > TEXT_BYTES_MAX;
    let checks = request.verify.iter().flat_map(|verify| &verify.commands);
    let commands = || request.commands.iter().chain(checks.clone());
    if commands().count() > COMMANDS_MAX || commands().any(long) || long(&request.instruction) {
        return Err(Rejection::bad(
            "too_much",
            "The task is too large.",
            "Put long texts into files of the workspace.",
        ));
    }
    if let Some(why) = impossible(request.egress.as_ref()) {
        return Err(Rejection::bad("impossible_egress", why, "Leave `egress` out, or allow what is needed by name."));
    }
    // Which tools servers elsewhere have, only they know.
    let known = |name: &String| {
        name.starts_with(ELSEWHERE) || Role::ALL.iter().flat_map(|role| specs(*role)).any(|spec| spec.name == *name)
    };
    if let Some(unknown) = request.allowed_tools.iter().flatten().find(|name| !known(name)) {
        return Err(Rejection::bad(
            "unknown_tool",
            format!("There is no tool `{unknown}`."),
            "See the tools of each role.",
        ));
    }
    Ok(())
}

/// A base is the live workspace, or a tree that is there.
async fn find_base(app: &App, request: &TaskRequest) -> Result<(), Rejection> {
    let unknown = |why: &str| {
        let hint = "Give `head`, or the `base_tree` or `result_tree` of a task.";
        Rejection::bad("unknown_base", format!("`base_ref` names no tree{why}."), hint)
    };
    let tree = match (request.base_ref.as_deref(), request.base()) {
        (None | Some("head"), _) => return Ok(()),
        (Some(_), None) => return Err(unknown("")),
        (Some(_), Some(tree)) => tree,
    };
    match app.harness.control.read_tree(tree, ReadTree::default()).await {
        Ok(_) => Ok(()),
        Err(ControlError::Refused(_)) => Err(unknown(" that is kept here")),
        Err(gone) => Err(Rejection::unavailable("sandbox_refused", gone.to_string(), "Try again.")),
    }
}

/// What came of a task, or that it runs.
#[utoipa::path(get, path = "/api/tasks/{id}", params(("id" = String, Path)), responses((status = 200, body = TaskResult)))]
pub(super) async fn get(State(app): State<App>, Path(task): Path<String>) -> Result<Json<TaskResult>, Rejection> {
    let task = find(&app, &task).await?;
    let wanted = app.harness.views.get::<TaskWishes>(task.task_id).await?.unwrap_or_default();
    let mut task = wanted.of(task);
    let trees = (task.base_tree, task.result_tree);
    if let Some(diff) = &mut task.diff {
        diff.lies_between(trees);
        if let Some(blob) = diff.blob {
            diff.content = app.harness.documents.blob_text(blob).await?;
        }
    }
    Ok(Json(task))
}

/// Stops a task.
#[utoipa::path(post, path = "/api/tasks/{id}/cancel", params(("id" = String, Path)), responses((status = 202, body = Acknowledged)))]
pub(super) async fn cancel(
    State(app): State<App>,
    Path(task): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<(StatusCode, Json<Acknowledged>), Rejection> {
    let task = find(&app, &task).await?.task_id;
    let seq = app.session.ask("the session", |reply| SessionMessage::CancelTask(task, reply)).await?;
    Ok((StatusCode::ACCEPTED, Json(Acknowledged { seq })))
}

/// Accepts the checks that a worker touched, and code of it that speaks to them: later checks rely on it then. What passed by
/// them is verified, and so is its run, where nothing else stands against that.
#[utoipa::path(post, path = "/api/tasks/{id}/accept", params(("id" = String, Path)), responses((status = 200, body = Acknowledged)))]
pub(super) async fn accept(
    State(app): State<App>,
    Path(task): Path<String>,
    _: OptionalJson<Nothing>,
) -> Result<Json<Acknowledged>, Rejection> {
    let task = find(&app, &task).await?;
    let checks = to_accept(&task);
    if checks.is_empty() {
        let hint = "A task that brought changed checks into the workspace names them in `verify.checks_changed`, and code that speaks to them in `verify.doubtful`.";
        return Err(Rejection::conflict_as("nothing_to_accept", "There is nothing to accept here.", hint));
    }
    let run = app.harness.views.get::<TaskRuns>(task.task_id).await?.unwrap_or_else(|| run_of(task.task_id));
    let ended = app.harness.views.get::<Runs>(run).await?.map(|run| run.status);
    let run_status = match ended {
        Some(RunStatus::Completed) => Some(settled(&app, run, task.task_id).await?),
        _ => None,
    };
    let accepted = ChecksAccepted { checks, run_status };
    let scope = Scope::of(Actor::Person).run(run).task(task.task_id);
    Ok(Json(Acknowledged { seq: app.harness.journal.append(&scope, vec![accepted.into()]).await? }))
}

/// How a run that said it is done has ended, with one more of its tasks accepted.
async fn settled(app: &App, run: RunId, accepted: TaskId) -> Result<RunStatus, Rejection> {
    let past = Past::read(app.harness.journal.log(), run).await?;
    let mut tasks = settle::results(past.all());
    for verify in tasks.iter_mut().filter(|task| task.task_id == accepted).filter_map(|task| task.verify.as_mut()) {
        verify.accepted = true;
    }
    let status = settle::settle(RunStatus::Completed, tasks.iter());
    // Whoever accepts a check that passed makes nothing worse.
    let together =
        status == RunStatus::Verified && !settle::apart(past.events().map(|(header, event)| (header, event)));
    Ok(if together { RunStatus::Verified } else { RunStatus::Completed })
}

async fn find(app: &App, task: &str) -> Result<TaskResult, Rejection> {
    let task: TaskId = id(task, "task")?;
    app.harness.views.get::<Tasks>(task).await?.ok_or_else(|| Rejection::missing("task"))
}

/// The JSON schema of `task_request` or `task_result`.
#[utoipa::path(get, path = "/api/schemas/{name}", params(("name" = String, Path)), responses((status = 200, body = Object)))]
pub(super) async fn schema(Path(name): Path<String>) -> Result<Json<Value>, Rejection> {
    match name.as_str() {
        "task_request" => Ok(Json(standalone::<TaskRequest>())),
        "task_result" => Ok(Json(standalone::<TaskResult>())),
        _ => Err(Rejection::missing("schema")),
    }
}

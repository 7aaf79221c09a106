//! Tasks and the schemas of their contract.

use super::App;
use super::reject::{Rejection, id};
use axum::Json;
use axum::extract::{Path, State};
use choir_core::fold::task::Tasks;
use choir_proto::TaskId;
use choir_proto::schema::standalone;
use choir_proto::task::{TaskRequest, TaskResult};
use serde_json::Value;

/// What came of a task, or that it runs.
#[utoipa::path(get, path = "/api/tasks/{id}", params(("id" = String, Path)), responses((status = 200, body = TaskResult)))]
pub(super) async fn get(State(app): State<App>, Path(task): Path<String>) -> Result<Json<TaskResult>, Rejection> {
    let task: TaskId = id(&task, "task")?;
    app.harness.views.get::<Tasks>(task).await?.map(Json).ok_or_else(|| Rejection::missing("task"))
}

/// The JSON schema of `task_request` or `task_result`.
#[utoipa::path(get, path = "/api/schemas/{name}", params(("name" = String, Path)), responses((status = 200)))]
pub(super) async fn schema(Path(name): Path<String>) -> Result<Json<Value>, Rejection> {
    match name.as_str() {
        "task_request" => Ok(Json(standalone::<TaskRequest>())),
        "task_result" => Ok(Json(standalone::<TaskResult>())),
        _ => Err(Rejection::missing("schema")),
    }
}

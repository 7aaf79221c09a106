//! Tasks and the schemas of their contract.

use super::App;
use super::reject::{Rejection, id};
use axum::Json;
use axum::extract::{Path, State};
use choir_core::fold::task::Tasks;
use choir_proto::TaskId;
use choir_proto::task::{TaskRequest, TaskResult};
use serde_json::{Value, json};
use utoipa::{PartialSchema, ToSchema};

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
        "task_request" => Ok(Json(standalone::<TaskRequest>("TaskRequest"))),
        "task_result" => Ok(Json(standalone::<TaskResult>("TaskResult"))),
        _ => Err(Rejection::missing("schema")),
    }
}

/// A schema that needs no other document.
pub(super) fn standalone<T: ToSchema + PartialSchema>(title: &str) -> Value {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let definitions: serde_json::Map<String, Value> =
        parts.into_iter().map(|(name, schema)| (name, json!(schema))).collect();
    let mut schema = json!(T::schema());
    if let Some(object) = schema.as_object_mut() {
        object.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        object.insert("title".into(), json!(title));
        object.insert("$defs".into(), Value::Object(definitions));
    }
    relocate(schema)
}

/// OpenAPI keeps its parts elsewhere than JSON schema does.
fn relocate(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("#/components/schemas/", "#/$defs/")),
        Value::Array(values) => Value::Array(values.into_iter().map(relocate).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, relocate(value))).collect())
        }
        other => other,
    }
}

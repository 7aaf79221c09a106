//! Descriptions of what is stored and sent: JSON schemas and TypeScript, generated from the types and checked in.

mod typescript;

pub use typescript::typescript;

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Schemas by type name, each once.
#[derive(Default)]
pub struct Parts {
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Parts {
    /// Adds a type and everything it is made of; answers its name.
    pub fn add<T: ToSchema + PartialSchema>(&mut self) -> String {
        T::schemas(&mut self.schemas);
        let name = T::name().into_owned();
        self.schemas.push((name.clone(), T::schema()));
        name
    }

    /// As definitions of a JSON schema.
    pub fn definitions(self) -> Map<String, Value> {
        let mut sorted: Vec<_> =
            self.schemas.into_iter().map(|(name, schema)| (name, relocate(json!(schema)))).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.into_iter().collect()
    }
}

/// The JSON schema of one type, complete in itself.
pub fn standalone<T: ToSchema + PartialSchema>() -> Value {
    let mut parts = Parts::default();
    let name = parts.add::<T>();
    relocate(json!({
        "$schema": DRAFT,
        "title": name,
        "$ref": format!("#/$defs/{name}"),
        "$defs": parts.definitions(),
    }))
}

/// The JSON schema of every kind of event: what may stand in `kind`, `version` and `payload` together.
pub fn events() -> Value {
    let mut parts = Parts::default();
    let kinds = crate::event::described(&mut parts);
    let variants: Vec<Value> = kinds
        .into_iter()
        .map(|(kind, version, name)| {
            json!({"type": "object", "required": ["kind", "version", "payload"], "properties": {
                "kind": {"const": kind}, "version": {"const": version}, "payload": {"$ref": format!("#/$defs/{name}")},
            }})
        })
        .collect();
    relocate(json!({"$schema": DRAFT, "title": "Event", "oneOf": variants, "$defs": parts.definitions()}))
}

/// Every type that crosses the API, for TypeScript.
pub fn api() -> Map<String, Value> {
    let mut parts = Parts::default();
    crate::event::described(&mut parts);
    parts.add::<crate::event::Header>();
    parts.add::<crate::ApiError>();
    parts.add::<crate::run::NewRun>();
    parts.add::<crate::run::Run>();
    parts.add::<crate::trace::Trace>();
    parts.add::<crate::task::TaskRequest>();
    parts.add::<crate::task::TaskResult>();
    parts.add::<crate::document::Document>();
    parts.add::<crate::document::DocumentSummary>();
    parts.add::<crate::document::VersionSummary>();
    parts.add::<crate::document::NewDocument>();
    parts.add::<crate::document::EditDocument>();
    parts.add::<crate::document::Decide>();
    parts.add::<crate::document::Provenance>();
    parts.add::<crate::document::Artifact>();
    parts.add::<crate::desktop::Desktop>();
    parts.add::<crate::desktop::DesktopCommand>();
    parts.add::<crate::api::Health>();
    parts.add::<crate::api::Supervision>();
    parts.add::<crate::tour::NewTour>();
    parts.add::<crate::tour::PlugPulled>();
    parts.add::<crate::api::RunAccepted>();
    parts.add::<crate::api::TaskAccepted>();
    parts.add::<crate::api::Acknowledged>();
    parts.add::<crate::api::Steer>();
    parts.add::<crate::api::NewUndo>();
    parts.add::<crate::api::Undo>();
    parts.add::<crate::api::Changes>();
    parts.definitions()
}

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// OpenAPI keeps its parts elsewhere than JSON schema does.
fn relocate(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("#/components/schemas/", "#/$defs/")),
        Value::Array(values) => Value::Array(values.into_iter().map(relocate).collect()),
        Value::Object(fields) => {
            // Sorted, because a map's own order depends on which features of `serde_json` some other crate asked for.
            let sorted: BTreeMap<String, Value> =
                fields.into_iter().map(|(name, value)| (name, relocate(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        other => other,
    }
}

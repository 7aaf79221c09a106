//! `GET/PUT /api/settings`.

use super::App;
use super::error::Refused;
use super::json::Json;
use super::model;
use crate::config::ProviderKind;
use crate::gateway::{self, Found, KeyFrom, Provider, Settings};
use crate::inbox::Tools;
use axum::extract::State;
use choir_proto::egress::{ENTRY, is_entry};
use choir_proto::wire::{ChangeSettings, DocumentSettings};
use choir_proto::{Role, Usd};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Everything that Settings shows. Keys are only said to be there.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Settings)]
pub(super) struct Shown {
    models: ShownModels,
    budget: ShownBudget,
    egress: ShownEgress,
    /// Which tool calls are done, asked about or refused, by name or by a beginning of names that ends in `*`.
    tools: Tools,
    /// How documents are written.
    documents: DocumentSettings,
    /// How what tasks changed comes into the workspace.
    changes: ChangeSettings,
    providers: Vec<ShownProvider>,
    /// What was changed here and holds in the place of what choir.toml says, by the names that it has there.
    overrides: Vec<String>,
    /// While there is no model: what could be added by `PUT /api/providers/{name}`.
    found: Vec<Found>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ShownModels {
    /// `PROVIDER/MODEL`; empty means the first provider found.
    default: String,
    roles: BTreeMap<Role, String>,
    /// Whether prompts can be worked on now.
    available: bool,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ShownBudget {
    usd_per_run: Usd,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ShownEgress {
    /// What tasks may reach without asking.
    ceiling: Vec<String>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ShownProvider {
    name: String,
    kind: ProviderKind,
    base_url: String,
    key: KeyFrom,
    usable: bool,
}

/// What a person wants changed; what is absent stays.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsChange {
    models: Option<ModelsChange>,
    budget: Option<BudgetChange>,
    egress: Option<EgressChange>,
    tools: Option<Tools>,
    documents: Option<DocumentSettings>,
    changes: Option<ChangeSettings>,
    /// As it was shown, like the next two: what was read may be put back as a whole.
    providers: Option<Value>,
    overrides: Option<Value>,
    found: Option<Value>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ModelsChange {
    default: Option<String>,
    roles: Option<BTreeMap<Role, String>>,
    /// As it was shown.
    available: Option<bool>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct BudgetChange {
    usd_per_run: Usd,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct EgressChange {
    ceiling: Vec<String>,
}

/// What Settings shows.
#[utoipa::path(get, path = "/api/settings", tag = "settings", responses((status = 200, body = Shown)))]
pub(super) async fn get(State(app): State<App>) -> Json<Shown> {
    Json(shown(&app).await)
}

/// Changes settings for good and answers what holds now.
#[utoipa::path(put, path = "/api/settings", tag = "settings", request_body = SettingsChange,
    responses((status = 200, body = Shown), (status = 400, body = choir_proto::ApiError)))]
pub(super) async fn put(State(app): State<App>, Json(change): Json<SettingsChange>) -> Result<Json<Shown>, Refused> {
    check_shown(&shown(&app).await, &change)?;
    check_models(&app, change.models.as_ref())?;
    let settings = changed(app.gateway.settings(), change)?;
    app.gateway.change(settings).await.map_err(refused)?;
    Ok(Json(shown(&app).await))
}

/// What is only shown can be put back as it was, and is nothing to change here.
fn check_shown(shown: &Shown, change: &SettingsChange) -> Result<(), Refused> {
    let shown = serde_json::to_value(shown).unwrap_or_default();
    let available = change.models.as_ref().and_then(|models| models.available).map(Value::Bool);
    for (field, said) in [
        ("/models/available", available.as_ref()),
        ("/providers", change.providers.as_ref()),
        ("/overrides", change.overrides.as_ref()),
        ("/found", change.found.as_ref()),
    ] {
        if said.is_some_and(|said| shown.pointer(field) != Some(said)) {
            let name = field.trim_start_matches('/').replace('/', ".");
            let hint = "Leave it out, or put it back as it was read; providers have `PUT /api/providers/{name}`.";
            return Err(Refused::bad_field(format!("`{name}` is only shown and cannot be changed here."), hint));
        }
    }
    Ok(())
}

/// Only what is changed is looked at: a provider that went away since does not stand in the way of other changes.
fn check_models(app: &App, change: Option<&ModelsChange>) -> Result<(), Refused> {
    let Some(change) = change else { return Ok(()) };
    let default = change.default.iter().map(|model| ("models.default".to_owned(), model));
    let roles = change.roles.iter().flatten().map(|(role, model)| (format!("models.roles.{}", role.name()), model));
    let mut named = default.chain(roles).filter(|(_, model)| !model.is_empty());
    named.try_for_each(|(key, model)| model::check(app, &key, model))
}

fn changed(mut settings: Settings, change: SettingsChange) -> Result<Settings, Refused> {
    if let Some(models) = change.models {
        settings.models.default = models.default.unwrap_or(settings.models.default);
        settings.models.roles = models.roles.unwrap_or(settings.models.roles);
        settings.models.roles.retain(|_, model| !model.is_empty());
    }
    if let Some(budget) = change.budget {
        settings.budget.usd_per_run = budget.usd_per_run;
    }
    if let Some(egress) = change.egress {
        if let Some(wrong) = egress.ceiling.iter().find(|entry| !is_entry(entry)) {
            return Err(Refused::bad_field(format!("`{wrong}` cannot be in a ceiling."), format!("Note: {ENTRY}.")));
        }
        settings.egress.ceiling = egress.ceiling;
    }
    settings.tools = change.tools.unwrap_or(settings.tools);
    settings.documents = change.documents.unwrap_or(settings.documents);
    settings.changes = change.changes.unwrap_or(settings.changes);
    Ok(settings)
}

async fn shown(app: &App) -> Shown {
    let settings = app.gateway.settings();
    let available = app.gateway.models().available;
    let found = if available { Vec::new() } else { app.gateway.discover().await };
    Shown {
        found,
        models: ShownModels { default: settings.models.default, roles: settings.models.roles, available },
        budget: ShownBudget { usd_per_run: settings.budget.usd_per_run },
        egress: ShownEgress { ceiling: settings.egress.ceiling },
        tools: settings.tools,
        documents: settings.documents,
        changes: settings.changes,
        overrides: app.gateway.overrides(),
        providers: app.gateway.providers().iter().map(|provider| shown_provider(provider)).collect(),
    }
}

fn shown_provider(provider: &Provider) -> ShownProvider {
    ShownProvider {
        name: provider.name.clone(),
        kind: provider.kind,
        base_url: provider.base_url.clone(),
        key: provider.key_from,
        usable: provider.is_usable(),
    }
}

pub(super) fn refused(error: gateway::Error) -> Refused {
    match error {
        gateway::Error::Db(error) => error.into(),
        other => {
            tracing::error!(error = &other as &dyn std::error::Error, "a setting could not be changed");
            let (message, hint) = ("The change could not be kept.", "`choir doctor` tells more.");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message, hint)
        }
    }
}

//! `PUT /api/providers/{name}` and `POST /api/providers/{name}/test`. A key goes in and never comes out.

use super::App;
use super::error::Refused;
use super::extract::Named;
use super::json::Json;
use super::settings::refused;
use crate::config::{PROVIDER_NAME, ProviderKind, is_provider_name};
use crate::secret::Secret;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// A provider to add or change; what is absent stays.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderChange {
    /// Which wire format it speaks; by default what the name says.
    kind: Option<ProviderKind>,
    /// Where it is; by default the provider's own address.
    base_url: Option<String>,
    /// Write-only.
    #[schema(value_type = Option<String>)]
    key: Option<Secret>,
}

/// What a provider answered to being tried.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ProviderTested {
    ok: bool,
    /// In plain words.
    message: String,
    /// The models that it offers.
    models: Vec<String>,
}

/// Adds or changes a provider. The key is sealed and cannot be read back.
#[utoipa::path(put, path = "/api/providers/{name}", tag = "settings", request_body = ProviderChange,
    params(("name" = String, Path, description = "its name in PROVIDER/MODEL")),
    responses((status = 204), (status = 400, body = choir_proto::ApiError)))]
pub(super) async fn put(
    State(app): State<App>,
    Named(name): Named<String>,
    Json(change): Json<ProviderChange>,
) -> Result<StatusCode, Refused> {
    check_name(&name)?;
    let kind = kind(&app, &name, change.kind)?;
    check_url(change.base_url.as_deref())?;
    let key = change.key.map(|key| choir_llm::Secret::parse(key.expose())).transpose();
    let key = key.map_err(|error| Refused::bad_field(format!("{error}."), "Copy the key again."))?;
    if key.is_none() {
        check_key(&app, &name, change.base_url.as_deref())?;
    }
    app.gateway.put_provider(&name, kind, change.base_url, key).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tries a provider and says in plain words what came of it.
#[utoipa::path(post, path = "/api/providers/{name}/test", tag = "settings",
    params(("name" = String, Path, description = "its name in PROVIDER/MODEL")),
    responses((status = 200, body = ProviderTested), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn test(State(app): State<App>, Named(name): Named<String>) -> Result<Json<ProviderTested>, Refused> {
    let provider = app.gateway.providers().into_iter().find(|provider| provider.name == name);
    let provider = provider.ok_or_else(Refused::not_found)?;
    let (ok, message, models) = match app.gateway.test(&provider).await {
        Ok(models) => (true, format!("`{name}` answers."), models),
        Err(error) => (false, format!("{}.", error.message), Vec::new()),
    };
    Ok(Json(ProviderTested { ok, message, models }))
}

fn check_name(name: &str) -> Result<(), Refused> {
    match is_provider_name(name) {
        true => Ok(()),
        false => Err(Refused::bad_field("This is no name for a provider.", format!("For a name {PROVIDER_NAME}."))),
    }
}

fn check_key(app: &App, name: &str, base_url: Option<&str>) -> Result<(), Refused> {
    let before = app.gateway.providers().into_iter().find(|provider| provider.name == name);
    match (before, base_url) {
        (Some(before), Some(url)) if !before.key_is_for(url) => Err(Refused::bad_field(
            format!("The key of `{name}` was given for another address and is not sent to this one."),
            "Give the `key` again, together with the new `base_url`.",
        )),
        _ => Ok(()),
    }
}

/// What was said, else what it was, else what the name says.
fn kind(app: &App, name: &str, said: Option<ProviderKind>) -> Result<ProviderKind, Refused> {
    let before =
        app.gateway.providers().into_iter().find(|provider| provider.name == name).map(|provider| provider.kind);
    let preset = choir_llm::Preset::NAMED.iter().any(|preset| preset.name() == name).then_some(ProviderKind::Openai);
    let kind = said.or(before).or_else(|| ProviderKind::from_name(name)).or(preset);
    match kind {
        Some(ProviderKind::Bedrock) if cfg!(feature = "bedrock") => Ok(ProviderKind::Bedrock),
        Some(ProviderKind::Anthropic | ProviderKind::Openai) => Ok(kind.unwrap_or(ProviderKind::Openai)),
        Some(ProviderKind::Scripted) if before == Some(ProviderKind::Scripted) => Ok(ProviderKind::Scripted),
        Some(ProviderKind::Bedrock) => {
            Err(Refused::bad_field("Bedrock is not in this build.", "Use kind `anthropic` or `openai`."))
        }
        Some(ProviderKind::Scripted) => {
            Err(Refused::bad_field("A scenario is named in choir.toml alone.", "Use kind `anthropic` or `openai`."))
        }
        None => Err(Refused::bad_field("The field `kind` is missing.", "It is `anthropic` or `openai`.")),
    }
}

fn check_url(url: Option<&str>) -> Result<(), Refused> {
    let Some(url) = url else { return Ok(()) };
    let hint = "It looks like https://api.example.com/v1, without a password.";
    match reqwest::Url::parse(url) {
        Ok(url)
            if matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none() =>
        {
            Ok(())
        }
        _ => Err(Refused::bad_field("`base_url` is not a usable URL.", hint)),
    }
}

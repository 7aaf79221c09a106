//! Names of models: `PROVIDER/MODEL`, of a provider that is there.

use super::App;
use super::error::Refused;
use serde::Deserialize;

/// Refuses what names no model that could ever be called, and says under which key it stood.
pub(super) fn check(app: &App, key: &str, model: &str) -> Result<(), Refused> {
    let hint = "Write it as PROVIDER/MODEL; GET /api/settings lists the providers.";
    match app.gateway.names_provider(model) {
        true => Ok(()),
        false => Err(Refused::bad_field(format!("`{key}` is `{model}`, which is no model of a known provider."), hint)),
    }
}

/// The model that a new run asks for; everything else is the computer's to judge.
pub(super) fn check_run(app: &App, body: &[u8]) -> Result<(), Refused> {
    #[derive(Deserialize)]
    struct Asked {
        model: Option<String>,
    }
    match serde_json::from_slice(body) {
        Ok(Asked { model: Some(model) }) => check(app, "model", &model),
        _ => Ok(()),
    }
}

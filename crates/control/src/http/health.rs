//! `GET /health`: each part and how it is. Nobody has to be signed in, so it says nothing private.

use super::App;
use super::json::Json;
use crate::computer::State as ComputerState;
use crate::sandboxes;
use axum::extract::State;
use choir_proto::api::{Component, Health};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the computer may take to say how it is.
const ASK: Duration = Duration::from_secs(2);
/// Parts of the computer that are shown.
const PARTS_MAX: usize = 32;
const OK: &str = "ok";
const DEGRADED: &str = "degraded";

/// Whether everything works, and what does not. Needs no token.
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, body = Health)), security(()))]
pub(super) async fn get(State(app): State<App>) -> Json<Health> {
    let inside = inside(&app).await;
    let mut components = BTreeMap::from([
        ("control".to_owned(), control(app.db.trouble().await)),
        ("computer".to_owned(), computer(&app.computer.borrow(), inside.is_some())),
        ("models".to_owned(), models(&app)),
        ("sandbox".to_owned(), sandbox(&app)),
    ]);
    // The computer is not trusted: it may add to the picture, not paint over it.
    for (name, component) in inside.unwrap_or_else(unheard).into_iter().take(PARTS_MAX) {
        components.entry(name).or_insert(component);
    }
    let ok = components.values().all(|component| component.status != DEGRADED);
    let status = if ok { OK } else { DEGRADED }.to_owned();
    Json(Health { status, version: env!("CARGO_PKG_VERSION").to_owned(), components })
}

fn control(trouble: Option<&'static str>) -> Component {
    let Some(trouble) = trouble else { return component(OK, None) };
    component(
        DEGRADED,
        Some(format!("{trouble}: nothing is kept before its database is opened anew and found in order")),
    )
}

fn computer(state: &ComputerState, answers: bool) -> Component {
    match state {
        ComputerState::Starting => component(DEGRADED, Some("starting".into())),
        // It hangs, or is very busy; one that hangs for long is started again.
        ComputerState::Running { .. } if !answers => component(DEGRADED, Some("does not answer".into())),
        ComputerState::Running { lacks, .. } if !lacks.is_empty() => {
            let lacks: Vec<String> = lacks.iter().map(ToString::to_string).collect();
            let mend = "everything works, but it is not held to its own directory: `choir doctor` says how to mend it";
            component(DEGRADED, Some(format!("it runs without: {}; {mend}", lacks.join(", "))))
        }
        ComputerState::Running { restarts: 0, .. } => component(OK, None),
        ComputerState::Running { restarts, .. } => component(OK, Some(format!("restarted {restarts} times"))),
        ComputerState::Restarting { restarts, reason, .. } => {
            component(DEGRADED, Some(format!("restart {restarts}: {reason}")))
        }
        ComputerState::Contradicted { reason, .. } => {
            component(DEGRADED, Some(format!("{reason}; stop and run `choir verify`")))
        }
        ComputerState::Stopped => component(DEGRADED, Some("stopped".into())),
    }
}

fn models(app: &App) -> Component {
    match app.gateway.models().available {
        true => component(OK, None),
        false => component("off", Some("no model yet: prompts wait; add a provider in Settings".into())),
    }
}

fn sandbox(app: &App) -> Component {
    use sandboxes::Tried::{Refused, Untried, Working};
    let health = app.sandboxes.health();
    match (health.live, health.tasks) {
        (Refused(reason), _) => {
            component(DEGRADED, Some(format!("{reason}; documents and settings work, commands do not")))
        }
        (_, Refused(reason)) => {
            component(DEGRADED, Some(format!("{reason}; documents, files and terminals work, tasks do not")))
        }
        (Working(walls), _) | (Untried, Working(walls)) => component(OK, Some(walls)),
        (Untried, Untried) => component(OK, None),
    }
}

/// The computer's own parts, none while it cannot be asked; nothing when it was asked and did not answer.
async fn inside(app: &App) -> Option<BTreeMap<String, Component>> {
    if !matches!(*app.computer.borrow(), ComputerState::Running { .. }) {
        return Some(BTreeMap::new());
    }
    let health = tokio::time::timeout(ASK, app.link.get::<Health>("/internal/health")).await;
    Some(health.ok()?.ok()?.components)
}

/// What is said in place of the parts of a computer that does not answer.
fn unheard() -> BTreeMap<String, Component> {
    BTreeMap::from([("log".to_owned(), component(DEGRADED, Some("no answer".into())))])
}

fn component(status: &str, detail: Option<String>) -> Component {
    Component { status: status.to_owned(), detail }
}

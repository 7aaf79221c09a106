//! Routes for control alone. Nobody else can reach this socket.

use super::App;
use super::reject::{Rejection, TypedJson};
use crate::journal::Scope;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use choir_proto::api::{Acknowledged, Component, Health};
use choir_proto::wire::{Head, Live, Models, Record};
use choir_proto::{Event, Seq};
use choir_store::{StoreError, Subscription};
use futures_util::stream::unfold;
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::sync::broadcast;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/internal/health", get(health))
        .route("/internal/head", get(head))
        .route("/internal/holds", post(holds))
        .route("/internal/stream", get(stream))
        .route("/internal/models", post(models))
        .route("/internal/record", post(record))
        .route("/internal/documents/{id}/sync", post(super::sync::open))
        .route("/internal/shutdown", post(shutdown))
}

async fn health(State(app): State<App>) -> Json<Health> {
    let session = app.session.is_there();
    let (trouble, behind) = (app.harness.journal.trouble(), app.harness.views.trouble());
    let log_file = app.harness.journal.log();
    let damage = log_file.damage().map(str::to_owned).or_else(|| log_file.blobs().damage());
    let components = BTreeMap::from([
        // Control looks at these walls from outside as well, but not all can be seen from there.
        ("confinement".to_owned(), component(app.lacks.is_empty(), &unconfined(&app.lacks))),
        ("log".to_owned(), log(trouble.as_deref(), damage.as_deref())),
        ("session".to_owned(), component(session, "The session is being restarted.")),
        ("views".to_owned(), component(behind.is_none(), &unreadable(behind.as_deref().unwrap_or_default()))),
    ]);
    let status = if components.values().all(|component| component.status == "ok") { "ok" } else { "degraded" };
    Json(Health { status: status.into(), version: crate::VERSION.into(), components })
}

fn component(ok: bool, detail: &str) -> Component {
    Component { status: if ok { "ok" } else { "degraded" }.into(), detail: (!ok).then(|| detail.to_owned()) }
}

fn log(trouble: Option<&str>, damage: Option<&str>) -> Component {
    match (trouble, damage) {
        (Some(trouble), _) => component(false, &refusing(trouble)),
        (None, Some(damage)) => component(false, &broken(damage)),
        (None, None) => component(true, ""),
    }
}

fn broken(damage: &str) -> String {
    format!(
        "a part of what was kept cannot be read: {damage}; stop and run `choir verify`, which says what is sound, and keep a copy"
    )
}

fn unconfined(lacks: &[String]) -> String {
    let lacks = lacks.join("; ");
    format!("the computer's process runs without {lacks}; everything works, and `choir doctor` says how to mend it")
}

fn refusing(trouble: &str) -> String {
    format!("{trouble}; what is there can be read, nothing new is accepted until the disk is mended")
}

fn unreadable(trouble: &str) -> String {
    format!("{trouble}; `choir verify` says how far the log is sound")
}

async fn head(State(app): State<App>) -> Json<Head> {
    let head = app.harness.journal.log().head();
    Json(Head { seq: head.seq, hash: head.hash })
}

/// Whether the log holds the very event that control has signed.
async fn holds(State(app): State<App>, TypedJson(signed): TypedJson<Head>) -> StatusCode {
    let head = choir_store::log::Head { seq: signed.seq, hash: signed.hash };
    match app.harness.journal.log().holds(head).await {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::CONFLICT,
    }
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    after: u64,
}

/// Every event after a position, one JSON line each, without end; between them what is said live and not kept.
async fn stream(State(app): State<App>, Query(from): Query<From>) -> Response {
    let follower = Follower {
        subscription: app.harness.journal.log().subscribe(Seq(from.after)),
        live: app.harness.live.subscribe(),
    };
    let lines = unfold(follower, |mut follower| async move {
        match follower.lines().await {
            Ok(lines) => Some((Ok(lines), follower)),
            Err(StoreError::Closed) => None,
            Err(error) => Some((Err(error), follower)),
        }
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

struct Follower {
    subscription: Subscription,
    live: broadcast::Receiver<Live>,
}

/// A frame of the stream that is not an event.
#[derive(Serialize)]
struct LiveFrame<'a> {
    kind: &'static str,
    #[serde(flatten)]
    live: &'a Live,
}

impl Follower {
    async fn lines(&mut self) -> Result<Bytes, StoreError> {
        loop {
            let mut lines = Vec::new();
            tokio::select! {
                // Whole events first: a live piece is only of use until the whole is there.
                biased;
                events = self.subscription.next() => {
                    for event in events? {
                        line(&*event, &mut lines);
                    }
                }
                live = self.live.recv() => match live {
                    Ok(live) => line(&LiveFrame { kind: "live", live: &live }, &mut lines),
                    // Pieces that were missed are in the whole message that follows.
                    Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => return Err(StoreError::Closed),
                },
            }
            return Ok(lines.into());
        }
    }
}

fn line(value: &impl Serialize, into: &mut Vec<u8>) {
    let start = into.len();
    if let Err(error) = serde_json::to_writer(&mut *into, value) {
        tracing::error!(%error, "a frame could not be written");
        into.truncate(start);
        return;
    }
    into.push(b'\n');
}

/// Control found or lost a model. Whoever waits asks again, also where those who name none would still wait: the model that
/// a run names may be there.
async fn models(State(app): State<App>, TypedJson(models): TypedJson<Models>) -> Json<Models> {
    app.models.send_modify(|count| *count += 1);
    Json(models)
}

/// Control knows a fact that belongs into the log.
async fn record(State(app): State<App>, TypedJson(record): TypedJson<Record>) -> Result<Json<Acknowledged>, Rejection> {
    let event = Event::decode(&record.kind, record.version, record.payload.get())
        .map_err(|error| Rejection::bad("bad_payload", error.to_string(), "See the description of the kind."))?;
    let scope = Scope { actor: record.actor, run: record.run, task: record.task };
    let seq = app.harness.journal.append(&scope, vec![event]).await?;
    Ok(Json(Acknowledged { seq }))
}

/// Answered when the log is closed, with its last event.
async fn shutdown(State(app): State<App>) -> Json<Acknowledged> {
    let mut head = app.harness.journal.log().watch();
    app.stopping.send_replace(true);
    while head.changed().await.is_ok() {}
    let seq = head.borrow().seq;
    Json(Acknowledged { seq })
}

//! `/api/tours…`: recorded answers, real tools; and the plug, which is pulled for real.

use super::App;
use super::error::Refused;
use super::extract::Named;
use super::files::{PutKind, store};
use super::json::Json;
use crate::computer::{LinkError, State as Computer, request};
use crate::sandboxes::parse_path;
use crate::tour::{Stage, stage};
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use choir_proto::api::RunAccepted;
use choir_proto::document::Artifact;
use choir_proto::event::Actor;
use choir_proto::run::{ArtifactContext, Context};
use choir_proto::tour::{NewTour, PlugPulled, Tour};
use choir_proto::wire::ACTOR_HEADER;
use choir_proto::{Run, RunId};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::Instant;

/// How long a computer may take to stand again.
const BACK: Duration = Duration::from_secs(20);

/// Begins a part of the tour: a run on this computer, answered by recorded answers, in the folder `projects/tour`.
#[utoipa::path(post, path = "/api/tours", tag = "tour", request_body = NewTour,
    responses((status = 202, body = RunAccepted), (status = 400, body = choir_proto::ApiError)))]
pub(super) async fn begin(
    State(app): State<App>,
    Json(new): Json<NewTour>,
) -> Result<(StatusCode, Json<RunAccepted>), Refused> {
    let Stage { files, sources, mut run } = stage(new.tour, new.pace);
    for (path, text) in files {
        store(&app, &parse_path(&path)?, PutKind::File, None, Bytes::from_static(text.as_bytes())).await?;
    }
    for text in sources {
        let kept: Artifact = say(&app, "/api/artifacts", "text/markdown", text.into()).await?;
        run.context.push(Context::Artifact(ArtifactContext { artifact_id: kept.artifact_id }));
    }
    let body = serde_json::to_vec(&run).expect("a new run is plain data");
    let accepted = say(&app, "/api/runs", "application/json", body.into()).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// Kills the computer's process while a part of the tour runs, and answers when another one stands in its place.
#[utoipa::path(post, path = "/api/tours/{id}/plug", tag = "tour",
    params(("id" = String, Path, description = "the run of the tour")),
    responses((status = 200, body = PlugPulled), (status = 404, body = choir_proto::ApiError),
        (status = 409, body = choir_proto::ApiError)))]
pub(super) async fn pull_the_plug(
    State(app): State<App>,
    Named(id): Named<RunId>,
) -> Result<Json<PlugPulled>, Refused> {
    check(&app, id).await?;
    let mut computer = app.computer.clone();
    let before = computer.borrow().restarts();
    let pulled = Instant::now();
    app.plug.pull();
    let back = |state: &Computer| matches!(state, Computer::Running { .. }) && state.restarts() > before;
    match tokio::time::timeout(BACK, computer.wait_for(back)).await {
        Ok(Ok(state)) => {
            let away_ms = u64::try_from(pulled.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok(Json(PlugPulled { away_ms, restarts: state.restarts() }))
        }
        Ok(Err(_)) | Err(_) => {
            let message = "The computer was killed and does not stand again yet.";
            Err(Refused::unavailable("computer_restarting", message, "It is tried again; /health tells how it is."))
        }
    }
}

/// Only what the tour began, and only while it goes on, is cut short on purpose.
async fn check(app: &App, id: RunId) -> Result<(), Refused> {
    let request = request(Method::GET, &format!("/api/runs/{id}"), Body::empty());
    let run: Run = match app.link.answer(request).await {
        Err(LinkError::Refused(StatusCode::NOT_FOUND)) => return Err(Refused::not_found()),
        other => other?,
    };
    if run.model.as_deref().and_then(Tour::of_model).is_none() {
        return Err(Refused::not_found());
    }
    if run.status.is_ending() {
        let message = "This part of the tour has ended: there is nothing to interrupt.";
        return Err(Refused::new(StatusCode::CONFLICT, "ended", message, "Begin another one by POST /api/tours."));
    }
    Ok(())
}

/// Asks the computer in the person's name.
async fn say<T: DeserializeOwned>(app: &App, path: &str, kind: &'static str, body: Bytes) -> Result<T, Refused> {
    let mut request = request(Method::POST, path, Body::from(body));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let person = HeaderValue::from_str(&Actor::Person.to_string()).expect("a word is a header");
    request.headers_mut().insert(ACTOR_HEADER, person);
    Ok(app.link.answer(request).await?)
}

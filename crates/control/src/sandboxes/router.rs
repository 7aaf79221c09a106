//! What a computer may ask of sandboxes, on its own socket.

use super::associate::{ended_for, read_finished};
use super::{Error, Sandboxes};
use crate::gateway::lines;
use crate::http::Refused;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use choir_proto::wire::{ExecFrame, FinishAssociate, OutputStream, StartAssociate, WatchFiles, WatchFrame};
use choir_proto::{Hash, TaskId};
use choir_sandbox::runtime::{ExecError, ExecEvent, ExecHandle};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Instant;
use tokio::sync::mpsc;

/// Frames that may wait for the computer. A command that floods faster loses what comes later, and is told so.
const FRAMES: usize = 1024;

/// The routes for sandboxes.
pub fn service(sandboxes: Sandboxes) -> Router {
    Router::new()
        .route("/associates/{task}", put(start).delete(kill))
        .route("/associates/{task}/exec", post(exec))
        .route("/associates/{task}/finish", post(finish))
        .route("/associates/{task}/side", post(take_side))
        .route("/associates/{task}/files", get(read).put(write))
        .route("/associates/{task}/files/list", get(list))
        .route("/associates/{task}/edit", post(edit))
        .route("/associates/{task}/write", post(write_for))
        .route("/associates/{task}/capture", post(capture))
        .route("/associates/{task}/finished", delete(forget))
        .route("/changes/undo", post(undo))
        .route("/trees/{tree}/files", post(read_tree))
        .route("/workspace/live", get(live))
        .route("/workspace/picture", get(picture))
        .route("/workspace/watch", post(watch))
        .route("/workspace/mirror", put(mirror))
        .route("/effects/{id}", get(effect))
        .layer(DefaultBodyLimit::max(super::files::AGENT_FILE_BYTES_MAX as usize))
        .with_state(sandboxes)
}

#[derive(Deserialize)]
struct At {
    #[serde(default)]
    path: String,
}

async fn start(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<Response, Refused> {
    let wish: StartAssociate = parse(&body)?;
    Ok(axum::Json(all.start_associate(task, wish).await?).into_response())
}

async fn kill(State(all): State<Sandboxes>, Path(task): Path<TaskId>) -> StatusCode {
    all.kill_associate(task).await;
    StatusCode::NO_CONTENT
}

async fn capture(State(all): State<Sandboxes>, Path(task): Path<TaskId>) -> Result<Response, Refused> {
    Ok(axum::Json(all.capture_associate(task).await?).into_response())
}

async fn forget(State(all): State<Sandboxes>, Path(task): Path<TaskId>) -> Result<StatusCode, Refused> {
    all.forget_associate(task).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn undo(State(all): State<Sandboxes>, body: Bytes) -> Result<Response, Refused> {
    Ok(axum::Json(all.undo(parse(&body)?).await?).into_response())
}

async fn read_tree(State(all): State<Sandboxes>, Path(tree): Path<Hash>, body: Bytes) -> Result<Response, Refused> {
    Ok(axum::Json(all.read_tree(tree, &parse(&body)?).await?).into_response())
}

async fn watch(State(all): State<Sandboxes>, body: Bytes) -> Result<Response, Refused> {
    let wanted: WatchFiles = parse(&body)?;
    let (frames, stream) = mpsc::channel(FRAMES);
    tokio::spawn(async move {
        if let Err(error) = all.watch(wanted, &frames).await {
            // Whoever listened has gone.
            frames.send(WatchFrame::Failed { message: super::error::chain(&error) }).await.ok();
        }
    });
    Ok(lines(stream))
}

async fn live(State(all): State<Sandboxes>, Query(at): Query<At>) -> Result<Response, Refused> {
    Ok(axum::Json(all.live(&at.path).await?).into_response())
}

async fn picture(State(all): State<Sandboxes>, Query(at): Query<At>) -> Result<Response, Refused> {
    Ok(match all.picture(&at.path).await? {
        Some((sort, bytes)) => ([(CONTENT_TYPE, sort)], bytes).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn mirror(State(all): State<Sandboxes>, body: Bytes) -> Result<Response, Refused> {
    Ok(axum::Json(all.mirror(parse(&body)?).await?).into_response())
}

async fn finish(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<Response, Refused> {
    let finish: FinishAssociate = parse(&body)?;
    Ok(axum::Json(all.finish_associate(task, finish).await?).into_response())
}

async fn take_side(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<Response, Refused> {
    Ok(axum::Json(all.take_side(task, parse(&body)?).await?).into_response())
}

async fn effect(State(all): State<Sandboxes>, Path(id): Path<String>) -> Result<Response, Refused> {
    Ok(axum::Json(all.effect(&id)?).into_response())
}

async fn read(State(all): State<Sandboxes>, Path(task): Path<TaskId>, Query(at): Query<At>) -> Result<Bytes, Refused> {
    Ok(all.read_in(task, &at.path).await?)
}

async fn write(
    State(all): State<Sandboxes>,
    Path(task): Path<TaskId>,
    Query(at): Query<At>,
    body: Bytes,
) -> Result<StatusCode, Refused> {
    all.write_in(task, &at.path, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn edit(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<Response, Refused> {
    Ok(axum::Json(all.edit_in(task, parse(&body)?).await?).into_response())
}

async fn write_for(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<StatusCode, Refused> {
    all.write_for(task, parse(&body)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list(State(all): State<Sandboxes>, Path(task): Path<TaskId>, Query(at): Query<At>) -> Result<String, Refused> {
    Ok(all.list_in(task, &at.path).await?)
}

async fn exec(State(all): State<Sandboxes>, Path(task): Path<TaskId>, body: Bytes) -> Result<Response, Refused> {
    let running = all.exec(task, parse(&body)?).await;
    let (frames, stream) = mpsc::channel(FRAMES);
    match running {
        Ok(running) => drop(tokio::spawn(pump(running, frames))),
        // The same shape as a failure under way: the caller has one way to read both.
        Err(error @ Error::Exec(_)) => frames.try_send(failed(&error)).map_err(|_| Refused::not_found())?,
        Err(other) => return Err(other.into()),
    }
    Ok(lines(stream))
}

/// Passes on what a command says. A caller that goes away ends the command.
async fn pump(mut running: ExecHandle, frames: mpsc::Sender<ExecFrame>) {
    let began = Instant::now();
    loop {
        let event = tokio::select! {
            event = running.next() => event,
            () = frames.closed() => return,
        };
        let (frame, last) = match event {
            Ok(ExecEvent::Stdout(bytes)) => (output(OutputStream::Stdout, &bytes), false),
            Ok(ExecEvent::Stderr(bytes)) => (output(OutputStream::Stderr, &bytes), false),
            Ok(ExecEvent::Exit(finished)) => (ExecFrame::Exit(read_finished(&finished)), true),
            Err(ExecError::Exceeded(limit)) => (ExecFrame::Exit(ended_for(limit, began.elapsed())), true),
            Err(error) => (failed(&Error::Exec(error)), true),
        };
        if frames.send(frame).await.is_err() || last {
            return;
        }
    }
}

fn output(stream: OutputStream, bytes: &[u8]) -> ExecFrame {
    ExecFrame::Output { stream, data: BASE64_STANDARD.encode(bytes) }
}

fn failed(error: &Error) -> ExecFrame {
    ExecFrame::Failed { message: super::error::chain(error) }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::bad_request(format!("This cannot be read: {error}."), "See the wire messages."))
}

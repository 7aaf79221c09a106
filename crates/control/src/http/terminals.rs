//! `/api/terminals…`: terminals of the session associate, spliced through.

use super::App;
use super::auth::{Account, Lease};
use super::error::Refused;
use super::extract::Named;
use super::goodbye;
use super::json::Json;
use crate::sandboxes::{Terminal, Viewer};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use choir_proto::TerminalId;
use choir_proto::event::{Actor, Event, TerminalClosed, TerminalOpened};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Sizes that make sense; the guest has the last word.
const SIZE_MAX: u16 = 500;
/// What is typed or pasted in one frame.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const READ_BUFFER: usize = 4 << 10;
const WRITE_BUFFER: usize = 16 << 10;
/// How long a viewer may take for a piece before it counts as gone.
const SEND: Duration = Duration::from_secs(20);

/// A size in characters.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    cols: u16,
    rows: u16,
}

/// What is open.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Terminals {
    terminals: Vec<Opened>,
}

/// A terminal.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Opened {
    terminal_id: TerminalId,
    cols: u16,
    rows: u16,
}

/// A text frame from the browser.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    resize: Size,
}

/// Every open terminal.
#[utoipa::path(get, path = "/api/terminals", tag = "terminals", responses((status = 200, body = Terminals)))]
pub(super) async fn list(State(app): State<App>) -> Json<Terminals> {
    Json(Terminals { terminals: app.sandboxes.terminals().iter().map(|terminal| opened(terminal)).collect() })
}

/// Opens a terminal.
#[utoipa::path(post, path = "/api/terminals", tag = "terminals", request_body = Size,
    responses((status = 200, body = Opened), (status = 503, body = choir_proto::ApiError)))]
pub(super) async fn open(State(app): State<App>, Json(size): Json<Size>) -> Result<Json<Opened>, Refused> {
    let size = check(size)?;
    let terminal = app.sandboxes.open_terminal(size.cols, size.rows).await?;
    let event = Event::from(TerminalOpened { terminal_id: terminal.id });
    if let Err(refused) = app.record(Actor::Person, &event).await {
        // What the log does not know of must not run.
        if let Err(error) = terminal.close().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a terminal could not be closed");
        }
        return Err(refused);
    }
    tokio::spawn(tell_end(app.clone(), terminal.clone()));
    Ok(Json(opened(&terminal)))
}

/// Ends a terminal and everything that runs in it.
#[utoipa::path(delete, path = "/api/terminals/{id}", tag = "terminals", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn close(State(app): State<App>, Named(id): Named<TerminalId>) -> Result<StatusCode, Refused> {
    let terminal = app.sandboxes.terminal(id)?;
    terminal.close().await?;
    terminal.ended().await;
    Ok(StatusCode::NO_CONTENT)
}

/// A terminal as a WebSocket: binary frames are bytes, text frames are `{"resize": {"cols", "rows"}}`.
#[utoipa::path(get, path = "/api/terminals/{id}", tag = "terminals", params(("id" = String, Path)),
    responses((status = 101, description = "the terminal"), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn attach(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    Named(id): Named<TerminalId>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let terminal = app.sandboxes.terminal(id)?;
    let hint = "Open this address as a WebSocket.";
    let upgrade = upgrade.map_err(|error| Refused::bad_request(error.body_text(), hint))?;
    let viewer = terminal.view().await?;
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(move |socket| Box::pin(splice(app, account, terminal, viewer, socket))))
}

/// Passes bytes both ways until one side ends.
async fn splice(app: App, account: Account, terminal: Arc<Terminal>, mut viewer: Viewer, mut socket: WebSocket) {
    let mut lease = Lease::of(&app, account);
    let mut stop = app.stop.clone();
    let normal = |reason| CloseFrame { code: close_code::NORMAL, reason: Utf8Bytes::from(reason) };
    let frame = loop {
        tokio::select! {
            shown = viewer.next() => match shown {
                Ok(bytes) => match tokio::time::timeout(SEND, socket.send(Message::Binary(bytes))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                },
                Err(ended) => {
                    break normal(ended.exit_code.map_or("ended".to_owned(), |code| format!("ended with {code}")));
                }
            },
            message = socket.recv() => match message {
                Some(Ok(message)) => match take(&terminal, message).await {
                    Taken::Done => {}
                    Taken::NotUnderstood => break not_understood(),
                    Taken::Over => return,
                },
                Some(Err(error)) => match goodbye::to_sender_of(error) {
                    Some(frame) => break frame,
                    None => return,
                },
                None => return,
            },
            () = lease.doubted() => if !lease.holds().await { break normal("signed out".to_owned()) },
            () = stop.said() => break normal("stopping".to_owned()),
        }
    };
    // The browser may be gone; then nobody has to be told.
    tokio::time::timeout(SEND, socket.send(Message::Close(Some(frame)))).await.ok();
}

/// What came of a frame.
enum Taken {
    Done,
    /// It says nothing that a terminal could do.
    NotUnderstood,
    /// The connection or the terminal has ended.
    Over,
}

fn not_understood() -> CloseFrame {
    let reason = format!("a text frame is {{\"resize\": {{\"cols\", \"rows\"}}}}, each 1 to {SIZE_MAX}");
    CloseFrame { code: close_code::INVALID, reason: Utf8Bytes::from(reason) }
}

/// Does what a frame says.
async fn take(terminal: &Terminal, message: Message) -> Taken {
    let done = match message {
        Message::Binary(bytes) => terminal.write(bytes).await,
        Message::Text(text) => {
            match serde_json::from_str::<Order>(&text).ok().and_then(|order| check(order.resize).ok()) {
                Some(size) => terminal.resize(size.cols, size.rows).await,
                None => return Taken::NotUnderstood,
            }
        }
        Message::Close(_) => return Taken::Over,
        Message::Ping(_) | Message::Pong(_) => return Taken::Done,
    };
    if done.is_ok() { Taken::Done } else { Taken::Over }
}

/// Tells the log when a terminal has ended, by itself or by order.
async fn tell_end(app: App, terminal: Arc<Terminal>) {
    let ended = terminal.ended().await;
    let event = Event::from(TerminalClosed { terminal_id: terminal.id, exit_code: ended.exit_code });
    if app.record(Actor::Person, &event).await.is_err() {
        tracing::warn!(terminal = %terminal.id, "the log was not told that a terminal ended");
    }
}

fn opened(terminal: &Terminal) -> Opened {
    let (cols, rows) = terminal.size();
    Opened { terminal_id: terminal.id, cols, rows }
}

fn check(size: Size) -> Result<Size, Refused> {
    let good = |length: u16| (1..=SIZE_MAX).contains(&length);
    match good(size.cols) && good(size.rows) {
        true => Ok(size),
        false => {
            Err(Refused::bad_field("This is no size for a terminal.", format!("Use 1 to {SIZE_MAX} cols and rows.")))
        }
    }
}

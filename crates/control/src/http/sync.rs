//! `WS /api/documents/{id}/sync`: a browser at a document. Control knows who it is and when they have to go; what is
//! said is between them and the computer.

use super::App;
use super::auth::{Account, Lease};
use super::error::Refused;
use super::extract::{Asked, Named};
use super::goodbye;
use crate::computer::{Incoming, request};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use choir_proto::DocumentId;
use choir_proto::wire::frames::{ANEW, Frame, Frames, MESSAGE_BYTES_MAX, TOGETHER_BYTES};
use futures_util::stream::unfold;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;

const READ_BUFFER: usize = 4 << 10;
const WRITE_BUFFER: usize = 16 << 10;
/// How long a browser may take for a message before it counts as gone.
const SEND: Duration = Duration::from_secs(20);
/// Messages on their way to the computer. Whoever writes faster than it commits waits.
const QUEUED_MAX: usize = 16;

/// Longest reason that fits a close frame.
const REASON_BYTES_MAX: usize = 123;

/// What a browser has already.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Known {
    /// Which generation it is of; zero is nothing.
    generation: Option<u64>,
}

/// A document as a WebSocket: binary frames are messages of the Yjs protocol about the text `content`. A message of type
/// 100 holds two numbers: how many of the sender's updates are in the log, and the version that they made. Whoever keeps what
/// they have over several visits says of which `generation` it is, zero at first, and hears it in a message of type 101. A visit
/// that ends with 4001 has to begin with nothing: something of the document was erased.
#[utoipa::path(get, path = "/api/documents/{id}/sync", tag = "documents", params(("id" = String, Path), Known),
    responses((status = 101, description = "the document"), (status = 404, body = choir_proto::ApiError)))]
pub(super) async fn open(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    Named(id): Named<DocumentId>,
    Asked(known): Asked<Known>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let hint = "Open this address as a WebSocket.";
    let upgrade = upgrade.map_err(|error| Refused::bad_request(error.body_text(), hint))?;
    let (to_computer, from_computer) = connect(&app, id, &known).await?;
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(move |socket| Box::pin(carry(app, account, socket, to_computer, from_computer))))
}

/// Opens the computer's side of it, before the browser is promised anything.
async fn connect(app: &App, id: DocumentId, known: &Known) -> Result<(mpsc::Sender<Bytes>, Incoming), Refused> {
    let (sender, receiver) = mpsc::channel(QUEUED_MAX);
    let frames = unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async move {
        let first = receiver.recv().await?;
        Some((Ok::<_, Infallible>(together(first, &mut receiver)), receiver))
    });
    let path = match known.generation {
        Some(generation) => format!("/internal/documents/{id}/sync?generation={generation}"),
        None => format!("/internal/documents/{id}/sync"),
    };
    let response = app.link.send(request(Method::POST, &path, Body::from_stream(frames))).await?;
    match response.status() {
        status if status.is_success() => Ok((sender, response.into_body())),
        StatusCode::NOT_FOUND => Err(Refused::not_found()),
        status => Err(crate::computer::LinkError::Refused(status).into()),
    }
}

/// What came with the first frame while nobody took it, in one piece: pieces cost more than what is in them.
fn together(first: Bytes, receiver: &mut mpsc::Receiver<Bytes>) -> Bytes {
    let Ok(second) = receiver.try_recv() else { return first };
    let mut together = first.to_vec();
    together.extend_from_slice(&second);
    while together.len() < TOGETHER_BYTES
        && let Ok(next) = receiver.try_recv()
    {
        together.extend_from_slice(&next);
    }
    together.into()
}

/// Carries messages both ways until one side ends.
async fn carry(
    app: App,
    account: Account,
    mut socket: WebSocket,
    to_computer: mpsc::Sender<Bytes>,
    mut from_computer: Incoming,
) {
    let mut lease = Lease::of(&app, account);
    let mut stop = app.stop.clone();
    let mut frames = Frames::of_computer();
    let goodbye = loop {
        tokio::select! {
            piece = from_computer.frame() => {
                let Some(Ok(piece)) = piece else { break again("the computer is restarting") };
                frames.push(piece.data_ref().map(|data| &data[..]).unwrap_or_default());
                match pass(&mut frames, &mut socket).await {
                    Passed::More => {}
                    Passed::Gone => return,
                    Passed::Closed(frame) => break frame,
                }
            }
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    let frame = Bytes::from(Frame::Message(bytes.into()).encode());
                    // The computer's own word on why it listens no more comes by the other way.
                    if to_computer.send(frame).await.is_err() {
                        continue;
                    }
                }
                Some(Ok(Message::Text(_))) => break policy("documents are synchronised by binary frames"),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) => return goodbye::answer(&mut socket).await,
                None => return,
                Some(Err(error)) => match goodbye::to_sender_of(error) {
                    Some(frame) => break frame,
                    None => return,
                },
            },
            () = lease.doubted() => if !lease.holds().await { break policy("signed out") },
            () = stop.said() => break CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::from_static("stopping") },
        }
    };
    // The browser may be gone; then nobody has to be told.
    tokio::time::timeout(SEND, socket.send(Message::Close(Some(goodbye)))).await.ok();
}

enum Passed {
    More,
    Gone,
    Closed(CloseFrame),
}

/// Gives the browser every whole frame.
async fn pass(frames: &mut Frames, socket: &mut WebSocket) -> Passed {
    loop {
        let message = match frames.next_frame() {
            Ok(Some(Frame::Message(message))) => message,
            Ok(Some(Frame::Close { code, reason })) => return Passed::Closed(closing(code, &reason)),
            Ok(None) => return Passed::More,
            Err(error) => {
                tracing::warn!(%error, "a computer spoke nonsense about a document");
                return Passed::Closed(again("the computer spoke nonsense"));
            }
        };
        match tokio::time::timeout(SEND, socket.send(Message::Binary(message.into()))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Passed::Gone,
        }
    }
}

fn again(reason: &'static str) -> CloseFrame {
    CloseFrame { code: close_code::AGAIN, reason: Utf8Bytes::from_static(reason) }
}

fn policy(reason: &'static str) -> CloseFrame {
    CloseFrame { code: close_code::POLICY, reason: Utf8Bytes::from_static(reason) }
}

/// The computer's word, as far as a close frame can hold it. Codes that only endpoints may use are not believed.
fn closing(code: u16, reason: &str) -> CloseFrame {
    let end = (0..=reason.len().min(REASON_BYTES_MAX)).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    let code = if matches!(code, close_code::POLICY | close_code::AGAIN | ANEW) { code } else { close_code::ERROR };
    CloseFrame { code, reason: Utf8Bytes::from(&reason[..end]) }
}

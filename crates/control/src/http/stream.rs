//! `WS /api/stream`: the log, pushed. No gap, no duplicate, no queue of its own: every socket is a position in the
//! ring that all of them share.

use super::App;
use super::auth::{Account, Lease};
use super::error::Refused;
use super::extract::Asked;
use super::goodbye;
use crate::computer::{LINE_BYTES_MAX, LinkError, Read, Wanted};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use choir_proto::Seq;
use choir_proto::wire::Head;
use futures_util::SinkExt;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// Small on purpose: a reader says nothing, and a thousand idle ones should cost little.
const READ_BUFFER: usize = 4 << 10;
/// Enough for a burst in one system call.
const WRITE_BUFFER: usize = 8 << 10;
/// Readers send only pings and goodbyes.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Lines that are taken from the ring at once.
const BATCH: usize = 64;
/// Events in one page while catching up.
const PAGE: usize = 256;
/// How long a reader may take for a batch before it counts as gone.
const SEND: Duration = Duration::from_secs(20);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    #[serde(default)]
    after: Seq,
    #[serde(default)]
    live: bool,
}

/// The log as a WebSocket: one JSON event in each text frame, from `after` on, without gap or duplicate.
///
/// With `live=true` there are frames between them that are no events and in no log: pieces of a model's answer while it is
/// being given, `{"kind": "live", "run", "task", "actor", "delta"}`. They have no `seq`, and whoever misses one finds the whole in the
/// event that follows.
#[utoipa::path(get, path = "/api/stream", tag = "events",
    params(
        ("after" = Option<u64>, Query, description = "the last position that is already known"),
        ("live" = Option<bool>, Query, description = "whether pieces that are in no log are wanted too; false unless said"),
    ),
    responses((status = 101, description = "the stream"), (status = 400, body = choir_proto::ApiError)))]
pub(super) async fn open(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    Asked(from): Asked<From>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    let hint = "Open /api/stream?after=SEQ as a WebSocket.";
    let upgrade = upgrade.map_err(|error| Refused::bad_request(error.body_text(), hint))?;
    reachable(&app, from.after).await?;
    let wanted = if from.live { Wanted::Live } else { Wanted::Events };
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        // Room for the longest event: what does not fit is an error that nobody is told of.
        .max_write_buffer_size(WRITE_BUFFER + 2 * LINE_BYTES_MAX)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        // Boxed, so that the task of an idle reader stays small.
        .on_upgrade(move |socket| Box::pin(Reader { app, account, socket, after: from.after, wanted }.run())))
}

/// A position that the log has not reached is not waited for: whoever knows it knows another log. The computer tells, since
/// what it has acknowledged may not have come by the subscription yet; without one there is nobody to contradict.
async fn reachable(app: &App, after: Seq) -> Result<(), Refused> {
    if app.hub.head().is_none_or(|head| after <= head) {
        return Ok(());
    }
    let Ok(head) = app.link.get::<Head>("/internal/head").await else { return Ok(()) };
    if after <= head.seq {
        return Ok(());
    }
    let message = format!("The log ends at {}, before {after}.", head.seq);
    Err(Refused::new(
        StatusCode::BAD_REQUEST,
        "beyond_head",
        message,
        "Begin with after=0, or at a position that was told.",
    ))
}

struct Reader {
    app: App,
    account: Account,
    socket: WebSocket,
    /// Everything up to here has been handed to the socket.
    after: Seq,
    wanted: Wanted,
}

/// Why a stream ends.
enum End {
    /// The reader left or its connection broke: nobody to tell.
    Gone,
    /// The reader said goodbye.
    Left,
    /// The reader sent what no reader sends.
    Broken(CloseFrame),
    Slow,
    SignedOut,
    Stopping,
    ComputerAway,
    /// The log has a hole here, and nobody is led over it unawares.
    Damaged,
}

impl Reader {
    async fn run(mut self) {
        let end = self.pump().await;
        let (code, reason) = match end {
            End::Gone => return,
            End::Left => return goodbye::answer(&mut self.socket).await,
            End::Broken(frame) => (frame.code, frame.reason.to_string()),
            End::Slow => (close_code::AGAIN, "too slow".to_owned()),
            End::SignedOut => (close_code::POLICY, "signed out".to_owned()),
            End::Stopping => (close_code::AWAY, "stopping".to_owned()),
            End::ComputerAway => (close_code::AGAIN, "the computer is restarting".to_owned()),
            End::Damaged => (close_code::ERROR, "the log is damaged here".to_owned()),
        };
        let reason = match code {
            close_code::ERROR => format!("{reason}; GET /api/events?after={} says where it goes on", self.after),
            _ => format!("{reason}; resume with after={}", self.after),
        };
        let reason = Utf8Bytes::from(reason);
        let goodbye = self.socket.send(Message::Close(Some(CloseFrame { code, reason })));
        // A reader that is too slow may not even take its goodbye; it is told as far as it listens.
        if tokio::time::timeout(SEND, goodbye).await.is_err() {
            tracing::debug!("a stream was cut without a goodbye");
        }
    }

    async fn pump(&mut self) -> End {
        let mut bell = self.app.hub.listen();
        let mut lease = Lease::of(&self.app, self.account);
        let mut stop = self.app.stop.clone();
        let mut position = None;
        loop {
            let sent = match position {
                Some(at) => self.send_from(at).await,
                None => self.catch_up().await,
            };
            match sent {
                Ok(next) if position != next => {
                    position = next;
                    continue;
                }
                Ok(_) => {}
                Err(end) => return end,
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { return End::Stopping },
                message = self.socket.recv() => match message {
                    Some(Ok(Message::Close(_))) => return End::Left,
                    None => return End::Gone,
                    Some(Err(error)) => return goodbye::to_sender_of(error).map_or(End::Gone, End::Broken),
                    Some(Ok(_)) => {}
                },
                () = lease.doubted() => if !lease.holds().await { return End::SignedOut },
                () = stop.said() => return End::Stopping,
            }
        }
    }

    /// Sends pages of the log until the ring reaches back far enough. Nothing: the ring does not stand yet.
    async fn catch_up(&mut self) -> Result<Option<u64>, End> {
        loop {
            match self.app.hub.position(self.after) {
                Err(_) => return Ok(None),
                Ok(Some(position)) => return Ok(Some(position)),
                Ok(None) => {}
            }
            let path = format!("/api/events?after={}&limit={PAGE}", self.after);
            let page: Page = self.app.link.page(&path).await.map_err(|error| computer_away(&error))?;
            if page.events.is_empty() {
                return Err(End::ComputerAway);
            }
            let lines: Result<Vec<_>, _> = page.events.into_iter().map(line).collect();
            self.send(lines.map_err(|_| End::ComputerAway)?).await?;
        }
    }

    /// Sends what stands in the ring from a position and says where it ends. Nothing: it has to be read from the log.
    async fn send_from(&mut self, position: u64) -> Result<Option<u64>, End> {
        let (lines, next) = match self.app.hub.read(position, self.after, self.wanted, BATCH) {
            Read::Lines { lines, next } => (lines, next),
            Read::Lapped => return Err(End::Slow),
            Read::Forgotten => return Ok(None),
        };
        if !lines.is_empty() {
            self.send(lines).await?;
        }
        Ok(Some(next))
    }

    /// Sends lines, each with the last event that whoever has it has seen. What the socket has taken will arrive, even if the
    /// rest does not: it comes before the goodbye.
    async fn send(&mut self, lines: Vec<(Seq, Utf8Bytes)>) -> Result<(), End> {
        let sending = async {
            for (seen, line) in lines {
                self.socket.feed(Message::Text(line)).await?;
                self.after = seen;
            }
            self.socket.flush().await
        };
        match tokio::time::timeout(SEND, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }
}

/// An event of a page, with its place.
fn line(event: Box<RawValue>) -> Result<(Seq, Utf8Bytes), serde_json::Error> {
    let Position { seq } = serde_json::from_str(event.get())?;
    Ok((seq, String::from(Box::<str>::from(event)).into()))
}

fn computer_away(error: &LinkError) -> End {
    tracing::debug!(error = error as &dyn std::error::Error, "a stream could not catch up");
    match error {
        LinkError::Refused(StatusCode::INTERNAL_SERVER_ERROR) => End::Damaged,
        _ => End::ComputerAway,
    }
}

#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Position {
    seq: Seq,
}

//! One browser at one document: its messages come in the body of a request, ours go in the answer to it. Control holds
//! the WebSocket and knows who it is.

use super::App;
use super::reject::{Rejection, id};
use crate::document::{Inbox, Leave, Member, Outgoing};
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use choir_proto::wire::frames::{Frame, Frames, TOGETHER_BYTES};
use choir_proto::{DocumentId, Seq};
use futures_util::stream::unfold;
use http_body_util::BodyExt;
use serde::Deserialize;
use std::convert::Infallible;
use tokio::sync::oneshot;

/// What a browser has already.
#[derive(Deserialize)]
pub(super) struct Known {
    /// Which generation it is of; zero is nothing.
    generation: Option<u64>,
}

pub(super) async fn open(
    State(app): State<App>,
    Path(document): Path<String>,
    Query(Known { generation }): Query<Known>,
    body: Body,
) -> Result<Response, Rejection> {
    let document: DocumentId = id(&document, "document")?;
    let entered = app
        .harness
        .documents
        .enter(document, generation.map(Seq))
        .await?
        .ok_or_else(|| Rejection::missing("document"))?;
    let (member, outgoing) = match entered {
        Ok(entered) => entered,
        Err(leave) => return Ok(close(leave).encode().into_response()),
    };
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(leave) = listen(&member, body).await {
            // Whoever is not there any more needs no reason.
            end.send(leave).ok();
        }
    });
    let frames = unfold(Talk { outgoing, ended: Some(ended) }, |mut talk| async move {
        let mut bytes = talk.next().await?.encode();
        // What waits already goes with it: pieces cost more than what is in them.
        while bytes.len() < TOGETHER_BYTES
            && let Some(frame) = talk.ready()
        {
            bytes.extend(frame.encode());
        }
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), talk))
    });
    Ok(Body::from_stream(frames).into_response())
}

/// Takes messages until the browser leaves or has to.
async fn listen(member: &Member, mut body: Body) -> Result<(), Leave> {
    let mut frames = Frames::of_browser();
    while let Some(Ok(piece)) = body.frame().await {
        frames.push(piece.data_ref().map(|data| &data[..]).unwrap_or_default());
        while let Some(frame) = frames.next_frame().map_err(Leave::refused)? {
            match frame {
                Frame::Message(message) => member.take(&message).await?,
                Frame::Close { .. } => return Ok(()),
            }
        }
    }
    Ok(())
}

/// What goes to the browser.
struct Talk {
    outgoing: Inbox,
    /// Why it has to leave; taken once.
    ended: Option<oneshot::Receiver<Leave>>,
}

impl Talk {
    /// A message that waits.
    fn ready(&mut self) -> Option<Frame> {
        match self.outgoing.try_recv()? {
            Outgoing::Message(message) => Some(Frame::Message(message.into())),
            Outgoing::Close(leave) => Some(close(leave)),
        }
    }

    async fn next(&mut self) -> Option<Frame> {
        let ended = async {
            match &mut self.ended {
                Some(ended) => ended.await.ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            said = self.outgoing.recv() => match said {
                Some(Outgoing::Message(message)) => Some(Frame::Message(message.into())),
                Some(Outgoing::Close(leave)) => Some(close(leave)),
                // The seat is given up after the reason is said.
                None => self.ended.take()?.try_recv().ok().map(close),
            },
            leave = ended => {
                self.ended = None;
                leave.map(close)
            }
        }
    }
}

fn close(leave: Leave) -> Frame {
    Frame::Close { code: leave.code, reason: leave.reason }
}

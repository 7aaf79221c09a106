//! Telling callers how their appends ended.

use super::Reply;
use crate::log::{AppendError, Appended};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Callers from which on a task answers them: waking one from a thread of the runtime costs a fraction of waking it from
/// here, but the task has to be woken first.
const MANY: usize = 8;

type Told = (Reply, Result<Appended, AppendError>);

/// The way back to the callers.
pub(super) struct Replies {
    /// Absent when the log was opened outside of a runtime. Holds at most what callers wait for.
    many: Option<UnboundedSender<Vec<Told>>>,
}

impl Replies {
    pub(super) fn start() -> Self {
        let many = Handle::try_current().ok().map(|runtime| {
            let (sender, told) = unbounded_channel();
            runtime.spawn(hand_out(told));
            sender
        });
        Self { many }
    }

    pub(super) fn send(&self, replies: Vec<Told>) {
        match &self.many {
            Some(many) if replies.len() >= MANY => {
                if let Err(unsent) = many.send(replies) {
                    tell(unsent.0);
                }
            }
            _ => tell(replies),
        }
    }
}

async fn hand_out(mut told: UnboundedReceiver<Vec<Told>>) {
    while let Some(replies) = told.recv().await {
        tell(replies);
    }
}

fn tell(replies: Vec<Told>) {
    for (reply, answer) in replies {
        // The caller may have stopped waiting; its events are in the log all the same.
        reply.send(answer).ok();
    }
}

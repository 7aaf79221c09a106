//! Telling callers how their appends ended.

use super::Reply;
use crate::log::{AppendError, Appended};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Callers from which on a task answers them: waking one from a thread of the runtime costs a fraction of waking it from
/// here, but the task has to be woken first.
const MANY: usize = 8;

type Told = (Reply, Result<Appended, AppendError>);

/// Replies of one commit on their way to the task that hands them out, and what tells it that it may.
type Held = (Vec<Told>, oneshot::Receiver<()>);

/// The way back to the callers.
pub(super) struct Replies {
    /// Absent when the log was opened outside of a runtime. Holds at most what callers wait for.
    many: Option<UnboundedSender<Held>>,
}

/// Replies that nobody has yet. Waking the task that hands them out takes a while, in which the commit is published; whoever
/// is told of an append can then read it.
#[must_use]
pub(super) enum Waiting {
    Few(Vec<Told>),
    Many(oneshot::Sender<()>),
}

impl Replies {
    pub(super) fn start() -> Self {
        let many = Handle::try_current().ok().map(|runtime| {
            let (sender, held) = unbounded_channel();
            runtime.spawn(hand_out(held));
            sender
        });
        Self { many }
    }

    /// Begins to wake whoever hands the replies out.
    pub(super) fn hold(&self, replies: Vec<Told>) -> Waiting {
        let Some(many) = self.many.as_ref().filter(|_| replies.len() >= MANY) else { return Waiting::Few(replies) };
        let (publish, published) = oneshot::channel();
        match many.send((replies, published)) {
            Ok(()) => Waiting::Many(publish),
            Err(unsent) => Waiting::Few(unsent.0.0),
        }
    }
}

impl Waiting {
    /// The commit can be read: the callers may know.
    pub(super) fn release(self) {
        match self {
            Self::Few(replies) => tell(replies),
            // Nobody listens when the runtime is shutting down; then no caller waits either.
            Self::Many(publish) => drop(publish.send(())),
        }
    }
}

async fn hand_out(mut held: UnboundedReceiver<Held>) {
    while let Some((replies, published)) = held.recv().await {
        if published.await.is_ok() {
            tell(replies);
        }
    }
}

fn tell(replies: Vec<Told>) {
    for (reply, answer) in replies {
        // The caller may have stopped waiting; its events are in the log all the same.
        reply.send(answer).ok();
    }
}

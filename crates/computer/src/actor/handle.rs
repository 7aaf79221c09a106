//! How everybody else speaks to the session. Mailboxes of actors have no end, so the bound stands here: a message from outside
//! takes a seat, and keeps it until whoever it is meant for has dealt with it.

use super::session::SessionMessage;
use super::{ActorError, Reply};
use ractor::{ActorRef, RpcReplyPort};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// How long a question to an actor may take.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Messages from outside on their way at once: far more than people send, and few enough to hold in memory.
const SEATS: usize = 1024;

/// A message, with the seat that it holds; what an actor says to itself needs none.
pub(super) struct Seated<M> {
    pub(super) message: M,
    pub(super) seat: Option<Seat>,
}

impl<M> Seated<M> {
    /// What an actor says to itself, or a worker to its actor.
    pub(super) fn own(message: M) -> Self {
        Self { message, seat: None }
    }
}

/// A place among the messages on their way.
#[must_use]
pub struct Seat(#[expect(dead_code, reason = "dropping it gives the place back")] OwnedSemaphorePermit);

/// What reaches the session, whichever it is at the moment.
#[derive(Clone)]
pub struct Handle {
    current: watch::Receiver<Option<ActorRef<Seated<SessionMessage>>>>,
    seats: Arc<Semaphore>,
}

impl Handle {
    pub(super) fn new(current: watch::Receiver<Option<ActorRef<Seated<SessionMessage>>>>) -> Self {
        Self { current, seats: Arc::new(Semaphore::new(SEATS)) }
    }

    /// Whether there is a session now, or one is about to be started again.
    pub fn is_there(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// A seat for a message that must not be lost once something is written down: taken before that.
    pub async fn seat(&self) -> Result<Seat, ActorError> {
        self.seat_until(Instant::now() + CALL_DEADLINE).await
    }

    async fn seat_until(&self, deadline: Instant) -> Result<Seat, ActorError> {
        let seat = timeout_at(deadline, Arc::clone(&self.seats).acquire_owned()).await;
        seat.ok().and_then(Result::ok).map(Seat).ok_or(ActorError::Silent("the session"))
    }

    /// Says something that is in the log already: without a session right now, the next one finds it there.
    pub fn tell(&self, seat: Seat, message: SessionMessage) {
        if let Some(session) = &*self.current.borrow() {
            session.send_message(Seated { message, seat: Some(seat) }).ok();
        }
    }

    /// Asks and waits for the answer, but not for ever.
    pub async fn ask(
        &self,
        name: &'static str,
        message: impl FnOnce(Reply) -> SessionMessage,
    ) -> Result<choir_proto::Seq, ActorError> {
        let deadline = Instant::now() + CALL_DEADLINE;
        let seat = Some(self.seat_until(deadline).await?);
        let session = self.current.borrow().clone().ok_or(ActorError::Silent("the session"))?;
        let (reply, answer) = tokio::sync::oneshot::channel();
        let message = message(RpcReplyPort::from(reply));
        session.send_message(Seated { message, seat }).map_err(|_| ActorError::Silent(name))?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Err(ActorError::Silent(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_so_many_messages_are_on_their_way() {
        let (_session, current) = watch::channel(None);
        let handle = Handle::new(current);
        let mut held = Vec::new();
        for _ in 0..SEATS {
            held.push(handle.seat().await.unwrap());
        }
        assert!(matches!(handle.seat().await, Err(ActorError::Silent(_))), "the last one waits in vain");
        held.pop();
        assert!(handle.seat().await.is_ok());
    }
}

//! Those who wait for the writing thread.
//!
//! Callers on other processors come one by one, and the writer takes all who have come in one grasp: with a channel it would touch
//! what callers are just changing once for each of them, which takes longer than writing an event.

use super::Command;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Commands waiting to be taken. More callers wait for a place, which slows them down instead of filling memory.
const WAITING_MAX: usize = 1024;

/// Where callers put what they ask for. The last one to drop it ends the queue.
#[derive(Debug)]
pub(crate) struct Queue(Arc<Shared>);

/// The one who takes it. Whatever is left when it is dropped is dropped with it, and whoever waits hears that the log is closed.
pub(crate) struct Taker {
    shared: Arc<Shared>,
    /// Taken, and not looked at yet.
    at_hand: VecDeque<Command>,
}

#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
    /// How many are in the line, for whoever looks without a wish to hold it.
    waiting: AtomicUsize,
    came: Condvar,
    room: Notify,
}

#[derive(Default)]
struct Line {
    commands: VecDeque<Command>,
    /// The taker waits for somebody to come.
    sleeps: bool,
    /// Nobody can come any more.
    ended: bool,
    /// Nobody takes anything any more.
    closed: bool,
}

/// Nobody takes commands any more.
#[derive(Debug)]
pub(crate) struct Closed;

#[expect(clippy::large_enum_variant, reason = "the command goes back to whoever brought it")]
enum Refused {
    Full(Command),
    Closed,
}

/// An empty queue.
pub(crate) fn queue() -> (Queue, Taker) {
    let shared = Arc::new(Shared::default());
    (Queue(Arc::clone(&shared)), Taker { shared, at_hand: VecDeque::new() })
}

impl Queue {
    /// Puts a command behind the others, as soon as there is a place.
    pub(crate) async fn push(&self, mut command: Command) -> Result<(), Closed> {
        loop {
            // Before looking: a place that becomes free in between is not missed.
            let room = self.0.room.notified();
            match self.0.push(command) {
                Ok(()) => return Ok(()),
                Err(Refused::Closed) => return Err(Closed),
                Err(Refused::Full(refused)) => command = refused,
            }
            room.await;
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.line().ended = true;
        self.0.came.notify_one();
    }
}

impl Taker {
    /// The next command, if one is there.
    pub(super) fn try_next(&mut self) -> Option<Command> {
        if self.at_hand.is_empty() && self.shared.waiting.load(Ordering::Acquire) > 0 {
            self.shared.take(self.shared.line(), &mut self.at_hand);
        }
        self.at_hand.pop_front()
    }

    /// The next command, however long it takes. Nothing when nobody can come any more.
    pub(super) fn next(&mut self) -> Option<Command> {
        if self.at_hand.is_empty() {
            let mut line = self.shared.line();
            while line.commands.is_empty() && !line.ended {
                line.sleeps = true;
                line = self.shared.came.wait(line).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            line.sleeps = false;
            self.shared.take(line, &mut self.at_hand);
        }
        self.at_hand.pop_front()
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.closed = true;
        let left = std::mem::take(&mut line.commands);
        drop(line);
        drop(left);
        self.shared.room.notify_waiters();
    }
}

impl Shared {
    fn take(&self, mut line: MutexGuard<'_, Line>, empty: &mut VecDeque<Command>) {
        let was_full = line.commands.len() >= WAITING_MAX;
        std::mem::swap(&mut line.commands, empty);
        self.waiting.store(0, Ordering::Release);
        drop(line);
        if was_full {
            self.room.notify_waiters();
        }
    }

    #[expect(clippy::result_large_err, reason = "the command goes back to whoever brought it")]
    fn push(&self, command: Command) -> Result<(), Refused> {
        let mut line = self.line();
        if line.closed {
            return Err(Refused::Closed);
        }
        if line.commands.len() >= WAITING_MAX {
            return Err(Refused::Full(command));
        }
        line.commands.push_back(command);
        self.waiting.store(line.commands.len(), Ordering::Release);
        let wake = std::mem::take(&mut line.sleeps);
        drop(line);
        if wake {
            self.came.notify_one();
        }
        Ok(())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("commands", &self.commands.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_done(push: std::pin::Pin<&mut impl Future<Output = Result<(), Closed>>>) -> Option<bool> {
        match push.poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(pushed) => Some(pushed.is_ok()),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn who_finds_no_place_waits_until_there_is_one() {
        let (queue, mut taker) = queue();
        for _ in 0..WAITING_MAX {
            assert_eq!(is_done(pin!(queue.push(Command::Close))), Some(true));
        }
        let mut late = pin!(queue.push(Command::Close));
        assert_eq!(is_done(late.as_mut()), None);
        for _ in 0..WAITING_MAX {
            assert!(taker.try_next().is_some());
        }
        assert_eq!(is_done(late.as_mut()), Some(true));
        assert!(taker.try_next().is_some() && taker.try_next().is_none());
    }

    #[test]
    fn whoever_waits_hears_that_nobody_takes_anything_any_more() {
        let (queue, taker) = queue();
        for _ in 0..WAITING_MAX {
            assert_eq!(is_done(pin!(queue.push(Command::Close))), Some(true));
        }
        let mut late = pin!(queue.push(Command::Close));
        assert_eq!(is_done(late.as_mut()), None);
        drop(taker);
        assert_eq!(is_done(late.as_mut()), Some(false));
    }

    #[test]
    fn what_was_put_there_is_taken_before_the_end() {
        let (queue, mut taker) = queue();
        assert_eq!(is_done(pin!(queue.push(Command::Close))), Some(true));
        let sleeper = std::thread::spawn(move || std::iter::from_fn(|| taker.next()).count());
        drop(queue);
        assert_eq!(sleeper.join().unwrap(), 1);
    }
}

//! A terminal as its viewer sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::{Semaphore, mpsc};

use super::connection::CallError;
use super::handle::Guest;
use crate::protocol::{
    Ask, Channel, Exit, Fault, INPUT_WINDOW_BYTES, OUTPUT_WINDOW_BYTES, OpenTerminal, SCREEN_BYTES_MAX, TerminalSize,
    WINDOW_STEP_BYTES,
};

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// More output.
    Output(Bytes),
    /// The whole screen, for a new viewer: it replaces all output before it.
    Screen(Bytes),
    /// Its program ended. The last event.
    Exit(Exit),
}

/// Why a terminal shows nothing more.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// It did not open.
    #[error("the terminal did not open: {0}")]
    NotOpened(Fault),
    /// The guest was lost.
    #[error("the guest was lost while the terminal was open")]
    Lost,
}

type Event = Result<TerminalEvent, TerminalError>;

/// The control of an open terminal; a cheap handle.
#[derive(Debug, Clone)]
pub struct Terminal {
    id: u64,
    window: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
    guest: Guest,
}

/// The output of an open terminal. Dropped, it closes the terminal.
#[derive(Debug)]
pub struct TerminalOutput {
    id: u64,
    events: mpsc::UnboundedReceiver<Event>,
    waiting: Arc<AtomicUsize>,
    /// Taken by the viewer, but not told to the guest yet.
    owed: usize,
    guest: Guest,
}

/// What the connection knows of an open terminal.
#[derive(Debug)]
pub(super) struct Viewed {
    /// Without a bound of its own: `waiting` bounds the bytes, and no frame is empty.
    events: mpsc::UnboundedSender<Event>,
    window: Arc<Semaphore>,
    /// Bytes that wait for the viewer.
    waiting: Arc<AtomicUsize>,
    /// Screens that were asked for and have not come.
    asked: Arc<AtomicUsize>,
    screen: Option<Painting>,
}

#[derive(Debug)]
struct Painting {
    bytes: BytesMut,
    size: usize,
}

/// The guest sent what nobody asked for.
#[derive(Debug, thiserror::Error)]
#[error("it sent more of a terminal or a port than was asked for")]
pub(super) struct NotAsked;

pub(super) async fn open(guest: &Guest, what: OpenTerminal) -> Result<(Terminal, TerminalOutput), CallError> {
    let (sender, events) = mpsc::unbounded_channel();
    let window = Arc::new(Semaphore::new(INPUT_WINDOW_BYTES));
    let (waiting, asked) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let viewed =
        Viewed { events: sender, window: window.clone(), waiting: waiting.clone(), asked: asked.clone(), screen: None };
    let id = guest.connection().open_terminal(Ask::OpenTerminal(what), viewed).await?;
    let terminal = Terminal { id, window, asked, guest: guest.clone() };
    Ok((terminal, TerminalOutput { id, events, waiting, owed: 0, guest: guest.clone() }))
}

impl Terminal {
    /// Sends what was typed; waits while the program does not read.
    pub async fn write(&self, bytes: Bytes) -> Result<(), CallError> {
        self.guest.connection().send_data(self.id, Channel::Input, bytes, &self.window).await
    }

    /// Gives the terminal another size.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), CallError> {
        self.order(Ask::ResizeTerminal { target: self.id, size }).await
    }

    /// Shows the terminal to a new viewer: a [`TerminalEvent::Screen`] follows, then output.
    pub async fn attach(&self) -> Result<(), CallError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.order(Ask::AttachTerminal { target: self.id }).await
    }

    /// Shows the terminal to nobody; its program goes on.
    pub async fn detach(&self) -> Result<(), CallError> {
        self.order(Ask::DetachTerminal { target: self.id }).await
    }

    /// Hangs up and ends everything that came from the terminal; its [`TerminalEvent::Exit`] follows.
    pub async fn close(&self) -> Result<(), CallError> {
        self.order(Ask::Kill { target: self.id }).await
    }

    async fn order(&self, ask: Ask) -> Result<(), CallError> {
        self.guest.connection().call(ask).await.map(drop)
    }
}

impl TerminalOutput {
    /// What the terminal shows next. After [`TerminalEvent::Exit`] or an error nothing follows. The terminal stops
    /// when its viewer is a window behind, and goes on when this is called again.
    pub async fn next(&mut self) -> Result<TerminalEvent, TerminalError> {
        if self.owed >= WINDOW_STEP_BYTES {
            // When the guest is gone, the events say so.
            self.guest.connection().output_taken(self.id, self.owed as u64).await.ok();
            self.owed = 0;
        }
        let event = self.events.recv().await.unwrap_or(Err(TerminalError::Lost))?;
        if let TerminalEvent::Output(bytes) = &event {
            self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            self.owed += bytes.len();
        }
        Ok(event)
    }
}

impl Drop for TerminalOutput {
    fn drop(&mut self) {
        if self.guest.connection().tell(Ask::Kill { target: self.id }) {
            return;
        }
        // No room at this moment; whoever cannot wait here has it done by a task.
        let (connection, target) = (self.guest.connection().clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { connection.call(Ask::Kill { target }).await.map(drop) });
        }
    }
}

impl Viewed {
    pub(super) fn window(&self) -> &Semaphore {
        &self.window
    }

    /// Takes output or a part of the screen, without ever waiting.
    pub(super) fn output(&mut self, channel: Channel, bytes: Bytes) -> Result<(), NotAsked> {
        match channel {
            Channel::Output if bytes.is_empty() => Ok(()),
            Channel::Output => {
                if self.waiting.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > OUTPUT_WINDOW_BYTES {
                    return Err(NotAsked);
                }
                self.say(Ok(TerminalEvent::Output(bytes)));
                Ok(())
            }
            Channel::Content => self.paint(&bytes),
            Channel::Input | Channel::Error => Err(NotAsked),
        }
    }

    /// A screen of this size follows.
    pub(super) fn begin_screen(&mut self, bytes: u64) -> Result<(), NotAsked> {
        let size = usize::try_from(bytes).ok().filter(|size| (1..=SCREEN_BYTES_MAX).contains(size)).ok_or(NotAsked)?;
        let one_less = |asked: usize| asked.checked_sub(1);
        self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).map_err(|_| NotAsked)?;
        self.screen = Some(Painting { bytes: BytesMut::new(), size });
        Ok(())
    }

    fn paint(&mut self, bytes: &[u8]) -> Result<(), NotAsked> {
        let painting = self.screen.as_mut().ok_or(NotAsked)?;
        painting.bytes.extend_from_slice(bytes);
        if painting.bytes.len() > painting.size {
            return Err(NotAsked);
        }
        if painting.bytes.len() == painting.size {
            let bytes = std::mem::take(&mut painting.bytes).freeze();
            self.screen = None;
            self.say(Ok(TerminalEvent::Screen(bytes)));
        }
        Ok(())
    }

    pub(super) fn exited(self, exit: Exit) {
        self.end(Ok(TerminalEvent::Exit(exit)));
    }

    pub(super) fn refused(self, fault: Fault) {
        self.end(Err(TerminalError::NotOpened(fault)));
    }

    pub(super) fn lost(self) {
        self.end(Err(TerminalError::Lost));
    }

    fn end(self, event: Event) {
        self.window.close();
        self.say(event);
    }

    fn say(&self, event: Event) {
        // The viewer may be gone, and then the terminal is being closed.
        self.events.send(event).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewed(asked: usize) -> (Viewed, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let window = Arc::new(Semaphore::new(0));
        let viewed = Viewed { events, window, waiting: Arc::default(), asked: Arc::new(asked.into()), screen: None };
        (viewed, receiver)
    }

    #[test]
    fn a_guest_cannot_send_more_than_the_window() {
        let (mut viewed, _events) = viewed(0);
        let half = Bytes::from(vec![0; OUTPUT_WINDOW_BYTES / 2]);
        assert!(viewed.output(Channel::Output, half.clone()).is_ok());
        assert!(viewed.output(Channel::Output, half).is_ok());
        assert!(viewed.output(Channel::Output, Bytes::from_static(b"x")).is_err());
    }

    #[test]
    fn a_screen_comes_only_when_asked_for_and_only_in_its_size() {
        let (mut viewed, mut events) = viewed(2);
        assert!(viewed.output(Channel::Content, Bytes::from_static(b"x")).is_err(), "unannounced");
        assert!(viewed.begin_screen(SCREEN_BYTES_MAX as u64 + 1).is_err(), "too large");
        assert!(viewed.begin_screen(3).is_ok());
        assert!(viewed.output(Channel::Content, Bytes::from_static(b"ab")).is_ok());
        assert!(viewed.output(Channel::Content, Bytes::from_static(b"c")).is_ok());
        assert!(matches!(events.try_recv(), Ok(Ok(TerminalEvent::Screen(bytes))) if bytes == "abc"));
        assert!(viewed.begin_screen(2).is_ok());
        assert!(viewed.output(Channel::Content, Bytes::from_static(b"abc")).is_err(), "more than announced");
        assert!(viewed.begin_screen(1).is_err(), "not asked for");
    }
}

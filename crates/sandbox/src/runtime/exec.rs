//! A command as its caller sees it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::connection::{CallError, Connection};
use super::handle::Guest;
use super::limits::Limit;
use super::spool::Spool;
use crate::protocol::{Ask, Channel, EffectId, Ending, Exec, Exit, Fault, INPUT_WINDOW_BYTES, Input, TIMEOUT_MS_MAX};
use crate::record::{Record, RecordError};

/// Events that wait for a caller in memory. What comes when it is further behind waits on disk: the guest's stream is not held
/// up for it.
const EVENTS_MAX: usize = 64;
/// The same for a command that is spoken to: what it answers is of no use with a gap in it, and is taken as long as there is
/// this much room.
const ANSWERS_MAX: usize = 16 * 1024;
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// How long after a command's time is up its guest may take to say so. A guest that does not is ended.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);
/// How long a guest may take to show that it lives when a command of its sandbox was killed.
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(2);
/// The signal that takes every process of a sandbox along when its first one ends, and what a shell says of it.
const KILLED: i32 = 9;
const KILLED_CODE: i32 = 128 + KILLED;
/// The signal for whoever writes more to one file than it may, and what a shell says of it.
const FILE_TOO_LARGE: i32 = libc::SIGXFSZ;
const FILE_TOO_LARGE_CODE: i32 = 128 + FILE_TOO_LARGE;

/// What a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// Bytes of its standard output.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// It ended. The last event.
    Exit(Finished),
}

/// How a command ended, and what became of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How and when.
    pub exit: Exit,
    /// How many bytes it wrote, both streams together.
    pub output_bytes: u64,
    /// How many of these did not reach the caller, because it was too slow.
    pub missed_bytes: u64,
    /// The limit that it reached, where that is known.
    pub limit: Option<Limit>,
}

/// How a sandbox stands with limits whose reaching does not end it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// When this was.
    pub(super) at: Instant,
    /// How often the kernel has ended a process for its memory.
    pub(super) memory: u64,
    /// How often the kernel has refused a process, where it counts that.
    pub(super) processes: Option<u64>,
    /// Whether nearly as many are there as there may be, where it does not.
    pub(super) is_full: bool,
    /// When it was last looked at and as many processes were seen as there may be.
    pub(super) crowded: Option<Instant>,
}

impl Reached {
    /// The limit that a command reached which began at one moment and has ended now, like this.
    fn limit(self, now: Self, ending: &Ending) -> Option<Limit> {
        match ending {
            _ if now.memory > self.memory => Some(Limit::Memory),
            Ending::Signal(FILE_TOO_LARGE) | Ending::Code(FILE_TOO_LARGE_CODE) => Some(Limit::FileBytes),
            // Many do with fewer when they get no more.
            Ending::Code(0) => None,
            _ if now.processes.is_some() => (now.processes > self.processes).then_some(Limit::Processes),
            _ if now.is_full && !self.is_full => Some(Limit::Processes),
            // Not one who came before.
            _ => now.crowded.filter(|crowded| *crowded >= self.at).map(|_| Limit::Processes),
        }
    }
}

/// A command's collected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Beginning of its standard output.
    pub stdout: Vec<u8>,
    /// Beginning of its standard error.
    pub stderr: Vec<u8>,
    /// Something of the two is missing.
    pub truncated: bool,
    /// How it ended.
    pub finished: Finished,
}

/// Why a command did not run to an end that was seen.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It did not start.
    #[error("the command did not start: {0}")]
    NotStarted(Fault),
    /// The guest was lost; whether and how it ended is unknown.
    #[error("the guest was lost while the command ran")]
    Lost,
    /// The sandbox was ended because it took more than it may; how far the command came is unknown.
    #[error("the sandbox was ended because it reached its limit: {0}")]
    Exceeded(Limit),
    /// The effect is on record already, or it cannot be recorded. The command was not started.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The end of the command was seen but could not be recorded.
    #[error("the command ended but its end could not be recorded")]
    Unrecorded,
    /// The request could not be sent, or the log could not be made.
    #[error("the command could not be sent")]
    Send(#[source] CallError),
}

pub(super) type Event = Result<ExecEvent, ExecError>;

/// A command under way. Dropped before its end, it ends the command.
#[derive(Debug)]
pub struct ExecHandle {
    id: u64,
    events: mpsc::Receiver<Event>,
    /// What comes after all that is in `events`, but for its end.
    spool: Spool,
    /// The end, for as long as something waits before it.
    last: Option<Event>,
    waiting: Arc<AtomicUsize>,
    window: Arc<Semaphore>,
    /// Keeps the sandbox for as long as its output is wanted.
    guest: Guest,
    /// What had happened in the sandbox when it began.
    before: Reached,
    ended: bool,
}

/// What the connection knows of a command under way.
#[derive(Debug)]
pub(super) struct Running {
    events: mpsc::Sender<Event>,
    /// Bytes that wait for the caller.
    waiting: Arc<AtomicUsize>,
    window: Arc<Semaphore>,
    effect: EffectId,
    record: Option<Record>,
    spool: Spool,
    output_bytes: u64,
    missed_bytes: u64,
    watchdog: AbortHandle,
    /// To the first process of the command's sandbox.
    guest: Arc<Connection>,
}

/// What a command is run with on this side.
pub(super) struct Bookkeeping {
    pub(super) record: Option<Record>,
    /// Where output waits for who takes it slowly.
    pub(super) spool_directory: Option<PathBuf>,
}

/// Records a command's start and hands it to the guest.
pub(super) async fn start(
    guest: &Guest,
    books: Bookkeeping,
    exec: Exec,
    on_hang: impl FnOnce() + Send + 'static,
) -> Result<ExecHandle, ExecError> {
    let Bookkeeping { record, spool_directory } = books;
    let spool = Spool::new(spool_directory.as_deref(), &exec.effect);
    let before = guest.reached().await;
    if let Some(record) = &record {
        record.started(&exec.effect).await?;
    }
    let watchdog = watch(exec.timeout_ms, on_hang);
    let is_spoken_to = matches!(exec.input, Input::Stream);
    let (running, events) =
        Running::new(exec.effect.clone(), (record.clone(), spool), guest.connection().clone(), watchdog, is_spoken_to);
    let (window, waiting, spool) = (running.window.clone(), running.waiting.clone(), running.spool.clone());
    let effect = exec.effect.clone();
    let id = match guest.runner().exec(Ask::Exec(exec), running).await {
        Ok(id) => id,
        Err(error) => {
            // Whoever would have run it never heard of it.
            if let Some(record) = &record {
                record.refused(&effect).await?;
            }
            return Err(ExecError::Send(error));
        }
    };
    Ok(ExecHandle { id, events, spool, last: None, waiting, window, guest: guest.clone(), before, ended: false })
}

fn watch(timeout_ms: u64, on_hang: impl FnOnce() + Send + 'static) -> AbortHandle {
    let limit = Duration::from_millis(timeout_ms.min(TIMEOUT_MS_MAX)) + TIMEOUT_GRACE;
    let watching = tokio::spawn(async move {
        tokio::time::sleep(limit).await;
        on_hang();
    });
    watching.abort_handle()
}

impl ExecHandle {
    /// What the command says next. After [`ExecEvent::Exit`] or an error nothing follows.
    pub async fn next(&mut self) -> Result<ExecEvent, ExecError> {
        let event = match self.heard().await {
            Err(ExecError::Lost) => Err(self.guest.exceeded().map_or(ExecError::Lost, ExecError::Exceeded)),
            Ok(ExecEvent::Exit(mut finished)) => {
                finished.limit = self.before.limit(self.guest.reached().await, &finished.exit.ending);
                Ok(ExecEvent::Exit(finished))
            }
            event => event,
        };
        if let Ok(ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes)) = &event {
            self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        self.ended = self.ended || is_last(&event);
        event
    }

    /// In the order in which it was said: first what waits in memory, then what waits on disk, then the end.
    async fn heard(&mut self) -> Event {
        if self.last.is_none()
            && let Ok(event) = self.events.try_recv()
        {
            match is_last(&event) {
                true => self.last = Some(event),
                false => return event,
            }
        }
        if let Some((channel, bytes)) = self.spool.take() {
            self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
            return Ok(said(channel, bytes));
        }
        if let Some(last) = self.last.take() {
            return last;
        }
        let event = self.events.recv().await.unwrap_or(Err(ExecError::Lost));
        match self.spool.is_empty() || !is_last(&event) {
            true => event,
            false => {
                self.last = Some(event);
                Box::pin(self.heard()).await
            }
        }
    }

    /// Reads to the end and keeps the first `cap_bytes` of each stream.
    pub async fn collect(mut self, cap_bytes: usize) -> Result<Output, ExecError> {
        let (mut stdout, mut stderr, mut truncated) = (Vec::new(), Vec::new(), false);
        loop {
            let (kept, bytes) = match self.next().await? {
                ExecEvent::Stdout(bytes) => (&mut stdout, bytes),
                ExecEvent::Stderr(bytes) => (&mut stderr, bytes),
                ExecEvent::Exit(finished) => {
                    truncated |= finished.missed_bytes > 0;
                    return Ok(Output { stdout, stderr, truncated, finished });
                }
            };
            let room = cap_bytes.saturating_sub(kept.len());
            truncated |= bytes.len() > room;
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Sends input to a command that was started with [`crate::protocol::Input::Stream`]; waits while it does not
    /// read.
    pub async fn write(&self, bytes: Bytes) -> Result<(), CallError> {
        self.input().write(bytes).await
    }

    /// A way to write while somebody else reads.
    pub fn input(&self) -> ExecInput {
        ExecInput { id: self.id, window: self.window.clone(), guest: self.guest.clone() }
    }

    /// Ends its input.
    pub async fn close_input(&self) -> Result<(), CallError> {
        self.guest.runner().call(Ask::CloseInput { target: self.id }).await.map(drop)
    }

    /// Ends the command and everything that came from it; its [`ExecEvent::Exit`] still follows.
    pub async fn kill(&self) -> Result<(), CallError> {
        self.guest.runner().call(Ask::Kill { target: self.id }).await.map(drop)
    }
}

/// The input of a command that was started with [`crate::protocol::Input::Stream`]; cheap to clone.
#[derive(Debug, Clone)]
pub struct ExecInput {
    id: u64,
    window: Arc<Semaphore>,
    guest: Guest,
}

impl ExecInput {
    /// Sends input; waits while the command does not read.
    pub async fn write(&self, bytes: Bytes) -> Result<(), CallError> {
        self.guest.runner().send_data(self.id, Channel::Input, bytes, &self.window).await
    }
}

impl Drop for ExecHandle {
    fn drop(&mut self) {
        if self.ended || self.guest.runner().tell(Ask::Kill { target: self.id }) {
            return;
        }
        // No room at this moment; whoever cannot wait here has it done by a task.
        let (connection, target) = (self.guest.runner().clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { connection.call(Ask::Kill { target }).await.map(drop) });
        }
    }
}

impl Running {
    /// A command that is about to be sent, and what will be heard of it.
    pub(super) fn new(
        effect: EffectId,
        (record, spool): (Option<Record>, Spool),
        guest: Arc<Connection>,
        watchdog: AbortHandle,
        is_spoken_to: bool,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, heard) = mpsc::channel(if is_spoken_to { ANSWERS_MAX } else { EVENTS_MAX });
        let waiting = Arc::default();
        let window = Arc::new(Semaphore::new(INPUT_WINDOW_BYTES));
        let (output_bytes, missed_bytes) = (0, 0);
        (Self { events, waiting, window, effect, record, spool, output_bytes, missed_bytes, watchdog, guest }, heard)
    }

    pub(super) fn window(&self) -> &Semaphore {
        &self.window
    }

    /// Takes output without ever waiting.
    pub(super) fn output(&mut self, channel: Channel, bytes: Bytes) {
        self.output_bytes += bytes.len() as u64;
        let length = bytes.len();
        // Counted before it is sent: whoever takes it counts it out.
        let has_room = self.waiting.fetch_add(length, Ordering::Relaxed) + length <= ANSWER_BYTES_MAX;
        // Nothing overtakes what waits on disk.
        if has_room && self.spool.is_empty() && self.events.try_send(Ok(said(channel, bytes.clone()))).is_ok() {
            return;
        }
        self.waiting.fetch_sub(length, Ordering::Relaxed);
        if !self.spool.put(channel, &bytes) {
            self.missed_bytes += length as u64;
        }
    }

    /// The command ended: recorded first, told afterwards.
    pub(super) fn exited(self, exit: Exit) {
        let (record, effect, guest) = (self.record.clone(), self.effect.clone(), self.guest.clone());
        let finished = Finished {
            exit: exit.clone(),
            output_bytes: self.output_bytes,
            missed_bytes: self.missed_bytes,
            limit: None,
        };
        self.end(async move {
            // Whoever says so lives outside: it may tell of the command before anybody tells of the sandbox.
            if is_killed(&exit.ending) && !lives(&guest).await {
                return Err(ExecError::Lost);
            }
            if let Some(record) = record {
                record.exited(&effect, exit).await.map_err(|_| ExecError::Unrecorded)?;
            }
            Ok(ExecEvent::Exit(finished))
        });
    }

    /// The command did not start.
    pub(super) fn refused(self, fault: Fault) {
        let (record, effect, guest) = (self.record.clone(), self.effect.clone(), self.guest.clone());
        self.end(async move {
            // In a sandbox that ends nothing begins any more: whoever tries again must see that it is gone.
            lives(&guest).await;
            if let Some(record) = record {
                record.refused(&effect).await?;
            }
            Err(ExecError::NotStarted(fault))
        });
    }

    /// The guest is gone; the record keeps saying that the command was started and no more.
    pub(super) fn lost(self) {
        self.end(async { Err(ExecError::Lost) });
    }

    fn end(self, last: impl Future<Output = Event> + Send + 'static) {
        self.watchdog.abort();
        self.window.close();
        tokio::spawn(async move {
            let event = last.await;
            // The caller may have given up; the record is kept all the same.
            self.events.send(event).await.ok();
        });
    }
}

fn said(channel: Channel, bytes: Bytes) -> ExecEvent {
    match channel {
        Channel::Error => ExecEvent::Stderr(bytes),
        Channel::Output | Channel::Input | Channel::Content => ExecEvent::Stdout(bytes),
    }
}

fn is_last(event: &Event) -> bool {
    !matches!(event, Ok(ExecEvent::Stdout(_) | ExecEvent::Stderr(_)))
}

/// Whether a command ended as all do whose sandbox ends.
fn is_killed(ending: &Ending) -> bool {
    matches!(ending, Ending::Signal(KILLED) | Ending::Code(KILLED_CODE))
}

/// Whether the first process of a sandbox is there.
async fn lives(guest: &Connection) -> bool {
    let said = tokio::time::timeout(SIGN_OF_LIFE_TIMEOUT, guest.call(Ask::Health)).await;
    said.is_ok_and(|said| said.is_ok())
}

//! The host's end of a guest's stream: requests out, replies to whom they belong.
//!
//! Everything read here may come from a hostile guest. Whatever breaks the protocol ends the connection; nothing is
//! kept without a bound; and the reader never waits for a caller, so that no caller can hold up another.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::exec::Running;
use super::launch::StartError;
use super::port::Carried;
use super::terminal::{NotAsked, Viewed};
use super::watch::Watched;
use crate::protocol::{
    Answer, Ask, Channel, DATA_BYTES_MAX, Fault, Frame, FrameReader, FromGuest, FromHost, GuestLimits, GuestRole,
    INPUT_WINDOW_BYTES, Progress, READ_BYTES_MAX, Reply, Request, StreamError, VERSION, WINDOW_STEP_BYTES,
    control_frame,
};

/// Frames that may wait to be sent to the guest.
const OUTGOING_FRAMES_MAX: usize = 64;

/// Why a call was not answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest could not do it.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The guest is gone; whether it did it is unknown.
    #[error("the guest is gone")]
    Lost,
    /// The request is longer than the protocol allows.
    #[error("the request is too long")]
    TooLong,
    /// The file changed while it was being read.
    #[error("the file changed while it was being read")]
    Changed,
    /// The guest answered something else than was asked.
    #[error("the guest's answer does not fit the request")]
    Unexpected,
}

/// A connection to one guest.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::Sender<Frame>,
    pending: Mutex<Pending>,
    next_id: AtomicU64,
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Pending {
    closed: bool,
    requests: HashMap<u64, Waiting>,
}

/// Who waits for a request's replies.
#[derive(Debug)]
enum Waiting {
    Call(Call),
    Exec(Running),
    Terminal(Viewed),
    Port(Carried),
    Watch(Watched),
}

#[derive(Debug)]
struct Call {
    content: BytesMut,
    answer: oneshot::Sender<Result<(Answer, Bytes), Fault>>,
    window: Arc<Semaphore>,
}

/// A request that was sent.
pub(super) struct Sent {
    pub(super) id: u64,
    answer: oneshot::Receiver<Result<(Answer, Bytes), Fault>>,
    /// Bytes that may be sent before the guest takes some.
    pub(super) window: Arc<Semaphore>,
}

/// What the guest did that no guest does.
#[derive(Debug, thiserror::Error)]
enum Hostile {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("a message could not be read")]
    Message,
    #[error("it said hello twice")]
    HelloAgain,
    #[error("it sent more than was asked for")]
    TooMuch,
    #[error("it answered what was not asked")]
    Unasked,
    #[error(transparent)]
    Terminal(#[from] NotAsked),
}

/// Says hello on a new stream, hears it, and begins to serve the connection. Answers also with the version of Landlock
/// that the guest says restricts it.
pub(super) async fn connect(
    stream: OwnedFd,
    role: GuestRole,
    limits: GuestLimits,
) -> Result<(Arc<Connection>, u32), StartError> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true).map_err(StartError::Spawn)?;
    let (reader, writer) = UnixStream::from_std(stream).map_err(StartError::Spawn)?.into_split();
    let mut reader = FrameReader::new(reader);
    let (outgoing, queue) = mpsc::channel(OUTGOING_FRAMES_MAX);
    tokio::spawn(write_frames(writer, queue));
    let hello = control_frame(&FromHost::Hello { version: VERSION, limits });
    let hello = hello.map_err(|error| StartError::Protocol(error.to_string()))?;
    // The queue is new and empty; a guest that is gone already is noticed below.
    outgoing.send(hello).await.ok();
    let landlock_abi = hear_hello(&mut reader, role).await?;
    let connection = Arc::new(Connection {
        outgoing,
        pending: Mutex::default(),
        next_id: AtomicU64::new(1),
        closed: watch::channel(false).0,
    });
    tokio::spawn(read_frames(connection.clone(), reader));
    Ok((connection, landlock_abi))
}

async fn hear_hello(reader: &mut FrameReader<OwnedReadHalf>, role: GuestRole) -> Result<u32, StartError> {
    let unfit = |what: &str| StartError::Protocol(what.to_owned());
    let frame = match reader.next().await {
        Ok(Some(frame)) => frame,
        Ok(None) | Err(StreamError::Io(_)) => return Err(StartError::Refused(String::new())),
        Err(error) => return Err(unfit(&error.to_string())),
    };
    let Frame::Control(json) = frame else { return Err(unfit("its first frame is not a message")) };
    match serde_json::from_slice(&json) {
        Ok(FromGuest::Hello { version: VERSION, role: said, landlock_abi }) if said == role => Ok(landlock_abi),
        Ok(FromGuest::Hello { version: VERSION, role: said, .. }) => Err(StartError::Role(said)),
        Ok(FromGuest::Hello { .. }) => Err(unfit("it is of another version")),
        _ => Err(unfit("its first message is not hello")),
    }
}

async fn write_frames(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Frame>) {
    let mut buffer = BytesMut::new();
    while let Some(frame) = queue.recv().await {
        // Lengths were checked when the frame was made, and a broken stream is noticed by the reader.
        if frame.encode(&mut buffer).is_err() {
            return;
        }
        // What waits already goes along.
        while buffer.len() < WINDOW_STEP_BYTES
            && let Ok(frame) = queue.try_recv()
        {
            if frame.encode(&mut buffer).is_err() {
                return;
            }
        }
        if writer.write_all_buf(&mut buffer).await.is_err() {
            return;
        }
    }
}

async fn read_frames(connection: Arc<Connection>, mut reader: FrameReader<OwnedReadHalf>) {
    loop {
        let taken = match reader.next().await {
            Ok(Some(frame)) => connection.take(frame),
            Ok(None) => break,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = taken {
            tracing::warn!(%error, "a guest broke the protocol and is cut off");
            break;
        }
    }
    connection.close();
}

impl Connection {
    /// Sends a request and answers with what waits for its reply.
    pub(super) async fn send(&self, ask: Ask) -> Result<Sent, CallError> {
        let (sender, answer) = oneshot::channel();
        let window = Arc::new(Semaphore::new(INPUT_WINDOW_BYTES));
        let call = Call { content: BytesMut::new(), answer: sender, window: window.clone() };
        let id = self.begin(ask, |_| Waiting::Call(call)).await?;
        Ok(Sent { id, answer, window })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(&self, ask: Ask) -> Result<(Answer, Bytes), CallError> {
        self.send(ask).await?.answer().await
    }

    /// Sends a command; what it says goes to `running`.
    pub(super) async fn exec(&self, ask: Ask, running: Running) -> Result<u64, CallError> {
        self.begin(ask, |_| Waiting::Exec(running)).await
    }

    /// Opens a terminal; what it shows goes to `viewed`.
    pub(super) async fn open_terminal(&self, ask: Ask, viewed: Viewed) -> Result<u64, CallError> {
        self.begin(ask, |_| Waiting::Terminal(viewed)).await
    }

    /// Connects to a port inside; what is said there goes to `carried`.
    pub(super) async fn connect_port(&self, ask: Ask, carried: Carried) -> Result<u64, CallError> {
        self.begin(ask, |_| Waiting::Port(carried)).await
    }

    /// Watches the workspace; reports go to `watched`.
    pub(super) async fn watch(&self, ask: Ask, watched: Watched) -> Result<u64, CallError> {
        self.begin(ask, |_| Waiting::Watch(watched)).await
    }

    /// Gives a terminal's or a port's window back.
    pub(super) async fn output_taken(&self, id: u64, bytes: u64) -> Result<(), CallError> {
        let frame = control_frame(&FromHost::OutputTaken { id, bytes }).map_err(|_| CallError::TooLong)?;
        self.push(frame).await
    }

    /// Sends bulk bytes of a request, as fast as the guest takes them.
    pub(super) async fn send_data(
        &self,
        id: u64,
        channel: Channel,
        mut bytes: Bytes,
        window: &Semaphore,
    ) -> Result<(), CallError> {
        while !bytes.is_empty() {
            // No more than is certain to be given back, or the rest would be waited for without end.
            let part = bytes.split_to(bytes.len().min(DATA_BYTES_MAX).min(WINDOW_STEP_BYTES));
            let size = u32::try_from(part.len()).map_err(|_| CallError::TooLong)?;
            window.acquire_many(size).await.map_err(|_| CallError::Lost)?.forget();
            self.push(Frame::Data { id, channel, bytes: part }).await?;
        }
        Ok(())
    }

    /// Sends a message for whose answer nobody waits, without waiting for room. Says whether there was room.
    pub(super) fn tell(&self, ask: Ask) -> bool {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = control_frame(&FromHost::Request(Request { id, ask }));
        frame.is_ok_and(|frame| self.outgoing.try_send(frame).is_ok())
    }

    /// Whether a command or a terminal is under way.
    pub(super) fn is_running(&self) -> bool {
        let runs = |waiting: &Waiting| matches!(waiting, Waiting::Exec(_) | Waiting::Terminal(_));
        self.lock().requests.values().any(runs)
    }

    /// Whether the guest is gone.
    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the guest is gone.
    pub(super) async fn closed(&self) {
        // The sender lives in this connection, so the wait ends only with the value.
        self.closed.subscribe().wait_for(|closed| *closed).await.ok();
    }

    /// Ends every request under way; later ones fail at once.
    pub(super) fn close(&self) {
        let requests = {
            let mut pending = self.lock();
            pending.closed = true;
            std::mem::take(&mut pending.requests)
        };
        // Before anybody hears that their request is lost: who asks again at once must not be sent back here.
        self.closed.send_replace(true);
        for waiting in requests.into_values() {
            match waiting {
                // Its answer is dropped with it, which says that the guest is lost.
                Waiting::Call(call) => call.window.close(),
                Waiting::Exec(running) => running.lost(),
                Waiting::Terminal(viewed) => viewed.lost(),
                Waiting::Port(carried) => carried.end(None),
                // Its queue is closed with it, which says that the guest is lost.
                Waiting::Watch(_) => {}
            }
        }
    }

    async fn begin(&self, ask: Ask, waiting: impl FnOnce(u64) -> Waiting) -> Result<u64, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = control_frame(&FromHost::Request(Request { id, ask })).map_err(|_| CallError::TooLong)?;
        {
            let mut pending = self.lock();
            if pending.closed {
                return Err(CallError::Lost);
            }
            pending.requests.insert(id, waiting(id));
        }
        let sent = self.push(frame).await;
        if sent.is_err() {
            self.lock().requests.remove(&id);
        }
        sent.map(|()| id)
    }

    async fn push(&self, frame: Frame) -> Result<(), CallError> {
        self.outgoing.send(frame).await.map_err(|_| CallError::Lost)
    }

    fn take(&self, frame: Frame) -> Result<(), Hostile> {
        match frame {
            Frame::Data { id, channel, bytes } => self.take_data(id, channel, bytes),
            Frame::Control(json) => match serde_json::from_slice(&json).map_err(|_| Hostile::Message)? {
                FromGuest::Hello { .. } => Err(Hostile::HelloAgain),
                FromGuest::Reply { id, reply: Reply::Progress(progress) } => self.take_progress(id, progress),
                FromGuest::Reply { id, reply: Reply::Done(answer) } => self.take_end(id, Ok(answer)),
                FromGuest::Reply { id, reply: Reply::Failed(fault) } => self.take_end(id, Err(fault)),
            },
        }
    }

    fn take_data(&self, id: u64, channel: Channel, bytes: Bytes) -> Result<(), Hostile> {
        match self.lock().requests.get_mut(&id) {
            Some(Waiting::Call(call)) => {
                if (call.content.len() + bytes.len()) as u64 > READ_BYTES_MAX {
                    return Err(Hostile::TooMuch);
                }
                call.content.extend_from_slice(&bytes);
            }
            Some(Waiting::Exec(running)) => running.output(channel, bytes),
            Some(Waiting::Terminal(viewed)) => viewed.output(channel, bytes)?,
            Some(Waiting::Port(carried)) => carried.output(channel, bytes)?,
            Some(Waiting::Watch(_)) => return Err(Hostile::Unasked),
            // Nobody waits any more.
            None => {}
        }
        Ok(())
    }

    fn take_progress(&self, id: u64, progress: Progress) -> Result<(), Hostile> {
        let mut pending = self.lock();
        match (pending.requests.get_mut(&id), progress) {
            (Some(waiting), Progress::InputTaken { bytes }) => give_back(waiting.window(), bytes),
            (Some(Waiting::Terminal(viewed)), Progress::Screen { bytes }) => Ok(viewed.begin_screen(bytes)?),
            (Some(Waiting::Port(carried)), Progress::Connected) => {
                carried.connected();
                Ok(())
            }
            (Some(Waiting::Watch(watched)), Progress::Changed { paths, incomplete }) => {
                watched.changed(paths, incomplete);
                Ok(())
            }
            (Some(_), Progress::Screen { .. } | Progress::Connected | Progress::Changed { .. }) => {
                Err(Hostile::Unasked)
            }
            (Some(_), Progress::Started { .. }) | (None, _) => Ok(()),
        }
    }

    fn take_end(&self, id: u64, result: Result<Answer, Fault>) -> Result<(), Hostile> {
        let Some(waiting) = self.lock().requests.remove(&id) else { return Ok(()) };
        match waiting {
            Waiting::Call(call) => {
                call.window.close();
                // The caller may have given up.
                call.answer.send(result.map(|answer| (answer, call.content.freeze()))).ok();
            }
            Waiting::Terminal(viewed) => match result {
                Ok(Answer::Exited(exit)) => viewed.exited(exit),
                Err(fault) => viewed.refused(fault),
                Ok(_) => return Err(Hostile::Unasked),
            },
            Waiting::Port(carried) => carried.end(result.err()),
            Waiting::Watch(watched) => {
                if let Err(fault) = result {
                    watched.failed(fault);
                }
            }
            Waiting::Exec(running) => match result {
                Ok(Answer::Exited(exit)) => running.exited(exit),
                Err(fault) => running.refused(fault),
                Ok(_) => {
                    running.lost();
                    return Err(Hostile::Unasked);
                }
            },
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        // Each change is one insertion or removal, so the table is whole even after a panic.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn window(&self) -> &Semaphore {
        match self {
            Self::Call(call) => &call.window,
            Self::Exec(running) => running.window(),
            Self::Terminal(viewed) => viewed.window(),
            Self::Port(carried) => carried.window(),
            Self::Watch(watched) => watched.window(),
        }
    }
}

fn give_back(window: &Semaphore, bytes: u64) -> Result<(), Hostile> {
    let room = INPUT_WINDOW_BYTES.saturating_sub(window.available_permits());
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= room => {
            window.add_permits(bytes);
            Ok(())
        }
        _ => Err(Hostile::TooMuch),
    }
}

impl Sent {
    /// Waits for the answer.
    pub(super) async fn answer(self) -> Result<(Answer, Bytes), CallError> {
        match self.answer.await {
            Ok(result) => Ok(result?),
            Err(_) => Err(CallError::Lost),
        }
    }
}

#[cfg(test)]
mod tests;

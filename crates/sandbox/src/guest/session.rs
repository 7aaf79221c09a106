//! One host's session: requests in, replies out, many under way.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, mpsc};

use super::credit::Credit;
use super::exec::{self, Context};
use super::files::Files;
use super::harden::{self, Hardened};
use super::inflow::{Inflow, InflowReader, inflow};
use super::keeper::Keeper;
use super::process::Processes;
use super::terminal::{self, Order, TerminalControl};
use super::writing::Expected;
use super::{GuestError, port, relay, watch};
use crate::protocol::{
    Answer, Ask, Channel, DATA_BYTES_MAX, Fault, FaultCode, Frame, FrameReader, FromGuest, FromHost, GuestRole, Health,
    Progress, REQUESTS_MAX, Reply, Request, VERSION, WINDOW_STEP_BYTES, control_frame,
};

/// Frames that may wait for the host; requests with more to say wait in turn.
const OUTGOING_FRAMES_MAX: usize = 32;

/// The directories that a guest works on.
pub(super) struct Places {
    /// The workspace.
    pub(super) root: OwnedFd,
    /// The store, of a keeper that has one.
    pub(super) store: Option<OwnedFd>,
}

/// Serves a stream to its end. Every process ends with the guest, which is the first of their namespace.
pub(super) async fn serve(
    stream: OwnedFd,
    (role, hardened): (GuestRole, Hardened),
    places: Places,
) -> Result<(), GuestError> {
    let stream = StdStream::from(stream);
    stream.set_nonblocking(true).map_err(|source| GuestError::Prepare { step: "opening the stream", source })?;
    let stream =
        UnixStream::from_std(stream).map_err(|source| GuestError::Prepare { step: "opening the stream", source })?;
    let processes =
        Processes::new().map_err(|source| GuestError::Prepare { step: "hearing of ended processes", source })?;
    let files = Arc::new(Files::new(places.root));
    let keeper = places.store.map(|store| Keeper::open(files.clone(), store)).transpose();
    let keeper = keeper
        .map_err(|fault| GuestError::Prepare { step: "opening the store", source: std::io::Error::other(fault) })?;
    let (reader, writer) = stream.into_split();
    let (sender, queue) = mpsc::channel(OUTGOING_FRAMES_MAX);
    let writing = tokio::spawn(write_frames(writer, queue));
    let session = Session {
        role,
        hardened,
        files,
        keeper: keeper.map(Arc::new),
        processes,
        out: Outgoing { queue: sender },
        underway: Arc::default(),
    };
    if role == GuestRole::Associate {
        relay::start().await?;
    }
    let served = session.converse(FrameReader::new(reader)).await;
    if role == GuestRole::Shim {
        session.processes.end_commands().await;
    }
    drop(session);
    writing.abort();
    served
}

async fn write_frames(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Frame>) {
    let mut buffer = BytesMut::new();
    while let Some(frame) = queue.recv().await {
        encode(&frame, &mut buffer);
        // What waits already goes along.
        while buffer.len() < WINDOW_STEP_BYTES
            && let Ok(frame) = queue.try_recv()
        {
            encode(&frame, &mut buffer);
        }
        if writer.write_all_buf(&mut buffer).await.is_err() {
            // The reader sees the same broken stream and ends the session.
            return;
        }
    }
}

fn encode(frame: &Frame, buffer: &mut BytesMut) {
    if let Err(error) = frame.encode(buffer) {
        // Only an answer with an impossible number of long names could do this; it must not end the session.
        tracing::error!(%error, "a reply was too long to send");
    }
}

/// Where replies go; a cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    queue: mpsc::Sender<Frame>,
}

impl Outgoing {
    pub(super) async fn data(&self, id: u64, channel: Channel, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let bytes = bytes.split_to(bytes.len().min(DATA_BYTES_MAX));
            self.send(Frame::Data { id, channel, bytes }).await;
        }
    }

    pub(super) async fn progress(&self, id: u64, progress: Progress) {
        self.message(&FromGuest::Reply { id, reply: Reply::Progress(progress) }).await;
    }

    async fn message(&self, message: &FromGuest) {
        match control_frame(message) {
            Ok(frame) => self.send(frame).await,
            Err(error) => tracing::error!(%error, "a reply was too long to send"),
        }
    }

    async fn send(&self, frame: Frame) {
        // The queue closes only when the stream broke, and then nobody waits for the reply.
        self.queue.send(frame).await.ok();
    }
}

/// Fires once, when the host wants a command ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Stopped(Arc<Notify>);

impl Stopped {
    pub(super) async fn wait(&self) {
        self.0.notified().await;
    }
}

/// What the reader of the stream must know of a request under way.
#[derive(Debug)]
struct Underway {
    inflow: Option<Inflow>,
    stopped: Stopped,
    /// Of those that send more than they were asked for at once.
    credit: Option<Credit>,
    terminal: Option<TerminalControl>,
}

#[derive(Debug)]
struct Session {
    role: GuestRole,
    hardened: Hardened,
    files: Arc<Files>,
    keeper: Option<Arc<Keeper>>,
    processes: Processes,
    out: Outgoing,
    underway: Arc<Mutex<HashMap<u64, Underway>>>,
}

enum Next {
    Continue,
    Shutdown,
}

impl Session {
    async fn converse(&self, mut reader: FrameReader<tokio::net::unix::OwnedReadHalf>) -> Result<(), GuestError> {
        let landlock_abi = self.hardened.landlock_abi;
        self.out.message(&FromGuest::Hello { version: VERSION, role: self.role, landlock_abi }).await;
        match reader.next().await?.map(|frame| parse(&frame)).transpose()? {
            Some(FromHost::Hello { version: VERSION, limits }) => harden::limit(&limits)?,
            Some(_) => return Err(GuestError::Protocol("the host did not say hello with this version")),
            None => return Ok(()),
        }
        while let Some(frame) = reader.next().await? {
            match self.take(&frame)? {
                Next::Continue => {}
                Next::Shutdown => break,
            }
        }
        Ok(())
    }

    fn take(&self, frame: &Frame) -> Result<Next, GuestError> {
        if let Frame::Data { id, bytes, .. } = frame {
            return self.take_data(*id, bytes);
        }
        match parse(frame)? {
            FromHost::Hello { .. } => Err(GuestError::Protocol("the host said hello twice")),
            FromHost::OutputTaken { id, bytes } => {
                if let Some(credit) = self.lock().get(&id).and_then(|underway| underway.credit.as_ref()) {
                    credit.taken(bytes).map_err(GuestError::Protocol)?;
                }
                Ok(Next::Continue)
            }
            FromHost::Request(Request { ask: Ask::Shutdown, .. }) => Ok(Next::Shutdown),
            FromHost::Request(request) => self.begin(request).map(|()| Next::Continue),
        }
    }

    fn take_data(&self, id: u64, bytes: &Bytes) -> Result<Next, GuestError> {
        if let Some(inflow) = self.lock().get(&id).and_then(|underway| underway.inflow.as_ref()) {
            inflow.push(bytes.clone()).map_err(|_| GuestError::Protocol("the host exceeded a window"))?;
        }
        // Else the request ended while these bytes were on their way.
        Ok(Next::Continue)
    }

    fn begin(&self, Request { id, ask }: Request) -> Result<(), GuestError> {
        let mut underway = self.lock();
        if underway.contains_key(&id) {
            return Err(GuestError::Protocol("the host used a request id twice"));
        }
        let refusal = if !ask.suits(self.role) {
            Some(Fault::new(FaultCode::Role, "a guest of this role does not do that"))
        } else if underway.len() >= REQUESTS_MAX {
            Some(Fault::new(FaultCode::Limit, "too many requests are under way"))
        } else {
            None
        };
        if let Some(fault) = refusal {
            let out = self.out.clone();
            tokio::spawn(async move { out.message(&FromGuest::Reply { id, reply: Reply::Failed(fault) }).await });
            return Ok(());
        }
        let (inflow, input) = inflow(id, self.out.clone());
        let stopped = Stopped::default();
        underway.insert(id, Underway { inflow: Some(inflow), stopped: stopped.clone(), credit: None, terminal: None });
        drop(underway);
        tokio::spawn(self.work().run(id, ask, input, stopped));
        Ok(())
    }

    fn work(&self) -> Work {
        Work {
            files: self.files.clone(),
            keeper: self.keeper.clone(),
            processes: self.processes.clone(),
            out: self.out.clone(),
            underway: self.underway.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Underway>> {
        lock(&self.underway)
    }
}

fn lock(underway: &Mutex<HashMap<u64, Underway>>) -> MutexGuard<'_, HashMap<u64, Underway>> {
    // Each change is one insertion, removal or replacement, so the table is whole even after a panic.
    underway.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse(frame: &Frame) -> Result<FromHost, GuestError> {
    let Frame::Control(json) = frame else { return Err(GuestError::Protocol("data came before hello")) };
    serde_json::from_slice(json).map_err(|_| GuestError::Protocol("a message could not be read"))
}

/// What one request needs of its session.
struct Work {
    files: Arc<Files>,
    keeper: Option<Arc<Keeper>>,
    processes: Processes,
    out: Outgoing,
    underway: Arc<Mutex<HashMap<u64, Underway>>>,
}

impl Work {
    async fn run(self, id: u64, ask: Ask, input: InflowReader, stopped: Stopped) {
        let reply = match self.answer(id, ask, input, stopped).await {
            Ok(answer) => Reply::Done(answer),
            Err(fault) => Reply::Failed(fault),
        };
        lock(&self.underway).remove(&id);
        self.out.message(&FromGuest::Reply { id, reply }).await;
    }

    async fn answer(&self, id: u64, ask: Ask, input: InflowReader, stopped: Stopped) -> Result<Answer, Fault> {
        match ask {
            Ask::Exec(what) => {
                let context = Context { id, out: self.out.clone(), processes: self.processes.clone(), input, stopped };
                exec::exec(context, what).await
            }
            Ask::OpenTerminal(what) => {
                let (control, orders) = terminal::control();
                let credit = Credit::new();
                self.with(id, |underway| {
                    (underway.terminal, underway.credit) = (Some(control), Some(credit.clone()));
                })?;
                let context = Context { id, out: self.out.clone(), processes: self.processes.clone(), input, stopped };
                terminal::terminal(context, what, (orders, credit)).await
            }
            Ask::Watch => watch::watch(id, self.files.clone(), self.out.clone(), stopped).await,
            Ask::Connect { port } => {
                let credit = Credit::new();
                self.with(id, |underway| underway.credit = Some(credit.clone()))?;
                port::connect((id, port), self.out.clone(), input, (credit, stopped)).await
            }
            Ask::ResizeTerminal { target, size } => self.tell(target, Order::Resize(size)),
            Ask::AttachTerminal { target } => self.tell(target, Order::Attach),
            Ask::DetachTerminal { target } => self.tell(target, Order::Detach),
            Ask::Kill { target } => self.with(target, |underway| underway.stopped.0.notify_one()),
            Ask::CloseInput { target } => self.with(target, |underway| underway.inflow = None),
            Ask::Write { path, mode, size } => self.write((path, mode, size), input).await,
            Ask::Read { path, offset, length } => {
                let (bytes, metadata) = self.on_files(move |files| files.read(&path, offset, length)).await?;
                self.out.data(id, Channel::Content, Bytes::from(bytes)).await;
                Ok(Answer::Read(metadata))
            }
            Ask::List { path, after, limit } => {
                let (entries, more) = self.on_files(move |files| files.list(&path, after.as_ref(), limit)).await?;
                Ok(Answer::Entries { entries, more })
            }
            Ask::Stat { path } => Ok(Answer::Metadata(self.on_files(move |files| files.stat(&path)).await?)),
            Ask::Remove { path, removal } => self.done(move |files| files.remove(&path, removal)).await,
            Ask::Rename { from, to } => self.done(move |files| files.rename(&from, &to)).await,
            Ask::MakeDirectory { path } => self.done(move |files| files.make_directory(&path)).await,
            Ask::MakeLink { path, target } => {
                self.done(move |files| files.put_link(&path, &target, &Expected::Anything)).await
            }
            Ask::TakeSnapshot => self.on_keeper(|keeper| keeper.snapshot()).await.map(Answer::Snapshot),
            Ask::ReadTree { tree, offset, length } => {
                self.part(id, move |keeper| keeper.read_tree(tree, offset, length)).await
            }
            Ask::PrepareTask { task, base } => {
                self.on_keeper(move |keeper| keeper.prepare_task(&task, base)).await.map(|()| Answer::Done)
            }
            Ask::CaptureTask { task, base } => {
                self.on_keeper(move |keeper| keeper.capture_task(&task, base)).await.map(Answer::Snapshot)
            }
            Ask::ReadContent { tree, path, offset, length } => {
                self.part(id, move |keeper| keeper.read_content(tree, &path, offset, length)).await
            }
            Ask::CheckTree { base, result, from_base } => {
                self.on_keeper(move |keeper| keeper.check_tree(base, result, &from_base)).await.map(Answer::Snapshot)
            }
            Ask::Graft { onto, from, paths } => {
                self.on_keeper(move |keeper| keeper.graft(onto, from, &paths)).await.map(Answer::Snapshot)
            }
            Ask::DropSnapshots { keep } => {
                self.on_keeper(move |keeper| keeper.drop_snapshots(&keep)).await.map(|()| Answer::Done)
            }
            Ask::DropTrees { trees } => {
                self.on_keeper(move |keeper| keeper.drop_trees(&trees)).await.map(|()| Answer::Done)
            }
            Ask::DropContents => self.on_keeper(|keeper| keeper.drop_contents()).await.map(Answer::Dropped),
            Ask::DropTask { task } => {
                self.on_keeper(move |keeper| keeper.drop_task(&task)).await.map(|()| Answer::Done)
            }
            Ask::Diff { from, to, offset, length } => {
                self.part(id, move |keeper| keeper.diff((from, to), offset, length)).await
            }
            Ask::WholeDiff { from, to, offset } => {
                let (bytes, last) = self.on_keeper(move |keeper| keeper.whole_diff((from, to), offset)).await?;
                self.out.data(id, Channel::Content, Bytes::from(bytes)).await;
                Ok(Answer::Next { last })
            }
            Ask::Merge { base, result, again } => {
                self.on_keeper(move |keeper| keeper.merge(base, result, again)).await.map(Answer::Merged)
            }
            Ask::Undo { changes, only, again } => {
                self.on_keeper(move |keeper| keeper.undo(&changes, only.as_ref(), again)).await.map(Answer::Merged)
            }
            Ask::Health => Ok(Answer::Health(self.health())),
            // Taken by the session itself, before it becomes a request under way.
            Ask::Shutdown => Ok(Answer::Done),
        }
    }

    fn with(&self, target: u64, change: impl FnOnce(&mut Underway)) -> Result<Answer, Fault> {
        match lock(&self.underway).get_mut(&target) {
            Some(underway) => {
                change(underway);
                Ok(Answer::Done)
            }
            None => Err(Fault::new(FaultCode::NotFound, "that request is not under way")),
        }
    }

    fn tell(&self, target: u64, order: Order) -> Result<Answer, Fault> {
        let mut told = Err(Fault::new(FaultCode::NotFound, "that request is not a terminal"));
        self.with(target, |underway| {
            if let Some(terminal) = &underway.terminal {
                told = terminal.tell(order);
            }
        })?;
        told.map(|()| Answer::Done)
    }

    async fn write(
        &self,
        (path, mode, size): (crate::path::RelativePath, Option<u32>, u64),
        mut input: InflowReader,
    ) -> Result<Answer, Fault> {
        let mut writing = self.on_files(move |files| files.begin_write(&path, mode, size)).await?;
        while writing.missing() > 0 {
            let Some(bytes) = input.next().await else {
                return Err(Fault::new(FaultCode::BadRequest, "the content ended early"));
            };
            let length = bytes.len();
            writing = blocking(move || writing.append(&bytes)).await?;
            input.taken(length).await;
        }
        blocking(move || writing.finish()).await.map(|()| Answer::Done)
    }

    async fn done(&self, act: impl FnOnce(&Files) -> Result<(), Fault> + Send + 'static) -> Result<Answer, Fault> {
        self.on_files(act).await.map(|()| Answer::Done)
    }

    async fn on_files<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Files) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let files = self.files.clone();
        blocking(move || act(&files)).await
    }

    async fn on_keeper<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Keeper) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let missing = || Fault::new(FaultCode::BadRequest, "this keeper was started without a store");
        let keeper = self.keeper.clone().ok_or_else(missing)?;
        blocking(move || act(&keeper)).await
    }

    async fn part(
        &self,
        id: u64,
        act: impl FnOnce(&Keeper) -> Result<(Vec<u8>, u64), Fault> + Send + 'static,
    ) -> Result<Answer, Fault> {
        let (bytes, size) = self.on_keeper(act).await?;
        self.out.data(id, Channel::Content, Bytes::from(bytes)).await;
        Ok(Answer::Part { size })
    }

    fn health(&self) -> Health {
        Health {
            pid: rustix::process::getpid().as_raw_pid(),
            requests: u32::try_from(lock(&self.underway).len()).unwrap_or(u32::MAX),
            processes: self.processes.count(),
        }
    }
}

/// Runs what may wait for a disk on a thread of its own.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(act).await {
        Ok(result) => result,
        Err(_) => Err(Fault::new(FaultCode::System, "the operation broke off")),
    }
}

//! The handle of a guest.

use std::cmp::Ordering;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc, watch as latest};

use super::connection::{CallError, Connection};
use super::ends::{Connections, Ends, Processes};
use super::exec::{self, Bookkeeping, ExecError, ExecHandle, Reached};
use super::launch::{Launched, Launcher, Refusals, StartError};
use super::layers::Layers;
use super::limits::{Backend, Hold, Limit, Limiter, Measure, Meter, Watchdog, Written};
use super::port;
use super::process::Process;
use super::spec::Spec;
use super::terminal::{self, Terminal, TerminalOutput};
use super::watch::{self, Watch};
use super::write::{self, FileWrite};
use crate::path::{LinkTarget, RelativePath};
use crate::protocol::{
    Answer, Ask, Entry, Exec, Health, LIST_ENTRIES_MAX, Metadata, OpenTerminal, READ_BYTES_MAX, Removal,
};
use crate::record::Record;

/// How long a guest may take to say hello. Milliseconds on an idle machine; this is for a very busy one.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a guest that has given up may take to say why.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a guest may take to end by itself.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a shim may take to collect commands that have ended.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Processes beyond those that there may be, where a control group holds a sandbox to that number.
const SPARE_PROCESSES: u64 = 32;
/// Addresses that a process may take beyond the memory that there is, where nobody but an outside adds memory up. Half of
/// what there are: programs reserve far more than they use, Node and Java gigabytes, Go's race detector some, the address
/// sanitizer 20 TiB and the thread sanitizer twice that. What it forbids is to reserve without end, for which the kernel
/// keeps tables that belong to nobody's resident memory.
const ADDRESS_ROOM_BYTES: u64 = 64 << 40;
/// How much of the beginning of a sandbox's complaint is kept.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// A running guest; a cheap handle. When the last one is dropped, the sandbox is ended.
#[derive(Debug, Clone)]
pub struct Guest {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connection: Arc<Connection>,
    /// To whoever runs commands, where that is another than the guest.
    shim: Option<Arc<Connection>>,
    layers: Layers,
    backend: Backend,
    hold: Arc<dyn Hold>,
    /// Told whenever something was asked to run.
    started: Arc<Notify>,
    exceeded: Arc<OnceLock<Limit>>,
    /// The guest and its shim, as this machine numbers them.
    guests: Vec<u32>,
    /// Most processes and threads that it may have.
    threads_max: u64,
    /// When so many processes were last seen as it may have.
    crowded: Arc<Mutex<Option<Instant>>>,
    /// Closed or filled, it ends the sandbox.
    stop: mpsc::Sender<()>,
    exited: latest::Receiver<Option<Gone>>,
    record: Option<Record>,
    spool_directory: Option<PathBuf>,
    /// Keeps the thread alive whose end would end the sandbox.
    _launcher: Launcher,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Lets the watchdog see that there is nothing left to watch.
        self.started.notify_one();
    }
}

/// Of the processes that a sandbox may have, this part may be missing from a full one: whoever is refused another ends with
/// those that stood between it and its command, and leaves the rest behind.
const FULL_SHARE: u64 = 8;

/// The process has ended, with its status if that was seen.
#[derive(Debug, Clone, Copy)]
struct Gone(Option<ExitStatus>);

/// Starts a guest and waits until it has said hello.
pub(super) async fn start(launcher: &Launcher, limiter: &Limiter, spec: Spec) -> Result<Guest, StartError> {
    let unheld = |source| StartError::Limits { backend: limiter.backend(), source };
    let hold = limiter.hold(&spec.limits).map_err(unheld)?;
    let entrances = hold.entrances().map_err(unheld)?;
    let Launched { guest, shim, complaint, refusals } = launcher.launch(&spec, entrances).await?;
    let mut limits = spec.limits.guest;
    limits.nameless_files &= hold.counts_nameless();
    if hold.refused_processes().is_some() {
        // The group refuses first, because it counts what it refuses.
        limits.processes += SPARE_PROCESSES;
    }
    if limiter.backend() == Backend::Watchdog {
        limits.address_space_bytes.get_or_insert(spec.limits.memory_bytes + ADDRESS_ROOM_BYTES);
    }
    let ends = Ends::of(guest, shim);
    let hello = tokio::time::timeout(HELLO_TIMEOUT, ends.streams.greet(spec.role, limits)).await;
    let (connections, layers) = match hello {
        Ok(Ok(greeted)) => ends.processes.inspect(spec.role, greeted),
        Ok(Err(StartError::Refused(_))) => return Err(refusal(ends.processes, refusals, complaint).await),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(StartError::Silent),
    };
    if spec.is_inspected() {
        layers.require()?;
    }
    let (stop, on_stop) = mpsc::channel(1);
    let (exited_sender, exited) = latest::channel(None);
    let guests = ends.processes.ids();
    let (started, exceeded, crowded) = <(Arc<Notify>, Arc<OnceLock<Limit>>, Arc<Mutex<Option<Instant>>>)>::default();
    let held = Held { processes: ends.processes, hold: hold.clone(), exceeded: exceeded.clone() };
    tokio::spawn(supervise(held, connections.clone(), on_stop, exited_sender));
    let watchdog = Watchdog {
        guests: guests.clone(),
        hold: hold.clone(),
        written: Written::new(measure(&spec)),
        stop: stop.downgrade(),
        connections: connections.all(),
        started: started.clone(),
        exceeded: exceeded.clone(),
        threads_max: spec.limits.guest.processes,
        crowded: crowded.clone(),
    };
    tokio::spawn(watchdog.watch());
    tokio::spawn(async move {
        let complaint = read_complaint(complaint).await;
        if !complaint.is_empty() {
            tracing::warn!(%complaint, "a guest complained");
        }
    });
    let Spec { record, spool_directory, limits, .. } = spec;
    let inner = Inner {
        connection: connections.guest,
        shim: connections.shim,
        layers,
        backend: limiter.backend(),
        hold,
        started,
        exceeded,
        guests,
        threads_max: limits.guest.processes,
        crowded,
        stop,
        exited,
        record,
        spool_directory,
        _launcher: launcher.clone(),
    };
    Ok(Guest { inner: Arc::new(inner) })
}

fn measure(spec: &Spec) -> Measure {
    let mut meter = Meter::new(spec);
    Box::new(move |guests| meter.look(guests))
}

/// The processes of a sandbox, and how they are held.
struct Held {
    processes: Processes,
    hold: Arc<dyn Hold>,
    exceeded: Arc<OnceLock<Limit>>,
}

/// Owns the processes: ends them when told to, when nobody holds a handle, or when one of them or its stream ended.
async fn supervise(
    held: Held,
    connections: Connections,
    mut on_stop: mpsc::Receiver<()>,
    exited: latest::Sender<Option<Gone>>,
) {
    let Held { mut processes, hold, exceeded } = held;
    tokio::select! {
        _ = processes.guest.ended() => {}
        () = ended(&processes.shim) => {}
        _ = on_stop.recv() => {}
        () = connections.closed() => {}
    }
    // First, because commands that end with their sandbox have not ended in a way that is theirs.
    connections.all().iter().for_each(|connection| connection.close());
    let status = end(&mut processes).await;
    // Whoever lets go forgets, and the kernel may have ended the guest before anybody looked.
    if hold.enforced() > 0 {
        exceeded.set(Limit::Memory).ok();
    }
    // Nothing is left in it; a thread that cannot be had only leaves an empty group behind.
    tokio::task::spawn_blocking(move || hold.release()).await.ok();
    exited.send_replace(Some(Gone(status)));
}

/// Waits for the end of a process; for ever where there is none.
async fn ended(process: &Option<Process>) {
    match process {
        Some(process) => drop(process.ended().await),
        None => std::future::pending().await,
    }
}

/// Ends a sandbox; how its guest ended. The shim goes last, because it collects the commands, without which the guest's
/// namespace does not end. One that cannot must not keep it: whoever inherits the commands collects them too.
async fn end(processes: &mut Processes) -> Option<ExitStatus> {
    let Processes { guest, shim } = processes;
    guest.kill();
    if tokio::time::timeout(COLLECT_TIMEOUT, guest.ended()).await.is_err() {
        shim.iter().for_each(Process::kill);
    }
    let status = guest.wait().await.ok();
    if let Some(shim) = shim {
        shim.kill();
        // The guest's end is what was asked for.
        shim.wait().await.ok();
    }
    status
}

/// Why there was no hello: what was refused on the way, else what was complained about.
async fn refusal(mut processes: Processes, refusals: Refusals, complaint: OwnedFd) -> StartError {
    // A stream that ends comes before the last words of who held it.
    let one_ended = async {
        tokio::select! {
            _ = processes.guest.ended() => {}
            () = ended(&processes.shim) => {}
        }
    };
    tokio::time::timeout(LAST_WORDS_TIMEOUT, one_ended).await.ok();
    end(&mut processes).await;
    let complaint = read_complaint(complaint).await;
    refusals.read().unwrap_or(StartError::Refused(complaint))
}

/// The beginning of what is complained, read to its end so that nobody waits for a full pipe.
async fn read_complaint(complaint: OwnedFd) -> String {
    let Ok(mut complaint) = pipe::Receiver::from_owned_fd(complaint) else { return String::new() };
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = complaint.read(&mut buffer).await {
        let room = COMPLAINT_BYTES_MAX - kept.len();
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
    String::from_utf8_lossy(&kept).trim().escape_debug().to_string()
}

impl Guest {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.inner.connection
    }

    /// To whoever runs commands. A guest that runs none says so itself.
    pub(super) fn runner(&self) -> &Arc<Connection> {
        self.inner.shim.as_ref().unwrap_or(&self.inner.connection)
    }

    /// The walls around the guest, as they were found from outside before it was handed over.
    pub fn layers(&self) -> &Layers {
        &self.inner.layers
    }

    /// Who adds up what the sandbox uses.
    pub fn backend(&self) -> Backend {
        self.inner.backend
    }

    /// The limit that the sandbox has reached, if it has: it was ended for it, or one of its processes was.
    pub fn exceeded(&self) -> Option<Limit> {
        let enforced = || (self.inner.hold.enforced() > 0).then_some(Limit::Memory);
        self.inner.exceeded.get().copied().or_else(enforced)
    }

    /// How it stands with limits whose reaching does not end the sandbox.
    pub(super) async fn reached(&self) -> Reached {
        let (memory, processes) = (self.inner.hold.enforced(), self.inner.hold.refused_processes());
        let is_full = processes.is_none() && self.is_full().await;
        let crowded = *self.inner.crowded.lock().unwrap_or_else(PoisonError::into_inner);
        Reached { at: Instant::now(), memory, processes, is_full, crowded }
    }

    /// Whether there are so many processes in it that who was refused one, and has ended, may well be the one that lacks.
    async fn is_full(&self) -> bool {
        let (guests, hold, max) = (self.inner.guests.clone(), self.inner.hold.clone(), self.inner.threads_max);
        let counted = tokio::task::spawn_blocking(move || hold.threads(&guests) as u64).await;
        counted.is_ok_and(|threads| threads >= max - max / FULL_SHARE)
    }

    /// Runs a command.
    pub async fn exec(&self, exec: Exec) -> Result<ExecHandle, ExecError> {
        let books =
            Bookkeeping { record: self.inner.record.clone(), spool_directory: self.inner.spool_directory.clone() };
        // Weak, because a strong one would keep the sandbox after its last handle.
        let stop = self.inner.stop.downgrade();
        let on_hang = move || {
            // A full queue is an end already under way.
            stop.upgrade().and_then(|stop| stop.try_send(()).ok());
        };
        let handle = exec::start(self, books, exec, on_hang).await?;
        self.inner.started.notify_one();
        Ok(handle)
    }

    /// Opens a terminal.
    pub async fn open_terminal(&self, what: OpenTerminal) -> Result<(Terminal, TerminalOutput), CallError> {
        let opened = terminal::open(self, what).await?;
        self.inner.started.notify_one();
        Ok(opened)
    }

    /// Hears of changes of the workspace. What happens after this returns is told.
    pub async fn watch(&self) -> Result<Watch, CallError> {
        watch::watch(self).await
    }

    /// Connects to a server that listens on a port inside.
    pub async fn connect(&self, port: u16) -> Result<DuplexStream, CallError> {
        port::connect(self, port).await
    }

    /// Reads a part of a file, at most [`READ_BYTES_MAX`] bytes.
    pub async fn read_range(
        &self,
        path: &RelativePath,
        offset: u64,
        length: u64,
    ) -> Result<(Bytes, Metadata), CallError> {
        match self.inner.connection.call(Ask::Read { path: path.clone(), offset, length }).await? {
            (Answer::Read(metadata), bytes) => Ok((bytes, metadata)),
            _ => Err(CallError::Unexpected),
        }
    }

    /// Reads a whole file of at most `limit_bytes`.
    pub async fn read_file(&self, path: &RelativePath, limit_bytes: u64) -> Result<Bytes, CallError> {
        let (first, metadata) = self.read_range(path, 0, READ_BYTES_MAX).await?;
        if metadata.size > limit_bytes {
            return Err(CallError::TooLong);
        }
        if first.len() as u64 == metadata.size {
            return Ok(first);
        }
        let mut content = Vec::from(first);
        while (content.len() as u64) < metadata.size {
            let (part, now) = self.read_range(path, content.len() as u64, READ_BYTES_MAX).await?;
            if now != metadata || part.is_empty() {
                return Err(CallError::Changed);
            }
            content.extend_from_slice(&part);
        }
        Ok(content.into())
    }

    /// Replaces a file as a whole: a reader sees the old content or the new. Without `mode` the old permissions stay.
    pub async fn write_file(&self, path: &RelativePath, content: Bytes, mode: Option<u32>) -> Result<(), CallError> {
        let mut writing = self.begin_write(path, content.len() as u64, mode).await?;
        // A refused write takes no more, and its answer says why.
        writing.append(content).await.ok();
        writing.finish().await
    }

    /// Begins to replace a file by `size` bytes that come in parts. The old content stands until the last one is there.
    pub async fn begin_write(&self, path: &RelativePath, size: u64, mode: Option<u32>) -> Result<FileWrite, CallError> {
        write::begin(self, path, size, mode).await
    }

    /// The next entries of a directory after the name `after`, and whether there are more.
    pub async fn list(
        &self,
        path: &RelativePath,
        after: Option<&RelativePath>,
    ) -> Result<(Vec<Entry>, bool), CallError> {
        let ask = Ask::List { path: path.clone(), after: after.cloned(), limit: LIST_ENTRIES_MAX };
        match self.inner.connection.call(ask).await? {
            (Answer::Entries { entries, more }, _) => Ok((entries, more)),
            _ => Err(CallError::Unexpected),
        }
    }

    /// Describes a path, without following a final link.
    pub async fn stat(&self, path: &RelativePath) -> Result<Metadata, CallError> {
        match self.inner.connection.call(Ask::Stat { path: path.clone() }).await? {
            (Answer::Metadata(metadata), _) => Ok(metadata),
            _ => Err(CallError::Unexpected),
        }
    }

    /// Removes a path.
    pub async fn remove(&self, path: &RelativePath, removal: Removal) -> Result<(), CallError> {
        done(self.inner.connection.call(Ask::Remove { path: path.clone(), removal }).await?)
    }

    /// Renames a path, replacing a file of the new name.
    pub async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), CallError> {
        done(self.inner.connection.call(Ask::Rename { from: from.clone(), to: to.clone() }).await?)
    }

    /// Makes a directory and those above it.
    pub async fn make_directory(&self, path: &RelativePath) -> Result<(), CallError> {
        done(self.inner.connection.call(Ask::MakeDirectory { path: path.clone() }).await?)
    }

    /// Puts a symbolic link in the place of whatever is not a directory.
    pub async fn make_link(&self, path: &RelativePath, target: LinkTarget) -> Result<(), CallError> {
        done(self.inner.connection.call(Ask::MakeLink { path: path.clone(), target }).await?)
    }

    /// Something that comes in parts, as a whole.
    pub(super) async fn read_parts(&self, limit_bytes: u64, part: impl Fn(u64) -> Ask) -> Result<Bytes, CallError> {
        let (mut whole, mut size_at_first) = (Vec::new(), None);
        loop {
            let (Answer::Part { size }, bytes) = self.inner.connection.call(part(whole.len() as u64)).await? else {
                return Err(CallError::Unexpected);
            };
            if size > limit_bytes {
                return Err(CallError::TooLong);
            }
            // Parts of two different wholes are no whole.
            if *size_at_first.get_or_insert(size) != size {
                return Err(CallError::Changed);
            }
            whole.extend_from_slice(&bytes);
            match (whole.len() as u64).cmp(&size) {
                Ordering::Equal => return Ok(whole.into()),
                Ordering::Less if !bytes.is_empty() => {}
                Ordering::Less | Ordering::Greater => return Err(CallError::Changed),
            }
        }
    }

    /// Asks and waits for the answer.
    pub(super) async fn call(&self, ask: Ask) -> Result<(Answer, Bytes), CallError> {
        self.inner.connection.call(ask).await
    }

    /// How the guest is.
    pub async fn health(&self) -> Result<Health, CallError> {
        match self.inner.connection.call(Ask::Health).await? {
            (Answer::Health(health), _) => Ok(health),
            _ => Err(CallError::Unexpected),
        }
    }

    /// Asks the guest to end, and ends it when it does not. Everything in the sandbox is gone afterwards.
    pub async fn shutdown(&self) -> Option<ExitStatus> {
        self.inner.connection.tell(Ask::Shutdown);
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, self.closed()).await {
            Ok(status) => status,
            Err(_) => self.terminate().await,
        }
    }

    /// Ends the sandbox at once.
    pub async fn terminate(&self) -> Option<ExitStatus> {
        // A full or closed queue is an end already under way.
        self.inner.stop.try_send(()).ok();
        self.closed().await
    }

    /// Whether it still answers. One that does not may take a moment more to be gone.
    pub fn is_alive(&self) -> bool {
        let connections = [Some(&self.inner.connection), self.inner.shim.as_ref()];
        self.inner.exited.borrow().is_none() && !connections.into_iter().flatten().any(|one| one.is_closed())
    }

    /// Waits until the sandbox is gone; how its process ended, if that was seen.
    pub async fn closed(&self) -> Option<ExitStatus> {
        let mut exited = self.inner.exited.clone();
        let gone = exited.wait_for(Option::is_some).await.ok().and_then(|gone| *gone);
        gone.and_then(|Gone(status)| status)
    }
}

pub(super) fn done((answer, _): (Answer, Bytes)) -> Result<(), CallError> {
    match answer {
        Answer::Done => Ok(()),
        _ => Err(CallError::Unexpected),
    }
}

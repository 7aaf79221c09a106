//! Starting a guest's process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::enter::{Descriptors, Entry, Report, ShimDescriptors, read_report};
use super::layers::Layer;
use super::limits::Backend;
use super::process::Process;
use super::remedy::{Settings, of_container, of_layer};
use super::spec::{Overlay, Spec, Workspace};
use super::view::View;
use crate::guest::GuestRole;

/// Why a guest could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The spec names something that cannot be used.
    #[error("the sandbox cannot be made: {0}")]
    Spec(String),
    /// This machine does not let us hold sandboxes in that way, or not this one.
    #[error("sandboxes cannot be held by {backend}")]
    Limits {
        /// In which way.
        backend: Backend,
        /// Why.
        source: io::Error,
    },
    /// The process could not be started.
    #[error("the sandbox could not be started")]
    Spawn(#[source] io::Error),
    /// The sandbox ended before its guest said hello.
    #[error("the sandbox was refused: {0}")]
    Refused(String),
    /// This machine forbids what a sandbox is made of.
    #[error("the sandbox was refused: {said}; mend it with `{mend}`")]
    Forbidden {
        /// What was refused.
        said: String,
        /// The command that allows it.
        mend: String,
    },
    /// The guest did not say hello in time.
    #[error("the guest did not answer in time")]
    Silent,
    /// The guest said something else than hello, or as another role, or of another version.
    #[error("the guest does not speak this protocol: {0}")]
    Protocol(String),
    /// The sandbox lacks walls that it must have.
    #[error("the sandbox lacks: {}", list(.0))]
    Layers(Vec<Layer>),
    /// The guest is of another role than the one asked for.
    #[error("the guest is {0:?}, which was not asked for")]
    Role(GuestRole),
}

fn list(layers: &[Layer]) -> String {
    layers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Starts processes from one thread that lives as long as any handle to it.
///
/// A sandbox is killed by the kernel when the thread that started it ends, which is how nothing survives this process.
/// A thread of a pool may end at any time, so this one is its own.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    entry: Box<Entry>,
    report: OwnedFd,
    runtime: Handle,
    started: oneshot::Sender<Result<Forked, StartError>>,
}

/// The processes of a sandbox that is being made.
struct Forked {
    guest: Process,
    shim: Option<Process>,
    refusals: Refusals,
}

/// A started process and the host's end of its stream.
pub(super) struct Connected {
    pub(super) process: Process,
    pub(super) stream: OwnedFd,
}

/// What a sandbox consists of at first.
pub(super) struct Launched {
    pub(super) guest: Connected,
    /// Of a sandbox that runs commands.
    pub(super) shim: Option<Connected>,
    /// What the guest, and whoever it is before it is the guest, complains about.
    pub(super) complaint: OwnedFd,
    pub(super) refusals: Refusals,
}

/// Where a process that is not yet the guest says what was refused.
pub(super) struct Refusals {
    report: OwnedFd,
    entry: Box<Entry>,
}

impl StartError {
    /// The command that mends it, where there is one.
    pub fn mend(&self) -> Option<&str> {
        match self {
            Self::Forbidden { mend, .. } => Some(mend),
            _ => None,
        }
    }
}

impl Refusals {
    /// What was refused, once the process is known to have ended.
    pub(super) fn read(&self) -> Option<StartError> {
        match read_report(self.report.as_fd())? {
            Report::Refused { what, errno } => Some(self.say(what, errno)),
            Report::Started { .. } => None,
        }
    }

    fn say(&self, what: u32, errno: i32) -> StartError {
        let said = format!("{}: {}", self.entry.name(what), io::Error::from_raw_os_error(errno));
        let setting = || Settings::read().remedy(errno, &std::env::current_exe().unwrap_or_default());
        let container = || Entry::is_about_namespaces(what).then(|| of_container(errno)).flatten();
        let layer = || self.entry.is_about_the_layer(what).then(|| of_layer(errno)).flatten();
        match Entry::needs_namespaces(what).then(setting).flatten().or_else(container).or_else(layer) {
            Some(mend) => StartError::Forbidden { said, mend },
            None => StartError::Refused(said),
        }
    }
}

impl Launcher {
    pub(super) fn new() -> Result<Self, StartError> {
        let (jobs, queue) = mpsc::channel();
        std::thread::Builder::new().name("launcher".into()).spawn(move || serve(&queue)).map_err(StartError::Spawn)?;
        Ok(Self { jobs })
    }

    pub(super) async fn launch(&self, spec: &Spec, groups: Vec<OwnedFd>) -> Result<Launched, StartError> {
        check(spec)?;
        let (stream, theirs) = stream_pair().map_err(StartError::Spawn)?;
        let (complaint, their_complaint) = pipe().map_err(StartError::Spawn)?;
        let (report, their_report) = pipe().map_err(StartError::Spawn)?;
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(StartError::Spawn)?;
        let (shim_stream, shim) = match spec.role {
            GuestRole::Associate => shim_descriptors().map(|(ours, theirs)| (Some(ours), Some(theirs))),
            GuestRole::Keeper | GuestRole::Shim => Ok((None, None)),
        }
        .map_err(StartError::Spawn)?;
        let descriptors = Descriptors {
            stream: theirs,
            complaint: their_complaint,
            null: null.into(),
            report: their_report,
            shim,
            groups,
        };
        let entry = Box::new(Entry::new(spec, View::plan(spec)?, descriptors)?);
        let (started, on_started) = oneshot::channel();
        self.jobs.send(Job { entry, report, runtime: Handle::current(), started }).map_err(|_| gone())?;
        let Forked { guest, shim, refusals } = on_started.await.map_err(|_| gone())??;
        let shim = shim.zip(shim_stream).map(|(process, stream)| Connected { process, stream });
        Ok(Launched { guest: Connected { process: guest, stream }, shim, complaint, refusals })
    }
}

/// The host's end of a shim's stream, and what the shim inherits.
fn shim_descriptors() -> io::Result<(OwnedFd, ShimDescriptors)> {
    let (ours, stream) = stream_pair()?;
    let (on_made, made) = pipe()?;
    Ok((ours, ShimDescriptors { stream, made, on_made }))
}

fn gone() -> StartError {
    StartError::Spawn(io::Error::other("the launcher has ended"))
}

fn serve(queue: &mpsc::Receiver<Job>) {
    while let Ok(Job { entry, report, runtime, started }) = queue.recv() {
        let _context = runtime.enter();
        // Given up meanwhile: dropping the process ends it.
        started.send(launch(entry, report)).ok();
    }
}

/// Forks the first process, which makes the second, and becomes the shim or leaves.
#[allow(unsafe_code)]
fn launch(mut entry: Box<Entry>, report: OwnedFd) -> Result<Forked, StartError> {
    // SAFETY: the copy only makes system calls on what was prepared, and never returns.
    let first = match unsafe { libc::fork() } {
        0 => entry.enter(),
        pid => Pid::from_raw(pid).ok_or_else(|| StartError::Spawn(io::Error::last_os_error()))?,
    };
    // So that the end of the report is seen when they have ended.
    entry.close();
    let said = read_report(report.as_fd());
    let has_shim = entry.has_shim();
    let refusals = Refusals { report, entry };
    // Dropped, it is ended and collected.
    let shim = match (has_shim, &said) {
        (true, Some(Report::Started { .. })) => Some(adopt(first)?),
        _ => {
            rustix::process::waitpid(Some(first), rustix::process::WaitOptions::empty())
                .map_err(|errno| StartError::Spawn(errno.into()))?;
            None
        }
    };
    match said {
        Some(Report::Started { pid }) => {
            let pid = Pid::from_raw(pid).ok_or_else(|| StartError::Refused("no process was started".to_owned()))?;
            Ok(Forked { guest: adopt(pid)?, shim, refusals })
        }
        Some(Report::Refused { what, errno }) => Err(refusals.say(what, errno)),
        None => Err(StartError::Refused("the first process ended without a word".to_owned())),
    }
}

fn adopt(pid: Pid) -> Result<Process, StartError> {
    Process::adopt(pid).map_err(|source| {
        // Nobody could end it later.
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        StartError::Spawn(source)
    })
}

fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn check(spec: &Spec) -> Result<(), StartError> {
    let must_be = |good: bool, path: &Path, what: &str| match good {
        true => Ok(()),
        false => Err(StartError::Spec(format!("{} is not {what}", path.display()))),
    };
    must_be(spec.guest_program.is_file(), &spec.guest_program, "a program")?;
    match &spec.workspace {
        Workspace::Directory { path, .. } => must_be(path.is_dir(), path, "a directory")?,
        Workspace::Overlay(Overlay { lower, upper, work }) => {
            [lower, upper, work].into_iter().try_for_each(|path| must_be(path.is_dir(), path, "a directory"))?;
        }
    }
    if let Some(store) = &spec.store {
        must_be(store.is_dir(), store, "a directory")?;
        if spec.role != GuestRole::Keeper {
            return Err(StartError::Spec("only a keeper has a store".to_owned()));
        }
    }
    if let Some(socket) = &spec.egress {
        must_be(socket.exists(), socket, "there")?;
        if spec.role != GuestRole::Associate {
            return Err(StartError::Spec("only an associate has a way out".to_owned()));
        }
    }
    for mount in &spec.mounts {
        must_be(mount.host.exists(), &mount.host, "there")?;
        must_be(mount.inside.is_absolute(), &mount.inside, "an absolute path")?;
    }
    for (name, value) in &spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(StartError::Spec(format!("the variable {name:?} is malformed")));
        }
    }
    Ok(())
}

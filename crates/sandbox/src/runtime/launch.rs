//! Starting a guest's process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::bubblewrap;
use super::layers::Layer;
use super::overlay::Stage;
use super::spec::{Identity, Overlay, Spec, Workspace};
use crate::guest::GuestRole;

/// Why a guest could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program that the runtime needs is not installed.
    #[error("{program} is missing; install it with `{mend}`")]
    Missing {
        /// The program.
        program: PathBuf,
        /// The package that holds it.
        package: &'static str,
        /// The command that mends it.
        mend: String,
    },
    /// The spec names something that cannot be used.
    #[error("the sandbox cannot be made: {0}")]
    Spec(String),
    /// The process could not be started.
    #[error("the sandbox could not be started")]
    Spawn(#[source] io::Error),
    /// The sandbox ended before its guest said hello.
    #[error("the sandbox was refused: {0}")]
    Refused(String),
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
    command: std::process::Command,
    runtime: Handle,
    child: oneshot::Sender<io::Result<Child>>,
}

/// A started process and the host's end of its stream.
pub(super) struct Launched {
    pub(super) child: Child,
    pub(super) stream: OwnedFd,
    pub(super) info: InfoPipe,
}

/// Where it is said whom the sandbox started.
pub(super) struct InfoPipe(OwnedFd);

impl InfoPipe {
    /// The guest's own process number on this machine. To be asked once the guest has spoken: by then it is written.
    pub(super) fn guest_pid(&self) -> Result<u32, StartError> {
        let mut text = [0; INFO_BYTES_MAX];
        let unknown = || StartError::Protocol("the sandbox did not say whom it started".to_owned());
        let length = rustix::io::read(&self.0, &mut text).map_err(|_| unknown())?;
        let info: bubblewrap::Info = serde_json::from_slice(&text[..length]).map_err(|_| unknown())?;
        Ok(info.child_pid)
    }
}

/// Most bytes of what is said about a started process.
const INFO_BYTES_MAX: usize = 4096;

impl Launcher {
    pub(super) fn new() -> Result<Self, StartError> {
        let (jobs, queue) = mpsc::channel();
        std::thread::Builder::new().name("launcher".into()).spawn(move || launch(&queue)).map_err(StartError::Spawn)?;
        Ok(Self { jobs })
    }

    pub(super) async fn launch(&self, spec: &Spec) -> Result<Launched, StartError> {
        check(spec)?;
        let (stream, theirs) = stream_pair().map_err(StartError::Spawn)?;
        let (info, their_info) = info_pipe().map_err(StartError::Spawn)?;
        let line = bubblewrap::command_line(spec, theirs.as_raw_fd(), their_info.as_raw_fd());
        let line = line.map_err(StartError::Spawn)?;
        let mut command = std::process::Command::new(bubblewrap::PROGRAM);
        command.args(&line.arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.current_dir("/");
        if let Identity::User { uid, gid } = spec.identity {
            use std::os::unix::process::CommandExt;
            command.uid(uid).gid(gid);
        }
        if let Workspace::Overlay(overlay) = &spec.workspace {
            mount_before(&mut command, Stage::new(overlay, spec.identity)?);
        }
        let mut inherited = line.descriptors;
        inherited.extend([theirs, their_info]);
        inherit(&mut command, inherited);
        let (child, started) = oneshot::channel();
        let job = Job { command, runtime: Handle::current(), child };
        self.jobs.send(job).map_err(|_| gone())?;
        let child = started.await.map_err(|_| gone())?.map_err(StartError::Spawn)?;
        Ok(Launched { child, stream, info: InfoPipe(info) })
    }
}

fn gone() -> StartError {
    StartError::Spawn(io::Error::other("the launcher has ended"))
}

fn launch(queue: &mpsc::Receiver<Job>) {
    while let Ok(Job { command, runtime, child }) = queue.recv() {
        let _context = runtime.enter();
        let started = Command::from(command).kill_on_drop(true).spawn();
        // Given up meanwhile: dropping the child kills it.
        child.send(started).ok();
    }
}

fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn info_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Whoever says nothing must not be waited for.
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Mounts a task's overlay before the program starts.
#[allow(unsafe_code)]
fn mount_before(command: &mut std::process::Command, stage: Stage) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec the stage only makes system calls with what was allocated before.
    unsafe { command.pre_exec(move || stage.enter()) };
}

/// Lets the started process have these descriptors under their numbers, the standard streams, and no other.
#[allow(unsafe_code)]
fn inherit(command: &mut std::process::Command, descriptors: Vec<OwnedFd>) {
    use std::os::unix::process::CommandExt;
    let act = move || {
        close_on_exec_from(FIRST_FREE_DESCRIPTOR)?;
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls on descriptors that it owns; it allocates
    // nothing and takes no lock.
    unsafe { command.pre_exec(act) };
}

/// The first descriptor that is not a standard stream.
const FIRST_FREE_DESCRIPTOR: libc::c_uint = 3;

/// Marks every descriptor from `first` on to be closed by exec, whoever opened it and forgot to.
#[allow(unsafe_code)]
fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    let (last, flags) = (libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: only marks descriptors; none is closed here, so no owner loses one.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn check(spec: &Spec) -> Result<(), StartError> {
    let program = Path::new(bubblewrap::PROGRAM);
    if !program.exists() {
        let package = bubblewrap::PACKAGE;
        let mend = format!("sudo apt-get install {package}");
        return Err(StartError::Missing { program: program.into(), package, mend });
    }
    let must_be = |good: bool, path: &Path, what: &str| match good {
        true => Ok(()),
        false => Err(StartError::Spec(format!("{} is not {what}", path.display()))),
    };
    must_be(spec.guest_program.is_file(), &spec.guest_program, "a program")?;
    match &spec.workspace {
        Workspace::Directory { path, .. } => must_be(path.is_dir(), path, "a directory")?,
        Workspace::Overlay(Overlay { lower, upper, work, merged }) => {
            [lower, upper, work, merged]
                .into_iter()
                .try_for_each(|path| must_be(path.is_dir(), path, "a directory"))?;
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

//! The inside of a sandbox: one process that serves one stream.
//!
//! An associate runs terminals and a keeper nothing; both work on files beneath the workspace. They are the first
//! process of their namespace and cannot be read or traced by what runs in it. A shim is beside an associate and runs
//! its commands: it is in no namespace of theirs that shows it, and reads nothing of what they write but carries it, so
//! that what it says of their end can be believed. A guest trusts its host, never its children. When the stream ends,
//! everything in the sandbox ends.

mod closed;
mod credit;
mod exec;
mod files;
pub(crate) mod harden;
mod inflow;
mod keeper;
mod port;
mod process;
mod relay;
mod screen;
mod session;
mod signals;
mod terminal;
mod watch;
mod writing;

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::DumpableBehavior;

pub use crate::protocol::GuestRole;
use crate::protocol::StreamError;

/// Where the workspace is, inside.
pub const WORK_DIRECTORY: &str = "/work";
/// Where a keeper's store is, inside.
pub const STORE_DIRECTORY: &str = "/store";
/// Where the guest's own program is, inside.
pub const GUEST_PROGRAM: &str = "/run/choir/guest";
/// Where programs are looked for, inside, unless more was shown.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the socket of the host's proxy is, inside a sandbox that has a way out.
pub const EGRESS_SOCKET: &str = "/run/choir/egress";
/// The port on which programs inside find that proxy.
pub const EGRESS_PORT: u16 = 3128;
/// Variables that name whom programs speak to without it; programs disagree about their case.
pub const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Whom they name: the sandbox itself.
pub const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why a guest ended in another way than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The number given is no stream to serve.
    #[error("descriptor {0} is not a stream socket handed over by a runtime")]
    NoStream(RawFd),
    /// The system refused what the guest needs before it can serve.
    #[error("the guest could not prepare: {step}: {source}")]
    Prepare {
        /// What was refused.
        step: &'static str,
        /// By which error.
        source: std::io::Error,
    },
    /// The host broke the protocol or the stream.
    #[error("the host was lost")]
    Stream(#[from] StreamError),
    /// The host sent what the protocol forbids.
    #[error("the host broke the protocol: {0}")]
    Protocol(&'static str),
    /// Processes of the sandbox could not be ended, so the sandbox must.
    #[error("processes survived being killed")]
    Unkillable,
}

/// Takes over the descriptor that the runtime left open for the guest. To be called once, first thing.
#[allow(unsafe_code)]
pub fn adopt(descriptor: RawFd) -> Result<OwnedFd, GuestError> {
    use std::os::fd::FromRawFd;
    let refused = || GuestError::NoStream(descriptor);
    if descriptor <= 2 {
        return Err(refused());
    }
    // SAFETY: a number above the standard streams; borrowed only to ask the kernel whether it is open, which for a
    // closed number is an error and not undefined behaviour.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::net::sockopt::socket_type(borrowed).map_err(|_| refused())?;
    // SAFETY: the descriptor is open, was inherited for this purpose, and the process has just started, so nothing
    // else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Serves the stream until it ends or the host says so, then ends everything that was started.
///
/// To be called before the process has started any thread: what is set here is inherited by threads made later.
pub fn run(stream: OwnedFd, role: GuestRole) -> Result<(), GuestError> {
    run_behind(stream, role, harden::harden)
}

/// The wall whose absence makes a liar of a guest.
#[cfg(feature = "attack")]
pub const TRUTH: &str = "truth";

/// The wall whose absence lets paths lead out of the workspace.
#[cfg(feature = "attack")]
pub const BENEATH: &str = "beneath";

/// The wall whose absence lets commands look into the guest.
#[cfg(feature = "attack")]
pub const SECLUSION: &str = "seclusion";

/// The same without some of its own walls, by their names, for the controls of the attack suite.
#[cfg(feature = "attack")]
pub fn run_without(stream: OwnedFd, role: GuestRole, walls: &[&str]) -> Result<(), GuestError> {
    if walls.contains(&BENEATH) {
        files::follow_everything();
    }
    if walls.contains(&TRUTH) {
        let hardened = harden::harden_without(role, walls)?;
        return crate::attack::liar::lie(stream, role, hardened.landlock_abi).map_err(GuestError::Stream);
    }
    run_behind(stream, role, |role| {
        if walls.contains(&SECLUSION) {
            rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
                .map_err(|errno| prepare("letting the guest be traced", errno))?;
        }
        harden::harden_without(role, walls)
    })
}

fn run_behind(
    stream: OwnedFd,
    role: GuestRole,
    harden: impl FnOnce(GuestRole) -> Result<harden::Hardened, GuestError>,
) -> Result<(), GuestError> {
    seclude(&stream, role)?;
    let root = open_directory(WORK_DIRECTORY).map_err(|errno| prepare("opening the workspace", errno))?;
    let store = match (role, open_directory(STORE_DIRECTORY)) {
        (GuestRole::Keeper, Ok(store)) => Some(store),
        (GuestRole::Associate | GuestRole::Shim, _) | (GuestRole::Keeper, Err(rustix::io::Errno::NOENT)) => None,
        (GuestRole::Keeper, Err(errno)) => return Err(prepare("opening the store", errno)),
    };
    let hardened = harden(role)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|source| GuestError::Prepare { step: "starting the event loop", source })?;
    let served = runtime.block_on(session::serve(stream, (role, hardened), session::Places { root, store }));
    // An operation that hangs in the kernel must not keep the sandbox alive.
    runtime.shutdown_background();
    served
}

fn open_directory(path: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Most threads for file operations; more would only queue in the kernel.
const BLOCKING_THREADS_MAX: usize = 8;

/// Puts the guest out of its children's reach, and makes it the parent of what they abandon.
fn seclude(stream: &OwnedFd, role: GuestRole) -> Result<(), GuestError> {
    rustix::io::fcntl_setfd(stream, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| prepare("closing the stream to commands", errno))?;
    match role {
        GuestRole::Associate | GuestRole::Keeper => signals::deafen(),
        // Whom nobody inside can signal.
        GuestRole::Shim => signals::linger(),
    }
    .map_err(|source| GuestError::Prepare { step: "closing the ears to signals", source })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| prepare("forbidding to trace the guest", errno))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| prepare("adopting abandoned processes", errno))
}

fn prepare(step: &'static str, errno: rustix::io::Errno) -> GuestError {
    GuestError::Prepare { step, source: errno.into() }
}

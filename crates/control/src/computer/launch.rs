//! Starting a computer: two sockets as its standard input and output, and nothing else of ours.

use crate::identity;
use choir_proto::wire::Head;
use choir_sandbox::runtime::Identity;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// This binary, by a name that survives its replacement on disk.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The exit status of a computer that will not start however often it is tried, and has said why on standard error.
pub const REFUSED: u8 = 78;

/// Parts of a computer's directory that are the keeper's and control's, and that a computer never sees.
pub const KEPT_APART: [&str; 3] = ["workspace", "snapshots", "outputs"];

/// A computer that was started.
#[derive(Debug)]
pub struct Launched {
    /// It answers here: control is the client.
    pub api: UnixStream,
    /// It asks here: control is the server, and whatever arrives is from this computer.
    pub service: UnixStream,
    /// Its process; nothing when a test plays the computer.
    pub child: Option<Child>,
}

/// Starts a computer, again and again if it must, telling it the last position of its log that control has seen.
pub type Launcher = Arc<dyn Fn(Option<Head>) -> io::Result<Launched> + Send + Sync>;

/// Starts `choir computer --dir DIRECTORY` of this very binary.
pub fn program(directory: PathBuf) -> Launcher {
    Arc::new(move |seen| launch(&directory, seen))
}

fn launch(directory: &Path, seen: Option<Head>) -> io::Result<Launched> {
    let (api, their_api) = StdStream::pair()?;
    let (service, their_service) = StdStream::pair()?;
    let user = own_user(directory).map(|uid| format!("--user={uid}"));
    let child = Command::new(OWN_PROGRAM)
        .arg0("choir")
        .arg("computer")
        .arg("--dir")
        .arg(directory)
        .args(user)
        .args(seen.map(|Head { seq, hash }| format!("--signed={seq}:{hash}")))
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_harmless(name)))
        .stdin(Stdio::from(OwnedFd::from(their_api)))
        .stdout(Stdio::from(OwnedFd::from(their_service)))
        // An interrupt at the terminal is for control, which then stops its computer in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok(Launched { api: ours(api)?, service: ours(service)?, child: Some(child) })
}

/// Started by root, a director is a user of its own, to whom its directory is given. Where that cannot be, as on a disk without
/// owners, it runs without this wall, and `/health` says so.
fn own_user(directory: &Path) -> Option<u32> {
    let identity @ Identity::User { uid, .. } = identity::of_director(directory) else { return None };
    match identity::give(directory, identity, &KEPT_APART) {
        Ok(()) => Some(uid),
        Err(error) => {
            tracing::warn!(%error, directory = %directory.display(), "the computer cannot be a user of its own");
            None
        }
    }
}

/// The director holds no secret: of the environment it gets what concerns logs and nothing that could be a key.
fn is_harmless(name: &std::ffi::OsStr) -> bool {
    const PASSED: [&str; 5] = ["CHOIR_LOG", "CHOIR_LOG_FORMAT", "RUST_BACKTRACE", "TZ", "NO_COLOR"];
    PASSED.iter().any(|passed| name == *passed)
}

fn ours(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

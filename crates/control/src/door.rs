//! The owner's door: a socket in `control/`, where only the owner of the data can go. Both sides are proven by the
//! directory: nobody else can listen there, and nobody else can knock. A token would be neither proof nor needed.

use crate::data::DataDir;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "door";
const MODE: u32 = 0o600;
/// The kernel takes no longer name for a socket.
const PATH_BYTES_MAX: usize = 107;

/// Opens the door. The caller holds the lock of the data directory: a door that is there was left by somebody who died.
/// Some file systems hold no sockets; there is no door then, and the command line needs an address and a token.
pub(crate) fn open(data: &DataDir) -> io::Result<Option<UnixListener>> {
    close(data)?;
    let path = Path::of(data)?;
    let listener = match UnixListener::bind(&path.name) {
        Ok(listener) => listener,
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => {
            tracing::warn!(%error, "this file system holds no sockets: the command line needs CHOIR_URL and CHOIR_TOKEN");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    std::fs::set_permissions(&path.name, Permissions::from_mode(MODE))?;
    Ok(Some(listener))
}

/// Waits for whoever knocks; for ever where there is no door.
pub(crate) async fn knocked(door: Option<&UnixListener>) -> io::Result<(UnixStream, SocketAddr)> {
    match door {
        Some(door) => door.accept().await,
        None => std::future::pending().await,
    }
}

/// Takes the door away.
pub(crate) fn close(data: &DataDir) -> io::Result<()> {
    match std::fs::remove_file(data.control().join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Knocks. Refused or not found: no instance runs.
pub async fn knock(data: &DataDir) -> io::Result<UnixStream> {
    let path = Path::of(data)?;
    UnixStream::connect(&path.name).await
}

/// A name of the socket that is short enough, whatever the directory is called.
struct Path {
    name: PathBuf,
    /// Keeps the name good.
    _directory: Option<File>,
}

impl Path {
    fn of(data: &DataDir) -> io::Result<Self> {
        let name = data.control().join(NAME);
        if name.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { name, _directory: None });
        }
        let directory = File::open(data.control())?;
        let name = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(NAME);
        Ok(Self { name, _directory: Some(directory) })
    }
}

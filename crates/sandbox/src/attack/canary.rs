//! What the outside plants, to see whether it is touched.

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::inside;

/// Files, sockets, a process and a segment of shared memory that nobody inside may reach. All are open to every user of
/// the machine, so that only the sandbox stands before them.
pub(super) struct Canaries {
    directory: PathBuf,
    before: Vec<Seen>,
    tcp: TcpListener,
    allowed: TcpListener,
    nameless: UnixListener,
    nameless_name: String,
    named: UnixListener,
    process: Child,
    process_name: String,
    segment: Segment,
}

/// A file as it was.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
    owner: u32,
    links: u64,
}

impl Canaries {
    /// Plants everything in a new directory.
    pub(super) fn plant(directory: &Path, mark: &str) -> io::Result<Self> {
        let secret = inside::secret(mark);
        make_open(directory)?;
        let sibling = directory.join("workspace-of-another");
        make_open(&sibling)?;
        for path in [directory.join("canary"), sibling.join("canary")] {
            fs::write(&path, &secret)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        }
        let nameless_name = format!("choir-{mark}");
        let nameless = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&nameless_name)?)?;
        let socket = directory.join("socket");
        let named = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777))?;
        let tcp = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
        let allowed = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
        tcp.set_nonblocking(true)?;
        allowed.set_nonblocking(true)?;
        nameless.set_nonblocking(true)?;
        named.set_nonblocking(true)?;
        let process_name = format!("choir-canary-{mark}");
        let mut process = Command::new("/bin/sleep");
        process.arg0(&process_name).arg("1000000").env("SECRET", &secret).stdin(Stdio::null());
        let mut canaries = Self {
            directory: directory.to_owned(),
            before: Vec::new(),
            tcp,
            allowed,
            nameless,
            nameless_name,
            named,
            process: process.spawn()?,
            process_name,
            segment: Segment::make()?,
        };
        canaries.before = canaries.look()?;
        Ok(canaries)
    }

    /// What the inside is told, as variables.
    pub(super) fn variables(&self) -> io::Result<Vec<(String, String)>> {
        let port = self.tcp.local_addr()?.port();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let pairs = [
            ("CANARY", text(self.directory.join("canary"))),
            ("SIBLING", text(self.directory.join("workspace-of-another/canary"))),
            ("SOCKET", text(self.directory.join("socket"))),
            ("ABSTRACT", self.nameless_name.clone()),
            ("PORT", port.to_string()),
            ("ALLOWED", self.allowed_port()?.to_string()),
            ("ADDRESS", own_address()),
            ("PID", self.process.id().to_string()),
            ("CMDLINE", self.process_name.clone()),
            ("KEY", self.segment.key.to_string()),
        ];
        Ok(pairs.into_iter().map(|(name, value)| (format!("PROBE_{name}"), value)).collect())
    }

    /// The port of the one server that the way out allows, by one spelling that no probe uses.
    pub(super) fn allowed_port(&self) -> io::Result<u16> {
        Ok(self.allowed.local_addr()?.port())
    }

    /// What was touched since the last look.
    pub(super) fn touched(&mut self) -> Vec<String> {
        let mut touched = Vec::new();
        match self.look() {
            Ok(now) if now == self.before => {}
            Ok(now) => {
                touched.push("files outside changed".to_owned());
                self.before = now;
            }
            Err(error) => touched.push(format!("files outside are gone: {error}")),
        }
        // All that wait: one that is left would be held against the next probe.
        let visits = |accept: &dyn Fn() -> bool| std::iter::repeat_with(accept).take_while(|came| *came).count();
        let servers = visits(&|| self.tcp.accept().is_ok()) + visits(&|| self.allowed.accept().is_ok());
        let sockets = visits(&|| self.nameless.accept().is_ok()) + visits(&|| self.named.accept().is_ok());
        if servers > 0 {
            touched.push("a connection reached the host".to_owned());
        }
        if sockets > 0 {
            touched.push("a connection reached a socket of the host".to_owned());
        }
        if !matches!(self.process.try_wait(), Ok(None)) {
            touched.push("a process of the host was ended".to_owned());
        }
        touched
    }

    fn look(&self) -> io::Result<Vec<Seen>> {
        let mut seen = Vec::new();
        look_at(&self.directory, &mut seen)?;
        seen.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(seen)
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        // Gone already is what is wanted.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Copies a program in a process of its own: whatever this one starts meanwhile would hold the copy open for writing for a
/// moment, and a program that is open for writing cannot be run.
pub(super) fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cp: {status}"))) }
}

/// Makes a directory that everybody may change.
pub(super) fn make_open(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777))
}

fn look_at(path: &Path, seen: &mut Vec<Seen>) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let content = if metadata.is_file() { fs::read(path)? } else { Vec::new() };
    let (mode, owner) = (metadata.mode(), metadata.uid());
    let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
    seen.push(Seen { path: path.to_owned(), content, mode, owner, links });
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            look_at(&entry?.path(), seen)?;
        }
    }
    Ok(())
}

/// An address of this machine that is not the loopback's, if it has one. Nothing is sent.
fn own_address() -> String {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}

/// A segment of shared memory of the host, removed with its owner.
struct Segment {
    key: i32,
    id: i32,
}

#[allow(unsafe_code)]
impl Segment {
    fn make() -> io::Result<Self> {
        // Any number that is not in use; several suites may run at once.
        let first = i32::try_from(std::process::id() & 0xffff).unwrap_or_default() << 8;
        for key in first + 1..first + 256 {
            // SAFETY: makes a segment; no memory is attached.
            let id = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) };
            if id >= 0 {
                return Ok(Self { key, id });
            }
        }
        Err(io::Error::last_os_error())
    }
}

#[allow(unsafe_code)]
impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: removes the segment that this made; nobody here has it attached.
        unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

//! Attempts of a director to leave its confinement: the process of a computer, which plans and holds the log.
//!
//! [`inside`] confines itself as a computer does and tries everything; [`run`] is the outside, which plants what must not
//! be reached, judges, and then takes walls away.

use std::ffi::CString;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::inside::{Outcome, call, of_io, outcome};
use super::suite::Verdict;
use crate::confine;
use crate::runtime::Identity;

/// The one part of the directory that is not the director's.
const HIDDEN: &str = "workspace";
/// Whom the directory is given to when root runs this.
const DIRECTOR: u32 = 0x6fff_0001;
/// The wall that root's director has beside those it builds.
const USER: &str = "own user";
/// An attempt that is one only where root runs this: otherwise everything is its user's.
const ROOTED: &str = "read what root left beside its log";
/// What it may do, which shows that the attempts work at all.
const ALLOWED: &str = "write its own log";

/// Traces without stopping, because where it is allowed it happens to whoever runs this.
const SEIZE: i64 = 0x4206;
const PROCESS: i64 = libc::PRIO_PROCESS as i64;

/// One attempt: its name, the row of the threat model, and what is done in a directory.
struct Attempt {
    id: &'static str,
    threat: &'static str,
    act: fn(&Planted) -> Outcome,
}

/// What the outside has planted.
struct Planted {
    directory: std::path::PathBuf,
    port: u16,
    parent: i64,
}

const ATTEMPTS: &[Attempt] = &[
    Attempt { id: ALLOWED, threat: "", act: |at| write(&at.directory.join("log")) },
    Attempt { id: "read the workspace", threat: "A34", act: |at| read(&at.directory.join("workspace/file")) },
    Attempt { id: "write to the workspace", threat: "A34", act: |at| write(&at.directory.join("workspace/new")) },
    Attempt { id: "read another computer's log", threat: "A14", act: |at| read(&at.directory.join("../other/log")) },
    Attempt { id: "read control's keys", threat: "A34", act: |at| read(&at.directory.join("../../control/key")) },
    Attempt { id: "read the machine's users", threat: "A34", act: |_| read(Path::new("/etc/passwd")) },
    Attempt { id: "list the processes", threat: "A34", act: |_| of_io(std::fs::read_dir("/proc/1"), "listed them") },
    Attempt { id: "come in by control's door", threat: "A34", act: door },
    Attempt { id: "connect to a server", threat: "A45", act: |at| of_io(connect(at.port), "connected") },
    Attempt { id: "send a datagram", threat: "A45", act: |at| of_io(send(at.port), "sent it") },
    Attempt { id: "start a program", threat: "A35", act: start },
    Attempt { id: "signal control", threat: "A35", act: |at| call(libc::SYS_kill, &[at.parent, 0]) },
    Attempt { id: "take a hold of control", threat: "A35", act: |at| call(libc::SYS_pidfd_open, &[at.parent, 0]) },
    Attempt { id: "trace control", threat: "A35", act: |at| call(libc::SYS_ptrace, &[SEIZE, at.parent, 0, 0]) },
    Attempt { id: "read control's limits", threat: "A35", act: |at| call(libc::SYS_prlimit64, &[at.parent, 7, 0, 0]) },
    Attempt { id: "put control back", threat: "A38", act: |at| call(libc::SYS_setpriority, &[PROCESS, at.parent, 0]) },
    Attempt { id: "make a namespace", threat: "A35", act: |_| call(libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()]) },
    Attempt { id: ROOTED, threat: "A34", act: |at| read(&at.directory.join("rooted")) },
    Attempt { id: "queue calls past the filter", threat: "A35", act: |_| call(libc::SYS_io_uring_setup, &[1, 0]) },
];

/// Walls that are taken away, and the attempt that must succeed then.
const CONTROLS: &[(&[&str], &str)] = &[
    (&["namespaces"], "read the workspace"),
    (&["namespaces", "landlock"], "read control's keys"),
    (&["namespaces", "landlock"], "come in by control's door"),
    (&["namespaces", "seccomp"], "connect to a server"),
    (&["namespaces", "seccomp"], "send a datagram"),
    (&["namespaces", "landlock", "seccomp"], "start a program"),
    (&["seccomp", "landlock", USER], "signal control"),
    (&["seccomp", USER], "read control's limits"),
    (&[USER], ROOTED),
];

/// What became of one attempt.
pub struct DirectorRow {
    /// What was tried.
    pub id: &'static str,
    /// The row of the threat model.
    pub threat: &'static str,
    /// Walls that were missing; none but in a control.
    pub without: &'static [&'static str],
    /// What became of it; in a control an escape is what is wanted.
    pub verdict: Verdict,
}

/// Confines this process to a directory and tries everything. To be called before there is any other thread.
pub fn inside(arguments: &[&str]) -> ExitCode {
    let [directory, port, without @ ..] = arguments else { return ExitCode::from(2) };
    let Ok(port) = port.parse() else { return ExitCode::from(2) };
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_pid().into());
    let has_user = rustix::process::geteuid().is_root() && !without.contains(&USER);
    let identity = if has_user { Identity::User { uid: DIRECTOR, gid: DIRECTOR } } else { Identity::Inherit };
    let Ok(directory) = confine::confine_without(Path::new(directory), &[HIDDEN], identity, without) else {
        return ExitCode::from(2);
    };
    for missing in confine::own() {
        super::inside::say(&format!("missing {missing}"));
    }
    let planted = Planted { directory, port, parent };
    for Attempt { id, act, .. } in ATTEMPTS {
        super::inside::say(&match act(&planted) {
            Outcome::Refused(errno) => format!("{id}: errno {errno}"),
            _ => format!("{id}: done"),
        });
    }
    ExitCode::SUCCESS
}

/// Runs everything in a new directory, by a program that calls [`inside`] with what follows its first argument, which is
/// `confined`.
pub fn run(program: &Path, place: &Path) -> io::Result<Vec<DirectorRow>> {
    let ground = Ground::plant(place)?;
    let said = ground.try_all(program, &[])?;
    let is_root = rustix::process::geteuid().is_root();
    let is_possible = |id: &str| is_root || id != ROOTED;
    let attempts = ATTEMPTS.iter().filter(|attempt| is_possible(attempt.id));
    let mut rows: Vec<DirectorRow> = attempts.map(|attempt| attempt.judge(&said, &[])).collect();
    for (without, id) in CONTROLS.iter().filter(|(_, id)| is_possible(id)) {
        let said = ground.try_all(program, without)?;
        rows.extend(ATTEMPTS.iter().filter(|attempt| attempt.id == *id).map(|attempt| attempt.judge(&said, without)));
    }
    Ok(rows)
}

impl Attempt {
    fn judge(&self, said: &str, without: &'static [&'static str]) -> DirectorRow {
        let prefix = format!("{}: ", self.id);
        let line = said.lines().find_map(|line| line.strip_prefix(&prefix));
        let missing: Vec<&str> = said.lines().filter(|line| line.starts_with("missing ")).collect();
        let verdict = match line {
            _ if !missing.is_empty() && without.is_empty() => Verdict::Escaped(missing.join(", ")),
            // What a control shows is that one wall was missed, not that all were.
            _ if !missing.is_empty() => Verdict::Skipped(missing.join(", ")),
            Some("done") if self.id == ALLOWED => Verdict::Held("it may".to_owned()),
            Some(errno) if errno.starts_with("errno ") && self.id != ALLOWED => Verdict::Held(errno.to_owned()),
            Some(other) => Verdict::Escaped(other.to_owned()),
            None => Verdict::Skipped(format!("it was not tried: {said:?}")),
        };
        DirectorRow { id: self.id, threat: self.threat, without, verdict }
    }
}

/// A data directory with what must not be reached, and servers that anybody may reach.
struct Ground {
    computer: std::path::PathBuf,
    server: TcpListener,
    _door: UnixListener,
}

impl Ground {
    fn plant(place: &Path) -> io::Result<Self> {
        let computer = place.join("computers/own");
        for directory in [&computer.join("workspace"), &place.join("computers/other"), &place.join("control")] {
            std::fs::create_dir_all(directory)?;
        }
        for file in ["computers/own/log", "computers/own/workspace/file", "computers/other/log", "control/key"] {
            std::fs::write(place.join(file), "secret")?;
        }
        std::fs::write(computer.join("tool"), "#!/bin/sh\n")?;
        std::fs::set_permissions(computer.join("tool"), PermissionsExt::from_mode(0o755))?;
        if rustix::process::geteuid().is_root() {
            std::fs::write(computer.join("rooted"), "secret")?;
            std::fs::set_permissions(computer.join("rooted"), PermissionsExt::from_mode(0o600))?;
            // Where it lies nobody but root can walk.
            std::fs::set_permissions(place, PermissionsExt::from_mode(0o700))?;
            for given in [&computer, &computer.join("log"), &computer.join("tool")] {
                chown(given, Some(DIRECTOR), Some(DIRECTOR))?;
            }
        }
        let door = UnixListener::bind(place.join("control/door"))?;
        Ok(Self { computer, server: TcpListener::bind("127.0.0.1:0")?, _door: door })
    }

    fn try_all(&self, program: &Path, without: &[&str]) -> io::Result<String> {
        let port = self.server.local_addr()?.port().to_string();
        let mut command = Command::new(program);
        command.arg("confined").arg(&self.computer).arg(port).args(without).stdin(Stdio::null());
        Ok(String::from_utf8_lossy(&command.output()?.stdout).into_owned())
    }
}

fn read(path: &Path) -> Outcome {
    of_io(std::fs::read(path), "read it")
}

fn write(path: &Path) -> Outcome {
    let file = std::fs::File::options().append(true).create(true).open(path);
    of_io(file.and_then(|mut file| file.write_all(b"more")), "wrote it")
}

fn door(at: &Planted) -> Outcome {
    of_io(UnixStream::connect(at.directory.join("../../control/door")), "came in")
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", port))
}

fn send(port: u16) -> io::Result<usize> {
    UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", ("127.0.0.1", port))
}

/// In a child, which it would become.
#[allow(unsafe_code)]
fn start(at: &Planted) -> Outcome {
    let Ok(path) = CString::new(at.directory.join("tool").as_os_str().as_encoded_bytes()) else {
        return Outcome::Done("no path".to_owned());
    };
    let arguments = [path.as_ptr(), std::ptr::null()];
    let mut status = 0;
    // SAFETY: the process has one thread; the child makes one call on what lives here and ends with its error.
    unsafe {
        match libc::fork() {
            0 => {
                libc::execve(path.as_ptr(), arguments.as_ptr(), [std::ptr::null()].as_ptr());
                libc::_exit(super::inside::errno())
            }
            pid => libc::waitpid(pid, &mut status, 0),
        }
    };
    match libc::WEXITSTATUS(status) {
        0 => outcome(0, "started it"),
        errno => Outcome::Refused(errno),
    }
}

//! The command line of bubblewrap for a [`Spec`].

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::MemfdFlags;

use super::spec::{Access, Spec, Workspace};
use crate::guest::{EGRESS_PORT, EGRESS_SOCKET, GUEST_PROGRAM, STORE_DIRECTORY, WORK_DIRECTORY};
use crate::protocol::GuestRole;

/// The program, by its absolute path: nothing that a workspace or a variable says may choose another.
pub(super) const PROGRAM: &str = "/usr/bin/bwrap";
/// The package that holds it.
pub(super) const PACKAGE: &str = "bubblewrap";

/// User and group id inside.
const INSIDE_ID: &str = "1000";
/// Directories that are links into `/usr` on most systems and real ones on others.
const USR_LINKS: [&str; 4] = ["/bin", "/sbin", "/lib", "/lib64"];
/// Parts of `/etc` without which programs and certificates do not work. None holds anything of this machine's users.
const ETC_PARTS: [&str; 6] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl",
];
/// Files of `/etc` that are the sandbox's own.
const ETC_FILES: [(&str, &str); 4] = [
    ("/etc/passwd", "choir:x:1000:1000:ChoirOS:/home/choir:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "choir:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost choir\n::1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];
/// The environment of every sandbox.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/home/choir"),
    ("USER", "choir"),
    ("LOGNAME", "choir"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
    ("TMPDIR", "/tmp"),
    ("TERM", "dumb"),
];

/// A command line, and the descriptors that it names and that must be inherited.
#[derive(Debug)]
pub(super) struct CommandLine {
    pub(super) arguments: Vec<OsString>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Builds the command line; `stream` is the guest's end of the stream, and to `info` bubblewrap writes whom it started.
pub(super) fn command_line(spec: &Spec, stream: RawFd, info: RawFd) -> std::io::Result<CommandLine> {
    let mut line = CommandLine { arguments: Vec::new(), descriptors: Vec::new() };
    line.isolate();
    line.push(["--info-fd", &info.to_string()]);
    line.environment(spec);
    line.system()?;
    line.memory(spec);
    line.content(spec);
    // Everything above is in place; what is left of the sandbox's own root holds no room to fill. `/proc` holds the
    // kernel's settings, which to a sandbox started by root would be its own files.
    line.push(["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]);
    line.push(["--chdir", WORK_DIRECTORY, "--"]);
    let role = match spec.role {
        GuestRole::Associate => "associate",
        GuestRole::Keeper => "keeper",
    };
    line.push([GUEST_PROGRAM, "guest", "--fd", &stream.to_string(), "--role", role]);
    Ok(line)
}

impl CommandLine {
    fn isolate(&mut self) {
        self.push(["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--as-pid-1"]);
        self.push(["--new-session", "--cap-drop", "ALL", "--hostname", "choir"]);
        self.push(["--uid", INSIDE_ID, "--gid", INSIDE_ID]);
    }

    fn environment(&mut self, spec: &Spec) {
        self.push(["--clearenv"]);
        for (name, value) in ENVIRONMENT {
            self.push(["--setenv", name, value]);
        }
        if spec.egress.is_some() {
            self.proxy_environment();
        }
        for (name, value) in &spec.environment {
            self.push(["--setenv", name, value]);
        }
    }

    /// Programs disagree about the case of these names.
    fn proxy_environment(&mut self) {
        let proxy = format!("http://127.0.0.1:{EGRESS_PORT}");
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            self.push(["--setenv", name, &proxy]);
        }
        for name in ["no_proxy", "NO_PROXY"] {
            self.push(["--setenv", name, "localhost,127.0.0.1,::1"]);
        }
    }

    fn system(&mut self) -> std::io::Result<()> {
        self.push(["--ro-bind", "/usr", "/usr"]);
        for link in USR_LINKS {
            match std::fs::read_link(link) {
                Ok(target) => self.push([OsString::from("--symlink"), target.into(), link.into()]),
                Err(_) => self.push(["--ro-bind-try", link, link]),
            }
        }
        for part in ETC_PARTS {
            self.push(["--ro-bind-try", part, part]);
        }
        for (path, content) in ETC_FILES {
            let file = in_memory(content)?;
            self.push(["--file", &file.as_raw_fd().to_string(), path]);
            self.descriptors.push(file);
        }
        self.push(["--proc", "/proc", "--dev", "/dev"]);
        Ok(())
    }

    fn memory(&mut self, spec: &Spec) {
        let limits = &spec.limits;
        for (path, bytes) in
            [("/dev/shm", limits.shared_memory_bytes), ("/tmp", limits.tmp_bytes), ("/home", limits.home_bytes)]
        {
            self.push(["--size", &bytes.to_string(), "--tmpfs", path]);
        }
        self.push(["--dir", "/home/choir", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]);
    }

    fn content(&mut self, spec: &Spec) {
        self.bind(Access::Read, &spec.guest_program, Path::new(GUEST_PROGRAM));
        let (access, workspace) = match &spec.workspace {
            Workspace::Directory { path, access } => (*access, path),
            Workspace::Overlay(overlay) => (Access::Write, &overlay.merged),
        };
        self.bind(access, workspace, Path::new(WORK_DIRECTORY));
        if let Some(store) = &spec.store {
            self.bind(Access::Write, store, Path::new(STORE_DIRECTORY));
        }
        if let Some(socket) = &spec.egress {
            self.bind(Access::Read, socket, Path::new(EGRESS_SOCKET));
        }
        for mount in &spec.mounts {
            self.bind(mount.access, &mount.host, &mount.inside);
        }
    }

    fn bind(&mut self, access: Access, host: &Path, inside: &Path) {
        let option = match access {
            Access::Read => "--ro-bind",
            Access::Write => "--bind",
        };
        self.push([OsString::from(option), host.into(), inside.into()]);
    }

    fn push<T: Into<OsString>, const N: usize>(&mut self, arguments: [T; N]) {
        self.arguments.extend(arguments.map(Into::into));
    }
}

/// What bubblewrap says of the process it started.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Info {
    /// Its number on the host.
    #[serde(rename = "child-pid")]
    pub(super) child_pid: u32,
}

/// A descriptor from which `content` can be read once.
fn in_memory(content: &str) -> std::io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let mut file = std::fs::File::from(rustix::fs::memfd_create("choir", MemfdFlags::CLOEXEC)?);
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

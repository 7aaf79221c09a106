//! What a sandbox sees: a root of its own, made of steps that are planned here and taken by its first process.
//!
//! Everything is prepared before that process is forked, because until it becomes the guest it may only make system
//! calls: it is a copy of one thread of a program with many.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::launch::StartError;
use super::layers::Layer;
use super::spec::{Access, Limits, Overlay, Spec, Workspace};
use crate::guest::{
    EGRESS_PORT, EGRESS_SOCKET, GUEST_PROGRAM, LOOPBACK, NO_PROXY, SEARCH_PATH, STORE_DIRECTORY, WORK_DIRECTORY,
};
use crate::protocol::GuestRole;

/// Where the host's root is while the sandbox's own is being made.
pub(super) const OLD_ROOT: &str = "/old";
/// Where snapshot and layer are while one is mounted over the other.
const LOWER: &str = "/lower";
const TASK: &str = "/task";
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
/// The devices that programs need.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Names that belong to every `/dev`.
const DEVICE_LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("/proc/kcore", "/dev/core"),
    ("pts/ptmx", "/dev/ptmx"),
];
/// The environment of every sandbox.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("PATH", SEARCH_PATH),
    ("HOME", "/home/choir"),
    ("USER", "choir"),
    ("LOGNAME", "choir"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
    ("TMPDIR", "/tmp"),
    ("TERM", "dumb"),
];
/// Terminals that one sandbox may have open.
const TERMINALS_MAX: u32 = 1024;

/// One step on the way to a root of its own.
#[derive(Debug)]
pub(super) enum Step {
    /// Makes a directory; one that is there is as good.
    Directory(CString),
    /// Makes a link.
    Link { target: CString, path: CString },
    /// Makes a file.
    File { path: CString, content: &'static [u8] },
    /// Mounts memory.
    Memory { path: CString, options: CString },
    /// Shows a part of the host.
    Bind { host: CString, inside: CString, access: Access },
    /// Shows a device of the host.
    Device { host: CString, inside: CString },
    /// Mounts a task's layer over its snapshot.
    Layer { inside: CString, options: CString },
    /// Takes a mount away that only another one needed.
    Close(CString),
    /// Mounts the sandbox's own processes.
    Processes(CString),
    /// Mounts the sandbox's own terminals.
    Terminals { path: CString, options: CString },
}

impl Step {
    /// What the step is about, for people.
    pub(super) fn path(&self) -> &CStr {
        match self {
            Self::Directory(path) | Self::Processes(path) | Self::Close(path) => path,
            Self::Link { path, .. } | Self::File { path, .. } | Self::Memory { path, .. } => path,
            Self::Bind { host, .. } | Self::Device { host, .. } => host,
            Self::Layer { inside: path, .. } | Self::Terminals { path, .. } => path,
        }
    }
}

/// The whole view, and the variables of whoever is in it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) steps: Vec<Step>,
    pub(super) environment: Vec<CString>,
}

impl View {
    /// Plans the view of a spec.
    pub(super) fn plan(spec: &Spec) -> Result<Self, StartError> {
        let mut plan = Plan { steps: Vec::new(), made: BTreeSet::new() };
        plan.system(spec)?;
        plan.devices(&spec.limits)?;
        plan.memory(&spec.limits)?;
        plan.content(spec)?;
        Ok(Self { steps: plan.steps, environment: strings(environment(spec))? })
    }
}

/// How the guest's program is called to serve the descriptor `stream` in a role.
pub(super) fn arguments(spec: &Spec, role: GuestRole, stream: i32) -> Result<Vec<CString>, StartError> {
    let mut arguments = [GUEST_PROGRAM, "guest", "--fd"].map(str::to_owned).to_vec();
    arguments.extend([stream.to_string(), "--role".to_owned(), role.name().to_owned()]);
    arguments.extend(spec.sabotage_arguments(role));
    strings(arguments)
}

fn environment(spec: &Spec) -> Vec<String> {
    let mut all: Vec<(String, String)> = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    if spec.egress.is_some() {
        let proxy = format!("http://127.0.0.1:{EGRESS_PORT}");
        // Programs disagree about the case of these names.
        all.extend(
            ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name.to_owned(), proxy.clone())),
        );
        all.extend(NO_PROXY.map(|name| (name.to_owned(), LOOPBACK.join(","))));
    }
    for (name, value) in &spec.environment {
        all.retain(|(known, _)| known != name);
        all.push((name.clone(), value.clone()));
    }
    all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

struct Plan {
    steps: Vec<Step>,
    made: BTreeSet<PathBuf>,
}

impl Plan {
    fn system(&mut self, spec: &Spec) -> Result<(), StartError> {
        self.bind(Access::Read, Path::new("/usr"), Path::new("/usr"))?;
        for link in USR_LINKS {
            match std::fs::read_link(link) {
                Ok(target) => {
                    let target = string(target.as_os_str().as_bytes())?;
                    self.steps.push(Step::Link { target, path: string(link)? });
                }
                Err(_) => self.bind_if_there(link)?,
            }
        }
        for part in ETC_PARTS {
            self.bind_if_there(part)?;
        }
        for (path, content) in ETC_FILES {
            self.parents(Path::new(path))?;
            self.steps.push(Step::File { path: string(path)?, content: content.as_bytes() });
        }
        let processes = Path::new("/proc");
        if spec.lacks(Layer::ProcessNamespace) {
            return self.bind(Access::Read, processes, processes);
        }
        self.directory(processes)?;
        self.steps.push(Step::Processes(string("/proc")?));
        Ok(())
    }

    fn devices(&mut self, limits: &Limits) -> Result<(), StartError> {
        self.directory(Path::new("/dev"))?;
        for device in DEVICES {
            self.steps.push(Step::Device { host: old(Path::new(device))?, inside: string(device)? });
        }
        for (target, path) in DEVICE_LINKS {
            self.steps.push(Step::Link { target: string(target)?, path: string(path)? });
        }
        self.directory(Path::new("/dev/pts"))?;
        let options = format!("newinstance,ptmxmode=0666,mode=620,max={TERMINALS_MAX}");
        self.steps.push(Step::Terminals { path: string("/dev/pts")?, options: string(options)? });
        self.tmpfs("/dev/shm", limits.shared_memory_bytes, limits)
    }

    fn memory(&mut self, limits: &Limits) -> Result<(), StartError> {
        self.tmpfs("/tmp", limits.tmp_bytes, limits)?;
        self.tmpfs("/home", limits.home_bytes, limits)?;
        self.directory(Path::new("/home/choir"))?;
        self.directory(Path::new("/var"))?;
        self.steps.push(Step::Link { target: string("/tmp")?, path: string("/var/tmp")? });
        Ok(())
    }

    fn tmpfs(&mut self, path: &str, bytes: u64, limits: &Limits) -> Result<(), StartError> {
        self.directory(Path::new(path))?;
        let options = format!("size={bytes},nr_inodes={},mode=0755", limits.memory_names);
        self.steps.push(Step::Memory { path: string(path)?, options: string(options)? });
        Ok(())
    }

    fn content(&mut self, spec: &Spec) -> Result<(), StartError> {
        self.bind(Access::Read, &spec.guest_program, Path::new(GUEST_PROGRAM))?;
        let work = Path::new(WORK_DIRECTORY);
        match &spec.workspace {
            Workspace::Directory { path, access } => self.bind(*access, path, work)?,
            Workspace::Overlay(overlay) => self.layer(overlay)?,
        }
        if let Some(store) = &spec.store {
            self.bind(Access::Write, store, Path::new(STORE_DIRECTORY))?;
        }
        if let Some(socket) = &spec.egress {
            self.bind(Access::Read, socket, Path::new(EGRESS_SOCKET))?;
        }
        for mount in &spec.mounts {
            self.bind(mount.access, &mount.host, &mount.inside)?;
        }
        Ok(())
    }

    /// Snapshot and layer are shown only for as long as it takes to mount one over the other. By that their names need no
    /// escaping among the options of a mount, and the sandbox's user need not be able to walk to them.
    fn layer(&mut self, overlay: &Overlay) -> Result<(), StartError> {
        let Overlay { lower, upper, work } = overlay;
        let (Some(task), Some(upper_name), Some(work_name)) = (upper.parent(), upper.file_name(), work.file_name())
        else {
            return Err(StartError::Spec("an overlay's layer has no name".to_owned()));
        };
        if work.parent() != Some(task) {
            return Err(StartError::Spec("an overlay's directories must lie beside each other".to_owned()));
        }
        self.directory(Path::new(WORK_DIRECTORY))?;
        self.bind(Access::Read, lower, Path::new(LOWER))?;
        self.bind(Access::Write, task, Path::new(TASK))?;
        let mut options = format!("userxattr,lowerdir={LOWER},upperdir={TASK}/").into_bytes();
        options.extend_from_slice(plain(upper_name)?);
        options.extend_from_slice(format!(",workdir={TASK}/").as_bytes());
        options.extend_from_slice(plain(work_name)?);
        self.steps.push(Step::Layer { inside: string(WORK_DIRECTORY)?, options: string(options)? });
        self.steps.extend([Step::Close(string(TASK)?), Step::Close(string(LOWER)?)]);
        Ok(())
    }

    fn bind_if_there(&mut self, path: &str) -> Result<(), StartError> {
        let path = Path::new(path);
        if path.exists() { self.bind(Access::Read, path, path) } else { Ok(()) }
    }

    /// Links on the way to what is shown are followed here: once the root is another, they would lead elsewhere.
    fn bind(&mut self, access: Access, host: &Path, inside: &Path) -> Result<(), StartError> {
        let host = host.canonicalize().map_err(|error| unfit(host, &error))?;
        let is_directory = host.is_dir();
        match is_directory {
            true => self.directory(inside)?,
            false => {
                self.parents(inside)?;
                self.steps.push(Step::File { path: string(inside.as_os_str().as_bytes())?, content: b"" });
            }
        }
        self.steps.push(Step::Bind { host: old(&host)?, inside: string(inside.as_os_str().as_bytes())?, access });
        Ok(())
    }

    fn parents(&mut self, path: &Path) -> Result<(), StartError> {
        path.parent().map_or(Ok(()), |parent| self.directory(parent))
    }

    fn directory(&mut self, path: &Path) -> Result<(), StartError> {
        if path == Path::new("/") || !self.made.insert(path.to_owned()) {
            return Ok(());
        }
        self.parents(path)?;
        self.steps.push(Step::Directory(string(path.as_os_str().as_bytes())?));
        Ok(())
    }
}

/// A path of the host, as it is called while the sandbox's root is made.
fn old(path: &Path) -> Result<CString, StartError> {
    string([OLD_ROOT.as_bytes(), path.as_os_str().as_bytes()].concat())
}

/// A name that needs no escaping among the options of a mount.
fn plain(name: &OsStr) -> Result<&[u8], StartError> {
    let bytes = name.as_bytes();
    match bytes.iter().any(|byte| b",:\\\"\n".contains(byte)) {
        true => Err(StartError::Spec(format!("{} cannot be part of an overlay", name.display()))),
        false => Ok(bytes),
    }
}

fn unfit(path: &Path, error: &io::Error) -> StartError {
    StartError::Spec(format!("{} cannot be shown: {error}", path.display()))
}

fn string(bytes: impl Into<Vec<u8>>) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|error| StartError::Spec(format!("{error}")))
}

fn strings(all: Vec<String>) -> Result<Vec<CString>, StartError> {
    all.into_iter().map(string).collect()
}

//! What a sandbox's first process does before it becomes the guest.
//!
//! Two processes take part. The first becomes the sandbox's user, enters new namespaces and makes the second, which is
//! the first of its process namespace. The second makes the view, gives up every privilege and becomes the guest. It is
//! a child of the launcher itself, so that its end is seen from outside and the launcher's end ends it.
//!
//! Where commands are to run, the first process then gives up the same and becomes the shim. It shares every namespace
//! with the guest but that of processes: what it starts is born there, while it cannot itself be seen, signalled or
//! traced from there. Else it leaves.
//!
//! Everything here runs between fork and exec in a copy of one thread of a program with many: it only makes system calls
//! on what was prepared before, allocates nothing and takes no lock.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::capabilities::{become_user, drop_capabilities, keep_capabilities, keep_user, raise_capabilities};
use super::launch::StartError;
use super::layers::Layer;
use super::spec::{Access, Identity, Spec};
use super::view::{Step, View, arguments};
use crate::protocol::GuestRole;

/// User and group id inside.
const INSIDE_ID: u32 = 1000;
/// Bytes and names of the sandbox's own root, which holds a handful of empty files and directories.
const ROOT_OPTIONS: &CStr = c"size=1m,nr_inodes=512,mode=0755";
/// A directory that every system has, to make the root on.
const STAGE: &CStr = c"/tmp";
const STAGE_OLD: &CStr = c"/tmp/old";
const OLD: &CStr = c"/old";
/// In the place of a descriptor that was not opened.
const NO_TREE: RawFd = -1;

/// Everything that the two processes need, made before they are forked.
#[derive(Debug)]
pub(super) struct Entry {
    view: View,
    guest: Arguments,
    shim: Option<Arguments>,
    environment_pointers: Vec<*const libc::c_char>,
    user: Option<(u32, u32)>,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
    namespaces: libc::c_int,
    keep_capabilities: bool,
    keep_privileges: bool,
    /// The host's mounts stay where they were while the root was made.
    keep_old_root: bool,
    /// Nothing once the processes have been forked.
    descriptors: Option<Descriptors>,
    /// What the host shows, by the number of its step, opened by root for a user who could not walk there.
    trees: Vec<AtomicI32>,
}

// SAFETY: the pointers lead into the entry's own strings, whose bytes never move or change while it lives.
unsafe impl Send for Entry {}

/// How a program is called.
#[derive(Debug)]
struct Arguments {
    /// Lead into `strings`, and end with a null pointer.
    pointers: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl Arguments {
    fn new(strings: Vec<CString>) -> Self {
        Self { pointers: pointers(&strings), _strings: strings }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect()
}

/// What the child has inherited from the host.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The guest's end of its stream.
    pub(super) stream: OwnedFd,
    /// What becomes its standard error.
    pub(super) complaint: OwnedFd,
    /// What becomes its other standard streams.
    pub(super) null: OwnedFd,
    /// Where the second process's number, and what was refused, is written.
    pub(super) report: OwnedFd,
    /// Of a sandbox with a shim.
    pub(super) shim: Option<ShimDescriptors>,
    /// Groups to join, by their `cgroup.procs`, before anything is given up.
    pub(super) groups: Vec<OwnedFd>,
}

/// What the child that becomes a shim has inherited in addition.
#[derive(Debug)]
pub(super) struct ShimDescriptors {
    /// The shim's end of its stream.
    pub(super) stream: OwnedFd,
    /// Where the second process says that the view is made, and where the first hears it.
    pub(super) made: OwnedFd,
    pub(super) on_made: OwnedFd,
}

/// A message of the child: its kind, and a number.
const REPORT_BYTES: usize = 8;
const REPORT_PID: u32 = 1;
/// Kinds from here on are refusals; beyond the fixed ones they count the steps of the view.
const REPORT_REFUSED: u32 = 100;
const REPORT_STEP: u32 = 1000;

/// What the child has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The second process is this one.
    Started { pid: i32 },
    /// Something was refused.
    Refused { what: u32, errno: i32 },
}

impl Report {
    fn read(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let value = number(4) as i32;
        match number(0) {
            REPORT_PID => Some(Self::Started { pid: value }),
            what @ REPORT_REFUSED.. => Some(Self::Refused { what, errno: value }),
            _ => None,
        }
    }
}

/// The parts that may be refused, in their order.
const PARTS: [&str; 17] = [
    "joining a control group",
    "becoming another user",
    "entering new namespaces",
    "being the sandbox's user",
    "starting the first process",
    "dying with the host",
    "naming the machine",
    "raising the loopback interface",
    "forbidding further namespaces",
    "making a root",
    "closing the host's root",
    "giving up privileges",
    "forbidding new privileges",
    "handing over descriptors",
    "going to the workspace",
    "becoming the guest",
    "waiting for the view",
];

impl Entry {
    pub(super) fn new(spec: &Spec, view: View, descriptors: Descriptors) -> Result<Self, StartError> {
        let called = |role, stream: &OwnedFd| arguments(spec, role, stream.as_raw_fd()).map(Arguments::new);
        let guest = called(spec.role, &descriptors.stream)?;
        let shim = descriptors.shim.as_ref().map(|shim| called(GuestRole::Shim, &shim.stream)).transpose()?;
        let user = match spec.identity {
            Identity::User { uid, gid } => Some((uid, gid)),
            Identity::Inherit => None,
        };
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (uid, gid) = user.unwrap_or(own);
        let trees = view.steps.iter().map(|_| AtomicI32::new(NO_TREE)).collect();
        Ok(Self {
            guest,
            shim,
            environment_pointers: pointers(&view.environment),
            view,
            user,
            uid_map: format!("{INSIDE_ID} {uid} 1").into_bytes(),
            gid_map: format!("{INSIDE_ID} {gid} 1").into_bytes(),
            namespaces: namespaces(spec),
            keep_capabilities: spec.lacks(Layer::NoCapabilities),
            keep_privileges: spec.lacks(Layer::NoNewPrivileges),
            keep_old_root: spec.lacks(Layer::MountNamespace),
            descriptors: Some(descriptors),
            trees,
        })
    }

    /// Closes what was only for the processes. To be called once they have been forked.
    pub(super) fn close(&mut self) {
        self.descriptors = None;
    }

    /// Whether the first process becomes a shim.
    pub(super) fn has_shim(&self) -> bool {
        self.shim.is_some()
    }

    /// Says what a report is about.
    pub(super) fn name(&self, what: u32) -> String {
        match what.checked_sub(REPORT_STEP) {
            Some(step) => {
                let step = self.view.steps.get(step as usize).map(|step| step.path().to_string_lossy().into_owned());
                format!("making a root: {}", step.unwrap_or_default())
            }
            None => PARTS.get((what - REPORT_REFUSED) as usize).unwrap_or(&"entering").to_string(),
        }
    }

    /// Whether a refusal is about a task's layer over a snapshot.
    pub(super) fn is_about_the_layer(&self, what: u32) -> bool {
        let step = what.checked_sub(REPORT_STEP).and_then(|step| self.view.steps.get(step as usize));
        matches!(step, Some(Step::Layer { .. }))
    }

    /// Whether a refusal is about entering namespaces, which systems forbid to ordinary users.
    pub(super) fn is_about_namespaces(what: u32) -> bool {
        (REPORT_REFUSED + 2..REPORT_REFUSED + 4).contains(&what)
    }

    /// Whether it can be refused because namespaces are forbidden. Some systems let everybody enter them and forbid what is
    /// done there.
    pub(super) fn needs_namespaces(what: u32) -> bool {
        (REPORT_REFUSED + 2..REPORT_REFUSED + 11).contains(&what)
    }

    /// The first process. Never returns.
    pub(super) fn enter(&self) -> ! {
        let Some(descriptors) = &self.descriptors else { exit(1) };
        match self.first(descriptors) {
            Ok(()) => exit(0),
            Err((what, errno)) => {
                tell(descriptors, what, errno.raw_os_error());
                exit(1)
            }
        }
    }

    fn first(&self, descriptors: &Descriptors) -> Result<(), (u32, Errno)> {
        part(0, || descriptors.groups.iter().try_for_each(|group| rustix::io::write(group, b"0").map(drop)))?;
        if self.user.is_some() {
            self.open_trees()?;
        }
        part(1, || self.become_user())?;
        // SAFETY: this process has one thread and shares nothing with another that this would tear apart.
        part(2, || check(unsafe { libc::unshare(self.namespaces) }.into()).map(drop))?;
        part(3, || self.map_user())?;
        // SAFETY: a copy of this process with the same parent. Both only go on with system calls.
        let made = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0) };
        match part(4, || check(made))? {
            0 => self.second(descriptors),
            pid => {
                tell(descriptors, REPORT_PID, pid as i32);
                match (&self.shim, &descriptors.shim) {
                    (Some(arguments), Some(shim)) => self.become_shim(descriptors, shim, arguments),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The first process becomes the shim, once the view is made which it shares.
    fn become_shim(
        &self,
        descriptors: &Descriptors,
        shim: &ShimDescriptors,
        arguments: &Arguments,
    ) -> Result<(), (u32, Errno)> {
        // Not at once: what it has started is its own to collect, and the namespace does not end before that is done.
        part(5, || prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as u64))?;
        // This process may wait for a while, with copies of whatever the host had open. Without its end of the pipe it also
        // hears the end of the second process.
        let Descriptors { complaint, null, report, .. } = descriptors;
        part(13, || close_others([complaint, null, report, &shim.stream, &shim.on_made].map(AsRawFd::as_raw_fd)))?;
        part(16, || match rustix::io::read(&shim.on_made, &mut [0])? {
            1 => Ok(()),
            _ => Err(Errno::PIPE),
        })?;
        self.become_program(descriptors, &shim.stream, arguments)
    }

    /// Takes hold of what the host shows while this process may still walk everywhere.
    fn open_trees(&self) -> Result<(), (u32, Errno)> {
        for (number, (step, tree)) in (0_u32..).zip(self.view.steps.iter().zip(&self.trees)) {
            if let Step::Bind { host, access, .. } = step {
                let opened = open_tree(host, *access).map_err(|errno| (REPORT_STEP + number, errno))?;
                tree.store(opened, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn become_user(&self) -> Result<(), Errno> {
        if self.namespaces & libc::CLONE_NEWUSER != 0 {
            return self.user.map_or_else(keep_user, |(uid, gid)| become_user(uid, gid));
        }
        // For the suite's control: without users of its own it needs root's privileges to make the view.
        prctl(libc::PR_SET_KEEPCAPS, 1)?;
        self.user.map_or_else(keep_user, |(uid, gid)| become_user(uid, gid))?;
        raise_capabilities()
    }

    fn map_user(&self) -> Result<(), Errno> {
        if self.namespaces & libc::CLONE_NEWUSER == 0 {
            return Ok(());
        }
        write_file(c"/proc/self/setgroups", b"deny")?;
        write_file(c"/proc/self/uid_map", &self.uid_map)?;
        write_file(c"/proc/self/gid_map", &self.gid_map)
    }

    /// The second process: becomes the guest.
    fn second(&self, descriptors: &Descriptors) -> Result<(), (u32, Errno)> {
        part(5, || prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64))?;
        if self.namespaces & libc::CLONE_NEWUTS != 0 {
            part(6, || rustix::system::sethostname(b"choir"))?;
        }
        if self.namespaces & libc::CLONE_NEWNET != 0 {
            part(7, raise_loopback)?;
        }
        if self.namespaces & libc::CLONE_NEWUSER != 0 && !self.keep_capabilities {
            part(8, || write_file(c"/proc/sys/user/max_user_namespaces", b"0"))?;
        }
        part(9, make_stage)?;
        for (number, (step, tree)) in (0_u32..).zip(self.view.steps.iter().zip(&self.trees)) {
            take(step, tree.load(Ordering::Relaxed)).map_err(|errno| (REPORT_STEP + number, errno))?;
        }
        if !self.keep_old_root {
            part(10, close_old_root)?;
        }
        if let Some(shim) = &descriptors.shim {
            part(16, || rustix::io::write(&shim.made, b"1").map(drop))?;
        }
        self.become_program(descriptors, &descriptors.stream, &self.guest)
    }

    /// Gives up every privilege and everything of the host's.
    fn become_program(
        &self,
        descriptors: &Descriptors,
        stream: &OwnedFd,
        Arguments { pointers, .. }: &Arguments,
    ) -> Result<(), (u32, Errno)> {
        part(11, || if self.keep_capabilities { keep_capabilities() } else { drop_capabilities() })?;
        if !self.keep_privileges {
            part(12, || prctl(libc::PR_SET_NO_NEW_PRIVS, 1))?;
        }
        part(13, || hand_over(descriptors, stream))?;
        // Before this, the directory of the first process is one of the host's.
        part(14, || rustix::process::chdir(c"/work"))?;
        // SAFETY: both lists end with a null pointer, and their strings live in this entry.
        unsafe {
            libc::setsid();
            libc::execve(pointers[0], pointers.as_ptr(), self.environment_pointers.as_ptr());
        }
        Err((REPORT_REFUSED + 15, last_errno()))
    }
}

/// Closes every descriptor but the standard streams and these.
fn close_others(mut kept: [RawFd; 5]) -> Result<(), Errno> {
    kept.sort_unstable();
    let mut from = 3;
    // SAFETY: closes descriptors of this process, which nothing in it uses any more.
    let close = |from: RawFd, to: libc::c_uint| check(unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) });
    for descriptor in kept.into_iter().filter(|descriptor| *descriptor >= 3) {
        if descriptor > from {
            close(from, (descriptor - 1) as libc::c_uint)?;
        }
        from = descriptor + 1;
    }
    close(from, libc::c_uint::MAX).map(drop)
}

/// The standard streams, and the program's own; every other descriptor is closed by exec, whoever opened it.
fn hand_over(descriptors: &Descriptors, stream: &OwnedFd) -> Result<(), Errno> {
    let Descriptors { complaint, null, .. } = descriptors;
    for (from, to) in [(null, 0), (null, 1), (complaint, 2)] {
        // SAFETY: replaces a standard stream of this process.
        check(unsafe { libc::dup2(from.as_raw_fd(), to) }.into())?;
    }
    // SAFETY: only marks descriptors of this process.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) })?;
    rustix::io::fcntl_setfd(stream, rustix::io::FdFlags::empty())?;
    // What the host's program ignores or blocks must not be ignored or blocked by every program inside.
    // SAFETY: changes only this process; the set is a valid, empty one.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
    Ok(())
}

fn tell(descriptors: &Descriptors, kind: u32, value: i32) {
    let mut message = [0; REPORT_BYTES];
    message[..4].copy_from_slice(&kind.to_ne_bytes());
    message[4..8].copy_from_slice(&value.to_ne_bytes());
    // Nobody may be listening any more; then there is nobody to tell.
    rustix::io::write(&descriptors.report, &message).ok();
}

fn namespaces(spec: &Spec) -> libc::c_int {
    let all = [
        (Layer::UserNamespace, libc::CLONE_NEWUSER),
        (Layer::MountNamespace, libc::CLONE_NEWNS),
        (Layer::ProcessNamespace, libc::CLONE_NEWPID),
        (Layer::NetworkNamespace, libc::CLONE_NEWNET),
        (Layer::IpcNamespace, libc::CLONE_NEWIPC),
        (Layer::UtsNamespace, libc::CLONE_NEWUTS),
        (Layer::CgroupNamespace, libc::CLONE_NEWCGROUP),
    ];
    // Mounts of its own it always has, or it would rearrange the host's; without that wall it keeps those of the host.
    let wanted = all.iter().filter(|(layer, _)| *layer == Layer::MountNamespace || !spec.lacks(*layer));
    wanted.fold(0, |flags, (_, flag)| flags | flag)
}

fn part<T>(number: u32, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, (u32, Errno)> {
    act().map_err(|errno| (REPORT_REFUSED + number, errno))
}

pub(super) fn check(result: i64) -> Result<i64, Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn exit(code: i32) -> ! {
    // SAFETY: ends this process without running anything of the program it is a copy of.
    unsafe { libc::_exit(code) }
}

pub(super) fn prctl(option: libc::c_int, value: u64) -> Result<(), Errno> {
    // SAFETY: these options take a number and change only this process.
    check(unsafe { libc::prctl(option, value, 0, 0, 0) }.into()).map(drop)
}

fn write_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

fn raise_loopback() -> Result<(), Errno> {
    // SAFETY: a socket of this process's own, closed again, and a request as long as the kernel reads it.
    unsafe {
        let socket =
            check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())? as libc::c_int;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let raised = check(libc::ioctl(socket, libc::SIOCSIFFLAGS, &request).into());
        libc::close(socket);
        raised.map(drop)
    }
}

/// An empty root, with the host's beneath it.
fn make_stage() -> Result<(), Errno> {
    rustix::mount::mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"tmpfs", STAGE, c"tmpfs", flags, ROOT_OPTIONS)?;
    rustix::fs::mkdir(STAGE_OLD, Mode::from_raw_mode(0o700))?;
    rustix::process::pivot_root(STAGE, STAGE_OLD)?;
    rustix::process::chdir(c"/")?;
    // What is made here is for the sandbox's user alone anyway; the host's mask would only surprise.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

fn close_old_root() -> Result<(), Errno> {
    rustix::mount::unmount(OLD, UnmountFlags::DETACH)?;
    rustix::fs::rmdir(OLD)?;
    // What is left of the root holds no room to fill.
    restrict(c"/", libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, 0)
}

fn take(step: &Step, tree: RawFd) -> Result<(), Errno> {
    let private = MountFlags::NOSUID | MountFlags::NODEV;
    match step {
        Step::Directory(path) => match rustix::fs::mkdir(path.as_c_str(), Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(errno) => Err(errno),
        },
        Step::Link { target, path } => rustix::fs::symlink(target.as_c_str(), path.as_c_str()),
        Step::File { path, content } => make_file(path, content),
        Step::Memory { path, options } => {
            rustix::mount::mount(c"tmpfs", path.as_c_str(), c"tmpfs", private, options.as_c_str())
        }
        Step::Bind { inside, .. } if tree != NO_TREE => place_tree(tree, inside),
        Step::Bind { host, inside, access } => bind(host, inside, *access),
        Step::Close(path) => {
            rustix::mount::unmount(path.as_c_str(), UnmountFlags::DETACH)?;
            rustix::fs::rmdir(path.as_c_str())
        }
        Step::Device { host, inside } => {
            make_file(inside, b"")?;
            rustix::mount::mount_bind(host.as_c_str(), inside.as_c_str())?;
            restrict(inside, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, 0)
        }
        Step::Layer { inside, options } => {
            rustix::mount::mount(c"overlay", inside.as_c_str(), c"overlay", private, options.as_c_str())
        }
        // Its files are the kernel's settings, which to a sandbox started by root would be its own.
        Step::Processes(path) => {
            let flags = private | MountFlags::NOEXEC;
            rustix::mount::mount(c"proc", path.as_c_str(), c"proc", flags, None)?;
            restrict(path, libc::MOUNT_ATTR_RDONLY, 0)
        }
        Step::Terminals { path, options } => {
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            rustix::mount::mount(c"devpts", path.as_c_str(), c"devpts", flags, options.as_c_str())
        }
    }
}

fn make_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    if content.is_empty() { Ok(()) } else { rustix::io::write(&file, content).map(drop) }
}

fn bind(host: &CStr, inside: &CStr, access: Access) -> Result<(), Errno> {
    rustix::mount::mount_bind_recursive(host, inside)?;
    restrict(inside, restrictions(access), libc::AT_RECURSIVE)
}

fn restrictions(access: Access) -> u64 {
    let fixed = match access {
        Access::Read => libc::MOUNT_ATTR_RDONLY,
        Access::Write => 0,
    };
    fixed | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV
}

/// A part of the host, restricted and not mounted anywhere yet.
fn open_tree(host: &CStr, access: Access) -> Result<RawFd, Errno> {
    // By its own name: the host's root is still where it was.
    let path = &host.to_bytes_with_nul()[OLD.to_bytes().len()..];
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: the path ends with a NUL byte; what is opened is this process's own.
    let tree = check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })? as RawFd;
    set_attributes(tree, c"", restrictions(access), libc::AT_RECURSIVE | libc::AT_EMPTY_PATH)?;
    Ok(tree)
}

fn place_tree(tree: RawFd, inside: &CStr) -> Result<(), Errno> {
    let (from, flags) = (c"".as_ptr(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths end with NUL bytes.
    let moved = unsafe { libc::syscall(libc::SYS_move_mount, tree, from, libc::AT_FDCWD, inside.as_ptr(), flags) };
    check(moved).map(drop)
}

/// Adds restrictions to a mount, and with `AT_RECURSIVE` to all beneath it.
fn restrict(path: &CStr, attributes: u64, recursive: libc::c_int) -> Result<(), Errno> {
    set_attributes(libc::AT_FDCWD, path, attributes, recursive)
}

fn set_attributes(at: RawFd, path: &CStr, attributes: u64, flags: libc::c_int) -> Result<(), Errno> {
    let mut wanted = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path ends with a NUL byte, and the attributes are as long as is said.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            ptr::from_mut(&mut wanted),
            size_of::<libc::mount_attr>(),
        )
    };
    check(done).map(drop)
}

/// Waits for what a child reports next; nothing once it has ended or become the guest.
pub(super) fn read_report(from: BorrowedFd<'_>) -> Option<Report> {
    let mut bytes = [0; REPORT_BYTES];
    loop {
        match rustix::io::read(from, &mut bytes) {
            Ok(REPORT_BYTES) => return Report::read(bytes),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return None,
        }
    }
}

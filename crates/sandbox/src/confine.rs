//! Walls that a process puts around itself: those of the director.
//!
//! A computer's process holds the log and plans, and is not trusted: it may read and write its own directory and speak to
//! control over the sockets that it was started with, and nothing else. It sees a root of its own with that directory in
//! it, without the parts that belong to the keeper; it has no network, starts no program and signals nobody. Started by root,
//! it is a user of its own.
//!
//! Unlike a guest it works without some of its walls, because documents and settings must open where associates cannot be
//! had. What is missing is said, and [`missing`] looks from outside.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    Access as _, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::guest::harden::{LANDLOCK_FLOOR, LANDLOCK_WISH, Rules, compile, forbidden_to_all, refuse_x32};
use crate::runtime::{Identity, Layer, Layers, become_user, drop_capabilities};

/// Bytes and names of the root, which holds a few empty files and directories.
const ROOT_OPTIONS: &CStr = c"size=256k,nr_inodes=128,mode=0755";
/// What stands in the place of what is hidden: nothing, and no room.
const HIDDEN_OPTIONS: &CStr = c"size=4k,nr_inodes=1,mode=0000";
/// A directory that every system has, to make the root on.
const STAGE: &CStr = c"/tmp";
const STAGE_OLD: &CStr = c"/tmp/old";
const OLD: &str = "/old";
const NULL_DEVICE: &str = "/dev/null";
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// The walls that can be seen from outside.
const SEEN: [Layer; 10] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::NoCapabilities,
    Layer::NoNewPrivileges,
    Layer::Seccomp,
    Layer::UnprivilegedUser,
];
/// Calls by which a process reaches others of its user, and programs.
const FORBIDDEN: [i64; 16] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ioprio_set,
    libc::SYS_kill,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_tkill,
];

/// A wall that could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{wall}: {source}")]
pub struct Missing {
    /// Which.
    pub wall: &'static str,
    /// Why.
    pub source: io::Error,
}

static OWN: OnceLock<Vec<Missing>> = OnceLock::new();

/// What this process lacks of its walls, once it has built them.
pub fn own() -> &'static [Missing] {
    OWN.get().map(Vec::as_slice).unwrap_or_default()
}

/// Confines this process to a directory without the parts of it that are `hidden`, as the user to whom the directory was
/// given. To be called once, before there is any other thread. Answers with the directory's name as it is now.
pub fn confine(directory: &Path, hidden: &[&str], identity: Identity) -> io::Result<PathBuf> {
    build(directory, hidden, identity, &[])
}

/// The same without some walls, for the controls.
#[cfg(feature = "attack")]
pub fn confine_without(directory: &Path, hidden: &[&str], identity: Identity, without: &[&str]) -> io::Result<PathBuf> {
    build(directory, hidden, identity, without)
}

fn build(directory: &Path, hidden: &[&str], identity: Identity, without: &[&str]) -> io::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    let walls: [(&str, &dyn Fn() -> io::Result<()>); 4] = [
        ("namespaces", &|| enter(&directory, hidden, identity)),
        ("no new privileges", &|| Ok(rustix::thread::set_no_new_privs(true)?)),
        ("landlock", &|| restrict_files(&directory)),
        ("seccomp", &restrict_calls),
    ];
    let built = walls.into_iter().filter(|(wall, _)| !without.contains(wall));
    let lacks = built.filter_map(|(wall, build)| build().err().map(|source| Missing { wall, source })).collect();
    // Only the first confinement counts, and there is only one.
    OWN.set(lacks).ok();
    Ok(directory)
}

/// The walls that a confined process lacks, seen from outside.
pub fn missing(pid: u32) -> Vec<Layer> {
    let layers = Layers::of_process(pid);
    SEEN.into_iter().filter(|layer| !layers.has(*layer)).collect()
}

/// The version of Landlock that the kernel offers to this process.
pub fn landlock_version() -> io::Result<u32> {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: asked for the version, the call takes no rules and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// The oldest version of Landlock that holds what is promised.
pub const LANDLOCK_VERSION_MIN: u32 = LANDLOCK_FLOOR as u32;

fn enter(directory: &Path, hidden: &[&str], identity: Identity) -> io::Result<()> {
    let own = OwnUsers::hold()?;
    match identity {
        Identity::Inherit => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            unshare(NAMESPACES)?;
            own.map(uid, gid)?;
            make_root(directory, hidden)?;
        }
        // Only root can walk to the directory, so it makes the view; what follows has no power over it.
        Identity::User { uid, gid } => {
            unshare(libc::CLONE_NEWNS)?;
            // Whoever it will be can walk through what is made here.
            let mask = rustix::process::umask(Mode::WGRP | Mode::WOTH);
            make_root(directory, hidden)?;
            rustix::process::umask(mask);
            become_user(uid, gid)?;
            unshare(NAMESPACES & !libc::CLONE_NEWNS)?;
            own.map(uid, gid)?;
        }
    }
    Ok(drop_capabilities()?)
}

fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: this process has one thread and shares nothing with another that this would tear apart.
    match unsafe { libc::unshare(namespaces) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where a process says who its users are. Held, because the new root has no `/proc`.
struct OwnUsers {
    process: OwnedFd,
    limits: OwnedFd,
}

impl OwnUsers {
    fn hold() -> io::Result<Self> {
        let hold = |path| rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { process: hold("/proc/self")?, limits: hold("/proc/sys/user")? })
    }

    /// In its namespace there is this one user, and there are no further namespaces.
    fn map(&self, uid: u32, gid: u32) -> io::Result<()> {
        write_at(&self.process, "setgroups", "deny")?;
        write_at(&self.process, "uid_map", &format!("{uid} {uid} 1"))?;
        write_at(&self.process, "gid_map", &format!("{gid} {gid} 1"))?;
        write_at(&self.limits, "max_user_namespaces", "0")
    }
}

fn write_at(directory: impl AsFd, name: &str, content: &str) -> io::Result<()> {
    let file = rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, content.as_bytes())?;
    Ok(())
}

/// A root with nothing but the directory and the device that takes everything.
fn make_root(directory: &Path, hidden: &[&str]) -> io::Result<()> {
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    rustix::mount::mount(c"tmpfs", STAGE, c"tmpfs", plain, ROOT_OPTIONS)?;
    rustix::fs::mkdir(STAGE_OLD, Mode::RWXU)?;
    rustix::process::pivot_root(STAGE, STAGE_OLD)?;
    rustix::process::chdir(c"/")?;
    std::fs::create_dir_all(directory)?;
    rustix::mount::mount_bind_recursive(&old(directory)?, directory)?;
    for name in hidden {
        let path = directory.join(name);
        // What is not there yet would show once it is.
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        rustix::mount::mount(c"tmpfs", &path, c"tmpfs", plain | MountFlags::RDONLY, HIDDEN_OPTIONS)?;
    }
    std::fs::create_dir("/dev")?;
    std::fs::write(NULL_DEVICE, "")?;
    rustix::mount::mount_bind(&old(Path::new(NULL_DEVICE))?, NULL_DEVICE)?;
    rustix::mount::unmount(OLD, UnmountFlags::DETACH)?;
    rustix::fs::rmdir(OLD)?;
    rustix::mount::mount_remount(c"/", MountFlags::BIND | MountFlags::RDONLY | plain, c"")?;
    // Where SQLite puts what it does not name.
    Ok(rustix::process::chdir(directory)?)
}

/// A path of the host, as it is called while the root is made.
fn old(path: &Path) -> io::Result<CString> {
    Ok(CString::new([OLD.as_bytes(), path.as_os_str().as_bytes()].concat())?)
}

fn restrict_files(directory: &Path) -> io::Result<()> {
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let own = AccessFs::from_all(LANDLOCK_WISH) & !AccessFs::Execute;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK_FLOOR))
        .and_then(|rules| {
            rules.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(LANDLOCK_WISH))
        })
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK_WISH)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.add_rules(path_beneath_rules([directory], own)))
        .and_then(|rules| rules.add_rules(path_beneath_rules([NULL_DEVICE], device)))
        .and_then(|rules| rules.restrict_self());
    restricted.map(drop).map_err(io::Error::other)
}

fn restrict_calls() -> io::Result<()> {
    let filters = || -> Result<_, seccompiler::Error> {
        Ok([compile(rules()?, libc::EPERM)?, compile(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?])
    };
    for filter in filters().map_err(io::Error::other)? {
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    match cfg!(target_arch = "x86_64") {
        true => seccompiler::apply_filter(&refuse_x32()).map_err(io::Error::other),
        false => Ok(()),
    }
}

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let mut rules = forbidden_to_all(&[libc::AF_UNIX])?;
    rules.extend(FORBIDDEN.map(|call| (call, Vec::new())));
    // Its own threads it may signal, which is how it ends itself, and its own limits it may change.
    let own = u64::from(std::process::id());
    let others = |own: u64| {
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, own)?;
        Ok(vec![SeccompRule::new(vec![other])?])
    };
    rules.insert(libc::SYS_tgkill, others(own)?);
    rules.insert(libc::SYS_prlimit64, others(0)?);
    // A thread may stand back, but put nobody else back.
    let one_process = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::PRIO_PROCESS.into())?;
    let itself = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_setpriority, vec![SeccompRule::new(vec![one_process])?, SeccompRule::new(vec![itself])?]);
    Ok(rules)
}

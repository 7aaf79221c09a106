//! What the guest gives up for itself and everything it starts.
//!
//! These are second walls: the namespaces around the sandbox already hide what is forbidden here. Each is inherited by
//! every process that is started later and can never be taken back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
    path_beneath_rules,
};
use rustix::process::{Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use super::GuestError;
use crate::protocol::{GuestLimits, GuestRole};

/// What is mounted where, as the kernel tells a process about itself.
const MOUNT_TABLE: &str = "/proc/self/mountinfo";
/// The least that the kernel must offer: moving files between directories under control.
pub(crate) const LANDLOCK_FLOOR: ABI = ABI::V2;
/// The most that is asked for where the kernel offers it.
pub(crate) const LANDLOCK_WISH: ABI = ABI::V7;

/// System calls that no command needs and whose history is long: other kernels' doors, other processes' memory, the
/// machine itself. Answered with "not permitted".
const FORBIDDEN: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// The same, for calls that only this processor has.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: &[i64] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_sysfs, libc::SYS_uselib, libc::SYS_ustat];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: &[i64] = &[];

/// A keeper starts no program whatever happens to it.
const FORBIDDEN_TO_KEEPERS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// New namespaces, each of which brings kernel code within reach that expects an administrator.
const NAMESPACE_FLAGS: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    // For time; not in every C library's list.
    0x80,
];
/// Kinds of sockets that programs use. Every other kind is refused.
const SOCKET_FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Types into another's terminal, or speaks to the console.
const FORBIDDEN_IOCTLS: [u64; 2] = [libc::TIOCSTI, 0x541c];

/// What was given up, as far as the outside cannot see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hardened {
    /// Version of Landlock in force.
    pub(super) landlock_abi: u32,
}

/// Gives up everything. To be called before any thread is started.
pub(super) fn harden(role: GuestRole) -> Result<Hardened, GuestError> {
    let writable = writable_mounts().map_err(|source| refused("reading what is mounted", source))?;
    let landlock_abi = restrict_files(writable).map_err(|source| refused("restricting files", source))?;
    restrict_calls(role).map_err(|source| refused("restricting system calls", source))?;
    Ok(Hardened { landlock_abi })
}

/// The same without some walls. What is left out is not claimed.
#[cfg(feature = "attack")]
pub(super) fn harden_without(role: GuestRole, walls: &[&str]) -> Result<Hardened, GuestError> {
    if !walls.contains(&"landlock") {
        let writable = writable_mounts().map_err(|source| refused("reading what is mounted", source))?;
        restrict_files(writable).map_err(|source| refused("restricting files", source))?;
    }
    if !walls.contains(&"seccomp") {
        restrict_calls(role).map_err(|source| refused("restricting system calls", source))?;
    }
    Ok(Hardened { landlock_abi: if walls.contains(&"landlock") { 0 } else { LANDLOCK_FLOOR as u32 } })
}

fn refused(step: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> GuestError {
    GuestError::Prepare { step, source: std::io::Error::other(error) }
}

/// Sets the limits that every process inherits.
pub(super) fn limit(limits: &GuestLimits) -> Result<(), GuestError> {
    let set = |resource, value: u64| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, limit).map_err(|errno| super::prepare("setting limits", errno))
    };
    set(Resource::Core, 0)?;
    set(Resource::Nproc, limits.processes)?;
    set(Resource::Nofile, limits.open_files)?;
    set(Resource::Fsize, limits.file_bytes)?;
    if !limits.nameless_files {
        refuse_nameless_files().map_err(|source| refused("refusing files without names", source))?;
        keep_buffers().map_err(|source| refused("keeping the room of sockets", source))?;
    }
    limits.address_space_bytes.map_or(Ok(()), |bytes| set(Resource::As, bytes))
}

/// Answered as by a kernel that does not know them, so that programs take another way.
fn refuse_nameless_files() -> Result<(), seccompiler::Error> {
    let calls = BTreeMap::from([(libc::SYS_memfd_create, Vec::new()), (libc::SYS_memfd_secret, Vec::new())]);
    // The event loop's threads may exist by now.
    seccompiler::apply_filter_all_threads(&compile(calls, libc::ENOSYS)?)
}

/// Whoever adds up from outside counts sockets by the room that they have at first. A wish for more is answered as the
/// kernel answers one beyond its own limit: as granted, without an effect.
fn keep_buffers() -> Result<(), seccompiler::Error> {
    let wishes = [libc::SO_SNDBUF, libc::SO_RCVBUF].map(|option| {
        let level = condition(1, SeccompCmpOp::Eq, libc::SOL_SOCKET as u64)?;
        SeccompRule::new(vec![level, condition(2, SeccompCmpOp::Eq, option as u64)?])
    });
    let rules = wishes.into_iter().collect::<Result<_, _>>()?;
    seccompiler::apply_filter_all_threads(&compile(BTreeMap::from([(libc::SYS_setsockopt, rules)]), 0)?)
}

/// Everything may be read and run, and only what is mounted writable may be written.
fn restrict_files(writable: Vec<OsString>) -> Result<u32, landlock::RulesetError> {
    let write = AccessFs::from_all(LANDLOCK_WISH) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK_FLOOR))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_WISH))?
        .scope(Scope::from_all(LANDLOCK_WISH))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(LANDLOCK_WISH)))?
        .add_rules(path_beneath_rules(writable, write))?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    })
}

/// Where something writable is mounted, as the kernel tells it.
fn writable_mounts() -> std::io::Result<Vec<OsString>> {
    let table = match std::fs::read(MOUNT_TABLE) {
        // To a shim `/proc` shows a namespace in which it is not, but its children are.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => read_by_child(MOUNT_TABLE),
        read => read,
    }?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(writable_mount).collect())
}

/// Reads a file as a child of this process sees it. To be called before any thread is started.
#[allow(unsafe_code)]
fn read_by_child(path: &str) -> std::io::Result<Vec<u8>> {
    let (mut read, mut write) = std::io::pipe()?;
    // SAFETY: the process has one thread, so the copy is whole; it ends without running anything of this one's.
    let child = match unsafe { libc::fork() } {
        0 => {
            let copied = std::fs::read(path).and_then(|content| write.write_all(&content));
            // SAFETY: ends the copy.
            unsafe { libc::_exit(i32::from(copied.is_err())) }
        }
        pid => rustix::process::Pid::from_raw(pid).ok_or_else(std::io::Error::last_os_error)?,
    };
    drop(write);
    let mut content = Vec::new();
    read.read_to_end(&mut content)?;
    match rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(content),
        _ => Err(std::io::Error::other("a child could not read it")),
    }
}

/// Fields: id, parent, device, root, mount point, options, and more.
fn writable_mount(line: &[u8]) -> Option<OsString> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let (point, options) = (fields.next()?, fields.next()?);
    let writable = options.split(|byte| *byte == b',').any(|option| option == b"rw");
    writable.then(|| OsString::from_vec(unescape(point)))
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), field);
    while let Some((first, after)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &rest[4..];
            }
            (byte, _) => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    plain
}

fn restrict_calls(role: GuestRole) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(&compile(forbidden(role)?, libc::EPERM)?)?;
    seccompiler::apply_filter(&compile(too_large()?, libc::ENOSPC)?)?;
    // Its flags are in memory, where a filter cannot look; absent, the C library uses the older call.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    seccompiler::apply_filter(&compile(unknown, libc::ENOSYS)?)?;
    if cfg!(target_arch = "x86_64") {
        seccompiler::apply_filter(&refuse_x32())?;
    }
    Ok(())
}

pub(crate) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Shared memory, semaphores and messages of the old kind belong to no process, so nobody adds them up. Their number is
/// limited by the kernel, and their size here, so that all together they are not worth counting.
fn too_large() -> Result<Rules, seccompiler::BackendError> {
    const SEGMENT_BYTES_MAX: u64 = 64 << 10;
    const SEMAPHORES_MAX: u64 = 32;
    let above = |limit| {
        let condition = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Gt, limit)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    Ok(BTreeMap::from([
        (libc::SYS_shmget, above(SEGMENT_BYTES_MAX)?),
        (libc::SYS_semget, above(SEMAPHORES_MAX)?),
        (libc::SYS_msgget, Vec::new()),
    ]))
}

fn forbidden(role: GuestRole) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = forbidden_to_all(&SOCKET_FAMILIES)?;
    if role == GuestRole::Keeper {
        rules.extend(FORBIDDEN_TO_KEEPERS.iter().map(|call| (*call, Vec::new())));
    }
    Ok(rules)
}

/// What nobody may, with sockets of these families alone.
pub(crate) fn forbidden_to_all(families: &[libc::c_int]) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = FORBIDDEN.iter().chain(FORBIDDEN_HERE).map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACE_FLAGS.iter().map(|flag| {
        let flag = *flag as u64;
        SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let families = families.iter().map(|family| condition(0, SeccompCmpOp::Ne, *family as u64));
    let unusual = SeccompRule::new(families.collect::<Result<_, _>>()?)?;
    rules.insert(libc::SYS_socket, vec![unusual.clone()]);
    rules.insert(libc::SYS_socketpair, vec![unusual]);
    let ioctls =
        FORBIDDEN_IOCTLS.iter().map(|request| SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, *request)?]));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Compares 32 bits, as the kernel does with these arguments; more would let high bits slip past.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

pub(crate) fn compile(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), architecture)?.try_into()
}

/// The same calls have a second set of numbers on this processor, with one more bit. Nothing uses it.
pub(crate) fn refuse_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The call's number is at the beginning of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32_BIT),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_mounts_are_found() {
        let line = |point: &str, options: &str| format!("36 35 98:0 /mnt1 {point} {options} - ext4 /dev/root rw");
        assert_eq!(writable_mount(line("/work", "rw,nosuid").as_bytes()), Some("/work".into()));
        assert_eq!(writable_mount(line("/usr", "ro,nosuid").as_bytes()), None);
        assert_eq!(writable_mount(line(r"/a\040b\134", "nodev,rw").as_bytes()), Some(r"/a b\".into()));
        assert_eq!(writable_mount(b"nonsense"), None);
    }
}

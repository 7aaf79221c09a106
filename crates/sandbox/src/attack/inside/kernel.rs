//! Attempts on the kernel itself.

use std::fs;

use super::{Act, Outcome, call, first_success, of_io, outcome};

pub(super) const ACTS: &[(&str, Act)] = &[
    ("settings", settings),
    ("namespace_limit", namespace_limit),
    ("clone_user", clone_user),
    ("clone_everything", clone_everything),
    ("enter_namespace", enter_namespace),
    ("second_numbers", second_numbers),
    ("old_entry", old_entry),
    ("mount_again", mount_again),
    ("mount_anything", mount_anything),
    ("type_into_terminal", type_into_terminal),
    ("keyring", keyring),
    ("host_name", host_name),
    ("shared_memory", shared_memory),
    ("kernel_memory", kernel_memory),
    ("control_groups", control_groups),
];

fn settings() -> Outcome {
    let paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger",
        "/proc/self/uid_map",
        "/proc/self/setgroups",
    ];
    first_success(paths.map(|path| of_io(fs::write(path, "1"), path)))
}

/// The kernel's own count of namespaces that may be made in here.
fn namespace_limit() -> Outcome {
    match fs::read_to_string("/proc/sys/user/max_user_namespaces") {
        Ok(limit) if limit.trim() == "0" => Outcome::Refused(libc::ENOSPC),
        Ok(limit) => Outcome::Done(format!("{} namespaces may be made", limit.trim())),
        Err(error) => of_io(Err::<(), _>(error), ""),
    }
}

fn clone_user() -> Outcome {
    made(call(libc::SYS_clone, &[(libc::CLONE_NEWUSER | libc::SIGCHLD).into()]))
}

fn clone_everything() -> Outcome {
    const CLONE_NEWTIME: i32 = 0x80;
    let kinds = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        CLONE_NEWTIME,
    ];
    let unshare = kinds.map(|kind| call(libc::SYS_unshare, &[kind.into()]));
    let clone = kinds.map(|kind| made(call(libc::SYS_clone, &[(kind | libc::SIGCHLD).into()])));
    first_success(unshare.into_iter().chain(clone))
}

/// A child that was made must not go on as if it were this process.
fn made(outcome: Outcome) -> Outcome {
    if matches!(outcome, Outcome::Done(_)) && std::process::id() != first_id() {
        // SAFETY: ends the child that was made.
        unsafe { libc::_exit(0) };
    }
    outcome
}

/// This process's number, remembered before anything was made.
fn first_id() -> u32 {
    static FIRST: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *FIRST.get_or_init(std::process::id)
}

fn enter_namespace() -> Outcome {
    let names = ["user", "mnt", "net", "pid"];
    first_success(names.map(|name| match fs::File::open(format!("/proc/1/ns/{name}")) {
        Ok(file) => {
            use std::os::fd::AsRawFd;
            call(libc::SYS_setns, &[file.as_raw_fd().into(), 0])
        }
        Err(error) => of_io(Err::<(), _>(error), ""),
    }))
}

/// The same calls under a second set of numbers, which this processor has.
fn second_numbers() -> Outcome {
    const SECOND: i64 = 0x4000_0000;
    first_success([
        call(SECOND + libc::SYS_getpid, &[]),
        call(SECOND + libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()]),
        call(SECOND + libc::SYS_mount, &[]),
    ])
}

/// The door of older programs, whose calls have other numbers. The kernel must end whoever uses it.
#[cfg(target_arch = "x86_64")]
fn old_entry() -> Outcome {
    const UNSHARE_OF_OLD: i64 = 310;
    let result: i64;
    // SAFETY: a system call without pointers; `rbx` is the compiler's own and is put back.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {argument}",
            "int 0x80",
            "xchg rbx, {argument}",
            argument = inout(reg) i64::from(libc::CLONE_NEWUSER) => _,
            inout("rax") UNSHARE_OF_OLD => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    match i32::try_from(result) {
        Ok(error @ ..0) => Outcome::Refused(-error),
        _ => Outcome::Done("called through the old entry".to_owned()),
    }
}

/// Only one processor has that door; where there is none, ending is what it would have done.
#[cfg(not(target_arch = "x86_64"))]
fn old_entry() -> Outcome {
    // SAFETY: ends this process as the kernel would.
    unsafe { libc::kill(libc::getpid(), libc::SIGSYS) };
    Outcome::Done("survived".to_owned())
}

fn mount(source: &std::ffi::CStr, target: &std::ffi::CStr, kind: &std::ffi::CStr, flags: u64) -> Outcome {
    // SAFETY: all strings end with NUL bytes.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    outcome(result.into(), "mounted")
}

fn mount_again() -> Outcome {
    first_success([
        mount(c"none", c"/usr", c"", libc::MS_REMOUNT | libc::MS_BIND),
        mount(c"none", c"/", c"", libc::MS_REMOUNT | libc::MS_BIND),
        mount(c"none", c"/proc", c"", libc::MS_REMOUNT | libc::MS_BIND),
        call(libc::SYS_umount2, &[c"/work".as_ptr() as i64, libc::MNT_DETACH.into()]),
        call(libc::SYS_umount2, &[c"/proc".as_ptr() as i64, 0]),
    ])
}

fn mount_anything() -> Outcome {
    first_success([
        mount(c"none", c"/tmp", c"tmpfs", 0),
        mount(c"proc", c"/tmp", c"proc", 0),
        mount(c"sysfs", c"/tmp", c"sysfs", 0),
        mount(c"/", c"/tmp", c"", libc::MS_BIND | libc::MS_REC),
        mount(c"overlay", c"/tmp", c"overlay", 0),
        call(libc::SYS_fsopen, &[c"tmpfs".as_ptr() as i64, 0]),
        call(libc::SYS_open_tree, &[libc::AT_FDCWD.into(), c"/".as_ptr() as i64, 1]),
        call(libc::SYS_mount_setattr, &[libc::AT_FDCWD.into(), c"/usr".as_ptr() as i64, 0, 0, 0]),
    ])
}

fn type_into_terminal() -> Outcome {
    // SAFETY: makes a terminal of this process's own.
    let terminal = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) };
    let letter = b'x';
    let address = std::ptr::from_ref(&letter) as i64;
    const HIGH_BITS: i64 = 1 << 32;
    first_success([
        call(libc::SYS_ioctl, &[terminal.into(), libc::TIOCSTI as i64, address]),
        call(libc::SYS_ioctl, &[terminal.into(), libc::TIOCSTI as i64 + HIGH_BITS, address]),
    ])
}

fn keyring() -> Outcome {
    const GET_SESSION: [i64; 3] = [0, -3, 1];
    const READ_KEY: [i64; 2] = [11, -3];
    first_success([
        call(libc::SYS_keyctl, &GET_SESSION),
        call(libc::SYS_keyctl, &READ_KEY),
        call(libc::SYS_add_key, &[c"user".as_ptr() as i64, c"choir".as_ptr() as i64, c"x".as_ptr() as i64, 1, -3]),
        call(libc::SYS_request_key, &[c"user".as_ptr() as i64, c"choir".as_ptr() as i64, 0, -3]),
    ])
}

/// The machine's own name must not be known.
fn host_name() -> Outcome {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "choir" => Outcome::Refused(libc::ENOENT),
        other => Outcome::Done(format!("the machine is called {other}")),
    }
}

/// The host has made a segment under this key.
fn shared_memory() -> Outcome {
    let key: i32 = super::planted("key").parse().unwrap_or_default();
    // SAFETY: only asks for a segment's number.
    outcome(unsafe { libc::shmget(key, 0, 0) }.into(), "found the host's segment")
}

fn kernel_memory() -> Outcome {
    let files = ["/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/proc/kpagecount"];
    let opened = files.map(|path| of_io(fs::File::open(path), path));
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let known = symbols.lines().any(|line| !line.starts_with("0000000000000000"));
    let addresses =
        if known { Outcome::Done("addresses of the kernel".to_owned()) } else { Outcome::Refused(libc::EPERM) };
    first_success(opened.into_iter().chain([addresses]))
}

fn control_groups() -> Outcome {
    let paths = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/kernel", "/sys"];
    let seen = paths.map(|path| of_io(fs::read_dir(path), path));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Seen from its own namespace, it is at the root of every group.
    let beyond = own.lines().find(|line| !line.ends_with(":/"));
    let own = beyond.map_or(Outcome::Refused(libc::ENOENT), |line| Outcome::Done(line.to_owned()));
    first_success(seen.into_iter().chain([own]))
}

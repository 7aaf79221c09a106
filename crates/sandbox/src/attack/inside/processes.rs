//! Attempts on other processes, and on staying.

use std::fs;
use std::io::{Read, Write};

use super::{Act, Outcome, call, errno, first_success, of_io, outcome, planted};

pub(super) const ACTS: &[(&str, Act)] = &[
    ("signal_host", signal_host),
    ("see_host", see_host),
    ("read_guest", read_guest),
    ("trace_guest", trace_guest),
    ("take_descriptor", take_descriptor),
    ("signal_guest", signal_guest),
    ("hurry", hurry),
    ("never_killed", never_killed),
    ("descriptors", descriptors),
    ("stay", stay),
    ("stay_hidden", stay_hidden),
    ("capabilities", capabilities),
    ("raise_capabilities", raise_capabilities),
    ("become_root", become_root),
    ("setuid_program", setuid_program),
    ("users_beyond", users_beyond),
];

fn signal_host() -> Outcome {
    let pid: i32 = planted("pid").parse().unwrap_or(i32::MAX);
    // SAFETY: the signal 0 only asks whether the process is there.
    outcome(unsafe { libc::kill(pid, 0) }.into(), "signalled a process of the host")
}

/// Every process that is seen must have come from the guest, so there are few, and the first is the guest.
fn see_host() -> Outcome {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let canary = planted("cmdline");
    let seen = pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        !canary.is_empty() && String::from_utf8_lossy(&line).contains(&canary)
    });
    match seen.count() {
        0 => Outcome::Refused(libc::ESRCH),
        count => Outcome::Done(format!("saw {count} processes of the host")),
    }
}

fn read_guest() -> Outcome {
    let files = ["mem", "environ", "maps", "auxv", "io", "syscall", "stack"];
    first_success(files.map(|name| of_io(fs::read(format!("/proc/1/{name}")), name)))
}

fn trace_guest() -> Outcome {
    const PTRACE_SEIZE: i64 = 0x4206;
    const PTRACE_ATTACH: i64 = 16;
    first_success([
        call(libc::SYS_ptrace, &[PTRACE_ATTACH, 1]),
        call(libc::SYS_ptrace, &[PTRACE_SEIZE, 1]),
        call(libc::SYS_process_vm_readv, &[1]),
        call(libc::SYS_process_vm_writev, &[1]),
    ])
}

fn take_descriptor() -> Outcome {
    // SAFETY: only makes a descriptor of this process's own.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) };
    if process < 0 {
        return outcome(process, "");
    }
    first_success((0..32).map(|descriptor| call(libc::SYS_pidfd_getfd, &[process, descriptor])))
}

/// Every signal, often; the outside then asks the guest how it is.
fn signal_guest() -> Outcome {
    for _ in 0..20 {
        for signal in (1..32).chain(34..65) {
            // SAFETY: signals another process; what it does with them is the question.
            unsafe { libc::kill(1, signal) };
        }
    }
    Outcome::Done("signalled".to_owned())
}

fn hurry() -> Outcome {
    const SCHED_FIFO: i64 = 1;
    let parameter = 1_i32;
    let address = std::ptr::from_ref(&parameter) as i64;
    first_success([
        call(libc::SYS_setpriority, &[libc::PRIO_PROCESS.into(), 0, -20]),
        call(libc::SYS_sched_setscheduler, &[0, SCHED_FIFO, address]),
    ])
}

fn never_killed() -> Outcome {
    let paths = ["/proc/self/oom_score_adj", "/proc/1/oom_score_adj", "/proc/self/oom_adj"];
    first_success(paths.map(|path| of_io(fs::write(path, "-1000"), "will never be killed")))
}

/// Nothing beyond the three streams and the directory being read.
fn descriptors() -> Outcome {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let beyond: Vec<i32> = numbers.filter(|number| *number > 3).collect();
    let sockets = (0..3).filter(|number| {
        fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|link| link.to_string_lossy().starts_with("socket"))
    });
    match beyond.len() + sockets.count() {
        0 => Outcome::Refused(libc::EBADF),
        _ => Outcome::Done(format!("inherited {beyond:?}")),
    }
}

/// Leaves parents, group and session behind and waits for ever. The outside looks for it by its command line.
fn stay() -> Outcome {
    linger()
}

/// The same, with nothing in its environment that says where it came from.
fn stay_hidden() -> Outcome {
    let environment: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in environment {
        // SAFETY: this process has one thread.
        unsafe { std::env::remove_var(name) };
    }
    linger()
}

fn linger() -> Outcome {
    let Ok((mut settled, on_settled)) = std::io::pipe() else { return Outcome::Refused(errno()) };
    // SAFETY: this process has one thread; the first child leaves at once, the second waits for ever.
    if unsafe { libc::fork() } != 0 {
        drop(on_settled);
        let mut said = [0];
        return of_io(settled.read_exact(&mut said), "stays");
    }
    // SAFETY: as above; a session of its own, then a process that does not lead it.
    unsafe {
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
    }
    // Who waits for this is gone if it fails.
    (&on_settled).write_all(b"x").ok();
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

fn capabilities() -> Outcome {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).map(str::trim);
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let held: Vec<_> =
        sets.iter().filter(|name| field(name).is_none_or(|set| !set.trim_matches('0').is_empty())).collect();
    match (held.is_empty(), field("NoNewPrivs")) {
        (true, Some("1")) => Outcome::Refused(libc::EPERM),
        (_, privileges) => Outcome::Done(format!("holds {held:?}, no new privileges: {privileges:?}")),
    }
}

fn raise_capabilities() -> Outcome {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let all = [u32::MAX; 6];
    call(libc::SYS_capset, &[std::ptr::from_ref(&header) as i64, all.as_ptr() as i64])
}

fn become_root() -> Outcome {
    first_success([
        call(libc::SYS_setresuid, &[0, 0, 0]),
        call(libc::SYS_setresgid, &[0, 0, 0]),
        call(libc::SYS_setuid, &[0]),
        call(libc::SYS_setgroups, &[0, 0]),
    ])
}

/// Any program of the system that raises its caller must not raise this one.
fn setuid_program() -> Outcome {
    use std::os::unix::fs::MetadataExt;
    let programs = ["/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp"];
    let raises = |path: &&&str| fs::metadata(path).is_ok_and(|file| file.mode() & 0o4000 != 0);
    let status = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let allowed =
        status.lines().filter(|line| line.split(' ').nth(5).is_some_and(|options| !options.contains("nosuid")));
    match (programs.iter().filter(raises).count(), allowed.count()) {
        (_, 0) => Outcome::Refused(libc::EPERM),
        (programs, mounts) => Outcome::Done(format!("{programs} raising programs, {mounts} mounts that let them")),
    }
}

/// A sandbox knows one user. Who is not in a namespace of users knows all of the machine's.
fn users_beyond() -> Outcome {
    let known = |name: &str| {
        let map = fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let counts = map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    match (known("uid_map"), known("gid_map")) {
        (1, 1) => Outcome::Refused(libc::EPERM),
        (users, groups) => Outcome::Done(format!("knows {users} users and {groups} groups")),
    }
}

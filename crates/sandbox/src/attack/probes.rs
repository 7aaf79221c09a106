//! What is tried.

use libc::{
    EACCES, EADDRNOTAVAIL, EAGAIN, EBADF, ECONNREFUSED, EDQUOT, EFBIG, EHOSTUNREACH, EINVAL, ELOOP, EMFILE,
    ENETUNREACH, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, ENXIO, EPERM, EPIPE, EROFS, ESRCH, ETXTBSY, EXDEV,
};

use super::Area::{
    Capabilities, Devices, Files, Floods, Kernel, Links, Mounts, Namespaces, Network, Processes, Secrets,
};
use super::Expect::{Bounded, DiesWithTask, Endless, Errno, NeverLeaks, NextIsTheSame, NoSecret, Says, Signal};
use super::Program::{Act, Call, Read, Shell, Write};
use super::{Area, Expect, Probe, Program};

/// Not there, or not for you.
const HIDDEN: Expect = Errno(&[ENOENT, EACCES, EPERM, ENOTDIR, ELOOP]);
/// It is there, and stays as it is.
const FIXED: Expect = Errno(&[EROFS, EACCES, EPERM, ENOENT, ETXTBSY]);
/// Forbidden by the filter of system calls or for want of a privilege.
const FORBIDDEN: Expect = Errno(&[EPERM]);
/// Nobody there, or no way.
const UNREACHABLE: Expect = Errno(&[ENETUNREACH, ECONNREFUSED, EHOSTUNREACH, EADDRNOTAVAIL, EACCES]);

const fn probe(id: &'static str, threat: &'static str, area: Area, program: Program, expect: Expect) -> Probe {
    Probe { id, threat, area, program, expect }
}

/// The list. Rows that flood come last.
pub(super) const PROBES: &[Probe] = &[
    // Files of the host, of others and of the system.
    probe("read a file of the host", "A34", Files, Read("{canary}"), HIDDEN),
    probe("write a file of the host", "A34", Files, Write("{canary}"), HIDDEN),
    probe("read another's workspace", "A25", Files, Read("{sibling}"), HIDDEN),
    probe("read the machine's passwords", "A34", Files, Read("/etc/shadow"), HIDDEN),
    probe("read root's home", "A34", Files, Read("/root/.bashrc"), HIDDEN),
    probe("read the machine's identity", "A34", Files, Read("/etc/machine-id"), HIDDEN),
    probe("list the system's state", "A34", Files, Read("/var/lib"), HIDDEN),
    probe("list what the kernel shows of hardware", "A34", Files, Read("/sys"), HIDDEN),
    probe("climb out by ..", "A21", Files, Act("climb"), HIDDEN),
    probe("read through /proc/1/root", "A34", Files, Act("proc_root"), HIDDEN),
    probe("list the guest's directories", "A34", Files, Act("guest_directory"), HIDDEN),
    probe("write beside the workspace", "A21", Files, Write("/outside"), FIXED),
    probe("write among the system's programs", "A40", Files, Write("/usr/bin/choir-was-here"), FIXED),
    probe("replace programs and the guest", "A40", Files, Act("replace_program"), FIXED),
    probe("leave something for the next login", "A37", Files, Act("profile"), FIXED),
    probe("set a privileged attribute", "A35", Files, Act("trusted_attribute"), Errno(&[EPERM, libc::EOPNOTSUPP])),
    probe("make a file that raises its user to root", "A35", Files, Act("setuid_file"), Says("done uid 1000")),
    probe("open a file by its handle", "A35", Files, Call(libc::SYS_open_by_handle_at, &[-1, 0, 0]), FORBIDDEN),
    probe("change the root directory", "A35", Files, Call(libc::SYS_chroot, &[0]), FORBIDDEN),
    probe(
        "a repository whose settings run programs",
        "A29",
        Files,
        Act("hostile_git"),
        Says("done a hostile repository"),
    ),
    probe(
        "a repository whose submodules run programs",
        "A31",
        Files,
        Act("hostile_submodules"),
        Says("done hostile submodules"),
    ),
    probe("write rules of its own for the next sandbox", "A33", Files, Act("own_rules"), NextIsTheSame),
    // Links and races.
    probe("read through a link", "A22", Links, Act("symlink_read"), HIDDEN),
    probe("write through a link", "A22", Links, Act("symlink_write"), HIDDEN),
    probe("write beneath a linked directory", "A22", Links, Act("symlink_directory"), HIDDEN),
    probe(
        "make a second name for a file outside",
        "A22",
        Links,
        Act("hard_link"),
        Errno(&[ENOENT, EXDEV, EPERM, EACCES]),
    ),
    probe("move a file out", "A22", Links, Act("rename_out"), Errno(&[ENOENT, EXDEV, EPERM, EACCES])),
    probe("exchange a directory and a link while it is read", "A22", Links, Act("swap_links"), NeverLeaks),
    // Processes.
    probe("signal a process of the host", "A34", Processes, Act("signal_host"), Errno(&[ESRCH])),
    probe("see a process of the host", "A34", Processes, Act("see_host"), Errno(&[ESRCH])),
    probe("read the guest's memory and environment", "A34", Processes, Act("read_guest"), Errno(&[EACCES, EPERM])),
    probe("trace the guest", "A35", Processes, Act("trace_guest"), FORBIDDEN),
    probe("take the guest's descriptors", "A35", Processes, Act("take_descriptor"), FORBIDDEN),
    probe("signal the guest", "A35", Processes, Act("signal_guest"), Says("done signalled")),
    probe("be scheduled before everybody", "A38", Processes, Act("hurry"), Errno(&[EPERM, EACCES])),
    probe("never be killed for memory", "A38", Processes, Act("never_killed"), Errno(&[EROFS, EACCES, EPERM, ENOENT])),
    probe("inherit a descriptor", "A34", Processes, Act("descriptors"), Errno(&[EBADF])),
    probe("compare with the guest in the kernel", "A35", Processes, Call(libc::SYS_kcmp, &[1, 1, 0, 0, 0]), FORBIDDEN),
    probe("stay behind as a daemon", "A37", Processes, Act("stay"), DiesWithTask),
    probe("stay behind without a mark", "A37", Processes, Act("stay_hidden"), DiesWithTask),
    probe(
        "stay behind by the shell",
        "A37",
        Processes,
        Shell("setsid sh -c 'sleep 1000; :' {mark} & echo done"),
        DiesWithTask,
    ),
    probe(
        "end with a forged result",
        "A34",
        Processes,
        Shell("printf '{\"exited\":{\"code\":0}}'; exit 7"),
        Says("exit 7"),
    ),
    // Capabilities.
    probe("hold a privilege", "A35", Capabilities, Act("capabilities"), Errno(&[EPERM])),
    probe("raise privileges", "A35", Capabilities, Act("raise_capabilities"), FORBIDDEN),
    probe("become root", "A35", Capabilities, Act("become_root"), Errno(&[EPERM, EINVAL])),
    probe("find a program that raises its user", "A35", Capabilities, Act("setuid_program"), Errno(&[EPERM])),
    probe("bind a privileged port", "A35", Capabilities, Act("low_port"), Errno(&[EACCES])),
    probe("set the clock", "A35", Capabilities, Call(libc::SYS_clock_settime, &[0, 0]), FORBIDDEN),
    probe("rename the machine", "A35", Capabilities, Call(libc::SYS_sethostname, &[0, 0]), FORBIDDEN),
    probe("know another user of the machine", "A35", Capabilities, Act("users_beyond"), Errno(&[EPERM])),
    // Mounts.
    probe("find a mount of the host", "A34", Mounts, Act("mounts_beyond"), Errno(&[ENOENT])),
    probe("mount something", "A35", Mounts, Act("mount_anything"), FORBIDDEN),
    probe("make a mount writable, or take one away", "A35", Mounts, Act("mount_again"), FORBIDDEN),
    probe("turn the root", "A35", Mounts, Call(libc::SYS_pivot_root, &[0, 0]), FORBIDDEN),
    probe("move a mount", "A35", Mounts, Call(libc::SYS_move_mount, &[-1, 0, -1, 0, 0]), FORBIDDEN),
    // Devices.
    probe("make a device of memory", "A35", Devices, Act("device_node"), Errno(&[EPERM, EACCES])),
    probe("make a device of a disk", "A35", Devices, Act("disk_node"), Errno(&[EPERM, EACCES])),
    probe("make a mark of deletion", "A35", Devices, Act("whiteout_node"), Errno(&[EACCES])),
    probe("find a device beyond the usual", "A34", Devices, Act("devices_beyond"), Errno(&[ENOENT])),
    probe("open the virtual machine's device", "A35", Devices, Read("/dev/kvm"), HIDDEN),
    probe("open the file systems' device", "A35", Devices, Read("/dev/fuse"), HIDDEN),
    // Doors into the kernel.
    probe("change the kernel's settings", "A35", Kernel, Act("settings"), FIXED),
    probe("read the kernel's memory", "A34", Kernel, Act("kernel_memory"), Errno(&[EPERM, EACCES, ENOENT])),
    probe("load a program into the kernel", "A35", Kernel, Call(libc::SYS_bpf, &[0, 0, 0]), FORBIDDEN),
    probe("queue calls past the filter", "A35", Kernel, Call(libc::SYS_io_uring_setup, &[1, 0]), FORBIDDEN),
    probe("use the kernel's keys", "A35", Kernel, Act("keyring"), FORBIDDEN),
    probe(
        "count events of the processor",
        "A35",
        Kernel,
        Call(libc::SYS_perf_event_open, &[0, 0, -1, -1, 0]),
        FORBIDDEN,
    ),
    probe("handle faults of memory", "A35", Kernel, Call(libc::SYS_userfaultfd, &[0]), FORBIDDEN),
    probe("load a module", "A35", Kernel, Call(libc::SYS_finit_module, &[-1, 0, 0]), FORBIDDEN),
    probe("load a module from memory", "A35", Kernel, Call(libc::SYS_init_module, &[0, 0, 0]), FORBIDDEN),
    probe("load another kernel", "A35", Kernel, Call(libc::SYS_kexec_load, &[0, 0, 0, 0]), FORBIDDEN),
    probe("restart the machine", "A35", Kernel, Call(libc::SYS_reboot, &[0, 0, 0, 0]), FORBIDDEN),
    probe("swap", "A35", Kernel, Call(libc::SYS_swapon, &[0, 0]), FORBIDDEN),
    probe("read the kernel's messages", "A34", Kernel, Call(libc::SYS_syslog, &[2, 0, 0]), FORBIDDEN),
    probe("account for processes", "A35", Kernel, Call(libc::SYS_acct, &[0]), FORBIDDEN),
    probe("change quotas", "A35", Kernel, Call(libc::SYS_quotactl, &[0, 0, 0, 0]), FORBIDDEN),
    probe("watch the whole file system", "A35", Kernel, Call(libc::SYS_fanotify_init, &[0, 0]), FORBIDDEN),
    probe("type into a terminal", "A60", Kernel, Act("type_into_terminal"), FORBIDDEN),
    #[cfg(target_arch = "x86_64")]
    probe("speak to the hardware", "A35", Kernel, Call(libc::SYS_iopl, &[3]), FORBIDDEN),
    #[cfg(target_arch = "x86_64")]
    probe("change the processor's tables", "A35", Kernel, Call(libc::SYS_modify_ldt, &[0, 0, 0]), FORBIDDEN),
    #[cfg(target_arch = "x86_64")]
    probe("call by the second numbers", "A35", Kernel, Act("second_numbers"), Errno(&[ENOSYS])),
    probe("call by the old entry", "A35", Kernel, Act("old_entry"), Signal(libc::SIGSYS)),
    probe("learn the machine's name", "A34", Kernel, Act("host_name"), Errno(&[ENOENT])),
    probe("attach to the host's shared memory", "A34", Kernel, Act("shared_memory"), Errno(&[ENOENT, EACCES])),
    probe("see the groups of the host", "A34", Kernel, Act("control_groups"), Errno(&[ENOENT, EACCES])),
    // Namespaces within namespaces.
    probe("a namespace of users", "A35", Namespaces, Call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as i64]), FORBIDDEN),
    probe("a child in a namespace of users", "A35", Namespaces, Act("clone_user"), FORBIDDEN),
    probe("a child in any namespace", "A35", Namespaces, Act("clone_everything"), FORBIDDEN),
    probe("a child by the newer call", "A35", Namespaces, Call(libc::SYS_clone3, &[0, 0]), Errno(&[ENOSYS])),
    probe("enter the guest's namespaces", "A35", Namespaces, Act("enter_namespace"), Errno(&[EPERM, EACCES])),
    probe("how many namespaces may be made", "A35", Namespaces, Act("namespace_limit"), Errno(&[ENOSPC])),
    // The network.
    probe("connect to the host's loopback", "A45", Network, Act("host_loopback"), UNREACHABLE),
    probe("connect to the host's address", "A45", Network, Act("host_address"), UNREACHABLE),
    probe("connect to the metadata service", "A41", Network, Act("metadata"), UNREACHABLE),
    probe("connect to private addresses", "A41", Network, Act("private_addresses"), UNREACHABLE),
    probe("connect by the sixth version", "A45", Network, Act("version_six"), UNREACHABLE),
    probe("ask a name server", "A45", Network, Act("name_service"), UNREACHABLE),
    probe("resolve a name", "A45", Network, Act("names"), Errno(&[ENOENT])),
    probe("send an echo request", "A45", Network, Act("echo_request"), Errno(&[EPERM, EACCES])),
    probe("see another interface or a route", "A45", Network, Act("interfaces"), Errno(&[ENODEV])),
    probe("change the network", "A45", Network, Act("add_route"), FORBIDDEN),
    probe("a socket of packets", "A45", Network, Call(libc::SYS_socket, &[17, 3, 0]), FORBIDDEN),
    probe("a socket to the hypervisor", "A45", Network, Call(libc::SYS_socket, &[40, 1, 0]), FORBIDDEN),
    probe("a socket of the kernel's ciphers", "A35", Network, Call(libc::SYS_socket, &[38, 5, 0]), FORBIDDEN),
    probe("a socket of Bluetooth", "A35", Network, Call(libc::SYS_socket, &[31, 3, 0]), FORBIDDEN),
    probe("a nameless socket of the host", "A34", Network, Act("abstract_socket"), Errno(&[ECONNREFUSED, EPERM])),
    probe("a socket file of the host", "A34", Network, Act("path_socket"), HIDDEN),
    probe("exchange the way out", "A40", Network, Act("unlink_egress"), FIXED),
    probe("connect to the allowed server without asking", "A45", Network, Act("allowed_directly"), UNREACHABLE),
    probe("ask a name server by a stream", "A45", Network, Act("name_service_stream"), UNREACHABLE),
    // Secrets.
    probe("search every file and variable", "A34", Secrets, Act("search_files"), NoSecret),
    probe("search the memory of others", "A34", Secrets, Act("search_memory"), NoSecret),
    // Taking everything, while a neighbour works.
    probe("processes without end", "A38", Floods, Act("fork_bomb"), Bounded),
    probe("threads without end", "A38", Floods, Act("thread_bomb"), Bounded),
    probe("memory of one process", "A38", Floods, Act("memory_at_once"), Bounded),
    probe("memory of many processes", "A38", Floods, Act("memory_in_many"), Bounded),
    probe("memory of files without names", "A38", Floods, Act("memory_in_files"), Bounded),
    probe("memory of segments", "A38", Floods, Act("memory_in_segments"), Bounded),
    probe("memory of sockets", "A38", Floods, Act("memory_in_sockets"), Bounded),
    probe("fill /tmp", "A38", Floods, Act("fill_tmp"), Bounded),
    probe("fill /home", "A38", Floods, Act("fill_home"), Bounded),
    probe("fill /dev/shm", "A38", Floods, Act("fill_shared"), Bounded),
    probe("fill the workspace", "A38", Floods, Act("fill_work"), Bounded),
    probe("fill the workspace with what lost its name", "A38", Floods, Act("fill_work_unlinked"), Bounded),
    probe("unpack a bomb into /tmp", "A28", Floods, Shell(BOMB_TMP), Bounded),
    probe("unpack a bomb into the workspace", "A28", Floods, Shell(BOMB_WORK), Bounded),
    probe("names in /tmp", "A38", Floods, Act("names_tmp"), Bounded),
    probe("names in /home", "A38", Floods, Act("names_home"), Bounded),
    probe("names in the workspace", "A38", Floods, Act("names_work"), Bounded),
    probe("a file beyond every limit", "A38", Floods, Act("sparse"), Bounded),
    probe("descriptors without end", "A38", Floods, Act("descriptors_all"), Bounded),
    probe("terminals without end", "A38", Floods, Act("terminals"), Bounded),
    probe("talk without end", "A38", Floods, Act("talk"), Endless),
    probe("compute without end", "A38", Floods, Act("spin"), Endless),
    probe("directories without end", "A38", Files, Act("deep"), Says("done 3000 directories deep")),
];

/// Packed a thousand times over: 256 MiB in as many KiB, which stay in the workspace for whoever reads it from outside.
macro_rules! bomb {
    ($place:literal) => {
        concat!(
            "head -c 33554432 /dev/zero | gzip -1 > /tmp/one && for n in 1 2 3 4 5 6 7 8; do cat /tmp/one; done > /work/bomb.gz; ",
            "if gzip -dc /work/bomb.gz > ",
            $place,
            "; then sync; sleep 1; echo done; else echo errno 28; fi"
        )
    };
}
const BOMB_TMP: &str = bomb!("/tmp/unpacked");
const BOMB_WORK: &str = bomb!("/work/unpacked");

/// Errors by which a flood may be told that it has had enough.
pub(super) const ENOUGH: &[i32] =
    &[EAGAIN, ENOMEM, ENOSPC, EDQUOT, EMFILE, EFBIG, EPIPE, ENOSYS, EPERM, ENXIO, libc::ENAMETOOLONG, libc::EIO];

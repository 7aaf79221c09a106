//! What a command cannot see or do.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use choir_sandbox::protocol::{Ending, GuestRole};
use choir_sandbox::runtime::{Backend, ExecError, ExecEvent, Identity, Layer, Limit, Runtime, StartError};

use crate::support::{Sandbox, associate, shell, spec, start, start_in, start_watched};

/// A command whose success would be an escape; `control` shows that its tools work at all.
async fn fails(command: &str, control: &str) {
    fails_in(&associate().await, command, control).await;
}

async fn fails_in(sandbox: &Sandbox, command: &str, control: &str) {
    sandbox.stdout(control).await;
    let output = sandbox.run(command).await;
    assert_ne!(output.finished.exit.ending, Ending::Code(0), "{command}: {output:?}");
}

#[tokio::test]
async fn the_hosts_files_are_invisible() {
    for path in ["/root", "/etc/shadow", "/etc/hostname", "/var/lib", "/sys", "/boot", "/opt", "/srv", "/mnt"] {
        fails(&format!("ls {path}"), "ls /").await;
    }
}

#[tokio::test]
async fn the_root_has_nothing_else() {
    let sandbox = associate().await;
    let listed = sandbox.stdout("ls /").await;
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>().join(" "),
        "bin dev etc home lib lib64 proc run sbin tmp usr var work"
    );
}

#[tokio::test]
async fn the_system_cannot_be_written() {
    for path in
        ["/x", "/usr/x", "/etc/x", "/dev/x", "/run/x", "/run/choir/guest", "/var/x", "/proc/sys/kernel/hostname"]
    {
        fails(
            &format!("echo x > {path}"),
            "echo x > /tmp/x && echo x > ~/x && echo x > /work/x && echo x > /dev/shm/x",
        )
        .await;
    }
}

#[tokio::test]
async fn there_is_no_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = listener.local_addr().expect("bound").port();
    let connect =
        |port: u16| format!("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(q(127.0.0.1:{port})) or exit 1'");
    let reachable = std::process::Command::new("/bin/sh").arg("-c").arg(connect(port)).status().expect("runs");
    assert!(reachable.success(), "the control on the host reaches the listener");
    fails(&connect(port), "perl -MIO::Socket::INET -e 'exit 0'").await;
    let sandbox = associate().await;
    assert_eq!(sandbox.stdout("tail -n +3 /proc/net/dev | cut -d: -f1").await.trim(), "lo");
    assert_eq!(sandbox.stdout("tail -n +2 /proc/net/route").await, "");
}

#[tokio::test]
async fn the_environment_is_clean() {
    // The test's own environment holds much more, and its names are the canaries.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    let sandbox = start(|spec| {
        spec.environment.insert("GIVEN".into(), "yes".into());
    })
    .await;
    let names = sandbox.stdout("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(names.trim(), "CHOIR_EFFECT GIVEN HOME LANG LOGNAME PATH PWD SHELL TERM TMPDIR USER");
}

#[tokio::test]
async fn no_capability_is_left() {
    let sandbox = associate().await;
    let sets = sandbox.stdout("grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | cut -f2 | sort -u").await;
    assert_eq!(sets, "0000000000000000\n");
    assert_eq!(sandbox.stdout("grep NoNewPrivs /proc/self/status | cut -f2").await, "1\n");
    assert_eq!(sandbox.stdout("id -u; hostname").await, "1000\nchoir\n");
}

#[tokio::test]
async fn namespaces_cannot_be_nested() {
    fails("unshare --user true", "unshare --version").await;
    fails("unshare --user --map-root-user --mount true", "unshare --version").await;
    fails("mount -t tmpfs none /tmp", "mount --version").await;
}

#[tokio::test]
async fn the_guest_is_out_of_reach() {
    let sandbox = associate().await;
    assert_eq!(sandbox.guest.health().await.expect("answers").pid, 1);
    for path in ["/proc/1/environ", "/proc/1/mem", "/proc/1/maps"] {
        fails(&format!("head -c 1 {path}"), "head -c 1 /proc/self/environ").await;
    }
    fails("readlink /proc/1/fd/2", "readlink /proc/self/fd/2").await;
    // Often, because the guest is most vulnerable in the moment when it starts a process.
    let every_signal = "for signal in $(seq 1 31) $(seq 34 64); do kill -$signal 1; done; true";
    let many: Vec<_> = (0..10).map(|_| every_signal).collect();
    for _ in 0..3 {
        sandbox.stdout(&many.join(" & ")).await;
    }
    sandbox.guest.health().await.expect("answers still");
}

#[tokio::test]
async fn no_descriptor_leaks_into_commands() {
    // A descriptor of the host that its opener forgot to close on exec.
    let _canary = rustix::io::dup(std::io::stderr()).expect("duplicated");
    let sandbox = associate().await;
    assert_eq!(sandbox.stdout("ls -l /proc/self/fd | grep -c socket || true").await, "0\n");
    // The three streams, and the directory that `ls` itself holds open.
    assert_eq!(sandbox.stdout("ls /proc/self/fd | wc -l").await, "4\n");
}

#[tokio::test]
async fn only_its_own_processes_are_seen() {
    let sandbox = associate().await;
    let own = sandbox.stdout("ls /proc | grep -cE '^[0-9]+$'").await;
    assert!(own.trim().parse::<u32>().expect("a number") < 6, "{own}");
}

/// An associate of another user, who could not walk to its workspace.
async fn try_associate_of(identity: Identity) -> Result<Sandbox, StartError> {
    let private = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(private.path(), PermissionsExt::from_mode(0o700)).expect("closed");
    let workspace = private.path().join("work");
    std::fs::create_dir(&workspace).expect("made");
    let mut spec = spec(GuestRole::Associate, &workspace);
    spec.identity = identity;
    spec.limits.guest.processes = 100;
    if let (Identity::User { uid, gid }, true) = (identity, rustix::process::geteuid().is_root()) {
        std::os::unix::fs::chown(&workspace, Some(uid), Some(gid)).expect("given");
    }
    let guest = Runtime::process().expect("a runtime").start(spec).await?;
    Ok(Sandbox { guest, workspace: private })
}

async fn associate_of(identity: Identity) -> Sandbox {
    try_associate_of(identity).await.expect("starts")
}

#[tokio::test]
async fn root_starts_sandboxes_of_other_users_and_nobody_else_does() {
    let started = try_associate_of(Identity::User { uid: 61_234, gid: 61_234 }).await;
    if !rustix::process::geteuid().is_root() {
        assert!(matches!(started.map(drop), Err(StartError::Refused(_))));
        return;
    }
    let sandbox = started.expect("starts");
    sandbox.stdout("echo mine > /work/file").await;
    let made = std::fs::metadata(sandbox.host("work/file")).expect("made");
    assert_eq!((made.uid(), made.gid()), (61_234, 61_234));
    assert!(sandbox.guest.layers().has(Layer::UnprivilegedUser));
}

#[tokio::test]
async fn memory_directories_are_bounded() {
    let sandbox = start(|spec| {
        spec.limits.tmp_bytes = 1 << 20;
        spec.limits.home_bytes = 1 << 20;
        spec.limits.shared_memory_bytes = 1 << 20;
    })
    .await;
    for path in ["/tmp/x", "/home/choir/x", "/dev/shm/x"] {
        sandbox.stdout(&format!("head -c 500000 /dev/zero > {path}")).await;
        let output = sandbox.run(&format!("head -c 2000000 /dev/zero > {path}")).await;
        assert_ne!(output.finished.exit.ending, Ending::Code(0), "{path}");
    }
}

#[tokio::test]
async fn a_spec_that_names_nothing_real_is_refused() {
    let runtime = Runtime::process().expect("a runtime");
    let nowhere = std::path::Path::new("/no/such/workspace");
    let refused = runtime.start(spec(GuestRole::Associate, nowhere)).await;
    assert!(matches!(refused, Err(StartError::Spec(_))), "{refused:?}");
    let workspace = tempfile::tempdir().expect("a directory");
    let mut other = spec(GuestRole::Associate, workspace.path());
    other.guest_program = "/bin/true".into();
    let refused = runtime.start(other).await;
    assert!(matches!(refused, Err(StartError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn every_wall_is_there_and_reported() {
    let sandbox = associate().await;
    let layers = sandbox.guest.layers();
    for layer in [Layer::UserNamespace, Layer::NetworkNamespace, Layer::NoCapabilities, Layer::Seccomp, Layer::Landlock]
    {
        assert!(layers.has(layer), "{layer}");
    }
    assert_eq!(layers.has(Layer::UnprivilegedUser), !rustix::process::geteuid().is_root());
    assert_eq!(sandbox.stdout("grep ^Seccomp: /proc/self/status | cut -f2").await, "2\n");
}

/// System calls by their numbers on this processor, with an argument that the kernel would otherwise refuse in another
/// way: the filter's answer is "not permitted" whatever the arguments are.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn dangerous_system_calls_are_not_permitted() {
    let sandbox = associate().await;
    let errno = async |call: &str| {
        let program = format!("perl -e 'syscall({call}); print $!+0'");
        sandbox.stdout(&program).await
    };
    assert_eq!(errno("39").await, "0", "the control: a harmless call passes");
    let calls = [
        ("bpf", "321, 0, 0, 0"),
        ("keyctl", "250, 0, 0, 0, 0, 0"),
        ("add_key", "248, 0, 0, 0, 0, 0"),
        ("io_uring_setup", "425, 1, 0"),
        ("perf_event_open", "298, 0, 0, 0, 0, 0"),
        ("userfaultfd", "323, 0"),
        ("ptrace", "101, 0, 0, 0, 0"),
        ("process_vm_readv", "310, 1, 0, 0, 0, 0, 0"),
        ("unshare", "272, 0"),
        ("setns", "308, 0, 0"),
        ("mount", "165, 0, 0, 0, 0, 0"),
        ("open_tree", "428, -100, 0, 1"),
        ("fsopen", "430, 0, 0"),
        ("open_by_handle_at", "304, 0, 0, 0"),
        ("finit_module", "313, 0, 0, 0"),
        ("kexec_load", "246, 0, 0, 0, 0"),
        ("clone for a user namespace", "56, 0x10000000 | 17, 0, 0, 0, 0"),
        ("socket of packets", "41, 17, 3, 0"),
        ("socket to a hypervisor", "41, 40, 1, 0"),
        ("socket of crypto", "41, 38, 5, 0"),
        ("typing into a terminal", "16, 0, 0x5412, 0"),
        ("the same with high bits", "16, 0, 0x100005412, 0"),
    ];
    for (name, call) in calls {
        assert_eq!(errno(call).await, "1", "{name}");
    }
    assert_eq!(errno("435, 0, 0").await, "38", "clone3 is unknown");
    assert_eq!(errno("0x40000000 + 39").await, "38", "the second numbering is unknown");
}

#[tokio::test]
async fn limits_are_in_force() {
    let sandbox = start(|spec| {
        spec.limits.guest.open_files = 100;
        spec.limits.guest.file_bytes = 1 << 20;
        spec.limits.guest.address_space_bytes = Some(1 << 30);
    })
    .await;
    assert_eq!(sandbox.stdout("ulimit -n; ulimit -c").await, "100\n0\n");
    fails_in(&sandbox, "head -c 2000000 /dev/zero > big", "head -c 1000000 /dev/zero > small").await;
    fails_in(&sandbox, "truncate -s 1T sparse", "truncate -s 1M sparse").await;
    fails_in(&sandbox, "perl -e '$x = \"x\" x 2000000000'", "perl -e '$x = \"x\" x 2000000'").await;
    fails_in(&sandbox, "ulimit -n 101", "ulimit -n 50").await;
}

#[tokio::test]
async fn a_sandbox_that_takes_too_much_memory_is_ended_and_its_neighbour_is_not() {
    let greedy = start_watched(|spec| spec.limits.memory_bytes = 100 << 20).await;
    let neighbour = start_watched(|spec| spec.limits.memory_bytes = 100 << 20).await;
    // In two processes, neither of which is too large alone.
    let hold = |megabytes: u32| format!("perl -e '$| = 1; $x = q(x) x {}; print q(ok); sleep 1000'", megabytes << 20);
    let mut modest = neighbour.guest.exec(shell(&hold(30))).await.expect("is sent");
    assert!(matches!(modest.next().await, Ok(ExecEvent::Stdout(_))));
    let lost = greedy.guest.exec(shell(&format!("{} & {}", hold(60), hold(60)))).await.expect("is sent");
    assert!(matches!(lost.collect(100).await, Err(ExecError::Exceeded(Limit::Memory))));
    assert_eq!(greedy.guest.exceeded(), Some(Limit::Memory));
    neighbour.guest.health().await.expect("answers");
    assert_eq!(neighbour.guest.exceeded(), None);
}

/// Held from outside, every socket counts as if it were full, so none may grow.
#[tokio::test]
async fn sockets_have_no_more_room_than_they_are_counted_with() {
    let grown = "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die; \
        sub room { unpack q(I), getsockopt($a, SOL_SOCKET, SO_SNDBUF) } my $before = room; \
        setsockopt($a, SOL_SOCKET, SO_SNDBUF, pack(q(I), $before)) or die; print room() / $before'";
    let watched = start_watched(|_| {}).await;
    assert_eq!(watched.stdout(grown).await, "1");
    if Runtime::process().expect("a runtime").backend() != Backend::Watchdog {
        assert_eq!(associate().await.stdout(grown).await, "2", "the control: the kernel doubles what is wished for");
    }
}

/// Where the kernel counts, it ends the greedy process alone, and the limit still has its name.
#[tokio::test]
async fn the_kernel_ends_what_takes_too_much_memory_where_it_counts() {
    let Ok(runtime) = Runtime::process_held_by(Backend::CgroupV1) else {
        assert_ne!(Runtime::process().expect("a runtime").backend(), Backend::CgroupV1);
        return;
    };
    let greedy = start_in(&runtime, |spec| spec.limits.memory_bytes = 100 << 20).await;
    assert_eq!(greedy.guest.backend(), Backend::CgroupV1);
    let output = greedy.run("perl -e '$x = q(x) x 300000000'").await;
    assert!(matches!(output.finished.exit.ending, Ending::Signal(9) | Ending::Code(137)), "{output:?}");
    assert_eq!(output.finished.limit, Some(Limit::Memory));
    let hidden = greedy.run("perl -e '$x = q(x) x 300000000' | cat").await;
    assert_eq!(hidden.finished.limit, Some(Limit::Memory), "whatever the shell makes of it: {hidden:?}");
    let other = greedy.run("kill -9 $$").await;
    assert_eq!(other.finished.limit, None, "who was killed otherwise was killed otherwise: {other:?}");
    assert_eq!(greedy.guest.exceeded(), Some(Limit::Memory));
    assert_eq!(greedy.stdout("echo well").await, "well\n");
}

/// Memory that belongs to no process is not given back by ending one, so the kernel ends the guest too: its limit is still
/// known when everything is gone.
#[tokio::test]
async fn the_limit_of_a_sandbox_that_is_gone_is_remembered() {
    let Ok(runtime) = Runtime::process_held_by(Backend::CgroupV1) else {
        assert_ne!(Runtime::process().expect("a runtime").backend(), Backend::CgroupV1);
        return;
    };
    for _ in 0..5 {
        let greedy = start_in(&runtime, |spec| spec.limits.memory_bytes = 100 << 20).await;
        let output = greedy.run("perl -e '$x = q(x) x 300000000'").await;
        assert_eq!(output.finished.limit, Some(Limit::Memory), "{output:?}");
        greedy.guest.terminate().await;
        assert_eq!(greedy.guest.exceeded(), Some(Limit::Memory));
    }
}

/// Where memory is added up from outside, addresses have an end too, and one that no program meets.
#[tokio::test]
async fn addresses_have_an_end_where_memory_is_added_up_from_outside() {
    let watched = start_watched(|spec| spec.limits.memory_bytes = 1 << 30).await;
    assert_eq!(watched.stdout("ulimit -v").await, format!("{}\n", (1_u64 << 20) + (64 << 30)), "in KiB");
    if Runtime::process().expect("a runtime").backend() != Backend::Watchdog {
        assert_eq!(associate().await.stdout("ulimit -v").await, "unlimited\n");
    }
}

/// Forks until it gets no more, and ends at once: nobody needs to have looked meanwhile.
const CROWD: &str = "perl -e 'for (1..200) { my $p = fork; exit STATUS if !defined $p; if (!$p) { sleep 100; exit } }'";

/// As many processes as there may be, and one more; whoever does with fewer has nothing to complain of.
#[tokio::test]
async fn processes_and_files_beyond_their_limits_are_named() {
    let sandbox = start(|spec| {
        spec.limits.guest.processes = 40;
        spec.limits.guest.file_bytes = 1 << 20;
    })
    .await;
    let limit = async |command: &str| sandbox.run(command).await.finished.limit;
    assert_eq!(limit(&CROWD.replace("STATUS", "1")).await, Some(Limit::Processes));
    assert_eq!(limit(&CROWD.replace("STATUS", "0")).await, None);
    if Runtime::process().expect("a runtime").backend() != Backend::Watchdog {
        // The kernel counts what it refuses, also to who leaves nobody to be looked at.
        let fleeting = "perl -e 'for (1..200) { my $p = fork; if (!defined $p) { kill 9, @p; exit 1 } \
            if (!$p) { sleep 100; exit } push @p, $p }'";
        assert_eq!(limit(fleeting).await, Some(Limit::Processes));
    }
    assert_eq!(limit("head -c 2000000 /dev/zero > big").await, Some(Limit::FileBytes));
    assert_eq!(limit("head -c 2000000 /dev/zero > big; exit $?").await, Some(Limit::FileBytes));
    assert_eq!(limit("false").await, None);
}

/// Where the kernel does not count what it refuses, who was refused is known by those that are left.
#[tokio::test]
async fn a_fork_bomb_is_named_also_where_nothing_counts_what_is_refused() {
    for _ in 0..5 {
        let sandbox = start_watched(|spec| {
            spec.limits.guest.processes = 64;
            // The kernel refuses its root nothing.
            if rustix::process::geteuid().is_root() {
                spec.identity = Identity::User { uid: 61_233, gid: 61_233 };
            }
        })
        .await;
        let limit = async |command: &str| sandbox.run(command).await.finished.limit;
        assert_eq!(limit("perl -e 'fork; fork; sleep 1000 if fork == 0; exit 1'").await, None, "a few are no bomb");
        assert_eq!(limit(&CROWD.replace("STATUS", "11")).await, Some(Limit::Processes));
        assert_eq!(limit("exit 1").await, None, "nor is who comes after one");
    }
}

#[tokio::test]
async fn a_sandbox_that_writes_too_much_is_ended_for_it() {
    for (command, limit) in [
        ("head -c 30000000 /dev/zero > big; exec sleep 1000", Limit::WorkspaceBytes),
        ("exec 3> gone; rm gone; head -c 30000000 /dev/zero >&3; exec sleep 1000", Limit::WorkspaceBytes),
        ("seq 1 300 | xargs touch; exec sleep 1000", Limit::WorkspaceNames),
    ] {
        let greedy = start(|spec| (spec.limits.workspace_bytes, spec.limits.workspace_names) = (10 << 20, 100)).await;
        let lost = greedy.guest.exec(shell(command)).await.expect("is sent");
        assert!(matches!(lost.collect(100).await, Err(ExecError::Exceeded(reached)) if reached == limit));
    }
}

#[tokio::test]
async fn a_guest_that_lacks_a_wall_is_not_handed_over() {
    for wall in [Layer::NetworkNamespace, Layer::UtsNamespace, Layer::IpcNamespace, Layer::CgroupNamespace] {
        assert_eq!(refused_without(&[wall]).await, [wall]);
    }
    assert_eq!(refused_without(&[Layer::Landlock]).await, [Layer::Landlock]);
    assert_eq!(refused_without(&[Layer::Seccomp]).await, [Layer::Seccomp]);
    assert_eq!(refused_without(&[Layer::NoCapabilities]).await, [Layer::NoCapabilities]);
    assert_eq!(refused_without(&[Layer::ProcessNamespace]).await, [Layer::ProcessNamespace]);
}

async fn refused_without(walls: &[Layer]) -> Vec<Layer> {
    let workspace = tempfile::tempdir().expect("a directory");
    let mut spec = spec(GuestRole::Associate, workspace.path());
    spec.sabotage.without = walls.to_vec();
    match Runtime::process().expect("a runtime").start(spec).await {
        Err(StartError::Layers(missing)) => missing,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ended() {
    if !rustix::process::geteuid().is_root() {
        return bomb(associate_of(Identity::Inherit).await).await;
    }
    bomb(associate_of(Identity::User { uid: 61_235, gid: 61_235 }).await).await;
}

async fn bomb(sandbox: Sandbox) {
    let many = |count: u32| format!("for i in $(seq {count}); do sleep 1000 & done");
    fails_in(&sandbox, &many(200), &many(20)).await;
    let mut exec = shell("bomb() { bomb & bomb & wait; }; bomb 2>/dev/null");
    exec.timeout_ms = 1000;
    let output = sandbox.guest.exec(exec).await.expect("is sent").collect(1000).await.expect("ends");
    assert!(matches!(output.finished.exit.ending, Ending::TimedOut | Ending::Code(_)), "{output:?}");
    sandbox.guest.shutdown().await;
}

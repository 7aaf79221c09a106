//! Positive controls: with a wall taken away, its probe must be noticed. A suite that notices nothing proves nothing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::suite::{AttackError, Options, Suite, Verdict};
use super::{Probe, probes};
use crate::protocol::GuestRole;
use crate::runtime::{Access, Backend, Identity, Layer, Mount, Spec, Workspace};

/// One wall, and the probe that must get past where it stood.
#[derive(Clone, Copy)]
pub struct Control {
    /// What is taken away.
    pub wall: &'static str,
    /// The probe's name.
    pub probe: &'static str,
    /// Takes it away.
    weaken: fn(&mut Spec),
    /// Where it can be taken away at all.
    applies: fn(&Options) -> bool,
}

/// Whether a missing wall was noticed.
#[derive(Clone)]
pub struct ControlRow {
    /// Which.
    pub control: Control,
    /// What the judge said; an escape is what is wanted.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

impl ControlRow {
    /// Whether the missing wall was noticed.
    pub fn is_noticed(&self) -> bool {
        matches!(self.verdict, Verdict::Escaped(_))
    }
}

const fn control(wall: &'static str, probe: &'static str, weaken: fn(&mut Spec)) -> Control {
    Control { wall, probe, weaken, applies: |_| true }
}

/// The list.
pub const CONTROLS: &[Control] = &[
    control("filter of system calls", "queue calls past the filter", |spec| without(spec, Layer::Seccomp)),
    control("filter of system calls", "use the kernel's keys", |spec| without(spec, Layer::Seccomp)),
    Control {
        // Held from outside, the filter that refuses files without names knows this door too.
        applies: |options| options.backend != Backend::Watchdog,
        ..control("filter of system calls", "call by the old entry", |spec| without(spec, Layer::Seccomp))
    },
    control("filter of system calls", "memory of segments", |spec| {
        without(spec, Layer::Seccomp);
        spec.limits.memory_bytes = PLENTY;
    }),
    control("second restriction of files", "make a mark of deletion", |spec| without(spec, Layer::Landlock)),
    control("namespace of the network", "connect to the host's loopback", |spec| {
        without(spec, Layer::NetworkNamespace)
    }),
    control("namespace of the network", "a nameless socket of the host", |spec| {
        without(spec, Layer::NetworkNamespace);
        without(spec, Layer::Landlock);
    }),
    control("namespace of the network", "see another interface or a route", |spec| {
        without(spec, Layer::NetworkNamespace);
    }),
    control("namespace of the network", "connect to the allowed server without asking", |spec| {
        without(spec, Layer::NetworkNamespace);
    }),
    control("grammar of the way out", "CONNECT 127.1:{allowed}", careless_way_out),
    control("grammar of the way out", "CONNECT 2130706433:{allowed}", careless_way_out),
    control("grammar of the way out", "CONNECT 0x7f.0.0.1:{allowed}", careless_way_out),
    control("grammar of the way out", "CONNECT [::ffff:127.0.0.1]:{allowed}", careless_way_out),
    control("grammar of the way out", "CONNECT example.org:443@127.0.0.1:{allowed}", careless_way_out),
    control("policy of the way out", "CONNECT localhost:{allowed}", careless_way_out),
    control("policy of the way out", "CONNECT 127.0.0.1:{port}", careless_way_out),
    control("policy of the way out", "plain http to a server of the host", careless_way_out),
    control("grammar of the way out", "plain http with a user in the address", careless_way_out),
    control("grammar of the way out", "plain http to one host in the name of another", careless_way_out),
    control(
        "policy that no file of a workspace makes",
        "write rules of its own for the next sandbox",
        careless_way_out,
    ),
    control("walls that no file of a workspace takes away", "write rules of its own for the next sandbox", |spec| {
        without(spec, Layer::NoCapabilities);
    }),
    Control {
        // An ordinary user has no other namespace without it.
        applies: |options| matches!(options.identity, Identity::User { .. }),
        ..control("namespace of users", "know another user of the machine", |spec| without(spec, Layer::UserNamespace))
    },
    control("namespace of mounts", "find a mount of the host", |spec| without(spec, Layer::MountNamespace)),
    control("guest that cannot be looked into", "read the guest's memory and environment", |spec| {
        spec.sabotage.dumpable = true;
        without(spec, Layer::Landlock);
    }),
    control("namespace of processes", "signal a process of the host", |spec| without(spec, Layer::ProcessNamespace)),
    control("namespace of processes", "see a process of the host", |spec| without(spec, Layer::ProcessNamespace)),
    control("namespace of shared memory", "attach to the host's shared memory", |spec| {
        without(spec, Layer::IpcNamespace)
    }),
    control("namespace of names", "learn the machine's name", |spec| without(spec, Layer::UtsNamespace)),
    Control {
        applies: |options| options.backend != Backend::Watchdog,
        ..control("namespace of groups", "see the groups of the host", |spec| without(spec, Layer::CgroupNamespace))
    },
    control("empty set of capabilities", "hold a privilege", |spec| without(spec, Layer::NoCapabilities)),
    control("empty set of capabilities", "bind a privileged port", |spec| without(spec, Layer::NoCapabilities)),
    Control {
        // Filters and the second restriction of files forbid new privileges by themselves, the filter included by which an
        // outside holds.
        applies: |options| options.backend != Backend::Watchdog,
        ..control("no new privileges", "hold a privilege", |spec| {
            [Layer::NoNewPrivileges, Layer::Seccomp, Layer::Landlock].into_iter().for_each(|wall| without(spec, wall));
        })
    },
    control("paths beneath the workspace", "exchange a directory and a link while it is read", |spec| {
        spec.sabotage.loose_paths = true;
    }),
    control("limit on namespaces", "how many namespaces may be made", |spec| without(spec, Layer::NoCapabilities)),
    control("repository that nobody obeys", "a repository whose settings run programs", |spec| {
        spec.sabotage.trust = Some("cd /work/repo && git status");
    }),
    control("submodules that nobody enters", "a repository whose submodules run programs", |spec| {
        spec.sabotage.trust = Some("cd /work/modules && git submodule update --recursive own");
    }),
    control("ways that fetch nothing by a program", "a repository whose submodules run programs", |spec| {
        spec.sabotage.trust = Some("cd /work/modules && GIT_ALLOW_PROTOCOL=ext git submodule update --init ext");
    }),
    control("shim that tells the truth", "end with a forged result", |spec| {
        spec.sabotage.liar = Some(GuestRole::Shim);
    }),
    control("root of its own", "read a file of the host", |spec| show(spec, "PROBE_CANARY")),
    control("root of its own", "write a file of the host", |spec| show(spec, "PROBE_CANARY")),
    control("root of its own", "read through a link", |spec| show(spec, "PROBE_CANARY")),
    control("root of its own", "a socket file of the host", |spec| {
        show(spec, "PROBE_CANARY");
        without(spec, Layer::Landlock);
    }),
    control("root of its own", "search every file and variable", |spec| {
        if let Some(secret) = spec.environment.get("PROBE_CANARY").map(PathBuf::from) {
            spec.mounts.push(Mount { host: secret, inside: "/run/secret".into(), access: Access::Read });
        }
    }),
    Control {
        applies: |options| matches!(options.identity, Identity::User { .. }),
        ..control("user below root", "make a file that raises its user to root", |spec| {
            spec.identity = Identity::Inherit;
            // Root of a namespace may not walk to another user's layer.
            if let Some(live) = spec.guest_program.parent().map(|directory| directory.join("live")) {
                spec.workspace = Workspace::Directory { path: live, access: Access::Write };
            }
        })
    },
    control("limit on processes", "processes without end", |spec| {
        spec.limits.guest.processes = 20_000;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("limit on memory", "memory of one process", |spec| spec.limits.memory_bytes = PLENTY),
    Control {
        applies: |options| options.backend != Backend::Watchdog,
        ..control("limit on memory", "memory of files without names", |spec| spec.limits.memory_bytes = PLENTY)
    },
    control("limit on memory", "memory of sockets", |spec| spec.limits.memory_bytes = PLENTY),
    control("size of /tmp", "fill /tmp", |spec| (spec.limits.tmp_bytes, spec.limits.memory_bytes) = (PLENTY, PLENTY)),
    control("size of /tmp", "unpack a bomb into /tmp", |spec| {
        (spec.limits.tmp_bytes, spec.limits.memory_bytes) = (PLENTY, PLENTY);
        spec.limits.guest.file_bytes = PLENTY;
    }),
    control("quota of the workspace", "unpack a bomb into the workspace", |spec| {
        (spec.limits.workspace_bytes, spec.limits.memory_bytes) = (PLENTY, PLENTY);
        spec.limits.guest.file_bytes = PLENTY;
    }),
    control("names in /tmp", "names in /tmp", |spec| {
        spec.limits.memory_names = PLENTY;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("quota of the workspace", "fill the workspace", |spec| {
        spec.limits.workspace_bytes = PLENTY;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("quota of the workspace", "fill the workspace with what lost its name", |spec| {
        spec.limits.workspace_bytes = PLENTY;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("quota of the workspace", "names in the workspace", |spec| {
        spec.limits.workspace_names = PLENTY;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("limit on descriptors", "descriptors without end", |spec| {
        spec.limits.guest.open_files = 8_192;
        spec.limits.memory_bytes = PLENTY;
    }),
    control("size of a file", "a file beyond every limit", |spec| spec.limits.guest.file_bytes = 1 << 50),
];

/// More than any probe takes.
const PLENTY: u64 = 1 << 40;

fn without(spec: &mut Spec, wall: Layer) {
    spec.sabotage.without.push(wall);
    spec.sabotage.unseen = true;
}

fn careless_way_out(spec: &mut Spec) {
    spec.egress = spec.egress.take().map(|socket| socket.with_file_name("careless"));
}

/// Shows the directory of something planted, at its own place.
fn show(spec: &mut Spec, name: &str) {
    let planted = spec.environment.get(name).map(PathBuf::from);
    if let Some(directory) = planted.as_ref().and_then(|path| path.parent()) {
        spec.mounts.push(Mount { host: directory.into(), inside: directory.into(), access: Access::Write });
    }
}

/// Takes away one wall after another, for the chosen probes. The guest's program must be one that can be told to leave
/// its own walls out.
pub async fn run_controls(
    options: &Options,
    choose: impl Fn(&Probe) -> bool,
    mut tell: impl FnMut(&ControlRow),
) -> Result<Vec<ControlRow>, AttackError> {
    let mut rows = Vec::new();
    let mut suite = Suite::prepare(options).await?;
    for control in CONTROLS.iter().filter(|control| (control.applies)(options)) {
        let probe = probes().find(|probe| probe.id == control.probe);
        if !probe.is_none_or(&choose) {
            continue;
        }
        let began = Instant::now();
        let verdict = match probe {
            Some(probe) => suite.judge_with(probe, control.weaken).await?,
            None => Verdict::Skipped("there is no such probe".to_owned()),
        };
        let row = ControlRow { control: *control, verdict, took: began.elapsed() };
        tell(&row);
        rows.push(row);
    }
    suite.end().await;
    Ok(rows)
}

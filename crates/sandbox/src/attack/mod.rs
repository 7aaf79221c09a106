//! The attack suite: programs that try to leave a sandbox, and what must become of each.
//!
//! [`probes`] is data: what is tried, which row of the threat model it stands for, and the property that must hold. The
//! list knows nothing of how a sandbox is made, so it runs unchanged against every runtime. [`inside`] is the probes'
//! own program, brought along into the workspace as an attacker would; [`run`] is the outside, which plants canaries,
//! starts a real associate on a real task's overlay, and judges by what it can see itself.
//!
//! Each wall has a positive control: the same probe with that wall taken away must be noticed. Deliberately absent from
//! what ships: this module is behind a feature that only tests turn on.

mod canary;
mod controls;
pub mod director;
mod egress;
pub mod inside;
pub(crate) mod liar;
mod next;
mod probes;
mod suite;
mod way_out;

pub use controls::{CONTROLS, Control, ControlRow, run_controls};
pub use suite::{AttackError, Options, Row, Verdict, run};
pub use way_out::{WayOut, refusing};

/// Everything that is tried. What floods comes last.
pub fn probes() -> impl Iterator<Item = &'static Probe> {
    egress::PROBES.iter().chain(probes::PROBES)
}

/// What a probe is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Files of the host, of others and of the system.
    Files,
    /// Links, and races with whoever reads the workspace from outside.
    Links,
    /// Other processes, and leaving some behind.
    Processes,
    /// Privileges.
    Capabilities,
    /// Changing what is mounted.
    Mounts,
    /// Devices.
    Devices,
    /// Doors into the kernel.
    Kernel,
    /// Namespaces within namespaces.
    Namespaces,
    /// Sockets of every kind, and the network.
    Network,
    /// The one way out.
    Egress,
    /// Secrets of the host.
    Secrets,
    /// Taking everything, while a neighbour works.
    Floods,
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Its name.
    pub id: &'static str,
    /// The row of the threat model that it is an example of.
    pub threat: &'static str,
    /// What it is about.
    pub area: Area,
    /// What is done.
    pub program: Program,
    /// What must become of it.
    pub expect: Expect,
}

/// What a probe does, inside.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// Makes one system call.
    Call(libc::c_long, &'static [i64]),
    /// Opens a path for reading; `{canary}` and the like stand for what the outside has planted.
    Read(&'static str),
    /// Opens a path for writing.
    Write(&'static str),
    /// One of the acts of [`inside`].
    Act(&'static str),
    /// A text for `/bin/sh`.
    Shell(&'static str),
    /// Asks the way out by this line.
    Ask(&'static str),
    /// Says all of this to the way out; the last answer counts.
    Send(&'static str),
}

/// The property that must hold. Beyond it, after every probe, the canaries outside must be untouched.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// It is refused with one of these errors.
    Errno(&'static [i32]),
    /// Its last line is this.
    Says(&'static str),
    /// It scanned a number of bytes above none and found no secret in them.
    NoSecret,
    /// The way out turns it away.
    Turned,
    /// The kernel ends it with this signal.
    Signal(i32),
    /// It is told that it has had enough, or the sandbox is ended for a named limit. Meanwhile a neighbour works.
    Bounded,
    /// It goes on until its time is up, and then is gone. Meanwhile a neighbour works.
    Endless,
    /// What it leaves behind is gone when the task is.
    DiesWithTask,
    /// What it leaves in the workspace changes nothing for the next sandbox over it: the same walls, the same way out.
    NextIsTheSame,
    /// Whoever reads the workspace from outside meanwhile never gets a byte of what lies elsewhere.
    NeverLeaks,
}

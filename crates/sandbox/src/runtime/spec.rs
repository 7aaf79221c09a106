//! What a sandbox is made of.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::protocol::GuestRole;
use crate::record::Record;

/// Everything that a sandbox is made of. Nothing of the host's environment enters but what is named here.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What the guest is for.
    pub role: GuestRole,
    /// The program that serves as guest, called with `guest --fd N --role ROLE`.
    pub guest_program: PathBuf,
    /// The workspace, found inside at [`crate::guest::WORK_DIRECTORY`].
    pub workspace: PathBuf,
    /// Whether the workspace may be changed.
    pub workspace_access: Access,
    /// Further parts of the host, such as one socket or a toolchain.
    pub mounts: Vec<Mount>,
    /// Variables beyond the fixed set.
    pub environment: BTreeMap<String, String>,
    /// Whom the sandbox's processes are to the host.
    pub identity: Identity,
    /// What it may use.
    pub limits: Limits,
    /// Where starts and ends of commands are recorded.
    pub record: Option<Record>,
    /// Where the complete output of each command is kept, as `EFFECT.log`.
    pub output_directory: Option<PathBuf>,
}

impl Spec {
    /// A sandbox with a workspace that may be changed, and nothing else.
    pub fn new(role: GuestRole, guest_program: impl Into<PathBuf>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            role,
            guest_program: guest_program.into(),
            workspace: workspace.into(),
            workspace_access: Access::Write,
            mounts: Vec::new(),
            environment: BTreeMap::new(),
            identity: Identity::Inherit,
            limits: Limits::default(),
            record: None,
            output_directory: None,
        }
    }
}

/// A part of the host that is visible inside.
#[derive(Debug, Clone)]
pub struct Mount {
    /// On the host.
    pub host: PathBuf,
    /// Inside; an absolute path.
    pub inside: PathBuf,
    /// Whether it may be changed.
    pub access: Access,
}

/// Whether something may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may only be read.
    Read,
    /// It may be changed.
    Write,
}

/// Whom the sandbox's processes are to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The user who started the runtime.
    Inherit,
    /// Another, unprivileged user; only root may choose one. That user must be able to walk to the guest's program, the
    /// workspace and the mounts, and should own the workspace.
    User {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Size of `/tmp` in bytes; it is memory.
    pub tmp_bytes: u64,
    /// Size of `/home` in bytes; it is memory.
    pub home_bytes: u64,
    /// Size of `/dev/shm` in bytes; it is memory.
    pub shared_memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tmp_bytes: 512 << 20, home_bytes: 512 << 20, shared_memory_bytes: 64 << 20 }
    }
}

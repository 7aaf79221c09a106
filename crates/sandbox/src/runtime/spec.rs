//! What a sandbox is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::layers::Layer;
use crate::protocol::{EffectId, GuestLimits, GuestRole};
use crate::record::Record;
use crate::tree::TreeId;

/// Everything that a sandbox is made of. Nothing of the host's environment enters but what is named here.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What the guest is for.
    pub role: GuestRole,
    /// The program that serves as guest, called with `guest --fd N --role ROLE`.
    pub guest_program: PathBuf,
    /// The workspace, found inside at [`crate::guest::WORK_DIRECTORY`].
    pub workspace: Workspace,
    /// A keeper's store, found inside at [`crate::guest::STORE_DIRECTORY`].
    pub store: Option<PathBuf>,
    /// Further parts of the host, such as one socket or a toolchain.
    pub mounts: Vec<Mount>,
    /// Variables beyond the fixed set.
    pub environment: BTreeMap<String, String>,
    /// The socket of a proxy that decides what may be reached; without one there is no way out. Programs inside find it
    /// through the usual proxy variables.
    pub egress: Option<PathBuf>,
    /// Whom the sandbox's processes are to the host.
    pub identity: Identity,
    /// What it may use.
    pub limits: Limits,
    /// Where starts and ends of commands are recorded.
    pub record: Option<Record>,
    /// Where output waits for a caller that takes it slowly; without it such a caller misses some.
    pub spool_directory: Option<PathBuf>,
    /// Walls to leave out, for the controls of the attack suite.
    #[cfg(feature = "attack")]
    pub sabotage: Sabotage,
}

/// Walls that are left out, so that it is seen whether anybody notices.
#[cfg(feature = "attack")]
#[derive(Debug, Clone, Default)]
pub struct Sabotage {
    /// These are not built.
    pub without: Vec<Layer>,
    /// The guest is handed over although they are missing.
    pub unseen: bool,
    /// Paths are followed wherever they lead.
    pub loose_paths: bool,
    /// The guest may be looked into by whom it starts.
    pub dumpable: bool,
    /// Whoever has this role says of everything that it ended well.
    pub liar: Option<GuestRole>,
    /// What whoever trusts the repository that a task left would do in it, as a text for `/bin/sh`.
    pub trust: Option<&'static str>,
}

impl Spec {
    /// A sandbox with a workspace that may be changed, and nothing else.
    pub fn new(role: GuestRole, guest_program: impl Into<PathBuf>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            role,
            guest_program: guest_program.into(),
            workspace: Workspace::Directory { path: workspace.into(), access: Access::Write },
            store: None,
            mounts: Vec::new(),
            environment: BTreeMap::new(),
            egress: None,
            identity: Identity::Inherit,
            limits: Limits::default(),
            record: None,
            spool_directory: None,
            #[cfg(feature = "attack")]
            sabotage: Sabotage::default(),
        }
    }

    /// Whether a wall is to be left out; never in what ships.
    #[cfg(feature = "attack")]
    pub(super) fn lacks(&self, layer: Layer) -> bool {
        self.sabotage.without.contains(&layer)
    }

    /// Whether a wall is to be left out: no.
    #[cfg(not(feature = "attack"))]
    pub(super) fn lacks(&self, _layer: Layer) -> bool {
        false
    }

    /// Whether a guest is handed over without all its walls; never in what ships.
    pub(super) fn is_inspected(&self) -> bool {
        #[cfg(feature = "attack")]
        return !self.sabotage.unseen;
        #[cfg(not(feature = "attack"))]
        true
    }

    /// What a sabotaged guest is told in addition.
    pub(super) fn sabotage_arguments(&self, role: GuestRole) -> Vec<String> {
        let own = [Layer::Seccomp, Layer::Landlock].into_iter().filter(|layer| self.lacks(*layer));
        let mut missing: Vec<String> = own.map(|layer| layer.to_string()).collect();
        #[cfg(feature = "attack")]
        missing.extend((self.sabotage.liar == Some(role)).then(|| crate::guest::TRUTH.to_owned()));
        #[cfg(feature = "attack")]
        missing.extend(self.sabotage.loose_paths.then(|| crate::guest::BENEATH.to_owned()));
        #[cfg(feature = "attack")]
        missing.extend(self.sabotage.dumpable.then(|| crate::guest::SECLUSION.to_owned()));
        #[cfg(not(feature = "attack"))]
        let _ = role;
        missing.drain(..).flat_map(|wall| ["--without".to_owned(), wall]).collect()
    }
}

/// What is found inside as the workspace.
#[derive(Debug, Clone)]
pub enum Workspace {
    /// A directory of the host.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Whether it may be changed.
        access: Access,
    },
    /// A snapshot, changed in a layer of its own.
    Overlay(Overlay),
}

/// The directories of an overlay. The last two must lie beside each other.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// What is beneath; never changed.
    pub lower: PathBuf,
    /// What was changed; stays after the sandbox.
    pub upper: PathBuf,
    /// The kernel's own.
    pub work: PathBuf,
}

impl Overlay {
    /// The overlay of a task that a keeper prepared in its store, over the snapshot of `base`.
    pub fn of_task(store: &Path, task: &EffectId, base: TreeId) -> Self {
        let directory = store.join("tasks").join(format!("task-{task}"));
        Self {
            lower: store.join("snapshots").join(base.to_string()),
            upper: directory.join("upper"),
            work: directory.join("work"),
        }
    }

    /// An overlay over nothing, of directories that are made in `directory`: to see whether the file system there can have
    /// one. The directory, with all that is in it, is the caller's to give to the sandbox's user, and to clear away.
    pub fn over_nothing(directory: &Path) -> std::io::Result<Self> {
        let made = |name: &str| {
            let path = directory.join(name);
            std::fs::create_dir_all(&path).map(|()| path)
        };
        Ok(Self { lower: made("lower")?, upper: made("upper")?, work: made("work")? })
    }

    /// Clears away what [`Overlay::over_nothing`] made there; nothing there is as good.
    pub fn clear_nothing(directory: &Path) -> std::io::Result<()> {
        // The kernel makes it, and lets nobody look into it, which a removal of everything would have to.
        std::fs::remove_dir(directory.join("work/work")).or_else(absent_is_fine)?;
        std::fs::remove_dir_all(directory).or_else(absent_is_fine)
    }
}

fn absent_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
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
    /// Another, unprivileged user; only root may choose one. That user should own the workspace and the store, and need
    /// not be able to walk to them.
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
    /// Files and directories in each of these.
    pub memory_names: u64,
    /// Memory of all processes together.
    pub memory_bytes: u64,
    /// Bytes of the workspace, or of a task's layer over it.
    pub workspace_bytes: u64,
    /// Files and directories of the same.
    pub workspace_names: u64,
    /// Bytes that must stay free where the workspace lies. A sandbox that writes beyond this is ended.
    pub free_bytes: u64,
    /// What the kernel holds every process to.
    pub guest: GuestLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let guest = GuestLimits {
            processes: 2048,
            open_files: 8192,
            file_bytes: 16 << 30,
            address_space_bytes: None,
            nameless_files: true,
        };
        Self {
            tmp_bytes: 512 << 20,
            home_bytes: 512 << 20,
            shared_memory_bytes: 64 << 20,
            memory_names: 200_000,
            memory_bytes: 4 << 30,
            workspace_bytes: 32 << 30,
            workspace_names: 4_000_000,
            free_bytes: 512 << 20,
            guest,
        }
    }
}

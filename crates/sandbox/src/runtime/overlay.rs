//! A task's overlay, mounted in namespaces of the launched process alone.
//!
//! Bubblewrap of the versions in use cannot mount overlays, and mounting one on the host would need root and outlive a
//! crash. So the child, before it becomes bubblewrap, enters a user and a mount namespace of its own and mounts there.
//! When the last process of the sandbox is gone, so is the mount; the upper layer stays.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::DumpableBehavior;
use rustix::thread::UnshareFlags;

use super::launch::StartError;
use super::spec::{Identity, Overlay};

/// Everything that the child needs to mount, made before it is forked: it may not allocate.
#[derive(Debug)]
pub(super) struct Stage {
    options: CString,
    target: CString,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
}

impl Stage {
    pub(super) fn new(overlay: &Overlay, identity: Identity) -> Result<Self, StartError> {
        let mut options = b"userxattr".to_vec();
        for (name, path) in [("lowerdir", &overlay.lower), ("upperdir", &overlay.upper), ("workdir", &overlay.work)] {
            options.extend_from_slice(format!(",{name}=").as_bytes());
            options.extend_from_slice(plain(path)?);
        }
        let (uid, gid) = match identity {
            Identity::User { uid, gid } => (uid, gid),
            Identity::Inherit => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        };
        Ok(Self {
            options: CString::new(options).map_err(|_| unfit(&overlay.lower))?,
            target: CString::new(plain(&overlay.merged)?).map_err(|_| unfit(&overlay.merged))?,
            uid_map: format!("{uid} {uid} 1").into_bytes(),
            gid_map: format!("{gid} {gid} 1").into_bytes(),
        })
    }

    /// Enters the namespaces and mounts. For the child between fork and exec.
    pub(super) fn enter(&self) -> io::Result<()> {
        // After a change of user the process's own files in /proc would belong to root.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        // SAFETY: the child has one thread and shares no memory or files with another that this would tear apart.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)? };
        write_file(c"/proc/self/setgroups", b"deny")?;
        write_file(c"/proc/self/uid_map", &self.uid_map)?;
        write_file(c"/proc/self/gid_map", &self.gid_map)?;
        rustix::mount::mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(c"overlay", self.target.as_c_str(), c"overlay", flags, self.options.as_c_str())?;
        Ok(())
    }
}

fn write_file(path: &CStr, content: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content)?;
    Ok(())
}

/// A path that needs no escaping among the options of a mount.
fn plain(path: &Path) -> Result<&[u8], StartError> {
    let bytes = path.as_os_str().as_bytes();
    let special = bytes.iter().any(|byte| b",:\\\"\n".contains(byte));
    if special || !path.is_absolute() { Err(unfit(path)) } else { Ok(bytes) }
}

fn unfit(path: &Path) -> StartError {
    StartError::Spec(format!("{} cannot be part of an overlay", path.display()))
}

//! Whom sandboxes are to this machine.
//!
//! Started by an ordinary user, they are that user. Started by root, each computer is a user of its own who exists
//! nowhere else, so that what leaves a sandbox's walls still meets the kernel's oldest one.

use choir_sandbox::runtime::Identity;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::{MetadataExt, chown, lchown};
use std::path::Path;

/// The first of the user ids that no system hands out to people, services or containers.
const FIRST_UID: u32 = 0x7000_0000;
/// How many of them there are.
const UIDS: u32 = 0x0fff_ffff;

/// The user of a computer, by its workspace, which lies in a directory of the computer's name.
pub(super) fn of(workspace: &Path) -> Identity {
    if !rustix::process::geteuid().is_root() {
        return Identity::Inherit;
    }
    let name = workspace.parent().and_then(Path::file_name).unwrap_or(workspace.as_os_str());
    let digest: [u8; 32] = Sha256::digest(name.as_encoded_bytes()).into();
    let uid = FIRST_UID + u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) % UIDS;
    Identity::User { uid, gid: uid }
}

/// Gives a directory with all that is in it to a computer's user, unless it is already theirs. To be called while no
/// sandbox runs, because links are not followed but directories are walked by name.
pub(super) fn give(directory: &Path, identity: Identity) -> io::Result<()> {
    let Identity::User { uid, gid } = identity else { return Ok(()) };
    if std::fs::metadata(directory)?.uid() == uid {
        return Ok(());
    }
    give_below(directory, uid, gid)?;
    // Last, so that a walk that was broken off is done again.
    chown(directory, Some(uid), Some(gid))
}

/// Lets a computer's user speak to a socket.
pub(super) fn admit(socket: &Path, identity: Identity) -> io::Result<()> {
    match identity {
        Identity::User { uid, gid } => lchown(socket, Some(uid), Some(gid)),
        Identity::Inherit => Ok(()),
    }
}

fn give_below(directory: &Path, uid: u32, gid: u32) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        lchown(entry.path(), Some(uid), Some(gid))?;
        if entry.file_type()?.is_dir() {
            give_below(&entry.path(), uid, gid)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_computer_has_its_own_user_and_keeps_it() {
        let (one, other) = (of(Path::new("/data/computers/a/workspace")), of(Path::new("/data/computers/b/workspace")));
        if !rustix::process::geteuid().is_root() {
            assert_eq!((one, other), (Identity::Inherit, Identity::Inherit));
            return;
        }
        assert_ne!(one, other);
        assert_eq!(one, of(Path::new("/elsewhere/a/workspace")));
        assert!(matches!(one, Identity::User { uid: FIRST_UID.., .. }));
    }

    #[test]
    fn everything_is_given_and_links_are_not_followed() {
        let place = tempfile::tempdir().expect("a directory");
        let (given, outside) = (place.path().join("given"), place.path().join("outside"));
        std::fs::create_dir_all(given.join("below")).expect("made");
        std::fs::write(given.join("below/file"), "x").expect("written");
        std::fs::write(&outside, "x").expect("written");
        std::os::unix::fs::symlink(&outside, given.join("link")).expect("linked");
        let identity = of(&given);
        give(&given, identity).expect("given");
        let owner = |path: &Path| std::fs::symlink_metadata(path).expect("there").uid();
        let uid = match identity {
            Identity::User { uid, .. } => uid,
            Identity::Inherit => rustix::process::geteuid().as_raw(),
        };
        for path in [given.clone(), given.join("below/file"), given.join("link")] {
            assert_eq!(owner(&path), uid, "{}", path.display());
        }
        assert_eq!(owner(&outside), rustix::process::geteuid().as_raw());
    }
}

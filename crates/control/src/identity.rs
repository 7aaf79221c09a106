//! Whom computers and their sandboxes are to this machine.
//!
//! Started by an ordinary user, they are that user. Started by root, each computer's sandboxes are a user of their own who
//! exists nowhere else, and its director is another: what leaves its walls still meets the kernel's oldest one, and does not
//! own the log.

use choir_sandbox::runtime::Identity;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::{MetadataExt, chown, lchown};
use std::path::Path;

/// The first of the user ids of sandboxes. No system hands it or those after it out to people, services or containers.
const FIRST_UID: u32 = 0x7000_0000;
/// The first of those of directors.
const FIRST_DIRECTOR: u32 = 0x6000_0000;
/// How many there are of each.
const UIDS: u32 = 0x0fff_ffff;

/// The user of a computer's sandboxes, by its workspace, which lies in the computer's directory.
pub(crate) fn of_sandboxes(workspace: &Path) -> Identity {
    of(FIRST_UID, workspace.parent().unwrap_or(workspace))
}

/// The user of a computer's director, by the computer's directory, which has its name.
pub(crate) fn of_director(directory: &Path) -> Identity {
    of(FIRST_DIRECTOR, directory)
}

fn of(first: u32, directory: &Path) -> Identity {
    if !rustix::process::geteuid().is_root() {
        return Identity::Inherit;
    }
    let name = directory.file_name().unwrap_or(directory.as_os_str());
    let digest: [u8; 32] = Sha256::digest(name.as_encoded_bytes()).into();
    let uid = first + u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) % UIDS;
    Identity::User { uid, gid: uid }
}

/// Gives a directory with all that is in it, but for some of its entries, to a user, unless it is already theirs. To be
/// called while that user runs nothing, because links are not followed but directories are walked by name.
pub(crate) fn give(directory: &Path, identity: Identity, but: &[&str]) -> io::Result<()> {
    let Identity::User { uid, gid } = identity else { return Ok(()) };
    if std::fs::metadata(directory)?.uid() == uid {
        return Ok(());
    }
    give_below(directory, (uid, gid), but)?;
    // Last, so that a walk that was broken off is done again.
    chown(directory, Some(uid), Some(gid))
}

/// Lets a computer's user speak to a socket.
pub(crate) fn admit(socket: &Path, identity: Identity) -> io::Result<()> {
    match identity {
        Identity::User { uid, gid } => lchown(socket, Some(uid), Some(gid)),
        Identity::Inherit => Ok(()),
    }
}

fn give_below(directory: &Path, (uid, gid): (u32, u32), but: &[&str]) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if but.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        lchown(entry.path(), Some(uid), Some(gid))?;
        if entry.file_type()?.is_dir() {
            give_below(&entry.path(), (uid, gid), &[])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_computer_has_its_own_user_and_keeps_it() {
        let (one, other) = (
            of_sandboxes(Path::new("/data/computers/a/workspace")),
            of_sandboxes(Path::new("/data/computers/b/workspace")),
        );
        let director = of_director(Path::new("/data/computers/a"));
        if !rustix::process::geteuid().is_root() {
            assert_eq!([one, other, director], [Identity::Inherit; 3]);
            return;
        }
        assert!(one != other && one != director);
        assert_eq!(one, of_sandboxes(Path::new("/elsewhere/a/workspace")));
        assert!(matches!(one, Identity::User { uid: FIRST_UID.., .. }));
    }

    #[test]
    fn everything_is_given_and_links_are_not_followed() {
        let place = tempfile::tempdir().expect("a directory");
        let (given, outside) = (place.path().join("given"), place.path().join("outside"));
        std::fs::create_dir_all(given.join("below/kept")).expect("made");
        std::fs::create_dir_all(given.join("kept/below")).expect("made");
        std::fs::write(given.join("below/file"), "x").expect("written");
        std::fs::write(&outside, "x").expect("written");
        std::os::unix::fs::symlink(&outside, given.join("link")).expect("linked");
        let identity = of_director(&given);
        give(&given, identity, &["kept"]).expect("given");
        let owner = |path: &Path| std::fs::symlink_metadata(path).expect("there").uid();
        let uid = match identity {
            Identity::User { uid, .. } => uid,
            Identity::Inherit => rustix::process::geteuid().as_raw(),
        };
        for path in [given.clone(), given.join("below/file"), given.join("below/kept"), given.join("link")] {
            assert_eq!(owner(&path), uid, "{}", path.display());
        }
        for path in [outside, given.join("kept"), given.join("kept/below")] {
            assert_eq!(owner(&path), rustix::process::geteuid().as_raw(), "{}", path.display());
        }
    }
}

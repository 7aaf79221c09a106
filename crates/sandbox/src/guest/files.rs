//! Files beneath one held directory.
//!
//! Every path is resolved by the kernel beneath that directory (`openat2` with `RESOLVE_BENEATH`), parents first,
//! and everything else is done relative to the parent's descriptor. No path is ever checked as a text and then
//! opened as a text.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::closed::{Closed, OWNER_ALL};
use super::writing::{Expected, Writing};
use crate::path::{LinkTarget, RelativePath};
use crate::protocol::{
    Entry, Fault, FaultCode, FileKind, LIST_ENTRIES_MAX, Metadata, READ_BYTES_MAX, Removal, WRITE_BYTES_MAX,
};

/// How often an open is tried again when a concurrent rename made the kernel give up resolving.
const RESOLVE_ATTEMPTS_MAX: u32 = 64;
/// Deepest tree that is removed; each level holds a descriptor.
const REMOVE_DEPTH_MAX: u32 = 512;
/// How the names of files begin that are being written.
const WRITE_PREFIX: &str = ".choir-write-";
/// Permission bits of a new file.
const FILE_MODE: u32 = 0o644;
/// Permission bits that a host may set: no set-user-id, set-group-id or sticky bit.
const MODE_BITS: u32 = 0o777;

/// Whether a name is that of a file that is being written: nobody's file yet. Such a name and no other: the moment in
/// hexadecimal digits and a number.
pub(super) fn is_unfinished(name: &[u8]) -> bool {
    let parts = || {
        let rest = name.strip_prefix(WRITE_PREFIX.as_bytes())?;
        let dash = rest.iter().position(|byte| *byte == b'-')?;
        Some((&rest[..dash], &rest[dash + 1..]))
    };
    parts().is_some_and(|(moment, number)| {
        let is_some = !moment.is_empty() && !number.is_empty();
        is_some && moment.iter().all(u8::is_ascii_hexdigit) && number.iter().all(u8::is_ascii_digit)
    })
}

/// Refuses a name that whoever writes files gives to what is not finished: the next look would clear it away.
fn not_unfinished(path: &RelativePath) -> Result<(), Fault> {
    let is_one = |name: &&[u8]| is_unfinished(name);
    match path.as_bytes().split(|byte| *byte == b'/').find(is_one) {
        Some(_) => Err(Fault::new(FaultCode::BadRequest, "such a name is only for files that are being written")),
        None => Ok(()),
    }
}

/// Whether a guest that is gone left this unfinished file behind.
pub(super) fn is_abandoned(name: &[u8]) -> bool {
    is_unfinished(name) && !name.starts_with(own_prefix().as_bytes())
}

/// How the names of the files begin that this guest is writing: every guest is process 1 of its own world, so that the
/// moment of its first write tells it from the one before.
fn own_prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{WRITE_PREFIX}{:x}-", begun.as_nanos())
    })
}

/// A name for a file that is begun now.
pub(super) fn unfinished_name() -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    format!("{}{}", own_prefix(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// The files beneath a directory.
#[derive(Debug)]
pub(super) struct Files {
    root: OwnedFd,
}

impl Files {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root }
    }

    /// A part of a regular file, and the file that it came from.
    pub(super) fn read(&self, path: &RelativePath, offset: u64, length: u64) -> Result<(Vec<u8>, Metadata), Fault> {
        // Non-blocking, because opening a pipe would wait for its writer.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(on("read the file"))?;
        let metadata = metadata(&rustix::fs::fstat(&file).map_err(on("read the file"))?);
        if metadata.kind != FileKind::File {
            return Err(Fault::new(FaultCode::NotAFile, "the path is not a regular file"));
        }
        let wanted = length.min(READ_BYTES_MAX).min(metadata.size.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or_default()];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("read the file", Some(errno.raw_os_error()))),
            }
        }
        bytes.truncate(filled);
        Ok((bytes, metadata))
    }

    /// Begins to replace a file.
    pub(super) fn begin_write(&self, path: &RelativePath, mode: Option<u32>, size: u64) -> Result<Writing, Fault> {
        if size > WRITE_BYTES_MAX {
            return Err(Fault::new(FaultCode::Limit, "the file is larger than allowed"));
        }
        not_unfinished(path)?;
        let (parent, name) = self.parent(path, "write the file")?;
        let before = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let before = before.as_ref().map(metadata);
        if before.as_ref().is_some_and(|before| before.kind == FileKind::Directory) {
            return Err(Fault::new(FaultCode::NotAFile, "the path is a directory"));
        }
        let kept = before.filter(|before| before.kind == FileKind::File).map(|before| before.mode);
        let mode = mode.or(kept).unwrap_or(FILE_MODE) & MODE_BITS;
        Writing::begin(parent, name, Mode::from_raw_mode(mode), size)
    }

    /// The entries of a directory whose names come after `after`, and whether there are more.
    pub(super) fn list(
        &self,
        path: &RelativePath,
        after: Option<&RelativePath>,
        limit: u32,
    ) -> Result<(Vec<Entry>, bool), Fault> {
        let limit = limit.clamp(1, LIST_ENTRIES_MAX) as usize;
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(on("list the directory"))?;
        let mut first: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        let mut more = false;
        for entry in Dir::read_from(&directory).map_err(on("list the directory"))? {
            let entry = entry.map_err(on("list the directory"))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..")
                || is_unfinished(name)
                || after.is_some_and(|after| name <= after.as_bytes())
            {
                continue;
            }
            if first.len() == limit && first.last_key_value().is_some_and(|(last, _)| name > last.as_slice()) {
                more = true;
                continue;
            }
            // Removed since its name was read: it is not an entry any more.
            let Ok(stat) = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let Ok(parsed) = RelativePath::parse(name) else { continue };
            let target = link_target(&directory, entry.file_name(), &stat);
            first.insert(name.to_vec(), Entry { name: parsed, metadata: metadata(&stat), target });
            if first.len() > limit {
                first.pop_last();
                more = true;
            }
        }
        Ok((first.into_values().collect(), more))
    }

    /// A path's description.
    pub(super) fn stat(&self, path: &RelativePath) -> Result<Metadata, Fault> {
        let found = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(on("find the path"))?;
        Ok(metadata(&rustix::fs::fstat(&found).map_err(on("find the path"))?))
    }

    /// Removes a path.
    pub(super) fn remove(&self, path: &RelativePath, removal: Removal) -> Result<(), Fault> {
        let (parent, name) = self.parent(path, "remove the path")?;
        match removal {
            Removal::File => rustix::fs::unlinkat(&parent, &name, AtFlags::empty()).map_err(on("remove the file")),
            Removal::EmptyDirectory => {
                rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR).map_err(on("remove the directory"))
            }
            Removal::Tree => remove_tree(&parent, &name),
        }
    }

    /// Renames a path.
    pub(super) fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), Fault> {
        not_unfinished(to)?;
        let (old_parent, old_name) = self.parent(from, "rename the path")?;
        let (new_parent, new_name) = self.parent(to, "rename the path")?;
        // Whoever looked first whether the name is free may have looked too early.
        let flags = if from == to { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&old_parent, &old_name, &new_parent, &new_name, flags).map_err(on("rename the path"))
    }

    /// Makes a directory and those above it.
    pub(super) fn make_directory(&self, path: &RelativePath) -> Result<(), Fault> {
        not_unfinished(path)?;
        let mut at =
            self.open(&RelativePath::root(), OFlags::PATH | OFlags::DIRECTORY).map_err(on("find the workspace"))?;
        let mut so_far = RelativePath::root();
        for name in path.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(fault("make the directory", Some(errno.raw_os_error()))),
            }
            so_far = so_far.join(name).map_err(|error| Fault::new(FaultCode::BadRequest, error.to_string()))?;
            at = self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY).map_err(on("make the directory"))?;
        }
        Ok(())
    }

    /// The workspace itself.
    pub(super) fn open_root(&self) -> Result<OwnedFd, Fault> {
        self.open(&RelativePath::root(), OFlags::RDONLY | OFlags::DIRECTORY).map_err(on("open the workspace"))
    }

    /// What the system says of a path, without following a final link.
    pub(super) fn raw_stat(&self, path: &RelativePath) -> Result<Stat, Errno> {
        rustix::fs::fstat(self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?)
    }

    /// Whether something is there that may not be read.
    pub(super) fn is_forbidden(&self, path: &RelativePath) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        matches!(self.open(path, flags), Err(Errno::ACCESS))
    }

    /// Puts a link in the place of what is expected there.
    pub(super) fn put_link(
        &self,
        path: &RelativePath,
        target: &LinkTarget,
        expected: &Expected<'_>,
    ) -> Result<(), Fault> {
        not_unfinished(path)?;
        let act = "make the link";
        let (parent, name) = self.parent(path, act)?;
        let temporary = c_string(OsStr::new(&unfinished_name()))?;
        rustix::fs::symlinkat(target.as_bytes(), &parent, &temporary).map_err(on(act))?;
        expected.replace(&parent, &temporary, &name).map_err(|errno| {
            rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty()).ok();
            on(act)(errno)
        })
    }

    /// Removes what is not a directory, if it is what is expected.
    pub(super) fn remove_expected(&self, path: &RelativePath, expected: &Expected<'_>) -> Result<(), Fault> {
        let act = "remove the file";
        let (parent, name) = self.parent(path, act)?;
        let aside = c_string(OsStr::new(&unfinished_name()))?;
        expected.remove(&parent, &aside, &name).map_err(on(act))
    }

    /// Makes a directory, or gives one that is there other permissions.
    pub(super) fn put_directory(&self, path: &RelativePath, mode: u32) -> Result<(), Fault> {
        let act = "make the directory";
        let (parent, name) = self.parent(path, act)?;
        match rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(on(act)(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&parent, &name, flags, Mode::empty()).map_err(on(act))?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & MODE_BITS)).map_err(on(act))
    }

    /// Lets its owner into the workspace itself; false when nothing kept it out.
    fn open_root_up(&self) -> bool {
        let Ok(root) = Closed::hold(&self.root) else { return false };
        !root.is_open() && root.allow(OWNER_ALL).is_ok()
    }

    /// Lets its owner do everything to a directory that it has forbidden something to itself. Says what it had then.
    pub(super) fn open_closed_directory(&self, path: &RelativePath) -> Result<Option<u32>, Fault> {
        let act = "open a directory";
        let (parent, name) = self.parent(path, act)?;
        let closed = Closed::find(&parent, &name).map_err(on(act))?;
        if closed.is_open() {
            return Ok(None);
        }
        closed.set_directory_mode(closed.mode() | OWNER_ALL).map_err(on(act))?;
        Ok(Some(closed.mode()))
    }

    /// Gives a directory the permissions that it shall have.
    pub(super) fn close_directory(&self, path: &RelativePath, mode: u32) -> Result<(), Fault> {
        let act = "close a directory";
        let (parent, name) = self.parent(path, act)?;
        Closed::find(&parent, &name).and_then(|closed| closed.set_directory_mode(mode)).map_err(on(act))
    }

    fn parent(&self, path: &RelativePath, act: &'static str) -> Result<(OwnedFd, CString), Fault> {
        let Some((directory, name)) = path.split() else {
            return Err(Fault::new(FaultCode::BadRequest, "the workspace itself cannot be replaced"));
        };
        let parent = self.open(&directory, OFlags::RDONLY | OFlags::DIRECTORY).map_err(on(act))?;
        Ok((parent, c_string(name)?))
    }

    fn open(&self, path: &RelativePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = resolution();
        let mut attempts = 0;
        loop {
            let opened =
                rustix::fs::openat2(&self.root, path.as_path(), flags | OFlags::CLOEXEC, Mode::empty(), resolve);
            match opened {
                Err(Errno::AGAIN | Errno::INTR) if attempts < RESOLVE_ATTEMPTS_MAX => attempts += 1,
                // Whoever forbids the workspace to its owner forbids everything, and could not even take that back here.
                Err(Errno::ACCESS) if self.open_root_up() => {}
                other => return other,
            }
        }
    }
}

/// Removes a name of an open directory with all that is in it, however deep that is: what lies deeper than is walked at
/// once is moved up beside the tree and removed in its turn.
pub(super) fn remove_tree_at(parent: &OwnedFd, name: &str) -> Result<(), Fault> {
    remove_tree(parent, &c_string(OsStr::new(name))?)
}

fn remove_tree(parent: &OwnedFd, name: &CString) -> Result<(), Fault> {
    let mut removal = Deep { top: parent, moved: Vec::new(), serial: 0 };
    removal.remove_tree(parent, name, REMOVE_DEPTH_MAX)?;
    while let Some(next) = removal.moved.pop() {
        removal.remove_tree(parent, &next, REMOVE_DEPTH_MAX)?;
    }
    Ok(())
}

/// A removal under way.
struct Deep<'a> {
    top: &'a OwnedFd,
    /// Names at the top that are still to be removed.
    moved: Vec<CString>,
    serial: u32,
}

impl Deep<'_> {
    fn remove_tree(&mut self, parent: &OwnedFd, name: &CString, depth_left: u32) -> Result<(), Fault> {
        let act = "remove the tree";
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            other => return other.map_err(on(act)),
        }
        if depth_left == 0 {
            return self.move_up(parent, name).map_err(on(act));
        }
        let directory = open_for_removal(parent, name).map_err(on(act))?;
        let mut entries = Dir::read_from(&directory).map_err(on(act))?;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(on(act))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.remove_tree(&directory, &entry.file_name().to_owned(), depth_left - 1)?;
            }
        }
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(on(act))
    }

    fn move_up(&mut self, parent: &OwnedFd, name: &CString) -> Result<(), Errno> {
        // A directory that may not be written may not be given another parent either.
        drop(open_for_removal(parent, name)?);
        loop {
            self.serial += 1;
            let place = CString::new(format!(".choir-removing-{}", self.serial)).map_err(|_| Errno::INVAL)?;
            match rustix::fs::renameat_with(parent, name, self.top, &place, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.moved.push(place);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Opens a directory, making it readable and writable where its permissions do not say so.
fn open_for_removal(parent: &OwnedFd, name: &CString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => open_forbidden(parent, name),
        other => other,
    }?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}

/// Opens a directory that its owner may not even read, and lets its owner do everything with it.
fn open_forbidden(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let closed = Closed::find(parent, name)?;
    closed.allow(Mode::RWXU.bits())?;
    closed.open_directory()
}

/// What a link names; nothing for anything else, or when it vanished meanwhile.
fn link_target(directory: impl AsFd, name: &CStr, stat: &Stat) -> Option<LinkTarget> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return None;
    }
    let target = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?;
    LinkTarget::parse(target.into_bytes()).ok()
}

/// What `stat` says, in the protocol's words.
pub(super) fn metadata(stat: &Stat) -> Metadata {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    Metadata {
        kind,
        mode: stat.st_mode & 0o7777,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        modified_ns: stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
        inode: stat.st_ino,
    }
}

pub(super) fn c_string(name: &OsStr) -> Result<CString, Fault> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(name.as_bytes()).map_err(|_| Fault::new(FaultCode::BadRequest, "the name holds a NUL byte"))
}

/// Names what was being done when the system refused.
pub(super) fn on(act: &'static str) -> impl Fn(Errno) -> Fault {
    move |errno| fault(act, Some(errno.raw_os_error()))
}

/// A system's error as a fault.
pub(super) fn fault(act: &'static str, errno: Option<i32>) -> Fault {
    let error = errno.map(std::io::Error::from_raw_os_error);
    let code = match errno.map(Errno::from_raw_os_error) {
        Some(Errno::XDEV | Errno::LOOP) => FaultCode::Escapes,
        Some(Errno::NOENT) => FaultCode::NotFound,
        Some(Errno::EXIST) => FaultCode::Exists,
        Some(Errno::ISDIR | Errno::NXIO) => FaultCode::NotAFile,
        Some(Errno::NOTDIR) => FaultCode::NotADirectory,
        Some(Errno::NOTEMPTY) => FaultCode::NotEmpty,
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => FaultCode::Denied,
        Some(Errno::NOSPC | Errno::DQUOT) => FaultCode::NoSpace,
        Some(Errno::NAMETOOLONG | Errno::INVAL) => FaultCode::BadRequest,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => FaultCode::Limit,
        _ => FaultCode::System,
    };
    let reason = error.map_or_else(|| "unknown error".to_owned(), |error| error.to_string());
    // The number is for programs, and they have the code.
    let reason = reason.split(" (os error").next().unwrap_or(&reason);
    Fault::new(code, format!("could not {act}: {reason}"))
}

/// How paths are resolved: beneath the directory, and by nothing but names.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

#[cfg(not(feature = "attack"))]
fn resolution() -> ResolveFlags {
    BENEATH
}

#[cfg(feature = "attack")]
static FOLLOWS_EVERYTHING: OnceLock<()> = OnceLock::new();

#[cfg(feature = "attack")]
fn resolution() -> ResolveFlags {
    FOLLOWS_EVERYTHING.get().map_or(BENEATH, |()| ResolveFlags::empty())
}

/// Takes the wall away, for the control of the attack suite.
#[cfg(feature = "attack")]
pub(super) fn follow_everything() {
    FOLLOWS_EVERYTHING.get_or_init(|| ());
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn mode(path: &std::path::Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o7777
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_that_is_removed_changes_nothing_elsewhere() {
        let (place, elsewhere) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (file, directory) = (elsewhere.path().join("file"), elsewhere.path().join("directory"));
        fs::write(&file, "kept").expect("written");
        fs::create_dir(&directory).expect("made");
        let parent: OwnedFd = fs::File::open(place.path()).expect("opened").into();
        for target in [&file, &directory] {
            fs::set_permissions(target, fs::Permissions::from_mode(0o400)).expect("closed");
            symlink(target, place.path().join("link")).expect("linked");
            assert!(open_forbidden(&parent, c"link").is_err());
            assert_eq!(mode(target), 0o400, "{}", target.display());
            fs::remove_file(place.path().join("link")).expect("removed");
        }
    }

    #[test]
    fn a_directory_that_its_owner_may_not_read_is_opened_up() {
        let place = tempfile::tempdir().expect("a directory");
        let closed = place.path().join("closed");
        fs::create_dir(&closed).expect("made");
        fs::write(closed.join("file"), "").expect("written");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
        let parent: OwnedFd = fs::File::open(place.path()).expect("opened").into();
        let opened = open_forbidden(&parent, c"closed").expect("opened");
        assert_eq!(Dir::read_from(&opened).expect("read").count(), 3, "the file, and the two that are everywhere");
        assert_eq!(mode(&closed), 0o700);
        remove_tree_at(&parent, "closed").expect("removed");
        assert!(!closed.exists());
    }
}

//! The store: contents by their hash, trees by theirs, snapshots made of links, and the layers of tasks.
//!
//! ```text
//! objects/ab/HASH-MODE   contents; the mode is in the name because links share it
//! trees/HASH             manifests
//! snapshots/HASH/…       directories of links to objects
//! tasks/NAME/{upper,work}
//! index                  what is known of the live directory's files
//! ```

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::CString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::super::closed::open_own;
use super::super::files::{fault, on, remove_tree_at};
use super::reader::open_up;
use super::scan::{entries, open_directory};
use crate::protocol::{Dropped, EffectId, Fault, FaultCode};
use crate::tree::{ContentHash, MANIFEST_BYTES_MAX, Node, Tree, TreeId};

/// Bytes copied at once.
const CHUNK_BYTES: usize = 128 * 1024;
/// Largest content. A larger file, which may be nothing but a hole, is in no tree.
pub(super) const CONTENT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Snapshots that are kept although no task needs them.
const SNAPSHOTS_SPARE: usize = 4;
/// Name of a file that is being made. Operations are one at a time, so one name is enough.
const NEW: &str = ".new";
/// Name of what is known of the live directory's files.
const INDEX: &str = "index";
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OWN_ONLY: u32 = 0o700;
/// What the kernel's blocks are counted in.
const BLOCK_BYTES: u64 = 512;
/// So many new contents are synced one by one, which does not wait for what others have written to the disk. For more
/// than that one sync of everything is quicker.
const SYNCED_SINGLY_MAX: usize = 64;

/// Syncs that wait for the disk together.
const SYNCS_AT_ONCE: usize = 8;

/// An open store.
#[derive(Debug)]
pub(super) struct Store {
    root: OwnedFd,
    objects: OwnedFd,
    trees: OwnedFd,
    snapshots: OwnedFd,
    tasks: OwnedFd,
    unsynced: Mutex<Unsynced>,
}

/// Contents put since the last sync.
#[derive(Debug, Default)]
struct Unsynced {
    /// Each with the directory that names it.
    contents: Vec<(OwnedFd, OwnedFd)>,
    /// There are more than can be synced singly.
    many: bool,
}

/// A content that was put in the store.
pub(super) struct Stored {
    pub(super) hash: ContentHash,
    pub(super) size: u64,
}

impl Store {
    /// Opens the store once no other keeper holds it: one that was killed may take a moment to go.
    pub(super) fn open(root: OwnedFd) -> Result<Self, Fault> {
        rustix::fs::flock(&root, FlockOperation::LockExclusive).map_err(on("hold the store"))?;
        let open = |name: &str| make_directory(&root, name, OWN_ONLY);
        let (objects, trees) = (open("objects")?, open("trees")?);
        let (snapshots, tasks) = (open("snapshots")?, open("tasks")?);
        // What a killed keeper was making is of no use.
        remove_tree_at(&snapshots, NEW).or_else(absent_is_fine)?;
        Ok(Self { root, objects, trees, snapshots, tasks, unsynced: Mutex::default() })
    }

    /// Whether a file holds a content that is in the store already.
    pub(super) fn is_content(&self, file: &OwnedFd, hash: ContentHash) -> Result<bool, Fault> {
        let (mut hasher, mut size, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
        loop {
            match rustix::io::pread(file, &mut buffer, size) {
                Ok(0) => return Ok(ContentHash::finish(hasher) == hash),
                Ok(_) if size > CONTENT_BYTES_MAX => return Ok(false),
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                    size += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("read a file", Some(errno.raw_os_error()))),
            }
        }
    }

    /// Copies a file's content into the store. It is durable after the next sync, and no tree may name it before.
    pub(super) fn add(&self, file: &OwnedFd, stat: &Stat) -> Result<Stored, Fault> {
        let act = "store a file";
        let (stored, copy) = self.copy(file, stat)?;
        let (directory, name) = self.object_place(stored.hash, stat.st_mode & 0o777)?;
        rustix::fs::renameat(&self.objects, NEW, &directory, &name).map_err(on(act))?;
        self.unsynced().push(copy, directory);
        Ok(stored)
    }

    /// Makes a copy that has no name of its own in the store yet.
    fn copy(&self, file: &OwnedFd, stat: &Stat) -> Result<(Stored, OwnedFd), Fault> {
        let act = "store a file";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let copy = rustix::fs::openat(&self.objects, NEW, flags, Mode::from_raw_mode(0o600)).map_err(on(act))?;
        let (mut hasher, mut size, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
        loop {
            match rustix::io::read(file, &mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                    size += read as u64;
                    if size > CONTENT_BYTES_MAX {
                        return Err(Fault::new(FaultCode::Limit, "a file is too large to be kept"));
                    }
                    put_chunk(&copy, &buffer[..read]).map_err(on(act))?;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault(act, Some(errno.raw_os_error()))),
            }
        }
        // A hole at the end was only stepped over.
        rustix::fs::ftruncate(&copy, size).map_err(on(act))?;
        // Links share the time as they share the mode; builds compare it.
        let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
        rustix::fs::futimens(&copy, &Timestamps { last_access: modified, last_modification: modified })
            .map_err(on(act))?;
        rustix::fs::fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(on(act))?;
        Ok((Stored { hash: ContentHash::finish(hasher), size }, copy))
    }

    /// Puts a fresh copy of a content in its place. A file can have only so many names (65,000 on ext4), and a workspace
    /// may have more equal files than that: those that are linked already keep the old copy. Trees name it, so the new one
    /// is durable before it is there.
    fn renew(&self, hash: ContentHash, mode: u32) -> Result<(), Fault> {
        let act = "make a snapshot";
        let old = self.object(hash, mode)?;
        let (stored, copy) = self.copy(&old, &rustix::fs::fstat(&old).map_err(on(act))?)?;
        if stored.hash != hash {
            return Err(Fault::new(FaultCode::System, "a stored content is damaged"));
        }
        rustix::fs::fdatasync(&copy).map_err(on(act))?;
        let (directory, name) = self.object_place(hash, mode)?;
        rustix::fs::renameat(&self.objects, NEW, &directory, &name).map_err(on(act))
    }

    /// Opens a content for reading.
    pub(super) fn object(&self, hash: ContentHash, mode: u32) -> Result<OwnedFd, Fault> {
        let (directory, name) = self.object_place(hash, mode)?;
        // It has the mode of the file that it was, which may be one that nobody could read.
        open_own(&directory, &name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC)
            .map_err(on("read from the store"))
    }

    /// A part of a content, and the size of the whole.
    pub(super) fn read_object(
        &self,
        hash: ContentHash,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> Result<(Vec<u8>, u64), Fault> {
        read_part(&self.object(hash, mode)?.into(), offset, length)
    }

    fn object_place(&self, hash: ContentHash, mode: u32) -> Result<(OwnedFd, CString), Fault> {
        let text = hash.to_string();
        let directory = make_directory(&self.objects, &text[..2], OWN_ONLY)?;
        Ok((directory, c_string(&format!("{text}-{mode:03o}"))?))
    }

    /// Puts a tree's manifest; its name is the hash. One that nobody could read again is refused.
    pub(super) fn put_tree(&self, tree: &Tree) -> Result<TreeId, Fault> {
        self.put_tree_within(tree, MANIFEST_BYTES_MAX)
    }

    fn put_tree_within(&self, tree: &Tree, bytes_max: u64) -> Result<TreeId, Fault> {
        let manifest = tree.manifest();
        if manifest.len() as u64 > bytes_max {
            let said = format!("there are more files than a tree has room for: {} paths", tree.len());
            return Err(Fault::new(FaultCode::Limit, said));
        }
        let id = TreeId::of(&manifest);
        self.put_file(&self.trees, &id.to_string(), &manifest)?;
        Ok(id)
    }

    /// Reads a tree.
    pub(super) fn get_tree(&self, id: TreeId) -> Result<Tree, Fault> {
        let manifest = self.get_file(&self.trees, &id.to_string())?;
        if TreeId::of(&manifest) != id {
            return Err(Fault::new(FaultCode::System, "a stored tree is damaged"));
        }
        Tree::parse(&manifest).map_err(|error| Fault::new(FaultCode::System, error.to_string()))
    }

    /// Every tree that is kept.
    pub(super) fn tree_ids(&self) -> Result<Vec<TreeId>, Fault> {
        let names = entries(&self.trees)?;
        // What is not called as a tree would be is not one.
        Ok(names.iter().filter_map(|(name, _)| TreeId::parse(name.to_str().ok()?).ok()).collect())
    }

    /// Removes trees, for good before anything else goes: a tree without its contents would be a lie.
    pub(super) fn remove_trees(&self, trees: &[TreeId]) -> Result<(), Fault> {
        for tree in trees {
            match rustix::fs::unlinkat(&self.trees, tree.to_string(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(on("remove a tree")(errno)),
            }
        }
        rustix::fs::fsync(&self.trees).map_err(on("sync the store"))
    }

    /// Removes contents that are not `held`, whatever their mode.
    pub(super) fn retain_contents(&self, held: &HashSet<ContentHash>) -> Result<Dropped, Fault> {
        let mut dropped = Dropped::default();
        for (shard, _) in entries(&self.objects)? {
            let Some(directory) = open_directory(&self.objects, &shard)? else { continue };
            for (name, stat) in entries(&directory)? {
                let Some(hash) = content_of(&name) else { continue };
                if held.contains(&hash) {
                    continue;
                }
                rustix::fs::unlinkat(&directory, &name, AtFlags::empty()).map_err(on("remove a content"))?;
                dropped.contents += 1;
                dropped.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES;
            }
        }
        Ok(dropped)
    }

    /// A part of a manifest, and the size of the whole.
    pub(super) fn read_manifest(&self, id: TreeId, offset: u64, length: u64) -> Result<(Vec<u8>, u64), Fault> {
        read_part(&open_file(&self.trees, &id.to_string())?, offset, length)
    }

    /// The file that says what is known of the live directory.
    pub(super) fn read_index(&self) -> Result<Vec<u8>, Fault> {
        self.get_file(&self.root, INDEX)
    }

    pub(super) fn write_index(&self, content: &[u8]) -> Result<(), Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.write_to_index(NEW, flags, content)?;
        rustix::fs::renameat(&self.root, NEW, &self.root, INDEX).map_err(on("write to the store"))
    }

    pub(super) fn append_index(&self, content: &[u8]) -> Result<(), Fault> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.write_to_index(INDEX, flags, content)
    }

    fn write_to_index(&self, name: &str, flags: OFlags, content: &[u8]) -> Result<(), Fault> {
        let act = "write to the store";
        let file = rustix::fs::openat(&self.root, name, flags, Mode::from_raw_mode(0o600)).map_err(on(act))?;
        write_all(&file, content).map_err(on(act))
    }

    /// Makes every content put so far durable, then their names: a few singly, of many the whole file system.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        let act = "sync the store";
        let Unsynced { contents, many } = std::mem::take(&mut *self.unsynced());
        if many {
            return rustix::fs::syncfs(&self.root).map_err(on(act));
        }
        at_once(&contents, |(content, _)| rustix::fs::fdatasync(content)).map_err(on(act))?;
        at_once(&contents, |(_, directory)| rustix::fs::fsync(directory)).map_err(on(act))
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the snapshot of a tree, unless it is there.
    pub(super) fn make_snapshot(&self, id: TreeId, tree: &Tree) -> Result<(), Fault> {
        let act = "make a snapshot";
        let name = id.to_string();
        if rustix::fs::statat(&self.snapshots, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(());
        }
        remove_tree_at(&self.snapshots, NEW).or_else(absent_is_fine)?;
        let directory = make_directory(&self.snapshots, NEW, 0o755)?;
        tree.iter().try_for_each(|(path, node)| self.place(&directory, path.as_path(), node))?;
        // Last, and the deepest first: a directory that may not be written could not have been filled.
        let modes: Vec<_> = tree.iter().filter_map(|(path, node)| Some((path, directory_mode(node)?))).collect();
        for (path, mode) in modes.into_iter().rev() {
            rustix::fs::chmodat(&directory, path.as_path(), Mode::from_raw_mode(mode), AtFlags::empty())
                .map_err(on(act))?;
        }
        stamp(&directory).map_err(on(act))?;
        rustix::fs::renameat(&self.snapshots, NEW, &self.snapshots, name.as_str()).map_err(on(act))
    }

    /// Paths are walked as texts here, safely: the directory is new and nobody else's, and links in it are made after
    /// the directories above them and never walked through, because a tree holds no path beneath a link.
    fn place(&self, directory: &OwnedFd, path: &std::path::Path, node: &Node) -> Result<(), Fault> {
        let act = "make a snapshot";
        match node {
            Node::Directory { .. } => {
                rustix::fs::mkdirat(directory, path, Mode::from_raw_mode(OWN_ONLY)).map_err(on(act))
            }
            Node::Link { target } => rustix::fs::symlinkat(target.as_bytes(), directory, path).map_err(on(act)),
            Node::File { mode, hash, .. } => {
                let (from, name) = self.object_place(*hash, *mode)?;
                let link = || rustix::fs::linkat(&from, &name, directory, path, AtFlags::empty());
                match link() {
                    Err(Errno::MLINK) => {
                        self.renew(*hash, *mode)?;
                        link().map_err(on(act))
                    }
                    linked => linked.map_err(on(act)),
                }
            }
            Node::Derived => Ok(()),
        }
    }

    /// Removes the directories of links that no task needs, but for the newest: the next task often runs over the same.
    /// They can be made again from the contents.
    pub(super) fn drop_snapshots(&self, keep: &[TreeId]) -> Result<(), Fault> {
        let kept: Vec<String> = keep.iter().map(ToString::to_string).collect();
        let mut others = entries(&self.snapshots)?;
        others.retain(|(name, _)| !kept.iter().any(|kept| kept.as_bytes() == name.as_bytes()));
        others.sort_by_key(|(_, stat)| Reverse((stat.st_mtime, stat.st_mtime_nsec)));
        for (name, _) in others.iter().skip(SNAPSHOTS_SPARE) {
            remove_tree_at(&self.snapshots, &name.to_string_lossy()).or_else(absent_is_fine)?;
        }
        Ok(())
    }

    /// Makes a task's directories, or finds them as its killed predecessor left them.
    pub(super) fn make_task(&self, task: &EffectId) -> Result<(), Fault> {
        let directory = make_directory(&self.tasks, &task_name(task), OWN_ONLY)?;
        ["upper", "work"].iter().try_for_each(|name| make_directory(&directory, name, 0o755).map(drop))
    }

    /// Opens the layer that holds what a task changed.
    pub(super) fn task_layer(&self, task: &EffectId) -> Result<OwnedFd, Fault> {
        let name = task_name(task);
        let directory = rustix::fs::openat(&self.tasks, name.as_str(), DIRECTORY_FLAGS, Mode::empty());
        let directory = directory.map_err(on("find the task"))?;
        match rustix::fs::openat(&directory, "upper", DIRECTORY_FLAGS, Mode::empty()) {
            // A task may forbid itself its own workspace, too.
            Err(Errno::ACCESS) => {
                open_up(&directory, c"upper").map_err(on("find the task"))?;
                rustix::fs::openat(&directory, "upper", DIRECTORY_FLAGS, Mode::empty()).map_err(on("find the task"))
            }
            opened => opened.map_err(on("find the task")),
        }
    }

    pub(super) fn remove_task(&self, task: &EffectId) -> Result<(), Fault> {
        remove_tree_at(&self.tasks, &task_name(task)).or_else(absent_is_fine)
    }

    fn put_file(&self, directory: &OwnedFd, name: &str, content: &[u8]) -> Result<(), Fault> {
        let act = "write to the store";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(directory, NEW, flags, Mode::from_raw_mode(0o600)).map_err(on(act))?;
        write_all(&file, content).map_err(on(act))?;
        rustix::fs::fdatasync(&file).map_err(on(act))?;
        rustix::fs::renameat(directory, NEW, directory, name).map_err(on(act))?;
        rustix::fs::fsync(directory).map_err(on(act))
    }

    fn get_file(&self, directory: &OwnedFd, name: &str) -> Result<Vec<u8>, Fault> {
        let mut content = Vec::new();
        let mut file = open_file(directory, name)?.take(MANIFEST_BYTES_MAX);
        file.read_to_end(&mut content).map_err(|error| fault("read from the store", error.raw_os_error()))?;
        Ok(content)
    }
}

impl Unsynced {
    fn push(&mut self, content: OwnedFd, directory: OwnedFd) {
        self.many |= self.contents.len() == SYNCED_SINGLY_MAX;
        if self.many {
            self.contents.clear();
        } else {
            self.contents.push((content, directory));
        }
    }
}

/// Does the same with several things at the same time: file systems finish syncs that wait together in one go.
fn at_once<T: Sync>(things: &[T], act: impl Fn(&T) -> Result<(), Errno> + Sync) -> Result<(), Errno> {
    let share = things.len().div_ceil(SYNCS_AT_ONCE).max(1);
    let act_on = |some: &[T]| some.iter().try_for_each(&act);
    std::thread::scope(|scope| {
        let begun: Vec<_> = things
            .chunks(share)
            // Where no thread can be had, it is done here.
            .map(|some| std::thread::Builder::new().spawn_scoped(scope, || act_on(some)).map_err(|_| act_on(some)))
            .collect();
        let finished = begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or(Err(Errno::IO)),
            Err(done) => done,
        });
        finished.fold(Ok(()), Result::and)
    })
}

/// A part of a file of the store, and the size of the whole.
fn read_part(file: &std::fs::File, offset: u64, length: u64) -> Result<(Vec<u8>, u64), Fault> {
    let failed = |error: std::io::Error| fault("read from the store", error.raw_os_error());
    let size = file.metadata().map_err(failed)?.len();
    let wanted = usize::try_from(length.min(size.saturating_sub(offset))).unwrap_or_default();
    let mut bytes = vec![0; wanted];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, offset).map_err(failed)?;
    Ok((bytes, size))
}

/// Writes a part of a file, or steps over it where it holds nothing but zeroes: a file that is mostly a hole takes no more
/// room here than where it comes from.
fn put_chunk(file: &OwnedFd, chunk: &[u8]) -> Result<(), Errno> {
    if chunk.iter().any(|byte| *byte != 0) {
        return write_all(file, chunk);
    }
    rustix::fs::seek(file, rustix::fs::SeekFrom::Current(chunk.len() as i64)).map(drop)
}

/// The content that a name in the store stands for.
fn content_of(name: &CString) -> Option<ContentHash> {
    ContentHash::parse(name.to_str().ok()?.split_once('-')?.0).ok()
}

/// A task's name, which might be `.` or `..`, as a directory's name, which must not.
fn task_name(task: &EffectId) -> String {
    format!("task-{task}")
}

fn directory_mode(node: &Node) -> Option<u32> {
    match node {
        Node::Directory { mode } => Some(*mode),
        Node::File { .. } | Node::Link { .. } | Node::Derived => None,
    }
}

fn open_file(directory: &OwnedFd, name: &str) -> Result<std::fs::File, Fault> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(Into::into).map_err(on("read from the store"))
}

fn make_directory(parent: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd, Fault> {
    let open = || rustix::fs::openat(parent, name, DIRECTORY_FLAGS, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)).map_err(on("prepare the store"))?;
            open()
        }
        other => other,
    }
    .map_err(on("prepare the store"))
}

/// Gives a directory the time of this moment. The system's own stamp is the same for everything within a few milliseconds,
/// and the newest must be known.
fn stamp(directory: &OwnedFd) -> rustix::io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Timespec { tv_sec: now.as_secs() as i64, tv_nsec: now.subsec_nanos() as _ };
    rustix::fs::futimens(directory, &Timestamps { last_access: now, last_modification: now })
}

fn absent_is_fine(fault: Fault) -> Result<(), Fault> {
    if fault.code == FaultCode::NotFound { Ok(()) } else { Err(fault) }
}

fn c_string(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault::new(FaultCode::BadRequest, "a name holds a NUL byte"))
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::path::RelativePath;

    /// More names than ext4 gives to one file.
    const NAMES_TOO_MANY: usize = 65_001;

    #[test]
    fn more_equal_files_than_one_content_can_have_names_are_no_reason_to_fail() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name);
        let store = Store::open(std::fs::File::open(place.path()).expect("opened").into()).expect("a store");
        std::fs::write(at("file"), "equal").expect("written");
        let file: OwnedFd = std::fs::File::open(at("file")).expect("opened").into();
        let stat = rustix::fs::fstat(&file).expect("described");
        let (mode, hash) = (stat.st_mode & 0o777, store.add(&file, &stat).expect("stored").hash);
        let text = hash.to_string();
        let object = at(&format!("objects/{}/{text}-{mode:03o}", &text[..2]));
        let before = object.metadata().expect("stored");
        // Where a file can have as many names as it likes, all of these are made, and the rest holds anyway.
        std::fs::create_dir(at("names")).expect("made");
        let filled = (0..NAMES_TOO_MANY).any(|n| std::fs::hard_link(&object, at(&format!("names/{n}"))).is_err());
        let mut tree = Tree::default();
        for name in ["one", "two"] {
            let path = RelativePath::parse(name).expect("a good path");
            tree.insert(path, Node::File { mode, size: 5, hash });
        }
        let id = store.put_tree(&tree).expect("stored");
        store.make_snapshot(id, &tree).expect("made");
        let found = at(&format!("snapshots/{id}/two"));
        assert_eq!(std::fs::read_to_string(&found).expect("read"), "equal");
        let found = found.metadata().expect("there");
        assert_eq!((found.mode(), found.mtime_nsec()), (before.mode(), before.mtime_nsec()));
        assert_eq!(found.ino() != before.ino(), filled, "a fresh copy, where it was needed");
    }

    #[test]
    fn a_tree_that_could_not_be_read_again_is_refused_and_not_stored() {
        let place = tempfile::tempdir().expect("a directory");
        let store = Store::open(std::fs::File::open(place.path()).expect("opened").into()).expect("a store");
        let mut tree = Tree::default();
        for number in 0..100 {
            let path = RelativePath::parse(format!("directory-{number}")).expect("a good path");
            tree.insert(path, Node::Directory { mode: 0o755 });
        }
        let bytes = tree.manifest().len() as u64;
        let refused = store.put_tree_within(&tree, bytes - 1).expect_err("there is no room");
        assert_eq!(refused.code, FaultCode::Limit);
        assert!(refused.message.contains("100 paths"), "{refused:?}");
        assert!(store.tree_ids().expect("read").is_empty());
        let id = store.put_tree_within(&tree, bytes).expect("there is room");
        assert_eq!(store.get_tree(id).expect("read"), tree);
    }
}

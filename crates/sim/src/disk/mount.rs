//! The disk as a file system: served from memory, recorded as it is used, failing when it is told to.

use super::crash::{Cut, Volatile};
use super::image::{Content, Image};
use super::{ACKNOWLEDGEMENTS, Node, Op, Place, ROOT};
use crate::process;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The node of [`ACKNOWLEDGEMENTS`], far above any other.
const ACKNOWLEDGING: Node = 1 << 40;

/// How long the kernel may believe an answer. Nobody else changes the disk.
const TTL: Duration = Duration::from_secs(60);

/// Requests served at once, so that a slow one holds up nobody else.
const THREADS: usize = 4;

/// The longest that the sync of a directory takes, in microseconds.
const DIRECTORY_SYNC_US: u64 = 4_000;

/// Syncs that a forgetful disk forgets: more than one, because a checkpoint may have come last.
const FORGOTTEN_SYNCS: usize = 8;

/// How a disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Quick and good.
    Sound,
    /// Good, but the syncs of directories take their time, and a later one may be done earlier.
    Slow,
    /// Quick until something goes wrong.
    Failing(Fault),
}

/// What goes wrong, and when: counted over writes, syncs and changes of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One step fails.
    Eio { at: u64 },
    /// From one step on there is no space, for so many attempts.
    Full { at: u64, attempts: u64 },
    /// From one step on nothing can be changed, for so many attempts.
    ReadOnly { at: u64, attempts: u64 },
    /// From one step on writes are answered but not done: no disk should, and no check may overlook it.
    Lie { at: u64 },
}

/// A mounted disk; unmounted with its owner.
pub(crate) struct Mounted {
    at: TempDir,
    /// What was on it when it was mounted.
    base: Image,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts an image at a place of its own.
    pub(crate) fn new(image: Image, temper: Temper) -> anyhow::Result<Self> {
        let at = crate::scratch::directory()?;
        let next = image.unused();
        let base = image.clone();
        let disk = Disk { image, trace: Vec::new(), next, temper, steps: 0, failed: 0 };
        let shared = Arc::new(Shared { disk: Mutex::new(disk), progress: Condvar::new() });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("choir-sim".into()), MountOption::NoAtime];
        // A computer that root starts is a user of its own.
        if rustix::process::geteuid().is_root() {
            config.acl = SessionACL::All;
        }
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(Served(Arc::clone(&shared)), at.path(), &config)?;
        Ok(Self { at, base, shared, session: Some(session) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.at.path()
    }

    /// Makes something go wrong from now on, given the number of steps so far.
    pub(crate) fn fail(&self, fault: impl FnOnce(u64) -> Fault) {
        let mut disk = self.disk();
        disk.failed = 0;
        disk.temper = Temper::Failing(fault(disk.steps));
    }

    /// Makes it good again.
    pub(crate) fn mend(&self) {
        self.disk().temper = Temper::Sound;
    }

    /// What a power cut at this moment may leave.
    pub(crate) fn cut(&self, cut: Cut, random: &mut fastrand::Rng) -> Image {
        let mut volatile = Volatile::new(self.base.clone());
        self.disk().trace.iter().for_each(|op| volatile.step(op));
        volatile.cut(cut, random)
    }

    /// A cut that no disk may make: it takes what was synced last.
    pub(crate) fn forget(&self, random: &mut fastrand::Rng) -> Image {
        let mut volatile = Volatile::new(self.base.clone());
        let disk = self.disk();
        let syncs: Vec<usize> = (0..disk.trace.len()).filter(|at| matches!(disk.trace[*at], Op::Sync { .. })).collect();
        let until = syncs.len().checked_sub(FORGOTTEN_SYNCS).map_or(0, |first| syncs[first]);
        disk.trace[..until].iter().for_each(|op| volatile.step(op));
        volatile.cut(Cut::Clean, random)
    }

    /// Waits until so much was done, or for some time.
    pub(crate) fn wait_for(&self, steps: usize, limit: Duration) {
        let working = |disk: &mut Disk| disk.trace.len() < steps;
        let waited = self.shared.progress.wait_timeout_while(self.disk(), limit, working);
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Unmounts, and hands out what was done and how many steps were made to fail.
    pub(crate) fn finish(mut self) -> anyhow::Result<Recording> {
        self.unmount()?;
        let mut disk = self.disk();
        Ok(Recording {
            trace: std::mem::take(&mut disk.trace),
            failed: disk.failed,
            fallible: disk.steps,
            image: disk.image.clone(),
        })
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.shared.disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes it out of sight at once. It is served for as long as somebody who was killed a moment ago still has it open.
    fn unmount(&mut self) -> anyhow::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if rustix::process::getuid().is_root() {
            rustix::mount::unmount(self.at.path(), rustix::mount::UnmountFlags::DETACH)?;
        } else {
            let done = Command::new("fusermount3").args(["-u", "-z"]).arg(self.at.path()).status()?;
            anyhow::ensure!(done.success(), "fusermount3 ended with {done}");
        }
        std::thread::spawn(move || session.join());
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whoever drops it without `finish` is already reporting an error.
        self.unmount().ok();
    }
}

/// What was done to a disk while it was mounted.
pub(crate) struct Recording {
    pub(crate) trace: Vec<Op>,
    /// Steps that were made to fail.
    pub(crate) failed: u64,
    /// Steps that could have been made to fail.
    pub(crate) fallible: u64,
    pub(crate) image: Image,
}

/// What the server and the owner of a mount share.
struct Shared {
    disk: Mutex<Disk>,
    /// Rung with every request.
    progress: Condvar,
}

struct Disk {
    image: Image,
    trace: Vec<Op>,
    next: Node,
    temper: Temper,
    /// Steps that a fault can hit.
    steps: u64,
    failed: u64,
}

impl Disk {
    /// Does one step, unless it is the turn of a fault.
    fn perform(&mut self, op: Op) -> Result<(), Errno> {
        if self.is_fallible(&op) {
            self.steps += 1;
            if let Some(outcome) = self.due(&op) {
                self.failed += 1;
                return outcome;
            }
        }
        self.image.apply(&op);
        self.trace.push(op);
        Ok(())
    }

    /// What is answered instead of doing a step.
    fn due(&self, op: &Op) -> Option<Result<(), Errno>> {
        let Temper::Failing(fault) = self.temper else { return None };
        match fault {
            Fault::Eio { at } => (self.steps == at).then_some(Err(Errno::EIO)),
            Fault::Lie { at } => (self.steps >= at && matches!(op, Op::Write { .. })).then_some(Ok(())),
            // A sync finds nothing to do.
            Fault::ReadOnly { at, attempts } => {
                let changes = !matches!(op, Op::Sync { .. });
                (changes && self.steps >= at && self.failed < attempts).then_some(Err(Errno::EROFS))
            }
            // What frees space or takes none goes on working on a full disk.
            Fault::Full { at, attempts } => {
                let takes_space = matches!(op, Op::Write { .. } | Op::Make { .. });
                (takes_space && self.steps >= at && self.failed < attempts).then_some(Err(Errno::ENOSPC))
            }
        }
    }

    /// The shared memory of SQLite is written by the kernel whenever it likes, and nobody hears of a failure.
    fn is_fallible(&self, op: &Op) -> bool {
        match op {
            Op::Write { node, .. } | Op::Resize { node, .. } | Op::Sync { node } => !self.is_shared_memory(*node),
            Op::Make { .. } | Op::Rename { .. } => true,
            // Removing can only be forbidden; it neither takes space nor waits for the disk.
            Op::Remove { .. } => matches!(self.temper, Temper::Failing(Fault::ReadOnly { .. })),
            Op::Acknowledge(_) => false,
        }
    }

    fn is_shared_memory(&self, node: Node) -> bool {
        self.image.names_of(node).any(|name| name.ends_with("-shm"))
    }

    fn make(&mut self, place: Place, content: Content) -> Result<FileAttr, Errno> {
        if place.directory == ROOT && place.name == ACKNOWLEDGEMENTS {
            return Ok(attributes(ACKNOWLEDGING, FileType::RegularFile, 0));
        }
        if self.image.find(&place).is_some() {
            return Err(Errno::EEXIST);
        }
        let node = self.next;
        self.perform(Op::Make { place, node, content })?;
        self.next += 1;
        self.attributes(node)
    }

    fn remove(&mut self, place: Place) -> Result<(), Errno> {
        let node = self.image.find(&place).ok_or(Errno::ENOENT)?;
        if self.image.names(node).is_some_and(|names| !names.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        self.perform(Op::Remove { place })
    }

    fn rename(&mut self, from: Place, to: Place) -> Result<(), Errno> {
        let node = self.image.find(&from).ok_or(Errno::ENOENT)?;
        self.perform(Op::Rename { from, to, node })
    }

    fn lookup(&self, place: &Place) -> Result<FileAttr, Errno> {
        if place.directory == ROOT && place.name == ACKNOWLEDGEMENTS {
            return Ok(attributes(ACKNOWLEDGING, FileType::RegularFile, 0));
        }
        self.attributes(self.image.find(place).ok_or(Errno::ENOENT)?)
    }

    fn attributes(&self, node: Node) -> Result<FileAttr, Errno> {
        match self.image.node(node) {
            _ if node == ACKNOWLEDGING => Ok(attributes(node, FileType::RegularFile, 0)),
            Some(Content::File(bytes)) => Ok(attributes(node, FileType::RegularFile, bytes.len() as u64)),
            Some(Content::Directory(_)) => Ok(attributes(node, FileType::Directory, 4096)),
            None => Err(Errno::ENOENT),
        }
    }

    fn write(&mut self, node: Node, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if node == ACKNOWLEDGING {
            let text = String::from_utf8_lossy(bytes);
            return text.lines().try_for_each(|line| self.perform(Op::Acknowledge(line.to_owned())));
        }
        self.perform(Op::Write { node, offset: offset as usize, bytes: bytes.to_vec() })
    }

    fn read(&self, node: Node, offset: u64, size: u32) -> Result<&[u8], Errno> {
        match self.image.node(node) {
            Some(Content::File(bytes)) => {
                let start = (offset as usize).min(bytes.len());
                Ok(&bytes[start..bytes.len().min(start + size as usize)])
            }
            Some(Content::Directory(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }
}

fn attributes(node: Node, kind: FileType, size: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(node),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Answers the kernel. Only translates: what anything means is said by [`Disk`].
struct Served(Arc<Shared>);

impl Served {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        // Whoever waits looks once this request is answered.
        self.0.progress.notify_all();
        self.0.disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn place(parent: INodeNo, name: &OsStr) -> Place {
    Place { directory: parent.0, name: name.to_string_lossy().into_owned() }
}

fn answer(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_entry(found: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer_attributes(found: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match found {
        Ok(attributes) => reply.attr(&TTL, &attributes),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(self.disk().lookup(&place(parent, name)), reply);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(self.disk().attributes(node.0), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let resize = size.filter(|_| node.0 != ACKNOWLEDGING);
        let done = resize.map_or(Ok(()), |size| disk.perform(Op::Resize { node: node.0, size: size as usize }));
        answer_attributes(done.and_then(|()| disk.attributes(node.0)), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        answer_entry(self.disk().make(place(parent, name), Content::Directory(BTreeMap::new())), reply);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.disk().make(place(parent, name), Content::File(Vec::new())) {
            Ok(attributes) => reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.disk().remove(place(parent, name)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.disk().remove(place(parent, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(self.disk().rename(place(parent, name), place(new_parent, new_name)), reply);
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Acknowledgements must not wait in the kernel; everything else may be mapped, which SQLite needs.
        let flags = if node.0 == ACKNOWLEDGING { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk().read(node.0, offset, size) {
            Ok(bytes) => reply.data(bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk().write(node.0, offset, bytes) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.disk().perform(Op::Sync { node: node.0 }), reply);
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // The lock is not held while it waits: everybody else goes on.
        let slow = self.disk().temper == Temper::Slow;
        if slow {
            process::rest(Duration::from_micros(fastrand::u64(..DIRECTORY_SYNC_US)));
        }
        answer(self.disk().perform(Op::Sync { node: node.0 }), reply);
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = self.disk();
        let Some(names) = disk.image.names(node.0) else { return reply.error(Errno::ENOTDIR) };
        for (index, (name, node)) in names.iter().enumerate().skip(offset as usize) {
            let directory = disk.image.names(*node).is_some();
            let kind = if directory { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(*node), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}

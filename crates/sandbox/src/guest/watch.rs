//! Changes of the workspace, told as they happen.
//!
//! What is told is where to look, not what is there: a path may be told that changed twice or is gone again. Where too
//! much happens at once, or there are more directories than can be watched, that is told instead.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::files::{Files, fault, is_unfinished, on};
use super::session::{Outgoing, Stopped};
use crate::path::RelativePath;
use crate::protocol::{Answer, Fault, NAMED_PATHS_BYTES_MAX, NAMED_PATHS_MAX, Progress};
use crate::tree::is_derived;

/// Most directories watched; the kernel keeps about a kilobyte for each.
const WATCHES_MAX: usize = 16_384;
/// Deepest directory watched.
const DEPTH_MAX: u32 = 128;
/// How long changes are gathered before they are told, so that a checkout is a few messages and not thousands.
const GATHER: Duration = Duration::from_millis(50);
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR);

/// Tells changes until the host wants no more.
pub(super) async fn watch(id: u64, files: Arc<Files>, out: Outgoing, stopped: Stopped) -> Result<Answer, Fault> {
    let mut watcher = tokio::task::spawn_blocking(move || Watcher::start(&files))
        .await
        .map_err(|_| fault("watch the workspace", None))??;
    out.progress(id, watcher.report()).await;
    loop {
        tokio::select! {
            () = stopped.wait() => return Ok(Answer::Done),
            gathered = watcher.gather() => gathered?,
        }
        out.progress(id, watcher.report()).await;
    }
}

struct Watcher {
    events: AsyncFd<OwnedFd>,
    root: OwnedFd,
    directories: HashMap<i32, RelativePath>,
    changed: BTreeSet<RelativePath>,
    changed_bytes: usize,
    /// Something changed that is not among `changed`.
    incomplete: bool,
    /// Not every directory could be watched, so from now on nothing is ever complete.
    blind: bool,
}

impl Watcher {
    fn start(files: &Files) -> Result<Self, Fault> {
        let act = "watch the workspace";
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(on(act))?;
        let mut watcher = Self {
            events: watched(events).map_err(|error| fault(act, error.raw_os_error()))?,
            root: files.open_root()?,
            directories: HashMap::new(),
            changed: BTreeSet::new(),
            changed_bytes: 0,
            incomplete: false,
            blind: false,
        };
        watcher.add_tree(&RelativePath::root(), DEPTH_MAX);
        Ok(watcher)
    }

    /// What is to be told, and nothing of it again.
    fn report(&mut self) -> Progress {
        let incomplete = std::mem::take(&mut self.incomplete) || self.blind;
        self.changed_bytes = 0;
        Progress::Changed { paths: std::mem::take(&mut self.changed).into_iter().collect(), incomplete }
    }

    /// Waits for a change, then for a moment more.
    async fn gather(&mut self) -> Result<(), Fault> {
        while self.changed.is_empty() && !self.incomplete {
            self.wait_and_take().await?;
        }
        let until = tokio::time::Instant::now() + GATHER;
        while let Ok(taken) = tokio::time::timeout_at(until, self.wait_and_take()).await {
            taken?;
        }
        Ok(())
    }

    async fn wait_and_take(&mut self) -> Result<(), Fault> {
        let mut ready =
            self.events.readable().await.map_err(|error| fault("watch the workspace", error.raw_os_error()))?;
        ready.clear_ready();
        drop(ready);
        for event in read_events(self.events.get_ref())? {
            self.take(event);
        }
        Ok(())
    }

    fn take(&mut self, Seen { watch, flags, name }: Seen) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.incomplete = true;
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&watch);
        }
        let (Some(directory), Some(name)) = (self.directories.get(&watch), name) else { return };
        if is_unfinished(name.as_bytes()) {
            return;
        }
        let Ok(path) = directory.join(name.as_bytes()) else { return };
        if flags.contains(ReadFlags::ISDIR) {
            if flags.contains(ReadFlags::MOVED_FROM) {
                self.forget(&path);
            }
            if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) && !is_derived(name.as_bytes()) {
                // What was put in it before it was watched is told with it: its own path changed.
                self.add_tree(&path, DEPTH_MAX);
            }
        }
        self.tell(path);
    }

    fn tell(&mut self, path: RelativePath) {
        if self.changed.contains(&path) {
            return;
        }
        self.changed_bytes += path.as_bytes().len();
        if self.changed.len() < NAMED_PATHS_MAX && self.changed_bytes <= NAMED_PATHS_BYTES_MAX {
            self.changed.insert(path);
        } else {
            self.incomplete = true;
        }
    }

    /// Forgets the directories beneath a path that was moved away; their watches would tell wrong names.
    fn forget(&mut self, path: &RelativePath) {
        let mut prefix = path.as_bytes().to_vec();
        prefix.push(b'/');
        let beneath = |known: &RelativePath| known == path || known.as_bytes().starts_with(&prefix);
        let gone: Vec<i32> =
            self.directories.iter().filter(|(_, known)| beneath(known)).map(|(watch, _)| *watch).collect();
        for watch in gone {
            self.directories.remove(&watch);
            // It may have ended by itself.
            inotify::remove_watch(self.events.get_ref(), watch).ok();
        }
    }

    fn add_tree(&mut self, path: &RelativePath, depth_left: u32) {
        if depth_left == 0 || self.directories.len() >= WATCHES_MAX {
            self.blind = true;
            return;
        }
        // Gone again, a link, or not to be read: then there is nothing to watch.
        let Ok(directory) = self.open(path) else { return };
        // By descriptor, because a path could lead elsewhere by now.
        let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
        match inotify::add_watch(self.events.get_ref(), by_descriptor.as_str(), EVENTS) {
            Ok(watch) => self.directories.insert(watch, path.clone()),
            Err(_) => {
                self.blind = true;
                return;
            }
        };
        for name in directories_in(&directory) {
            if let Ok(below) = path.join(name.as_bytes()) {
                self.add_tree(&below, depth_left - 1);
            }
        }
    }

    fn open(&self, path: &RelativePath) -> Result<OwnedFd, Errno> {
        use rustix::fs::ResolveFlags;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(&self.root, path.as_path(), flags, Mode::empty(), resolve)
    }
}

#[allow(unsafe_code)]
fn watched(events: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor for as long as it lives, and is never exchanged for another.
    Ok(unsafe { AsyncFd::register(events) }?)
}

/// The directories in a directory that are worth watching.
fn directories_in(directory: &OwnedFd) -> Vec<CString> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_owned());
    let is_directory = |name: &CString| {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    names
        .filter(|name| !matches!(name.as_bytes(), b"." | b"..") && !is_derived(name.as_bytes()))
        .filter(is_directory)
        .collect()
}

struct Seen {
    watch: i32,
    flags: ReadFlags,
    name: Option<CString>,
}

/// Everything that waits to be read.
fn read_events(events: &OwnedFd) -> Result<Vec<Seen>, Fault> {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    let mut seen = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => seen.push(Seen {
                watch: event.wd(),
                flags: event.events(),
                name: event.file_name().map(ToOwned::to_owned),
            }),
            Err(Errno::AGAIN) => return Ok(seen),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(on("watch the workspace")(errno)),
        }
    }
}

//! The parts of an answer.

use serde::{Deserialize, Serialize};

use crate::path::{LinkTarget, RelativePath};
use crate::tree::TreeId;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// More will follow.
    Progress(Progress),
    /// The last part.
    Done(Answer),
    /// The last part: it could not be done.
    Failed(Fault),
}

/// What is said before the last part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The command runs.
    Started {
        /// Its process, as the sandbox numbers it.
        pid: i32,
    },
    /// The command took this many bytes of input; as many may be sent again.
    InputTaken {
        /// How many.
        bytes: u64,
    },
    /// The workspace changed.
    Changed {
        /// Where to look.
        paths: Vec<RelativePath>,
        /// More changed than is named.
        incomplete: bool,
    },
    /// The server has accepted.
    Connected,
    /// The terminal's screen follows as this many bytes of content, and what it shows later follows that.
    Screen {
        /// How many.
        bytes: u64,
    },
}

/// How a request ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done and there is nothing to say.
    Done,
    /// The command ended.
    Exited(Exit),
    /// The bytes were sent; this is the file they came from.
    Read(Metadata),
    /// A directory's entries.
    Entries {
        /// In the order of their names' bytes.
        entries: Vec<Entry>,
        /// There are more after the last of these.
        more: bool,
    },
    /// A path's description.
    Metadata(Metadata),
    /// How the guest is.
    Health(Health),
    /// A tree was taken.
    Snapshot(SnapshotReport),
    /// A part was sent of something of this size.
    Part {
        /// Bytes of the whole.
        size: u64,
    },
    /// A part was sent of something whose size nobody knows yet.
    Next {
        /// Nothing follows.
        last: bool,
    },
    /// A merge was done.
    Merged(MergeReport),
    /// Room was given back.
    Dropped(Dropped),
}

/// Contents that were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// How many.
    pub contents: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// A tree that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotReport {
    /// Its name.
    pub tree: TreeId,
    /// How many paths it holds.
    pub paths: u64,
    /// How many bytes its files have together.
    pub bytes: u64,
    /// How many files had to be read for it.
    pub files_read: u64,
    /// How many paths are not in it: sockets, pipes, devices, and what may not be read.
    pub skipped: u64,
    /// The first of these.
    pub skipped_paths: Vec<RelativePath>,
    /// Paths of the live directory that their permissions keep out of every tree; the first of them.
    #[serde(default)]
    pub forbidden: Vec<RelativePath>,
}

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReport {
    /// What was changed.
    pub base: TreeId,
    /// The base with what arrived: the changes without the conflicts and without what was so already. Done again after a
    /// crash, with that too.
    pub merged: TreeId,
    /// Paths changed.
    pub applied: u64,
    /// Paths that were already as wanted.
    pub already: u64,
    /// The first of these.
    pub already_paths: Vec<RelativePath>,
    /// Paths that were neither as before nor as wanted, and were left alone; the first of them.
    pub conflicts: Vec<RelativePath>,
    /// How many more of these there are.
    pub conflicts_more: u64,
    /// Paths that nobody else changed, and that their permissions kept as they are; the first of them.
    #[serde(default)]
    pub forbidden: Vec<RelativePath>,
    /// Files beside what was merged that somebody else had changed since the base; the first of them.
    #[serde(default)]
    pub meanwhile: Vec<RelativePath>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// How.
    pub ending: Ending,
    /// After how long.
    pub duration_ms: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// By the guest, because its time was up.
    TimedOut,
    /// By the guest, because the host asked for it.
    Killed,
}

/// A path's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes, of the target's text for a link.
    pub size: u64,
    /// Last change of the content, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Number of the inode, to notice that one name was another file before.
    pub inode: u64,
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, pipe or device.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: RelativePath,
    /// What it is.
    pub metadata: Metadata,
    /// What a link names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LinkTarget>,
}

/// How a guest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The guest's process number inside; 1 when it owns its process namespace.
    pub pid: i32,
    /// Requests under way, this one included.
    pub requests: u32,
    /// Processes in the sandbox, the guest included.
    pub processes: u32,
}

/// Why a request could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// For deciding.
    pub code: FaultCode,
    /// For reading.
    pub message: String,
}

impl Fault {
    /// A fault with a sentence.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// This role does not do that.
    Role,
    /// The request makes no sense.
    BadRequest,
    /// A limit of the guest.
    Limit,
    /// The path leads outside the workspace, or through too many links.
    Escapes,
    /// There is no such path, program or request.
    NotFound,
    /// The path exists already.
    Exists,
    /// The path is not a regular file.
    NotAFile,
    /// The path is not a directory.
    NotADirectory,
    /// The directory is not empty.
    NotEmpty,
    /// Permissions forbid it, or the file system is read-only.
    Denied,
    /// No space is left.
    NoSpace,
    /// Another error of the system.
    System,
}

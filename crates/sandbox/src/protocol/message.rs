//! The messages of the protocol.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::reply::Reply;
use crate::path::{LinkTarget, RelativePath};
use crate::tree::TreeId;

/// What a guest is for, and so what it may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestRole {
    /// Runs terminals and reaches files and ports, beside the commands of its sandbox.
    Associate,
    /// Runs the commands of an associate's sandbox and says how they ended, from where they cannot reach.
    Shim,
    /// Reads, hashes and changes the workspace; runs nothing.
    Keeper,
}

impl GuestRole {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Associate, Self::Shim, Self::Keeper];

    /// The role's name, as a guest's program is told it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Associate => "associate",
            Self::Shim => "shim",
            Self::Keeper => "keeper",
        }
    }

    /// The role of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A control frame from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromHost {
    /// The first frame.
    Hello {
        /// The host's protocol version.
        version: u32,
        /// What everything in the sandbox may use.
        limits: GuestLimits,
    },
    /// Something to do.
    Request(Request),
    /// The host used this many bytes of a terminal's or a port's output; as many may be sent again.
    OutputTaken {
        /// The request that opened it.
        id: u64,
        /// How many.
        bytes: u64,
    },
}

/// A control frame from a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromGuest {
    /// The first frame.
    Hello {
        /// The guest's protocol version.
        version: u32,
        /// The role that the guest was started in.
        role: GuestRole,
        /// Version of Landlock that restricts the guest; nothing shows it from outside.
        landlock_abi: u32,
    },
    /// A part or the whole of an answer.
    Reply {
        /// The request answered.
        id: u64,
        /// The part.
        reply: Reply,
    },
}

/// What every process of a sandbox may use, enforced by the kernel for each or for all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestLimits {
    /// Processes and threads, all together. The kernel does not hold root to it.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of address space of one process. Programs that reserve much and use little need it without a limit.
    pub address_space_bytes: Option<u64>,
    /// Whether there may be files without names. They are memory that belongs to no process, so they are refused where
    /// only the memory of processes is added up, and so is more room for sockets than they have at first.
    pub nameless_files: bool,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the host, unique among requests under way.
    pub id: u64,
    /// What is asked.
    pub ask: Ask,
}

/// Everything that a guest can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Run a command; output arrives as data frames.
    Exec(Exec),
    /// End a command and all its descendants.
    Kill {
        /// The request that started it.
        target: u64,
    },
    /// No more input for a command, or no more bytes for a file, which is then not written.
    CloseInput {
        /// The request that started it.
        target: u64,
    },
    /// Open a terminal; its output arrives as data frames, at most a window ahead of the host.
    OpenTerminal(OpenTerminal),
    /// Give a terminal another size.
    ResizeTerminal {
        /// The request that opened it.
        target: u64,
        /// The new size.
        size: TerminalSize,
    },
    /// Send a terminal's screen as it is, then its output.
    AttachTerminal {
        /// The request that opened it.
        target: u64,
    },
    /// Send a terminal's output no longer; it goes on without a viewer.
    DetachTerminal {
        /// The request that opened it.
        target: u64,
    },
    /// Connect to a server inside; bytes go both ways as data frames until one side closes.
    Connect {
        /// The port on which it listens.
        port: u16,
    },
    /// Read a part of a file; its bytes arrive as data frames.
    Read {
        /// The file.
        path: RelativePath,
        /// First byte.
        offset: u64,
        /// Most bytes wanted, at most [`super::READ_BYTES_MAX`].
        length: u64,
    },
    /// Replace a file as a whole; `size` bytes follow as data frames.
    Write {
        /// The file; a link of that name is replaced, not followed.
        path: RelativePath,
        /// Permission bits, or those of the file it replaces, or 0644.
        mode: Option<u32>,
        /// How many bytes will follow.
        size: u64,
    },
    /// List a directory in the order of its names' bytes.
    List {
        /// The directory.
        path: RelativePath,
        /// The last name already known.
        after: Option<RelativePath>,
        /// Most entries wanted, at most [`super::LIST_ENTRIES_MAX`].
        limit: u32,
    },
    /// Describe a path, without following a final link.
    Stat {
        /// The path.
        path: RelativePath,
    },
    /// Remove a path.
    Remove {
        /// The path.
        path: RelativePath,
        /// What may be removed.
        removal: Removal,
    },
    /// Rename a path, replacing a file of the new name.
    Rename {
        /// The old path.
        from: RelativePath,
        /// The new path.
        to: RelativePath,
    },
    /// Make a directory and those above it.
    MakeDirectory {
        /// The directory.
        path: RelativePath,
    },
    /// Put a symbolic link in the place of whatever is not a directory.
    MakeLink {
        /// The link.
        path: RelativePath,
        /// What it names.
        target: LinkTarget,
    },
    /// Tell changes of the workspace until killed. The first report says that watching has begun.
    Watch,
    /// Take the live directory's tree and keep its contents.
    TakeSnapshot,
    /// Read a part of a tree's manifest; its bytes arrive as data frames.
    ReadTree {
        /// The tree.
        tree: TreeId,
        /// First byte.
        offset: u64,
        /// Most bytes wanted, at most [`super::READ_BYTES_MAX`].
        length: u64,
    },
    /// Make the directories of a task that runs over a tree's snapshot.
    PrepareTask {
        /// The task.
        task: EffectId,
        /// What it starts from.
        base: TreeId,
    },
    /// Take the tree that a task has made.
    CaptureTask {
        /// The task.
        task: EffectId,
        /// What it started from.
        base: TreeId,
    },
    /// Read a part of a file as it is in a tree; its bytes arrive as data frames.
    ReadContent {
        /// The tree.
        tree: TreeId,
        /// The file in it; a link is its target's name.
        path: RelativePath,
        /// First byte.
        offset: u64,
        /// Most bytes wanted, at most [`super::READ_BYTES_MAX`].
        length: u64,
    },
    /// Make the tree on which a task's result is checked: what the project ignores is as in the base, and so is what is
    /// named.
    CheckTree {
        /// What the task started from.
        base: TreeId,
        /// What it made.
        result: TreeId,
        /// Paths that are as in the base, or absent as there; at most [`super::NAMED_PATHS_MAX`].
        from_base: Vec<RelativePath>,
    },
    /// Make a tree with some paths of another one in it, wherever they shall stand.
    Graft {
        /// The tree that takes them.
        onto: TreeId,
        /// The tree that has them.
        from: TreeId,
        /// What each is called there, and shall be called here; at most [`super::NAMED_PATHS_MAX`].
        paths: Vec<(RelativePath, RelativePath)>,
    },
    /// Remove a task's directories.
    DropTask {
        /// The task.
        task: EffectId,
    },
    /// Remove what was made of trees for tasks to run over, where no task needs it any more.
    DropSnapshots {
        /// The trees that tasks run over, at most [`super::UNDONE_MAX`].
        keep: Vec<TreeId>,
    },
    /// Remove trees that nobody names any more. Their contents stay.
    DropTrees {
        /// At most [`super::UNDONE_MAX`].
        trees: Vec<TreeId>,
    },
    /// Remove contents that no tree holds and no file of the live directory has.
    DropContents,
    /// Read a part of the difference between two trees in git's format; its bytes arrive as data frames.
    Diff {
        /// The first tree.
        from: TreeId,
        /// The second tree.
        to: TreeId,
        /// First byte.
        offset: u64,
        /// Most bytes wanted, at most [`super::READ_BYTES_MAX`].
        length: u64,
    },
    /// Read the next part of that difference, however long it is; at most [`super::READ_BYTES_MAX`] arrive as data frames.
    WholeDiff {
        /// The first tree.
        from: TreeId,
        /// The second tree.
        to: TreeId,
        /// Where the part before ended.
        offset: u64,
    },
    /// Apply the changes between two trees to the live directory.
    Merge {
        /// What was changed.
        base: TreeId,
        /// What became of it.
        result: TreeId,
        /// It was begun before: what is so already may be what it did then, and counts as brought.
        #[serde(default)]
        again: bool,
    },
    /// Take several changes back as one, where the live directory still is as they left it.
    Undo {
        /// From the oldest to the newest, at most [`super::UNDONE_MAX`].
        changes: Vec<TreeChange>,
        /// Nothing but what they did to this path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<RelativePath>,
        /// It was begun before, as for [`Ask::Merge`].
        #[serde(default)]
        again: bool,
    },
    /// Say how the guest is.
    Health,
    /// End everything and exit.
    Shutdown,
}

impl Ask {
    /// Whether a guest of this role does this at all.
    pub fn suits(&self, role: GuestRole) -> bool {
        match self {
            Self::Exec(_) => role == GuestRole::Shim,
            Self::OpenTerminal(_)
            | Self::ResizeTerminal { .. }
            | Self::AttachTerminal { .. }
            | Self::DetachTerminal { .. }
            | Self::Connect { .. } => role == GuestRole::Associate,
            Self::TakeSnapshot
            | Self::ReadTree { .. }
            | Self::PrepareTask { .. }
            | Self::CaptureTask { .. }
            | Self::CheckTree { .. }
            | Self::Graft { .. }
            | Self::ReadContent { .. }
            | Self::DropTask { .. }
            | Self::DropSnapshots { .. }
            | Self::DropTrees { .. }
            | Self::DropContents
            | Self::Diff { .. }
            | Self::WholeDiff { .. }
            | Self::Merge { .. }
            | Self::Undo { .. } => role == GuestRole::Keeper,
            Self::Kill { .. } | Self::CloseInput { .. } | Self::Health | Self::Shutdown => true,
            Self::Read { .. }
            | Self::Write { .. }
            | Self::List { .. }
            | Self::Stat { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::MakeDirectory { .. }
            | Self::MakeLink { .. }
            | Self::Watch => role != GuestRole::Shim,
        }
    }
}

/// A change from one tree to another that was brought into the live directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeChange {
    /// Before it.
    pub base: TreeId,
    /// After it.
    pub result: TreeId,
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The effect that this command is, for the record.
    pub effect: EffectId,
    /// What to run.
    pub command: Command,
    /// Where, beneath the workspace.
    pub directory: RelativePath,
    /// Variables beyond the fixed set.
    pub environment: BTreeMap<String, String>,
    /// Most milliseconds that it may run.
    pub timeout_ms: u64,
    /// What it reads.
    pub input: Input,
}

/// A terminal to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTerminal {
    /// The name by which its processes are known.
    pub effect: EffectId,
    /// What runs in it.
    pub command: Command,
    /// Where, beneath the workspace.
    pub directory: RelativePath,
    /// Variables beyond the fixed set.
    pub environment: BTreeMap<String, String>,
    /// Its first size.
    pub size: TerminalSize,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// How wide.
    pub columns: u16,
    /// How high.
    pub rows: u16,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A text for `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments, without a shell.
    Arguments(Vec<String>),
}

/// What a command reads on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Nothing.
    Empty,
    /// Data frames of the request, until `CloseInput`.
    Stream,
}

/// Name of one effect, stable over restarts: the key under which it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EffectId(String);

/// The text is not an effect id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an effect id is 1 to 128 letters, digits, `.`, `_`, `:` or `-`")]
pub struct EffectIdError;

impl EffectId {
    /// Longest id in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Parses an id.
    pub fn parse(text: impl Into<String>) -> Result<Self, EffectIdError> {
        let text = text.into();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(good) {
            return Err(EffectIdError);
        }
        Ok(Self(text))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<EffectId> for String {
    fn from(id: EffectId) -> Self {
        id.0
    }
}

impl TryFrom<String> for EffectId {
    type Error = EffectIdError;

    fn try_from(text: String) -> Result<Self, EffectIdError> {
        Self::parse(text)
    }
}

/// What may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// Anything but a directory.
    File,
    /// An empty directory.
    EmptyDirectory,
    /// Whatever it is, with all that is in it.
    Tree,
}

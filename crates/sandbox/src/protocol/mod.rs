//! The one protocol between a host and its guests.
//!
//! One byte stream carries [`Frame`]s. Each side says `Hello` with its [`VERSION`] first. Then the host sends
//! [`Request`]s, each with an id of its choice; many may be under way. The guest answers each with any number of
//! [`Reply::Progress`] and data frames and exactly one [`Reply::Done`] or [`Reply::Failed`]. The guest never asks.
//!
//! Bulk bytes towards the guest are bounded by windows and announced sizes rather than by blocking the stream,
//! because a stream blocked by one request could no longer carry the kill of another.

mod frame;
#[cfg(test)]
mod fuzz;
mod message;
mod reply;
mod stream;

pub use frame::{Channel, DATA_BYTES_MAX, FRAME_BYTES_MAX, Frame, FrameError, decode};
pub use message::{
    Ask, Command, EffectId, EffectIdError, Exec, FromGuest, FromHost, GuestLimits, GuestRole, Input, OpenTerminal,
    Removal, Request, TerminalSize, TreeChange,
};
pub use reply::{
    Answer, Dropped, Ending, Entry, Exit, Fault, FaultCode, FileKind, Health, MergeReport, Metadata, Progress, Reply,
    SnapshotReport,
};
pub use stream::{FrameReader, StreamError, control_frame};

/// Version of the protocol; both sides refuse any other.
pub const VERSION: u32 = 1;
/// Most bytes that one `Read` answers with.
pub const READ_BYTES_MAX: u64 = 1024 * 1024;
/// Largest file that one `Write` makes.
pub const WRITE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Most entries that one `List` answers with; the names of a frame's worth.
pub const LIST_ENTRIES_MAX: u32 = 300;
/// Most input bytes under way to a command that has not read them yet.
pub const INPUT_WINDOW_BYTES: usize = 256 * 1024;
/// Most output bytes under way from a terminal or a port that the host has not taken yet.
pub const OUTPUT_WINDOW_BYTES: usize = 256 * 1024;
/// Bytes of a window that are given back at once. One message for each keystroke would cost as much as the keystroke; what
/// is not given back yet is always less than this, so that a window never closes for good.
pub const WINDOW_STEP_BYTES: usize = 64 * 1024;
/// Largest terminal in either direction; the screen of this size is some ten megabytes.
pub const TERMINAL_SIZE_MAX: u16 = 500;
/// Most bytes of a terminal's screen as it is sent to a new viewer.
pub const SCREEN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest difference between two trees that is answered as a whole, in bytes; a longer one is read in parts.
pub const DIFF_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most changes that are taken back as one; their names fit in a frame.
pub const UNDONE_MAX: usize = 256;
/// Most paths that one message names, if they are short.
pub const NAMED_PATHS_MAX: usize = 500;
/// Most bytes of paths that one message names. Written in the longest way they still fit a frame.
pub const NAMED_PATHS_BYTES_MAX: usize = 64 * 1024;
/// Most requests under way at once.
pub const REQUESTS_MAX: usize = 256;
/// Longest that a command may run; nothing runs for ever by omission.
pub const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

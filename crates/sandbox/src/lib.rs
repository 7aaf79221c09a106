//! Sandboxes: how untrusted work is started, spoken to, limited and ended.
//!
//! A [`runtime::Runtime`] starts a guest from a [`runtime::Spec`] and answers with a [`runtime::Guest`], a handle over
//! one byte stream. Inside, [`guest::run`] serves that stream: commands, terminals and ports of an associate; trees,
//! snapshots, results of tasks and merging of a keeper; files for both. Both sides speak the one [`protocol`]. What was
//! started and how it ended is kept by [`record`], outside the command's reach.
//!
//! Three walls stand around a command: namespaces without network, host files or privileges; system calls, files and
//! resources that the guest gave up for itself and its children; and an outside that inspects the first two, adds up
//! memory, and ends the sandbox when it must. Nothing survives the host, the stream, or the last handle.
//!
//! Deliberately absent: models, HTTP, the log, secrets, and any decision about what may run or be reached. The host side
//! treats every byte of a guest as hostile; the guest side never sees the host's environment.

#[cfg(feature = "attack")]
pub mod attack;
pub mod confine;
pub mod guest;
pub mod path;
pub mod protocol;
pub mod record;
pub mod runtime;
pub mod tree;

//! Sandboxes: how untrusted work is started, spoken to, limited and ended.
//!
//! A [`runtime::Runtime`] starts a guest and answers with a [`runtime::Guest`], a handle over one byte stream.
//! Inside, [`guest::run`] serves that stream: commands for an associate, files for a keeper. Both sides speak
//! the one [`protocol`]. What started and how it ended is kept by [`record`] outside the command's reach.
//!
//! Deliberately absent: models, HTTP, the log, secrets, and any decision about what may run. The host side treats
//! every byte of a guest as hostile; the guest side never sees the host's environment.

pub mod guest;
pub mod path;
pub mod protocol;
pub mod record;
pub mod runtime;
pub mod tree;

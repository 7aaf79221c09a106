//! The words of ChoirOS as types: ids, events, the task contract, and every message that crosses a process boundary.
//!
//! Deliberately absent: I/O, clocks, randomness and decisions. Ids and times are made by the shells and arrive here
//! as data, so that the same types build for the browser.

pub mod api;
pub mod desktop;
pub mod document;
pub mod egress;
pub mod error;
pub mod event;
pub mod hash;
pub mod id;
pub mod inbox;
pub mod model;
pub mod money;
pub mod run;
#[cfg(feature = "schema")]
pub mod schema;
pub mod task;
pub mod time;
pub mod tour;
pub mod trace;
pub mod wire;

pub use error::{ApiError, in_words, place};
pub use event::{Envelope, Event};
pub use hash::Hash;
pub use id::{ArtifactId, ComputerId, DocumentId, EventId, InboxId, RunId, Seq, TaskId, TerminalId, UndoId, WindowId};
pub use model::Role;
pub use money::Usd;
pub use run::{Run, RunStatus};
pub use task::{TaskRequest, TaskResult, TaskStatus};
pub use time::Timestamp;

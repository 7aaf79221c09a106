//! One person's computer: its log, its agents, its documents and the API over them. The director of the design.
//!
//! Deliberately absent: secrets, the network and the workspace. Models and sandboxes are asked for over one socket to
//! control; the people's requests arrive over another. Whoever holds the other end is control.

pub mod actor;
pub mod api;
pub mod control;
pub mod document;
pub mod figure;
pub mod harness;
pub mod journal;
pub mod maintain;
pub mod merge;
pub mod mirror;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod search;
pub mod serve;
pub mod undo;
pub mod view;
pub mod world;

pub use api::openapi;
pub use serve::{Computer, ServeError, serve};

/// The version that is written into logs and shown to people.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

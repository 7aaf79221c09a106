//! What the web desktop decides, without a browser: how views follow the log, where windows lie, what Enter will do, and
//! how things are worded. The page itself, which draws these, is the binary of this crate and exists for wasm only.
//!
//! Deliberately absent: state of record. Everything here can be fetched again from the server.

pub mod computer;
pub mod diff;
pub mod event;
pub mod evidence;
pub mod files;
pub mod geometry;
pub mod icon;
pub mod inbox;
pub mod json;
pub use choir_core::markdown;
pub mod menu;
pub mod order;
pub mod prompt;
pub mod settings;
pub mod status;
pub mod surface;
pub mod tour;
pub mod trace;
pub mod versions;
pub mod words;

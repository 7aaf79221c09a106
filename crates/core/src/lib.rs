//! What ChoirOS decides, as pure functions: folds `apply(row, event)` and steps `state → what to do next`.
//!
//! Deliberately absent: async, clocks, randomness and I/O. They arrive as data, so that the same code runs on the
//! server, in the browser, in the simulation and in a replay.

pub mod actor;
pub mod agent;
pub mod beside;
pub mod checks;
pub mod command;
pub mod data;
pub mod discover;
pub mod doubt;
pub mod effect;
pub mod evidence;
mod expect;
pub mod export;
pub mod fence;
pub mod figure;
pub mod fold;
mod heard;
pub mod line;
pub mod look;
pub mod markdown;
pub mod mirror;
pub mod pace;
pub mod page;
pub mod picture;
pub mod plan;
pub mod proposal;
pub mod reach;
mod recipe;
pub mod replay;
pub mod roster;
mod rust;
pub mod says;
pub mod schema;
pub mod search;
pub mod settle;
mod shell;
pub mod sketch;
pub mod supervise;
#[cfg(test)]
mod testing;
pub mod text;
pub mod title;
pub mod told;
pub mod tool;
pub mod trace;
pub mod undo;
pub mod verify;
pub mod visible;
mod walled;

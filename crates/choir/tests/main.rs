//! The binary as people and scripts use it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alone;
mod processes;
mod running;
mod support;

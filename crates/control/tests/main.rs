//! Control as its neighbours see it: over real sockets, with a computer that a test plays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod bad_input;
mod egress;
mod fetching;
mod forwarding;
mod gateway;
mod guarding;
mod heads;
mod inbox;
mod limits;
mod openapi;
mod patience;
mod paying;
mod plain;
mod probing;
mod sandboxes;
mod secrets;
mod starting;
mod stream;
mod support;

//! The binary as people and scripts use it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alone;
mod checks;
mod conflict;
mod contract;
mod damage;
mod description;
mod discovering;
mod documents;
mod door;
mod egress;
mod fooling;
mod large;
mod mcp;
mod mirrors;
mod processes;
mod projects;
mod providers;
mod reading;
mod refusing;
mod resting;
mod rules;
mod running;
mod secrets;
mod support;
mod tenancy;
mod threats;
mod toolchains;
mod tour;
mod undoing;
mod verifying;

//! The log as its users see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collect;
mod damage;
mod erasure;
mod fixture;
mod guards;
mod index;
mod log;
mod relay;
mod search;
mod views;

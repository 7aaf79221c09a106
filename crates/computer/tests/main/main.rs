//! A whole computer against a scripted control, asserting on the log.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod authority;
mod blank;
mod budget;
mod crash;
mod crowd;
mod deciding;
mod documents;
mod evidence;
mod fake;
mod golden;
mod hardship;
mod losing;
mod mirroring;
mod peer;
mod person;
mod replanning;
mod replay;
mod runs;
mod scenarios;
mod sketching;

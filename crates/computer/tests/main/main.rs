//! A whole computer against a scripted control, asserting on the log.

mod crash;
mod fake;
mod runs;

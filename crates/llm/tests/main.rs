//! Everything that `choir-llm` promises to those who call it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod bounds;
mod cases;
mod hostile;
mod requests;
mod round_trip;

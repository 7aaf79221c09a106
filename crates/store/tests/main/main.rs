//! The log as its users see it.

mod erasure;
mod fixture;
mod log;
mod views;

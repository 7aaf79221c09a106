//! What ChoirOS promises in numbers, measured; and what it must withstand, done to it.
//!
//! `bench` prints speeds beside what they must reach, `torture` prints one row for each kind of fault, each with a control
//! that must fail. The real binary is driven from outside, the store from inside. Deliberately absent: anything that ships.

pub mod attack;
pub mod bench;
pub mod torture;

mod client;
pub mod disk;
mod event;
mod instance;
mod process;
mod scratch;
mod stats;
mod table;

//! Control as its neighbours see it: over real sockets, with a computer that a test plays.

mod access;
mod forwarding;
mod gateway;
mod guarding;
mod heads;
mod limits;
mod secrets;
mod starting;
mod stream;
mod support;

//! The computer seen from control: its process, the socket to it, and the one subscription to its log.

mod hub;
mod launch;
mod link;
mod ring;
mod subscription;
mod supervise;

pub use hub::Hub;
pub(crate) use hyper::body::Incoming;
pub use launch::{KEPT_APART, Launched, Launcher, REFUSED, program};
pub(crate) use link::request;
pub use link::{Link, LinkError};
pub use ring::{Read, Ring, Wanted};
pub(crate) use subscription::LINE_BYTES_MAX;
pub use supervise::{Plug, State, Supervised, supervise};

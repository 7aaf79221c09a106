//! The trusted process: identity, sessions, secrets, the model gateway, outbound network and the life of sandboxes.
//!
//! In front of it is a browser, behind it a computer that is not trusted. [`up`] puts the parts together; [`http`] faces
//! outwards, [`computer`] and [`gateway`] face inwards, and [`db`] keeps what was decided.
//!
//! Deliberately absent: the log (a computer's own), agents, and any reading of workspace files.

pub mod audit;
pub mod clock;
pub mod computer;
pub mod config;
pub mod data;
pub mod db;
mod descriptors;
pub mod door;
pub mod egress;
pub mod gateway;
pub mod http;
mod identity;
pub mod inbox;
pub mod mcp;
pub mod outbound;
pub mod sandboxes;
pub mod seal;
pub mod secret;
pub mod stop;
pub mod token;
pub mod toolchains;
pub mod tour;
pub mod up;

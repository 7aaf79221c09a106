//! The way out of a sandbox: what a task may reach, decided per task, connected to by control, and recorded.
//!
//! Default deny, one grammar for hosts, and the address that was decided about is the address that is connected to.
//! Nothing is intercepted: what goes through an allowed connection is between the task and that host. An allowed host is
//! therefore a way out.

mod address;
mod broker;
mod fetch;
mod pages;
mod plain;
mod policy;
mod proxy;

pub use broker::{Broker, TokenError};
pub use fetch::{Fetcher, service as fetch_service};
pub(crate) use fetch::{decide, host_and_port};
pub use pages::Pages;
pub(crate) use policy::hash_of;
pub use policy::{Ceiling, Policy, clamp};
pub use proxy::{Allowed, Proxy, open};

use crate::outbound::Outbound;
use choir_proto::TaskId;
use choir_proto::egress::Host;

/// An entry of a wish, as its attempts would be told: host and port apart. A profile has no port.
pub(crate) fn parts(entry: &str) -> (String, u16) {
    match Host::parse_with_port(entry) {
        Ok((host, port)) => (host.to_string(), port),
        Err(_) => (entry.to_owned(), 0),
    }
}

/// By what the outside is reached.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// The one client.
    pub outbound: Outbound,
    /// The places of repositories, with their credentials.
    pub broker: Broker,
}

/// What was decided about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whose attempt; nothing for a terminal of the session.
    pub task: Option<TaskId>,
    /// Where to, as it was asked.
    pub host: String,
    /// Where to.
    pub port: u16,
    /// The rule that allowed it, or why it was refused.
    pub outcome: Result<String, String>,
}

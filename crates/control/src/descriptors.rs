//! How many files and sockets this process may hold. Each connection is one, and running out of them locks everybody out.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections at once, however many descriptors there are.
const CONNECTIONS_MAX: usize = 8192;
/// Kept for everything that is no connection: the database, the computer, sandboxes, providers, the owner's door.
const RESERVE: usize = 256;

/// Raises the soft limit to the hard one, which is the most that we may do by ourselves, and says what it is now.
pub(crate) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current.unwrap_or(u64::MAX);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            limit.current.unwrap_or(u64::MAX)
        }
    }
}

/// How many connections fit: what is left after the reserve, which is half of it all where there is little.
pub(crate) fn connections(descriptors: u64) -> usize {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let reserve = RESERVE.min(descriptors / 2);
    (descriptors - reserve).clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        for (descriptors, fit) in [(1024, 768), (400, 200), (2, 1), (0, 1), (u64::MAX, CONNECTIONS_MAX)] {
            assert_eq!(connections(descriptors), fit, "{descriptors}");
        }
    }
}

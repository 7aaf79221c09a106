//! How much one peer and one account may ask for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::secret::Digest;

/// Longest JSON body.
pub const JSON_BYTES_MAX: usize = 1 << 20;
/// Longest file in one request.
pub(super) const FILE_BYTES_MAX: usize = 1 << 30;

/// Refused sign-ins and requests without a session, per peer: enough for a program that tries every operation there is, and far
/// too few for guessing a token of 256 bits.
const STRANGER: Rate = Rate { burst: 300.0, per_second: 1.0 };
/// Pages and assets, per peer.
const PAGES: Rate = Rate { burst: 2_000.0, per_second: 500.0 };
/// Requests of one account: far above any person or agent, below what would starve the others.
const ACCOUNT: Rate = Rate { burst: 20_000.0, per_second: 5_000.0 };
/// Keys that are remembered. The oldest full buckets are forgotten first: a full bucket says nothing.
const KEYS_MAX: usize = 10_000;

/// Nobody is told to wait longer.
const WAIT_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: f64,
    per_second: f64,
}

/// Who is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Requests that were refused for lack of a session. The address is the socket's: headers are not believed.
    Stranger(IpAddr),
    /// Pages and assets.
    Pages(IpAddr),
    /// Requests of a session or token.
    Account(Digest),
}

/// Token buckets by key, in monotonic time.
#[derive(Debug)]
pub struct Limits {
    buckets: Mutex<HashMap<Key, Bucket>>,
    account: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self { buckets: Mutex::default(), account: ACCOUNT }
    }
}

#[derive(Debug)]
struct Bucket {
    level: f64,
    at: Instant,
}

impl Limits {
    /// With another burst for accounts, which never fills again.
    pub fn with_account_burst(burst: u32) -> Self {
        Self { account: Rate { burst: burst.into(), per_second: f64::MIN_POSITIVE }, ..Self::default() }
    }

    const fn rate(&self, key: Key) -> Rate {
        match key {
            Key::Stranger(_) => STRANGER,
            Key::Pages(_) => PAGES,
            Key::Account(_) => self.account,
        }
    }

    /// Takes one from a bucket, or says how long to wait.
    pub fn take(&self, key: Key) -> Result<(), Duration> {
        self.take_at(key, Instant::now())
    }

    fn take_at(&self, key: Key, now: Instant) -> Result<(), Duration> {
        let rate = self.rate(key);
        let mut buckets = self.buckets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if buckets.len() >= KEYS_MAX && !buckets.contains_key(&key) {
            self.forget(&mut buckets, now);
        }
        let bucket = buckets.entry(key).or_insert(Bucket { level: rate.burst, at: now });
        bucket.refill(rate, now);
        if bucket.level < 1.0 {
            let wait = Duration::try_from_secs_f64((1.0 - bucket.level) / rate.per_second);
            return Err(wait.unwrap_or(WAIT_MAX).min(WAIT_MAX));
        }
        bucket.level -= 1.0;
        Ok(())
    }

    /// Full buckets first; if a flood of addresses left none, all of them: refusing everybody would lock out the owner.
    fn forget(&self, buckets: &mut HashMap<Key, Bucket>, now: Instant) {
        buckets.retain(|key, bucket| {
            let rate = self.rate(*key);
            bucket.refill(rate, now);
            bucket.level < rate.burst
        });
        if buckets.len() >= KEYS_MAX {
            buckets.clear();
        }
    }
}

impl Bucket {
    fn refill(&mut self, rate: Rate, now: Instant) {
        let elapsed = now.duration_since(self.at).as_secs_f64();
        self.level = rate.burst.min(self.level + elapsed * rate.per_second);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PEER: Key = Key::Stranger(IpAddr::V4(Ipv4Addr::LOCALHOST));

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let (limits, now) = (Limits::default(), Instant::now());
        for _ in 0..STRANGER.burst as usize {
            limits.take_at(PEER, now).unwrap();
        }
        let wait = limits.take_at(PEER, now).unwrap_err();
        assert!(wait <= Duration::from_secs(1));
        limits.take_at(PEER, now + wait).unwrap();
        assert!(limits.take_at(PEER, now + wait).is_err());
    }

    #[test]
    fn one_peer_does_not_empty_the_bucket_of_another_or_of_an_account() {
        let (limits, now) = (Limits::default(), Instant::now());
        while limits.take_at(PEER, now).is_ok() {}
        limits.take_at(Key::Stranger(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))), now).unwrap();
        limits.take_at(Key::Account(Digest([7; 32])), now).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let (limits, now) = (Limits::default(), Instant::now());
        for address in 0..2 * KEYS_MAX as u32 {
            limits.take_at(Key::Stranger(IpAddr::V4(address.into())), now).unwrap();
        }
        assert!(limits.buckets.lock().unwrap().len() <= KEYS_MAX);
    }
}

//! Clock and randomness, the two things that decisions must not reach for by themselves.

use choir_proto::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// What the outside world gives: labels of time, a clock that only goes forward, and new names.
pub trait World: Send + Sync {
    /// A label, never an order.
    fn now(&self) -> Timestamp;
    /// Time that only goes forward, since some moment.
    fn elapsed(&self) -> Duration;
    /// A new name, ordered by time.
    fn uuid(&self) -> Uuid;
    /// From 0 to 1, for jitter.
    fn chance(&self) -> f64;
}

/// The world as it is.
#[derive(Debug)]
pub struct RealWorld {
    started: Instant,
}

impl RealWorld {
    /// Starts its clock.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now() })
    }
}

impl World for RealWorld {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is a label like any other.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(since.as_micros() as i64)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn uuid(&self) -> Uuid {
        let random: [u8; 10] = random();
        let millis = (self.now().0 / 1000).max(0) as u64;
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    fn chance(&self) -> f64 {
        u32::from_be_bytes(random()) as f64 / f64::from(u32::MAX)
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel has had entropy since boot");
    bytes
}

//! The wall clock as a seam. Limits and deadlines use monotonic time instead; this is for labels and expiry dates.

use choir_proto::Timestamp;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells what time it is.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's.
    pub fn system() -> Self {
        Self::new(|| {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
        })
    }

    /// A test's.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.0()
    }

    /// The time after a while.
    pub fn after(&self, while_: Duration) -> Timestamp {
        Timestamp(self.now().0.saturating_add(i64::try_from(while_.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

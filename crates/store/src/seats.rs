//! How many work on a disk at once.

use crate::StoreError;
use tokio::sync::Semaphore;

/// Seats for work that blocks. Whoever finds none waits without a thread: hundreds of threads that read at the same moment, each
/// with a connection and a cache of its own, would only wait for each other's processor, and so would everybody else.
#[derive(Debug)]
pub(crate) struct Seats(Semaphore);

impl Seats {
    pub(crate) fn new(seats: usize) -> Self {
        Self(Semaphore::new(seats))
    }

    /// Does work on a thread that may block, as soon as there is a seat.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let _seat = self.0.acquire().await.map_err(|_| StoreError::Closed)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_crowd_is_served_by_few_threads() {
        let seats = Arc::new(Seats::new(3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ask = |seats: Arc<Seats>| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                seats.work(work).await
            })
        };
        let crowd: Vec<_> = (0..100).map(|_| ask(Arc::clone(&seats))).collect();
        for one in crowd {
            one.await.unwrap().unwrap();
        }
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}

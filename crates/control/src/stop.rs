//! Telling a part to stop: said once, heard by everybody, whenever they listen.

use tokio::sync::watch;

/// Says it.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Both ends.
pub fn stop() -> (Stopper, Stop) {
    let (say, hear) = watch::channel(false);
    (Stopper(say), Stop(hear))
}

impl Stopper {
    /// From now on everybody hears it.
    pub fn say(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns once it was said, or once nobody is left to say it.
    pub async fn said(&mut self) {
        self.0.wait_for(|said| *said).await.map(drop).unwrap_or(());
    }
}

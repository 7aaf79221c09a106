//! Views that follow a log while it grows, and readers that see at least what was acknowledged to them.

use super::Views;
use crate::log::Log;
use crate::sqlite::{OpenError, StoreError};
use choir_proto::event::{DecodeError, Header, PAYLOAD_ERASED};
use choir_proto::{Envelope, Event, Hash, Seq};
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use tokio::sync::{Notify, watch};

/// Events folded between two writes of changed rows.
const FLUSH_EVERY_EVENTS: usize = 512;

/// Events folded between two writes of changed rows when the views are far behind. Readers wait meanwhile; they would wait
/// for the end anyway.
const REPLAY_FLUSH_EVENTS: usize = 16 * 1024;

/// Events handed from the reading to the folding thread together.
const BATCH: usize = 256;

/// How far the reading thread may be ahead: it goes on while rows are written.
const BATCHES_AHEAD: usize = 16;

/// A handle to views that are kept up to date.
#[derive(Debug, Clone)]
pub struct LiveViews {
    views: Arc<Mutex<Views>>,
    at: watch::Receiver<Seq>,
    /// Tells the follower that a row is damaged.
    damage: Arc<Notify>,
    log: Log,
}

impl LiveViews {
    /// Brings the views up to the log's head, then keeps following.
    pub async fn follow(log: Log, views: Views) -> Result<Self, OpenError> {
        let mut views = views;
        if !log.holds(views.at()).await {
            tracing::warn!("the views belong to another log and are built anew");
            views.reset()?;
        }
        let (sender, at) = watch::channel(views.at().seq);
        let after = views.at().seq;
        let views = Arc::new(Mutex::new(views));
        let damage = Arc::new(Notify::new());
        let follower = Follower {
            log: log.clone(),
            views: Arc::clone(&views),
            at: sender,
            damage: Arc::clone(&damage),
            unflushed: 0,
            erased_upto: after,
        };
        tokio::spawn(follower.run());
        Ok(Self { views, at, damage, log })
    }

    /// Resolves when the views no longer follow the log.
    pub async fn ended(&self) {
        let mut at = self.at.clone();
        while at.changed().await.is_ok() {}
    }

    /// Reads once the views have seen everything that was acknowledged before this call.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Views) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let head = self.log.head().seq;
        self.at.clone().wait_for(|at| *at >= head).await.map_err(|_| StoreError::Closed)?;
        let views = Arc::clone(&self.views);
        let work = move || read(&mut lock(&views));
        let answer = tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?;
        if matches!(answer, Err(StoreError::Damaged(_))) {
            // Whoever asks again finds it mended.
            self.damage.notify_one();
        }
        answer
    }
}

struct Follower {
    log: Log,
    views: Arc<Mutex<Views>>,
    at: watch::Sender<Seq>,
    damage: Arc<Notify>,
    unflushed: u64,
    /// Erasures up to here are no longer in the views; meeting one of them on the way must not start over.
    erased_upto: Seq,
}

impl Follower {
    async fn run(mut self) {
        let mut head = self.log.watch();
        loop {
            let at = *self.at.borrow();
            let moved = tokio::select! {
                moved = head.wait_for(|head| head.seq > at) => moved.map(|_| true),
                () = self.damage.notified() => Ok(false),
            };
            let stepped = match moved {
                Ok(true) => self.step(at).await,
                Ok(false) => Err(StoreError::Damaged(Hash::ZERO)),
                Err(_) => return,
            };
            if let Err(error) = stepped {
                tracing::error!(%error, "a view is damaged and is built anew");
                if let Err(error) = self.rebuild() {
                    tracing::error!(%error, "the views stopped following the log");
                    return;
                }
            }
        }
    }

    /// Folds what comes next: from memory at the head of the log, from disk further back.
    async fn step(&mut self, at: Seq) -> Result<(), StoreError> {
        let folded = match self.log.recent().after(at, FLUSH_EVERY_EVENTS) {
            Some(events) if !events.is_empty() => self.fold(&events)?,
            _ => self.replay(at).await?,
        };
        let Some(seq) = folded else { return self.rebuild() };
        self.unflushed += seq.0 - at.0;
        if self.unflushed >= FLUSH_EVERY_EVENTS as u64 {
            self.flush().await;
        }
        self.at.send_replace(seq);
        Ok(())
    }

    /// The position reached, or nothing when an erasure makes folding on pointless.
    fn fold(&self, events: &[Arc<Envelope>]) -> Result<Option<Seq>, StoreError> {
        let mut views = lock(&self.views);
        for event in events {
            if is_erasure(&event.header, self.erased_upto) {
                return Ok(None);
            }
            views.fold(&event.header, event.event())?;
        }
        Ok(Some(views.at().seq))
    }

    async fn replay(&self, after: Seq) -> Result<Option<Seq>, StoreError> {
        let (log, views, erased_upto) = (self.log.clone(), Arc::clone(&self.views), self.erased_upto);
        let work = move || replay(&log, &mut lock(&views), after, erased_upto);
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?
    }

    async fn flush(&mut self) {
        let views = Arc::clone(&self.views);
        match tokio::task::spawn_blocking(move || tell_failure(lock(&views).flush())).await {
            Ok(true) => self.unflushed = 0,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the views were not written"),
        }
    }

    /// What was erased must not live on in a view: folding again from the start leaves it out.
    fn rebuild(&mut self) -> Result<(), StoreError> {
        self.erased_upto = self.log.head().seq;
        lock(&self.views).reset().map_err(|error| match error {
            OpenError::Sqlite(error) => StoreError::Sqlite(error),
            _ => StoreError::Closed,
        })?;
        self.at.send_replace(Seq::ZERO);
        Ok(())
    }
}

/// Whether rows were written. Nothing is lost if not: they stay in memory, and the next batch tries again.
fn tell_failure(flushed: Result<(), StoreError>) -> bool {
    if let Err(error) = &flushed {
        tracing::warn!(%error, "the views could not be written");
    }
    flushed.is_ok()
}

/// Events as they were read, their payloads one after the other in one text.
#[derive(Default)]
struct Batch {
    /// Each with the end of its payload.
    headers: Vec<(Header, usize)>,
    payloads: String,
}

impl Batch {
    fn push(&mut self, header: Header, payload: &str) {
        self.payloads.push_str(payload);
        self.headers.push((header, self.payloads.len()));
    }

    /// Understands each event in turn.
    fn each(self, mut take: impl FnMut(Header, Decoded) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut begin = 0;
        for (header, end) in self.headers {
            let event = Event::decode(&header.kind, header.version, &self.payloads[begin..end]);
            take(header, event)?;
            begin = end;
        }
        Ok(())
    }
}

type Decoded = Result<Event, DecodeError>;

/// What the reading thread hands on.
enum Work {
    /// To be understood and folded.
    Read(Batch),
    /// To be folded: the folding thread had enough to do.
    Decoded(Vec<(Header, Decoded)>),
}

impl Work {
    fn fold_into(self, views: &mut Views) -> Result<(), StoreError> {
        match self {
            Self::Read(batch) => batch.each(|header, event| views.fold(&header, event)),
            Self::Decoded(events) => events.into_iter().try_for_each(|(header, event)| views.fold(&header, event)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Read(batch) => batch.headers.len(),
            Self::Decoded(events) => events.len(),
        }
    }

    fn decoded(self) -> Result<Self, StoreError> {
        let Self::Read(batch) = self else { return Ok(self) };
        let mut events = Vec::with_capacity(batch.headers.len());
        batch.each(|header, event| {
            events.push((header, event));
            Ok(())
        })?;
        Ok(Self::Decoded(events))
    }
}

/// Folds events from disk: one thread reads them while this one understands and folds them.
fn replay(log: &Log, views: &mut Views, after: Seq, erased_upto: Seq) -> Result<Option<Seq>, StoreError> {
    let (sender, batches) = mpsc::sync_channel(BATCHES_AHEAD);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || read(log, after, erased_upto, &sender));
        let mut unflushed = 0;
        // Owned here, so that giving up also ends the reader.
        for work in batches.into_iter() {
            unflushed += work.len();
            work.fold_into(views)?;
            if unflushed >= REPLAY_FLUSH_EVENTS {
                tell_failure(views.flush());
                unflushed = 0;
            }
        }
        let erased = reader.join().map_err(|_| StoreError::Closed)??;
        Ok((!erased).then_some(views.at().seq))
    })
}

/// Hands on what is read, up to an erasure; says whether there was one.
fn read(log: &Log, after: Seq, erased_upto: Seq, batches: &mpsc::SyncSender<Work>) -> Result<bool, StoreError> {
    let mut batch = Batch::default();
    let mut erased = false;
    log.replay(after, usize::MAX, |header, payload| {
        erased = is_erasure(&header, erased_upto);
        batch.push(header, payload);
        let wanted = batch.headers.len() < BATCH || hand_on(std::mem::take(&mut batch), batches)?;
        Ok(wanted && !erased)
    })?;
    // Nobody listens any more when folding failed, and that failure is what is told.
    hand_on(batch, batches)?;
    Ok(erased)
}

/// Gives the folding thread more to do, or does some of it while that has enough; says whether anybody listens.
fn hand_on(batch: Batch, batches: &mpsc::SyncSender<Work>) -> Result<bool, StoreError> {
    match batches.try_send(Work::Read(batch)) {
        Ok(()) => Ok(true),
        Err(TrySendError::Full(work)) => Ok(batches.send(work.decoded()?).is_ok()),
        Err(TrySendError::Disconnected(_)) => Ok(false),
    }
}

fn is_erasure(header: &Header, known: Seq) -> bool {
    header.seq > known && header.kind == PAYLOAD_ERASED
}

fn lock(views: &Mutex<Views>) -> MutexGuard<'_, Views> {
    views.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

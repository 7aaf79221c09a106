//! Views that follow a log while it grows, and readers that see at least what was acknowledged to them.

use super::Views;
use crate::log::Log;
use crate::seats::Seats;
use crate::sqlite::{OpenError, StoreError};
use choir_proto::event::{DecodeError, Header, PAYLOAD_ERASED};
use choir_proto::{Envelope, Event, Hash, Seq};
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;
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

/// How long the views wait before they try again what failed, at first and at last.
const AGAIN_SOON: Duration = Duration::from_millis(100);
const AGAIN_LATE: Duration = Duration::from_secs(30);

/// Who reads views at once: one has them, another is ready to.
const READ_AT_ONCE_MAX: usize = 2;

/// A handle to views that are kept up to date.
#[derive(Debug, Clone)]
pub struct LiveViews {
    views: Arc<Mutex<Views>>,
    at: watch::Receiver<Progress>,
    /// Tells the follower that a row is damaged.
    damage: Arc<Notify>,
    log: Log,
    seats: Arc<Seats>,
    /// The follower ends when nobody has this any more.
    _held: watch::Receiver<()>,
}

/// How far the views are.
#[derive(Debug, Clone, Default)]
struct Progress {
    seq: Seq,
    /// Why they do not go on.
    stuck: Option<Arc<str>>,
}

impl LiveViews {
    /// Brings the views up to the log's head, then keeps following.
    pub async fn follow(log: Log, views: Views) -> Result<Self, OpenError> {
        let mut views = views;
        if !log.holds(views.at()).await {
            tracing::warn!("the views belong to another log and are built anew");
            views.reset()?;
        }
        let (sender, at) = watch::channel(Progress { seq: views.at().seq, stuck: None });
        let after = views.at().seq;
        let views = Arc::new(Mutex::new(views));
        let damage = Arc::new(Notify::new());
        let (holders, held) = watch::channel(());
        let follower = Follower {
            log: log.clone(),
            views: Arc::clone(&views),
            at: sender,
            damage: Arc::clone(&damage),
            holders,
            unflushed: 0,
            erased_upto: after,
        };
        tokio::spawn(follower.run());
        Ok(Self { views, at, damage, log, seats: Arc::new(Seats::new(READ_AT_ONCE_MAX)), _held: held })
    }

    /// Resolves when the views no longer follow the log and their files are free: nobody else may hold them then.
    pub async fn close(self) {
        let at = self.at.clone();
        drop(self);
        gone(at).await;
    }

    /// Resolves when the views no longer follow the log.
    pub async fn ended(&self) {
        gone(self.at.clone()).await;
    }

    /// Why the views do not follow the log at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.at.borrow().stuck.as_deref().map(str::to_owned)
    }

    /// Reads once the views have seen everything that was acknowledged before this call.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Views) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let head = self.log.head().seq;
        self.seen(head).await?;
        let views = Arc::clone(&self.views);
        let work = move || read(&mut lock(&views));
        let answer = self.seats.work(work).await?;
        if matches!(answer, Err(StoreError::Damaged(_))) {
            // Whoever asks again finds it mended.
            self.damage.notify_one();
        }
        answer
    }

    async fn seen(&self, head: Seq) -> Result<(), StoreError> {
        let mut at = self.at.clone();
        let known = |at: &Progress| at.seq >= head || at.stuck.is_some();
        let Progress { seq, stuck } = at.wait_for(known).await.map_err(|_| StoreError::Closed)?.clone();
        match stuck {
            Some(what) if seq < head => Err(StoreError::Stuck { at: seq, what }),
            _ => Ok(()),
        }
    }
}

async fn gone(mut at: watch::Receiver<Progress>) {
    while at.changed().await.is_ok() {}
}

/// What keeps the views from going on.
enum Trouble {
    /// Rows of their own cannot be read or are wrong; made anew they are right.
    Views(StoreError),
    /// What they are made from cannot be read; making them anew would lose what they have.
    Log(StoreError),
}

/// What a follower waits for.
enum Call {
    Events,
    /// A row is not what was written.
    Damage,
    /// The log is closed, or nobody has the views any more.
    End,
}

struct Follower {
    log: Log,
    views: Arc<Mutex<Views>>,
    /// Below what it stands for: whoever hears that it is gone finds the files free.
    at: watch::Sender<Progress>,
    damage: Arc<Notify>,
    holders: watch::Sender<()>,
    unflushed: u64,
    /// Erasures up to here are no longer in the views; meeting one of them on the way must not start over.
    erased_upto: Seq,
}

impl Follower {
    async fn run(mut self) {
        let mut head = self.log.watch();
        let mut wait = Duration::ZERO;
        loop {
            let at = self.at.borrow().seq;
            let call = tokio::select! {
                moved = head.wait_for(|head| head.seq > at) => moved.map_or(Call::End, |_| Call::Events),
                () = self.damage.notified() => Call::Damage,
                // Two who keep the same files would make them anew under each other's hands.
                () = self.holders.closed() => Call::End,
            };
            let stepped = match call {
                Call::Events => self.step(at).await,
                Call::Damage => Err(Trouble::Views(StoreError::Damaged(Hash::ZERO))),
                // The next start has nothing to fold.
                Call::End => return self.flush().await,
            };
            match stepped.or_else(|trouble| self.mend(trouble)) {
                Ok(true) => wait = Duration::ZERO,
                // Trouble that comes again at once would otherwise take a processor and fill the disk with its lines.
                Ok(false) => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).clamp(AGAIN_SOON, AGAIN_LATE);
                }
                Err(error) => {
                    tracing::error!(%error, "the views stopped following the log");
                    return;
                }
            }
        }
    }

    /// Folds what comes next: from memory at the head of the log, from disk further back. True when all is well.
    async fn step(&mut self, at: Seq) -> Result<bool, Trouble> {
        let folded = match self.log.recent().after(at, FLUSH_EVERY_EVENTS) {
            Some(events) if !events.is_empty() => self.fold(&events).map_err(Trouble::Views)?,
            _ => self.replay(at).await?,
        };
        let Some(seq) = folded else { return self.rebuild().map(|()| true).map_err(Trouble::Views) };
        if seq == at {
            return Err(Trouble::Log(StoreError::Row {
                seq: at.next().0,
                what: "nothing from here on can be read".into(),
            }));
        }
        if let Some(seq) = lock(&self.views).left_out() {
            self.log.remember(format!("event {seq} cannot be understood"));
        }
        self.unflushed += seq.0 - at.0;
        if self.unflushed >= FLUSH_EVERY_EVENTS as u64 {
            self.flush().await;
        }
        self.at.send_replace(Progress { seq, stuck: None });
        Ok(true)
    }

    /// Does what can be done; false, because more trouble may follow.
    fn mend(&mut self, trouble: Trouble) -> Result<bool, StoreError> {
        match trouble {
            Trouble::Views(StoreError::Closed) | Trouble::Log(StoreError::Closed) => return Err(StoreError::Closed),
            Trouble::Views(error) => {
                tracing::error!(%error, "a view is damaged and is built anew");
                self.rebuild()?;
            }
            Trouble::Log(error) => {
                let what: Arc<str> = in_full(&error).into();
                tracing::error!(error = %what, "the log cannot be read; the views stay where they are");
                let seq = lock(&self.views).at().seq;
                self.at.send_replace(Progress { seq, stuck: Some(what) });
            }
        }
        Ok(false)
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

    async fn replay(&self, after: Seq) -> Result<Option<Seq>, Trouble> {
        let (log, views, erased_upto) = (self.log.clone(), Arc::clone(&self.views), self.erased_upto);
        let work = move || replay(&log, &mut lock(&views), after, erased_upto);
        tokio::task::spawn_blocking(work).await.map_err(|_| Trouble::Views(StoreError::Closed))?
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
        self.at.send_replace(Progress::default());
        Ok(())
    }
}

/// What went wrong, with what led to it.
fn in_full(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
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
fn replay(log: &Log, views: &mut Views, after: Seq, erased_upto: Seq) -> Result<Option<Seq>, Trouble> {
    let (sender, batches) = mpsc::sync_channel(BATCHES_AHEAD);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || read(log, after, erased_upto, &sender));
        let mut unflushed = 0;
        // Owned here, so that giving up also ends the reader.
        for work in batches.into_iter() {
            unflushed += work.len();
            work.fold_into(views).map_err(Trouble::Views)?;
            if unflushed >= REPLAY_FLUSH_EVENTS {
                tell_failure(views.flush());
                unflushed = 0;
            }
        }
        let erased = reader.join().map_err(|_| Trouble::Log(StoreError::Closed))?.map_err(Trouble::Log)?;
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

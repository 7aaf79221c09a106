//! Everybody who looks at one document: what they send is gathered, committed, acknowledged and only then told to the others.

use super::change::{Cause, Change};
use super::outbox::{Inbox, Outbox, outbox};
use super::replica::{Applied, Refused, Replica};
use super::{DocumentError, Documents, Held, Parts, sync};
use crate::journal::Scope;
use bytes::Bytes;
use choir_core::fold::replica::Tail;
use choir_proto::document::DocumentSummary;
use choir_proto::event::Actor;
use choir_proto::wire::frames::ANEW;
use choir_proto::{DocumentId, Seq};
use choir_store::StoreError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard};

/// Updates are committed at most so often; the first after a pause at once.
const COMMIT_EVERY: Duration = Duration::from_millis(250);

/// A pause of this length ends a version.
const NAME_AFTER: Duration = Duration::from_secs(3);

/// Who may look at one document at the same time.
const MEMBERS_MAX: usize = 64;

/// Bytes that wait for a commit. Whoever sends more waits until there is room.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Come again: what was sent is kept by who sent it.
const TRY_AGAIN: u16 = 1013;

/// What somebody sends who has nothing that we lack.
const NOTHING: &[u8] = &[0, 0];

/// Refused for what it is.
const POLICY: u16 = 1008;

/// A replica at work.
pub(super) struct Live {
    pub(super) replica: Replica,
    pub(super) version: u32,
    /// The newest version that has a name.
    pub(super) named: u32,
    /// The newest version that a person's typing made here.
    pub(super) typed: u32,
    pub(super) title: String,
    pub(super) generation: Seq,
    /// Whether something was erased before it.
    anew: bool,
    /// Updates since the last kept state.
    pub(super) tail: usize,
    pub(super) tail_bytes: usize,
}

impl Live {
    pub(super) fn new(replica: Replica, head: &DocumentSummary, tail: &Tail) -> Self {
        Self {
            replica,
            version: head.version,
            named: tail.named,
            typed: 0,
            title: head.title.clone(),
            generation: tail.generation,
            anew: tail.anew,
            tail: tail.updates.len(),
            tail_bytes: tail.updates.iter().map(|update| update.update.len()).sum(),
        }
    }
}

/// One document that is open.
pub(super) struct Room {
    pub(super) id: DocumentId,
    /// Nothing until it is needed, and again after a change that could not be written down.
    live: Arc<tokio::sync::Mutex<Option<Live>>>,
    inside: Mutex<Inside>,
    /// Rings when what waited was taken.
    taken: Notify,
}

#[derive(Default)]
struct Inside {
    next_member: u64,
    members: BTreeMap<u64, Looker>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// Whether words of somebody are on their way to the log and do not wait any more.
    has_taken_words: bool,
    /// Whether somebody is about to commit what waits.
    is_committing: bool,
}

/// One of those who look.
struct Looker {
    out: Outbox,
    /// What they have is of this one.
    generation: Seq,
    /// Updates of theirs that are in the log.
    acknowledged: u64,
    /// What they last said of themselves, for those who come later.
    awareness: Option<sync::Presence>,
}

impl Looker {
    /// Whether they could be told. Nobody waits for the slowest: who is too far behind comes again.
    fn hear(&self, message: Outgoing) -> bool {
        let is_told = self.out.put(message);
        if !is_told {
            // Where even this finds no room, the end says enough.
            self.out.put(Outgoing::Close(Leave::later("you are too far behind; come again")));
        }
        is_told
    }
}

/// An update that is not in the log yet.
struct Waiting {
    member: u64,
    generation: Seq,
    update: Vec<u8>,
}

impl Waiting {
    fn has_words(&self) -> bool {
        self.update != NOTHING
    }
}

/// What is said to somebody who looks at a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A message of the Yjs protocol.
    Message(Bytes),
    /// Nothing follows.
    Close(Leave),
}

impl Outgoing {
    /// How long it is; that somebody has to leave does not count.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.len(),
            Self::Close(_) => 0,
        }
    }
}

/// Why somebody has to leave: a WebSocket's code, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leave {
    /// Of RFC 6455.
    pub code: u16,
    /// For people.
    pub reason: String,
}

impl Leave {
    /// Refused for what was said.
    pub fn refused(reason: impl ToString) -> Self {
        Self { code: POLICY, reason: reason.to_string() }
    }

    fn anew() -> Self {
        Self { code: ANEW, reason: "something of the document was erased; begin with what is left".to_owned() }
    }

    /// For who does not say of which generation what they have is, and has something.
    fn unnamed() -> Self {
        let reason = "something of the document was erased; begin with nothing, or say what you have by ?generation=";
        Self { code: ANEW, reason: reason.to_owned() }
    }

    fn later(reason: &str) -> Self {
        Self { code: TRY_AGAIN, reason: reason.to_owned() }
    }
}

/// A seat in a room; given up when it is dropped.
pub struct Member {
    documents: Documents,
    room: Arc<Room>,
    id: u64,
    generation: Seq,
    /// Whether nothing that they have can be of an earlier generation: they said so, there was none, or they began with nothing.
    is_of_now: AtomicBool,
}

impl Drop for Member {
    fn drop(&mut self) {
        let is_last = {
            let mut inside = self.room.inside();
            let left = inside.members.remove(&self.id);
            if let Some(gone) = left.and_then(|looker| looker.awareness).map(sync::Presence::gone) {
                inside.tell_all(&Outgoing::Message(gone));
            }
            inside.members.is_empty()
        };
        if is_last {
            tokio::spawn(name_at_once(self.documents.clone(), Arc::clone(&self.room)));
        }
    }
}

impl Room {
    pub(super) fn new(id: DocumentId) -> Self {
        Self { id, live: Arc::default(), inside: Mutex::default(), taken: Notify::new() }
    }

    pub(super) async fn lock(&self) -> OwnedMutexGuard<Option<Live>> {
        Arc::clone(&self.live).lock_owned().await
    }

    /// The replica, if it stands.
    async fn hold_open(&self) -> Option<Held> {
        let live = self.lock().await;
        live.is_some().then_some(Held { live, is_ahead: false })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inside().members.is_empty()
    }

    pub(super) fn tell_update(&self, update: &[u8]) {
        self.inside().tell_all(&Outgoing::Message(sync::update(update)));
    }

    /// Whether somebody wrote what is not in the log yet.
    pub(super) fn has_words(&self) -> bool {
        let inside = self.inside();
        inside.has_taken_words || inside.waiting.iter().any(Waiting::has_words)
    }

    /// Sends everybody away.
    pub(super) fn close(&self, leave: &Leave) {
        let mut inside = self.inside();
        inside.tell_all(&Outgoing::Close(leave.clone()));
        inside.members.clear();
    }

    /// Sends away who has another generation: they would bring back what was erased.
    pub(super) fn part_from_others(&self, generation: Seq) {
        let mut inside = self.inside();
        let strange: Vec<u64> = inside
            .members
            .iter()
            .filter(|(_, looker)| looker.generation != generation)
            .map(|(member, _)| *member)
            .collect();
        strange.into_iter().for_each(|member| inside.let_go(member, Leave::anew()));
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inside {
    /// Whoever cannot keep up is let go and comes again; nobody waits for the slowest.
    fn tell_all(&mut self, message: &Outgoing) {
        self.members.retain(|_, looker| looker.hear(message.clone()));
    }

    fn tell(&mut self, member: u64, message: Outgoing) {
        let is_gone = self.members.get(&member).is_some_and(|looker| !looker.hear(message));
        if is_gone {
            self.members.remove(&member);
        }
    }

    fn let_go(&mut self, member: u64, leave: Leave) {
        self.tell(member, Outgoing::Close(leave));
        self.members.remove(&member);
    }

    fn acknowledge(&mut self, members: impl Iterator<Item = u64>, version: u32) {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        members.for_each(|member| *counts.entry(member).or_default() += 1);
        for (member, count) in counts {
            let Some(looker) = self.members.get_mut(&member) else { continue };
            looker.acknowledged += count;
            let message = sync::acknowledged(looker.acknowledged, version);
            self.tell(member, Outgoing::Message(message));
        }
    }
}

impl Documents {
    /// Lets somebody look at a document. What is said to them comes by the receiver. Nothing: there is no such document.
    /// `known` is the generation of what they have, zero if they have nothing; who does not say is told of none either.
    pub async fn enter(
        &self,
        id: DocumentId,
        known: Option<Seq>,
    ) -> Result<Option<Result<(Member, Inbox), Leave>>, StoreError> {
        let room = self.room(id);
        let Some(held) = self.hold(&room).await? else { return Ok(None) };
        let Some(live) = held.live() else { return Ok(None) };
        let (generation, is_of_now) = (live.generation, known.is_some() || !live.anew);
        if known.is_some_and(|known| known != Seq::ZERO && known != generation) {
            return Ok(Some(Err(Leave::anew())));
        }
        let (out, incoming) = outbox();
        let mut inside = room.inside();
        if inside.members.len() >= MEMBERS_MAX {
            return Ok(Some(Err(Leave::later("too many look at this document already"))));
        }
        inside.next_member += 1;
        let member = inside.next_member;
        inside.members.insert(member, Looker { out, generation, acknowledged: 0, awareness: None });
        if known.is_some() {
            inside.tell(member, Outgoing::Message(sync::generation(generation)));
        }
        // The first word is how far we are: whoever was away sends what we lack.
        inside.tell(member, Outgoing::Message(sync::step1(live.replica.vector())));
        drop(inside);
        let (documents, is_of_now) = (self.clone(), AtomicBool::new(is_of_now));
        Ok(Some(Ok((Member { documents, room, id: member, generation, is_of_now }, incoming))))
    }

    /// Together if they are all good; else one by one, so that only the bad are refused.
    async fn commit_all(&self, room: &Arc<Room>, waiting: Vec<Waiting>) {
        match self.commit_together(room, &waiting).await {
            Err(DocumentError::Refused(_)) => {
                for one in waiting {
                    let member = one.member;
                    if let Err(error) = self.commit_together(room, std::slice::from_ref(&one)).await {
                        room.inside().let_go(member, leave(&error));
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, document = %room.id, "what was written could not be kept; its authors still have it");
                let mut inside = room.inside();
                waiting.iter().for_each(|waiting| inside.let_go(waiting.member, leave(&error)));
            }
            Ok(()) => {}
        }
    }

    async fn commit_together(&self, room: &Arc<Room>, waiting: &[Waiting]) -> Result<(), DocumentError> {
        let Some(mut held) = self.hold(room).await? else { return Err(Refused::PutAway.into()) };
        let (applied, version) = self.commit_held(room.id, &mut held, waiting).await?;
        let mut inside = room.inside();
        if let Some(update) = applied {
            inside.tell_all(&Outgoing::Message(sync::update(&update)));
        }
        inside.acknowledge(waiting.iter().map(|waiting| waiting.member), version);
        drop(inside);
        tokio::spawn(name_later(self.weak(), Arc::clone(room), version));
        Ok(())
    }

    async fn commit_held(
        &self,
        id: DocumentId,
        held: &mut Held,
        waiting: &[Waiting],
    ) -> Result<(Option<Vec<u8>>, u32), DocumentError> {
        // What stands in memory is no proof: acknowledged is only what can be read again.
        let (Some(_), Some(live)) = (self.find(id).await?, held.changing()) else {
            return Err(Refused::PutAway.into());
        };
        if waiting.iter().any(|waiting| waiting.generation != live.generation) {
            return Err(Refused::Strange.into());
        }
        let update = match apply(live, waiting)? {
            Some(applied) => {
                let update = applied.update.clone();
                let facts = self.facts(id, live, applied, None, Cause::Hand).await?;
                let _: Seq = self.journal.append(&Scope::of(Actor::Person), facts).await?;
                live.typed = live.version;
                Some(update)
            }
            None => None,
        };
        let version = live.version;
        held.kept();
        Ok((update, version))
    }

    /// Makes what a person wrote a version with a name, if it is wanted of what stands there. A failure costs the name
    /// only: the words are in the log, and the next change brings one.
    async fn name_what_was_written(&self, room: &Arc<Room>, is_wanted: impl Fn(&Live) -> bool) {
        // A replica that does not stand has nothing new to name.
        let Some(mut held) = room.hold_open().await.filter(|held| held.live().is_some_and(is_wanted)) else { return };
        let named = async {
            let Some(live) = held.changing() else { return Ok(()) };
            if let Some(event) = self.name(room.id, live).await? {
                self.journal.append(&Scope::of(Actor::Person), vec![event]).await?;
            }
            held.kept();
            Ok::<_, DocumentError>(())
        };
        if let Err(error) = named.await {
            tracing::warn!(%error, "a version could not be named");
        }
    }
}

/// Commits what waits, until nothing waits.
async fn commit(documents: Weak<Parts>, room: Arc<Room>) {
    while let Some(parts) = documents.upgrade() {
        let waiting = {
            let mut inside = room.inside();
            let waiting = std::mem::take(&mut inside.waiting);
            inside.waiting_bytes = 0;
            inside.is_committing = !waiting.is_empty();
            inside.has_taken_words = waiting.iter().any(Waiting::has_words);
            waiting
        };
        room.taken.notify_waiters();
        if waiting.is_empty() {
            return;
        }
        Documents(parts).commit_all(&room, waiting).await;
        room.inside().has_taken_words = false;
        tokio::time::sleep(COMMIT_EVERY).await;
    }
}

/// Names a version if it is still the newest after a while.
async fn name_later(documents: Weak<Parts>, room: Arc<Room>, version: u32) {
    tokio::time::sleep(NAME_AFTER).await;
    let Some(parts) = documents.upgrade() else { return };
    Documents(parts).name_what_was_written(&room, |live| live.version == version).await;
}

/// Names the newest version: everybody has left.
async fn name_at_once(documents: Documents, room: Arc<Room>) {
    documents.name_what_was_written(&room, |_| true).await;
}

fn apply(live: &mut Live, waiting: &[Waiting]) -> Result<Option<Applied>, Refused> {
    match waiting {
        [one] => live.replica.apply(&one.update),
        several => live.replica.apply_all(several.iter().map(|waiting| waiting.update.as_slice())),
    }
}

fn leave(error: &DocumentError) -> Leave {
    match error {
        DocumentError::Refused(Refused::Strange) => Leave::anew(),
        DocumentError::Refused(refused) => Leave::refused(refused),
        DocumentError::Read(_) | DocumentError::Append(_) => {
            Leave::later("what was written cannot be kept right now; it is safe with whoever wrote it")
        }
    }
}

impl Member {
    /// Takes a message of the Yjs protocol. An error ends the visit.
    pub async fn take(&self, message: &[u8]) -> Result<(), Leave> {
        let mut is_answered = false;
        for said in sync::read(message)? {
            self.begin_with(&said)?;
            match said {
                // The answer may be a whole document: asked twice in one breath, it is given once.
                sync::Said::Vector(_) if std::mem::replace(&mut is_answered, true) => {}
                sync::Said::Vector(vector) => {
                    let held = self
                        .documents
                        .hold(&self.room)
                        .await
                        .map_err(|_| Leave::later("the document cannot be read"))?;
                    let Some(update) = held.as_ref().and_then(Held::live).map(|live| live.replica.since(&vector))
                    else {
                        return Err(Leave::refused("the document was put away"));
                    };
                    self.room.inside().tell(self.id, Outgoing::Message(sync::step2(&update)));
                }
                sync::Said::Update(update) => self.submit(update).await,
                sync::Said::Presence(presence) => self.announce(presence),
                sync::Said::WhoIsThere => self.introduce(),
            }
        }
        Ok(())
    }

    /// Whoever does not say what they have must have nothing: what was erased would come back with it.
    fn begin_with(&self, said: &sync::Said) -> Result<(), Leave> {
        if self.is_of_now.load(Ordering::Acquire) {
            return Ok(());
        }
        match said {
            sync::Said::Vector(vector) if vector.is_empty() => self.is_of_now.store(true, Ordering::Release),
            sync::Said::Vector(_) | sync::Said::Update(_) => return Err(Leave::unnamed()),
            sync::Said::Presence(_) | sync::Said::WhoIsThere => {}
        }
        Ok(())
    }

    /// Puts an update in line. Waits while too much waits already.
    async fn submit(&self, update: Vec<u8>) {
        loop {
            let taken = self.room.taken.notified();
            {
                let mut inside = self.room.inside();
                if inside.waiting_bytes < WAITING_BYTES_MAX {
                    inside.waiting_bytes += update.len();
                    inside.waiting.push(Waiting { member: self.id, generation: self.generation, update });
                    if !std::mem::replace(&mut inside.is_committing, true) {
                        tokio::spawn(commit(self.documents.weak(), Arc::clone(&self.room)));
                    }
                    return;
                }
            }
            taken.await;
        }
    }

    fn announce(&self, presence: sync::Presence) {
        let mut inside = self.room.inside();
        let message = Outgoing::Message(presence.message());
        if let Some(looker) = inside.members.get_mut(&self.id) {
            looker.awareness = Some(presence);
        }
        inside.tell_all(&message);
    }

    fn introduce(&self) {
        let mut inside = self.room.inside();
        let known: Vec<_> = inside
            .members
            .values()
            .filter_map(|looker| looker.awareness.as_ref())
            .map(sync::Presence::message)
            .collect();
        known.into_iter().for_each(|message| inside.tell(self.id, Outgoing::Message(message)));
    }
}

impl Documents {
    /// Appends a person's change and tells everybody who looks.
    pub async fn save(&self, scope: &Scope, mut change: Change) -> Result<(), DocumentError> {
        let facts = std::mem::take(&mut change.facts);
        if !facts.is_empty() {
            self.journal.append(scope, facts).await?;
        }
        change.kept();
        Ok(())
    }
}

//! Chores on a log: building the views anew, and erasing what should never have been written.

use crate::journal::{Journal, Scope};
use crate::view::projections;
use crate::world::World;
use choir_core::fold::document::document_of;
use choir_proto::event::{Actor, PAYLOAD_ERASED, PayloadErased};
use choir_proto::{Envelope, Event, EventId, Hash, Seq};
use choir_store::log::Head;
use choir_store::{AppendError, Collected, Erasure, LiveViews, Log, OpenError, Query, StoreError, Views};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A payload that is not there, as the log gives it.
const ABSENT: &str = "null";

/// Events read at once.
const PAGE: usize = 1000;

/// Why a chore was not done.
#[derive(Debug, thiserror::Error)]
pub enum ChoreError {
    /// The files could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// The log could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Tombstones say what was erased; they stay.
    #[error("event {0} is itself a tombstone")]
    Tombstone(EventId),
    /// The disk took nothing: what was folded is in memory only.
    #[error("what was folded from the log could not be written")]
    Unkept,
    /// There is no such event.
    #[error("there is no event {0} in the log")]
    NoEvent(EventId),
}

/// What building the views anew gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Events folded.
    pub events: u64,
    /// One hash over every row before, once the kept rows had caught up with the log; none where nothing of this log was kept.
    pub before: Option<Hash>,
    /// The same after folding from the beginning.
    pub after: Hash,
    /// What a crash had left behind, which is gone now, and what the log names.
    pub collected: Collected,
}

/// Drops every view and the index of a computer that is not running, and makes them anew from the log, which must hold
/// what was `seen` of it. Blobs that nothing names any more go.
pub async fn rebuild(directory: &Path, seen: Head) -> Result<Rebuilt, ChoreError> {
    let log = Log::open_reindexed(directory, seen)?;
    let kept = Views::open(directory, projections())?;
    // Of rows that were never there, or were made from something else, folding on would make new ones, and compare those with
    // themselves.
    let is_kept = kept.at() != Head::default() && log.holds(kept.at()).await;
    let before = if is_kept { Some(digest(&log, kept).await?) } else { None };
    let mut views = Views::open(directory, projections())?;
    views.reset()?;
    let after = digest(&log, views).await?;
    // On a full disk views live in memory, which serves a computer that runs; of what was to be made anew nothing is left.
    if Views::open(directory, projections())?.at() != log.head() {
        return Err(ChoreError::Unkept);
    }
    let events = log.head().seq.0;
    let collected = choir_store::collect(&log, directory)?;
    log.close().await;
    Ok(Rebuilt { events, before, after, collected })
}

async fn digest(log: &Log, views: Views) -> Result<Hash, ChoreError> {
    let live = LiveViews::follow(log.clone(), views).await?;
    let digest = live.read(Views::digest).await;
    // The next views are made in the same files.
    live.close().await;
    Ok(digest?)
}

/// Replaces the payload of an event by a tombstone, together with the blobs that no other event names.
pub async fn erase(journal: &Journal, target: EventId) -> Result<Seq, ChoreError> {
    let log = journal.log();
    let found = log.find(target).await?.ok_or(ChoreError::NoEvent(target))?;
    if found.header.kind == PAYLOAD_ERASED {
        return Err(ChoreError::Tombstone(target));
    }
    // Of what was erased already, the tombstone knows what went with it: a disk may have kept some of that.
    let before = tombstone_of(log, target).await?;
    let mut blobs = before.as_ref().map_or_else(|| named(&found), |(_, erased)| erased.blobs.iter().copied().collect());
    let unnamed_upto = log.head().seq;
    // Most events name none: then nobody has to read what may be a long log, or one that is damaged elsewhere.
    if !blobs.is_empty() {
        let Elsewhere { named, unreadable } = elsewhere(log, target, unnamed_upto).await?;
        blobs.retain(|hash| !named.contains(hash));
        if let Some(seq) = unreadable
            && !blobs.is_empty()
        {
            let kept = blobs.len();
            tracing::warn!(%seq, kept, "an event cannot be read and may name what the erased one names: that stays");
            blobs.clear();
        }
    }
    let blobs: Vec<Hash> = blobs.into_iter().collect();
    let document_id = found.event().ok().and_then(|event| document_of(&event));
    let erased = PayloadErased { event_id: target, seq: found.header.seq, blobs: blobs.clone(), document_id };
    let tombstone = journal.draft(&Scope::of(Actor::Person), journal.world().uuid(), erased.into());
    let appended = log.erase(Erasure { target, tombstone, blobs, unnamed_upto }).await?;
    Ok(before.map_or(appended.last, |(seq, _)| seq))
}

/// Opens a computer that is not running, which must hold what was `seen` of it, and erases in it. What was derived from the
/// log goes as well: it may hold the words.
pub async fn erase_in(directory: &Path, seen: Head, world: Arc<dyn World>, target: EventId) -> Result<Seq, ChoreError> {
    let log = Log::open_seen(directory, seen)?;
    let erased = erase(&Journal::new(log.clone(), world), target).await;
    log.close().await;
    if !matches!(erased, Err(ChoreError::NoEvent(_) | ChoreError::Tombstone(_))) {
        choir_store::remove_derived(directory)?;
    }
    erased
}

/// Where and how it says that an event was erased.
async fn tombstone_of(log: &Log, target: EventId) -> Result<Option<(Seq, PayloadErased)>, StoreError> {
    let mut after = Seq::ZERO;
    loop {
        let query = Query { after, limit: PAGE, kind: Some(PAYLOAD_ERASED.to_owned()), ..Query::default() };
        let page = log.read(query).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = last.header.seq;
        let of_target = |envelope: &Envelope| match envelope.event() {
            Ok(Event::PayloadErased(erased)) if erased.event_id == target => Some((envelope.header.seq, erased)),
            _ => None,
        };
        if let Some(found) = page.iter().find_map(of_target) {
            return Ok(Some(found));
        }
    }
}

fn named(envelope: &Envelope) -> BTreeSet<Hash> {
    envelope.event().map(|event| event.blobs().into_iter().collect()).unwrap_or_default()
}

/// What all other events say.
struct Elsewhere {
    named: BTreeSet<Hash>,
    /// One whose payload is gone and was never erased: nobody knows what it names.
    unreadable: Option<Seq>,
}

async fn elsewhere(log: &Log, target: EventId, upto: Seq) -> Result<Elsewhere, StoreError> {
    let (mut named_there, mut absent, mut after) = (BTreeSet::new(), BTreeMap::new(), Seq::ZERO);
    loop {
        let page = log.read(Query { after, upto: Some(upto), limit: PAGE, ..Query::default() }).await?;
        let Some(last) = page.last() else {
            return Ok(Elsewhere { named: named_there, unreadable: absent.into_values().next() });
        };
        after = last.header.seq;
        for event in page.iter().filter(|event| event.header.id != target) {
            match event.event() {
                // A tombstone comes after what it is for.
                Ok(Event::PayloadErased(erased)) => drop(absent.remove(&erased.event_id)),
                _ if event.payload.get() == ABSENT => drop(absent.insert(event.header.id, event.header.seq)),
                _ => named_there.extend(named(event)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealWorld;
    use choir_proto::ArtifactId;
    use choir_proto::event::{ArtifactImported, RunSteered};

    fn imported(content_hash: Hash) -> Event {
        let artifact_id = ArtifactId::from([7; 16]);
        let (media_type, origin) = ("text/plain".into(), "test".into());
        ArtifactImported { artifact_id, content_hash, size: 5, media_type, origin, text: None, unreadable: None }.into()
    }

    /// An event that names a blob, one with words in a blob of their own, and what an erasure of the first leaves of its blob.
    async fn is_left(before: impl AsyncFnOnce(&Journal, &Path, EventId)) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path()).unwrap();
        let journal = Journal::new(log.clone(), RealWorld::new());
        let blob = log.blobs().put(b"words").unwrap();
        let scope = Scope::of(Actor::Person);
        journal.append(&scope, vec![imported(blob)]).await.unwrap();
        journal.append(&scope, vec![RunSteered { text: "x".repeat(70_000) }.into()]).await.unwrap();
        let events = log.read(Query { limit: 10, ..Query::default() }).await.unwrap();
        let (target, long) = (events[0].header.id, &events[1].header);
        let name = long.payload_hash.to_string();
        before(&journal, &directory.path().join("blobs").join(&name[..2]).join(&name[2..]), long.id).await;
        erase(&journal, target).await.unwrap();
        let is_left = log.blobs().get(&blob).is_ok();
        log.close().await;
        is_left
    }

    #[tokio::test]
    async fn what_a_damaged_event_may_name_is_not_erased_with_another() {
        assert!(!is_left(async |_: &Journal, _: &Path, _| {}).await, "nobody else names it");
        let erased = async |journal: &Journal, _: &Path, long| assert!(erase(journal, long).await.is_ok());
        assert!(!is_left(erased).await, "what was erased names nothing");
        let damaged = async |_: &Journal, file: &Path, _| std::fs::remove_file(file).unwrap();
        assert!(is_left(damaged).await, "what cannot be read may name it");
    }
}

//! What a document's replica is made of: a kept state or text, and the updates since.

use super::Fold;
use crate::text::Authorship;
use choir_proto::document::TextChange;
use choir_proto::event::{Actor, DocumentUpdated, DocumentVersioned, Header};
use choir_proto::{Event, Hash, Seq};
use serde::{Deserialize, Serialize};

/// Of every document that is not put away, by id: everything that a replica needs to stand again.
pub struct Tails;

/// What came after the last kept state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// A replica's state as a blob; without one a replica grows from the text of version `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Hash>,
    /// The version that the state or the text is of.
    pub base: u32,
    /// The newest version that was named, and whose text is kept.
    pub named: u32,
    /// The newest version.
    pub version: u32,
    /// The event since which nothing was erased and nothing grew anew from a text. Replicas of another generation may hold
    /// what is gone.
    pub generation: Seq,
    /// Whether something was erased before this generation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// In order, each one version later than the one before.
    pub updates: Vec<KeptUpdate>,
}

/// One update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptUpdate {
    /// The version after it.
    pub version: u32,
    /// For replicas, as the event has it.
    pub update: String,
    /// What it means for the text.
    pub changes: Vec<TextChange>,
}

impl Fold for Tails {
    type Row = Tail;
    const NAME: &'static str = "document_tails";
    const VERSION: u32 = 3;
    const CACHED_MAX: usize = 64;

    fn key(_: &Header, event: &Event) -> Option<String> {
        let document = match event {
            Event::PayloadErased(erased) => erased.document_id,
            _ => super::document::document_of(event),
        };
        document.map(|document| document.to_string())
    }

    fn apply(row: &mut Option<Tail>, header: &Header, event: &Event) {
        match (row.as_mut(), event) {
            (_, Event::DocumentCreated(_)) => *row = Some(Tail::default()),
            (_, Event::DocumentTrashed(_)) => *row = None,
            (Some(tail), Event::DocumentUpdated(updated)) => update(tail, updated),
            (Some(tail), Event::DocumentVersioned(versioned)) => name(tail, versioned, header.seq),
            (Some(tail), Event::PayloadErased(_)) => (tail.generation, tail.anew) = (header.seq, true),
            (Some(tail), Event::DocumentCompacted(compacted)) => {
                tail.state = Some(compacted.state);
                tail.base = compacted.version;
                tail.updates.retain(|update| update.version > compacted.version);
            }
            _ => {}
        }
    }
}

fn update(tail: &mut Tail, updated: &DocumentUpdated) {
    tail.version = updated.version;
    // One without bytes is too long for an event: the state that holds it stands beside it.
    if let Some(update) = &updated.update {
        let changes = updated.changes.clone();
        tail.updates.push(KeptUpdate { version: updated.version, update: update.clone(), changes });
    }
}

/// A version that no update led to came as a whole text, and a replica grows from it anew.
fn name(tail: &mut Tail, versioned: &DocumentVersioned, seq: Seq) {
    let version = versioned.version;
    if version > tail.version {
        *tail = Tail { base: version, version, generation: seq, anew: tail.anew, ..Tail::default() };
    }
    tail.named = version;
}

/// Who wrote which part of every document that is not put away, by id.
pub struct Authors;

impl Fold for Authors {
    type Row = Written;
    const NAME: &'static str = "document_authors";
    const VERSION: u32 = 2;
    const CACHED_MAX: usize = 64;

    fn key(header: &Header, event: &Event) -> Option<String> {
        Tails::key(header, event)
    }

    fn apply(row: &mut Option<Written>, header: &Header, event: &Event) {
        match (row.as_mut(), event) {
            (_, Event::DocumentCreated(_)) => *row = Some(Written::default()),
            (_, Event::DocumentTrashed(_)) => *row = None,
            (Some(written), Event::DocumentUpdated(updated)) => {
                written.version = updated.version;
                written.authorship.apply(&updated.changes, &header.actor, header.seq);
            }
            (Some(written), Event::DocumentVersioned(versioned)) => {
                if versioned.version > written.version {
                    written.version = versioned.version;
                    written.authorship = Authorship::whole(versioned.size, author(header), header.seq);
                }
                written.authorship.named = header.seq;
            }
            _ => {}
        }
    }
}

/// Who wrote which part of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The version that this is true of.
    pub version: u32,
    /// Piece by piece.
    pub authorship: Authorship,
}

/// A prompt that keeps the place of a document is nobody's words in it: agents may write over it.
fn author(header: &Header) -> Actor {
    match (&header.actor, header.run) {
        (Actor::Person, Some(_)) => Actor::Computer,
        (actor, _) => actor.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use choir_proto::event::{DocumentCompacted, DocumentCreated, PayloadErased};
    use choir_proto::{DocumentId, EventId, RunId};
    use uuid::Uuid;

    const ID: DocumentId = DocumentId::new(Uuid::from_u128(1));

    fn fold<F: Fold>(events: &[Event]) -> Option<F::Row> {
        let mut row = None;
        for (index, event) in events.iter().enumerate() {
            let header = Header {
                actor: Actor::Person,
                run: Some(RunId::new(Uuid::nil())),
                ..testing::header(index as u64 + 1, event)
            };
            assert!(F::key(&header, event).is_some());
            F::apply(&mut row, &header, event);
        }
        row
    }

    fn created() -> Event {
        DocumentCreated { document_id: ID, title: String::new() }.into()
    }

    fn named(version: u32) -> Event {
        let (title, reason) = (String::new(), String::new());
        let content_hash = Hash::ZERO;
        DocumentVersioned { document_id: ID, version, title, content_hash, content: None, size: 4, reason }.into()
    }

    fn updated(version: u32, update: Option<&str>) -> Event {
        let changes = vec![TextChange { from: 4, removed: 0, inserted: 1, text: Some("x".into()) }];
        let update = update.map(Into::into);
        let content_hash = Hash::ZERO;
        DocumentUpdated {
            document_id: ID,
            version,
            changes,
            update,
            content_hash,
            size: 5,
            effect_id: None,
            sketch: None,
        }
        .into()
    }

    fn erased() -> Event {
        let (event_id, seq) = (EventId::new(Uuid::nil()), Seq(1));
        PayloadErased { event_id, seq, blobs: Vec::new(), document_id: Some(ID) }.into()
    }

    fn compacted(version: u32) -> Event {
        DocumentCompacted { document_id: ID, version, state: Hash([7; 32]) }.into()
    }

    #[test]
    fn a_tail_begins_at_the_last_text_or_state() {
        let tail =
            fold::<Tails>(&[created(), named(1), updated(2, Some("a")), named(2), updated(3, Some("b"))]).unwrap();
        assert_eq!((tail.base, tail.named, tail.version, tail.updates.len(), tail.state), (1, 2, 3, 2, None));
        assert_eq!(tail.generation, Seq(2), "a name alone begins nothing");
        let tail = fold::<Tails>(&[created(), named(1), updated(2, Some("a")), named(3)]).unwrap();
        assert_eq!((tail.base, tail.updates.len()), (3, 0), "a whole text without an update begins anew");
        assert_eq!(tail.generation, Seq(4));
        let tail = fold::<Tails>(&[created(), named(1), erased()]).unwrap();
        assert_eq!((tail.generation, tail.version), (Seq(3), 1), "what is gone must not come back with who has it");
        let long = [
            created(),
            named(1),
            updated(2, Some("a")),
            updated(3, None),
            named(3),
            compacted(3),
            updated(4, Some("c")),
        ];
        let tail = fold::<Tails>(&long).unwrap();
        assert_eq!((tail.base, tail.named, tail.updates.len(), tail.state), (3, 3, 1, Some(Hash([7; 32]))));
    }

    #[test]
    fn a_prompt_that_keeps_the_place_is_nobodys_words() {
        let written = fold::<Authors>(&[created(), named(1), updated(2, Some("a")), named(2)]).unwrap();
        let authors: Vec<_> =
            written.authorship.pieces.iter().map(|piece| (piece.length, piece.author.clone())).collect();
        assert_eq!(authors, [(4, Actor::Computer), (1, Actor::Person)], "naming a version changes nobody's words");
    }
}

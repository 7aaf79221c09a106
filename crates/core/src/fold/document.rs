//! Documents and their versions.

use super::{Fold, in_document};
use choir_proto::Event;
use choir_proto::document::{DocumentSummary, VersionSummary};
use choir_proto::event::{Actor, Header};
use choir_proto::{DocumentId, Hash};
use serde::{Deserialize, Serialize};

/// Every document that is not put away, by id.
pub struct Documents;

impl Fold for Documents {
    type Row = DocumentSummary;
    const NAME: &'static str = "documents";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        document_of(event).map(|document| document.to_string())
    }

    fn apply(row: &mut Option<DocumentSummary>, header: &Header, event: &Event) {
        match event {
            Event::DocumentCreated(created) => {
                *row = Some(DocumentSummary {
                    document_id: created.document_id,
                    title: created.title.clone(),
                    version: 0,
                    content_hash: Hash::ZERO,
                    size: 0,
                    run_id: header.run,
                    created_at: header.at,
                    changed_at: header.at,
                    seq: header.seq,
                    removed_at: None,
                });
            }
            Event::DocumentVersioned(versioned) => {
                if let Some(document) = row {
                    document.title.clone_from(&versioned.title);
                    document.version = versioned.version;
                    document.content_hash = versioned.content_hash;
                    document.size = versioned.size;
                    document.changed_at = header.at;
                    document.seq = header.seq;
                }
            }
            Event::DocumentUpdated(updated) => {
                if let Some(document) = row {
                    document.version = updated.version;
                    document.content_hash = updated.content_hash;
                    document.size = updated.size;
                    document.changed_at = header.at;
                    document.seq = header.seq;
                }
            }
            Event::DocumentRemoved(_) => row.iter_mut().for_each(|document| document.removed_at = Some(header.at)),
            Event::DocumentRestored(_) => row.iter_mut().for_each(|document| document.removed_at = None),
            Event::DocumentTrashed(_) => *row = None,
            _ => {}
        }
    }
}

/// Who named every document that is not put away, by id.
pub struct Titles;

/// A title with whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// As people see it.
    pub title: String,
    /// Whether a person ever gave it one: then it changes by their word alone.
    pub is_persons: bool,
}

impl Fold for Titles {
    type Row = Title;
    const NAME: &'static str = "document_titles";
    const VERSION: u32 = 1;

    fn key(header: &Header, event: &Event) -> Option<String> {
        Documents::key(header, event)
    }

    fn apply(row: &mut Option<Title>, header: &Header, event: &Event) {
        match (row.as_mut(), event) {
            (_, Event::DocumentCreated(created)) => {
                let title = created.title.clone();
                *row = Some(Title { is_persons: is_given(header, &title), title });
            }
            (Some(known), Event::DocumentVersioned(versioned)) if known.title != versioned.title => {
                known.title.clone_from(&versioned.title);
                known.is_persons |= is_given(header, &versioned.title);
            }
            (_, Event::DocumentTrashed(_)) => *row = None,
            _ => {}
        }
    }
}

/// Whether a person called it that. What a prompt is called in the list is nobody's choice.
fn is_given(header: &Header, title: &str) -> bool {
    header.actor == Actor::Person && header.run.is_none() && crate::title::is_given(title)
}

/// Every named version of every document, by document and number.
pub struct Versions;

impl Versions {
    /// Where one version is. Numbers are padded, so that order by key is order by number.
    pub fn key_of(document: DocumentId, version: u32) -> String {
        in_document(document, format_args!("{version:010}"))
    }
}

impl Fold for Versions {
    type Row = VersionSummary;
    const NAME: &'static str = "versions";
    const VERSION: u32 = 2;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::DocumentVersioned(versioned) => Some(Self::key_of(versioned.document_id, versioned.version)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<VersionSummary>, header: &Header, event: &Event) {
        if let Event::DocumentVersioned(versioned) = event {
            // Who names a version again gives the document another title. Whose version it is was said the first time.
            row.get_or_insert_with(|| VersionSummary {
                version: versioned.version,
                author: header.actor.clone(),
                reason: versioned.reason.clone(),
                content_hash: versioned.content_hash,
                at: header.at,
                seq: header.seq,
            });
        }
    }
}

/// The texts that are kept in the log itself, by document and number; longer ones are blobs.
pub struct Texts;

impl Fold for Texts {
    type Row = String;
    const NAME: &'static str = "texts";
    const VERSION: u32 = 1;
    const CACHED_MAX: usize = 64;

    fn key(header: &Header, event: &Event) -> Option<String> {
        match event {
            Event::DocumentVersioned(versioned) if versioned.content.is_some() => Versions::key(header, event),
            _ => None,
        }
    }

    fn apply(row: &mut Option<String>, _: &Header, event: &Event) {
        if let Event::DocumentVersioned(versioned) = event {
            row.clone_from(&versioned.content);
        }
    }
}

/// The document whose text an event is part of.
pub fn document_of(event: &Event) -> Option<DocumentId> {
    match event {
        Event::DocumentCreated(created) => Some(created.document_id),
        Event::DocumentVersioned(versioned) => Some(versioned.document_id),
        Event::DocumentUpdated(updated) => Some(updated.document_id),
        Event::DocumentCompacted(compacted) => Some(compacted.document_id),
        Event::DocumentTrashed(trashed) => Some(trashed.document_id),
        Event::DocumentRemoved(removed) => Some(removed.document_id),
        Event::DocumentRestored(restored) => Some(restored.document_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use choir_proto::event::{DocumentCreated, DocumentVersioned};
    use choir_proto::{Role, RunId, Seq};
    use uuid::Uuid;

    const ID: DocumentId = DocumentId::new(Uuid::from_u128(1));
    const RUN: Option<RunId> = Some(RunId::new(Uuid::nil()));

    fn fold<F: Fold>(events: &[(Actor, Option<RunId>, Event)]) -> Option<F::Row> {
        let mut row = None;
        for (index, (actor, run, event)) in events.iter().enumerate() {
            let header = Header { actor: actor.clone(), run: *run, ..testing::header(index as u64 + 1, event) };
            if F::key(&header, event).is_some() {
                F::apply(&mut row, &header, event);
            }
        }
        row
    }

    fn created(title: &str) -> Event {
        DocumentCreated { document_id: ID, title: title.into() }.into()
    }

    fn named(title: &str, reason: &str) -> Event {
        let (title, reason) = (title.to_owned(), reason.to_owned());
        let content_hash = Hash::ZERO;
        DocumentVersioned { document_id: ID, version: 1, title, content_hash, content: None, size: 0, reason }.into()
    }

    #[test]
    fn a_version_belongs_to_who_made_it_whoever_names_it_again() {
        let again = (Actor::Agent(Role::Writer), RUN, named("Report", "write_document by writer"));
        let version = fold::<Versions>(&[(Actor::Person, None, named("P", "begun by a person")), again]).unwrap();
        assert_eq!(
            (version.author, version.reason.as_str(), version.seq),
            (Actor::Person, "begun by a person", Seq(1))
        );
    }

    #[test]
    fn a_title_is_a_persons_once_a_person_gave_it() {
        let writer = || (Actor::Agent(Role::Writer), RUN, named("Report", ""));
        let is_persons = |events: &[_]| fold::<Titles>(events).unwrap().is_persons;
        assert!(is_persons(&[(Actor::Person, None, created("P"))]));
        assert!(is_persons(&[(Actor::Person, None, created("P")), writer()]), "it was given all the same");
        assert!(!is_persons(&[(Actor::Person, RUN, created("what is new?")), writer()]), "a prompt is no title");
        assert!(!is_persons(&[(Actor::Person, None, created("Untitled")), writer()]));
        let renamed = (Actor::Person, None, named("Mine", ""));
        assert!(is_persons(&[(Actor::Person, RUN, created("what is new?")), writer(), renamed]));
        let edited = (Actor::Person, None, named("Report", "edited by a person"));
        assert!(!is_persons(&[(Actor::Person, RUN, created("q")), writer(), edited]), "its text is not its title");
    }
}

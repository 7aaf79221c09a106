//! Documents and their versions.

use super::{Fold, in_document};
use choir_proto::Event;
use choir_proto::document::{DocumentSummary, VersionSummary};
use choir_proto::event::Header;
use choir_proto::{DocumentId, Hash};

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
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::DocumentVersioned(versioned) => Some(Self::key_of(versioned.document_id, versioned.version)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<VersionSummary>, header: &Header, event: &Event) {
        if let Event::DocumentVersioned(versioned) = event {
            *row = Some(VersionSummary {
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

pub(super) fn document_of(event: &Event) -> Option<DocumentId> {
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

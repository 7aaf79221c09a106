//! Sources, and the words that were found in them.

use super::{Fold, in_document};
use choir_proto::Event;
use choir_proto::document::{Artifact, Citation};
use choir_proto::event::Header;

/// Every citation of every document, by document and name.
pub struct Citations;

impl Fold for Citations {
    type Row = Citation;
    const NAME: &'static str = "citations";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::CitationMade(made) => made.document_id.map(|document| in_document(document, &made.citation_id)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Citation>, header: &Header, event: &Event) {
        if let Event::CitationMade(made) = event {
            *row = Some(Citation {
                source: made.source,
                from: made.from,
                to: made.to,
                hash: made.hash,
                quote: Some(made.quote.clone()),
                artifact_id: made.artifact_id,
                run_id: header.run,
                at: None,
            });
        }
    }
}

/// Everything that was brought in, by id.
pub struct Artifacts;

impl Fold for Artifacts {
    type Row = Artifact;
    const NAME: &'static str = "artifacts";
    const VERSION: u32 = 2;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::ArtifactImported(imported) => Some(imported.artifact_id.to_string()),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Artifact>, header: &Header, event: &Event) {
        if let Event::ArtifactImported(imported) = event {
            *row = Some(Artifact {
                artifact_id: imported.artifact_id,
                content_hash: imported.content_hash,
                size: imported.size,
                media_type: imported.media_type.clone(),
                origin: imported.origin.clone(),
                text: imported.text,
                unreadable: imported.unreadable.clone(),
                at: header.at,
                seq: header.seq,
            });
        }
    }
}

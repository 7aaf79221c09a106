//! Figures that commands made, and whether they still show what is so.

use super::Fold;
use choir_proto::document::Figure;
use choir_proto::event::Header;
use choir_proto::{DocumentId, Event};

/// Every figure, by document and name.
pub struct Figures;

impl Figures {
    /// Where the figures of a document are.
    pub fn prefix(document: DocumentId) -> String {
        format!("{document}/")
    }

    /// Where one of them is.
    pub fn key_of(document: DocumentId, figure: &str) -> String {
        format!("{document}/{figure}")
    }
}

impl Fold for Figures {
    type Row = Figure;
    const NAME: &'static str = "figures";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::FigureChanged(changed) => Some(Self::key_of(changed.document_id, &changed.figure.figure_id)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Figure>, _: &Header, event: &Event) {
        if let Event::FigureChanged(changed) = event {
            *row = Some(changed.figure.clone());
        }
    }
}

//! Figures that commands made, and whether they still show what is so.

use super::{Fold, in_document};
use choir_proto::Event;
use choir_proto::document::Figure;
use choir_proto::event::Header;

/// Every figure, by document and name.
pub struct Figures;

impl Fold for Figures {
    type Row = Figure;
    const NAME: &'static str = "figures";
    const VERSION: u32 = 1;

    fn key(_: &Header, event: &Event) -> Option<String> {
        match event {
            Event::FigureChanged(changed) => Some(in_document(changed.document_id, &changed.figure.figure_id)),
            _ => None,
        }
    }

    fn apply(row: &mut Option<Figure>, _: &Header, event: &Event) {
        if let Event::FigureChanged(changed) = event {
            *row = Some(changed.figure.clone());
        }
    }
}

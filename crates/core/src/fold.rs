//! Views of the log. Each fold says which row an event concerns and how the row changes.

pub mod carried;
pub mod desktop;
pub mod document;
pub mod evidence;
pub mod figure;
pub mod proposal;
pub mod replica;
pub mod run;
pub mod task;

use choir_proto::event::Header;
use choir_proto::{DocumentId, Event};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Display;

/// One view: a set of rows, each folded from the events that concern it.
pub trait Fold {
    /// A row as it is kept and shown.
    type Row: Clone + Serialize + DeserializeOwned + Send + 'static;
    /// The view's name.
    const NAME: &'static str;
    /// Raised when the same events give other rows.
    const VERSION: u32;
    /// Rows kept in memory between writes; fewer where a row is large.
    const CACHED_MAX: usize = 4096;

    /// The row that an event concerns.
    fn key(header: &Header, event: &Event) -> Option<String>;

    /// Folds one event into its row; `None` is a row that is not there.
    fn apply(row: &mut Option<Self::Row>, header: &Header, event: &Event);
}

/// Where the rows of a document are, in views that have several for each.
pub fn of_document(document: DocumentId) -> String {
    in_document(document, "")
}

/// Where one of them is.
pub fn in_document(document: DocumentId, name: impl Display) -> String {
    format!("{document}/{name}")
}

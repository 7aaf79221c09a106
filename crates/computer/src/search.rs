//! Search over one computer: the words of `core` in the index of the store.

use choir_core::search;
use choir_proto::api::{Found, SearchResult};
use choir_proto::event::Header;
use choir_proto::{Event, Hash, Seq};
use choir_store::search::{Indexed, Words};
use choir_store::{Log, OpenError, Query, Search, StoreError};
use std::path::Path;
use std::sync::Arc;

/// Finds things by their words.
#[derive(Debug, Clone)]
pub struct Finder {
    log: Log,
    index: Search,
}

impl Finder {
    /// Opens the index in a computer's directory and keeps it up to date.
    pub fn open(log: Log, directory: &Path) -> Result<Self, OpenError> {
        Ok(Self { index: Search::follow(log.clone(), directory, Arc::new(EventWords))?, log })
    }

    /// What holds every word, best first.
    pub async fn find(&self, question: &str, limit: usize) -> Result<Vec<SearchResult>, StoreError> {
        let mut results = Vec::new();
        for seq in self.index.find(question, limit).await? {
            let query = Query { after: Seq(seq.0.saturating_sub(1)), limit: 1, ..Query::default() };
            let Some(found) = self.log.read(query).await?.pop() else { continue };
            let blob = |hash: &Hash| self.log.blobs().get(hash).ok();
            let shown = found.event().ok().and_then(|event| search::result(&found.header, &event, question, &blob));
            results.extend(shown);
        }
        // Things before what was said about them; among equals the better match stays first.
        results.sort_by_key(|result: &SearchResult| matches!(result.found, Found::Event { .. }));
        Ok(results)
    }
}

struct EventWords;

impl Words for EventWords {
    fn version(&self) -> u32 {
        search::VERSION
    }

    fn of(&self, _: &Header, event: &Event, blob: &dyn Fn(&Hash) -> Option<Vec<u8>>) -> Option<Indexed> {
        let search::Words { subject, text } = search::words(event, blob)?;
        match (subject, text) {
            (subject, Some(text)) => Some(Indexed::Text { subject, text }),
            (Some(subject), None) => Some(Indexed::Gone { subject }),
            (None, None) => None,
        }
    }
}

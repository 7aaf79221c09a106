//! Putting a document away: whoever decides it keeps everybody else from writing until it is in the log.

use super::room::{Leave, Room};
use super::{Documents, Held};
use choir_proto::DocumentId;
use choir_store::StoreError;
use std::sync::Arc;

/// A document that says nothing but what it began with. Nobody can change that while this is held.
pub struct Untouched {
    room: Arc<Room>,
    held: Held,
}

impl Untouched {
    /// That it was put away is in the log: whoever looks at it is told, and nothing more is taken for it.
    pub fn put_away(mut self) {
        self.held.forget();
        self.room.close(&Leave::refused("the document was put away"));
    }
}

impl Documents {
    /// The document, if nobody has written a word into it, and nobody's words wait to be.
    pub async fn untouched(&self, id: DocumentId) -> Result<Option<Untouched>, StoreError> {
        let room = self.room(id);
        // It need not stand: a run whose document cannot be read ends all the same.
        let held = Held { live: room.lock().await, is_ahead: false };
        let is_first = self.find(id).await?.is_some_and(|document| document.version == 1);
        let is_untouched = is_first && !room.has_words();
        Ok(is_untouched.then_some(Untouched { room, held }))
    }
}

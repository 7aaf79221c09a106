//! Living documents: their words, who changes them, and how changes meet.
//!
//! A document is a replica of the Yjs protocol. Whoever changes it, a browser by its updates, a program by a whole text or
//! an agent by a tool, the change passes through the replica, is appended as `document.updated`, and only then told to
//! anybody. Versions name points of that history and keep their text.

mod away;
mod change;
mod figure;
mod outbox;
mod past;
mod proposal;
mod provenance;
mod replica;
mod room;
mod sketch;
mod sync;

pub use away::Untouched;
pub use change::{Base, Change, Edit, Manner};
pub use outbox::Inbox;
pub use proposal::Decided;
pub use replica::{CONTENT_BYTES_MAX, ROOT, Refused};
pub use room::{Leave, Member, Outgoing};
pub use sketch::Sketching;
pub use sync::{ACKNOWLEDGED, GENERATION};

use crate::journal::{Journal, Scope};
use crate::view::ViewReader;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use change::Name;
use choir_core::fold::document::{Documents as DocumentsFold, Texts, Versions};
use choir_core::fold::replica::{Tail, Tails};
use choir_core::fold::{in_document, of_document};
use choir_proto::document::{DocumentSummary, VersionSummary};
use choir_proto::event::{Actor, DocumentCreated, DocumentVersioned};
use choir_proto::{DocumentId, Event, EventId, Hash, Seq, TaskId};
use choir_store::{AppendError, Blobs, Query, StoreError};
use replica::Replica;
use room::{Live, Room};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::OwnedMutexGuard;

/// Versions looked at together, and the most that are listed.
pub const VERSIONS_LISTED_MAX: usize = 1000;

/// Texts up to this length are kept in the log itself; a blob would cost syncs of its own.
const TEXT_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Replicas kept in memory although nobody looks at them.
const ROOMS_IDLE_MAX: usize = 64;

/// Agents of whom it is remembered what they read.
const READERS_MAX: usize = 1024;

/// Names of replicas have 53 bits, because browsers count in doubles.
const AUTHOR_MASK: u64 = (1 << 53) - 1;

/// Why a document could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// The change could not be written down.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The change is not one that a document takes.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The words of documents. Cheap to clone.
#[derive(Clone)]
pub struct Documents(Arc<Parts>);

/// The parts of [`Documents`].
pub struct Parts {
    journal: Journal,
    views: ViewReader,
    blobs: Arc<Blobs>,
    /// Replicas that are open. Whoever holds a room's lock is the only one who changes that document.
    rooms: Mutex<HashMap<DocumentId, Arc<Room>>>,
    /// The version that each agent read last. Forgotten over a restart; then what it wrote last counts.
    readers: Mutex<HashMap<TaskId, u32>>,
    /// Of agents whose answer was begun in the document and whose call was not made yet: the text as they have it in mind.
    sketches: Mutex<HashMap<TaskId, String>>,
}

impl std::ops::Deref for Documents {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// A replica that nobody else can change meanwhile. Whatever is done to it must reach the log: one that is let go of before,
/// by an error or because nobody waits for the change any more, stands again from the log when it is next needed.
struct Held {
    live: OwnedMutexGuard<Option<Live>>,
    is_ahead: bool,
}

impl Held {
    /// To look at.
    fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// To change. What is done with it is ahead of the log until it is [kept](Self::kept).
    fn changing(&mut self) -> Option<&mut Live> {
        self.is_ahead = true;
        self.live.as_mut()
    }

    /// What was done is in the log.
    fn kept(&mut self) {
        self.is_ahead = false;
    }

    /// The next one who needs it makes it stand again from the log.
    fn forget(&mut self) {
        *self.live = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_ahead {
            self.forget();
        }
    }
}

impl Documents {
    /// Documents of one computer.
    pub fn new(journal: Journal, views: ViewReader) -> Self {
        let blobs = Arc::clone(journal.log().blobs());
        Self(Arc::new(Parts {
            journal,
            views,
            blobs,
            rooms: Mutex::default(),
            readers: Mutex::default(),
            sketches: Mutex::default(),
        }))
    }

    /// What is known of a document.
    pub async fn find(&self, id: DocumentId) -> Result<Option<DocumentSummary>, StoreError> {
        self.views.get::<DocumentsFold>(id).await
    }

    /// The newest named versions of a document, oldest first.
    pub async fn versions(&self, id: DocumentId) -> Result<Vec<VersionSummary>, StoreError> {
        self.versions_before(id, None, VERSIONS_LISTED_MAX).await
    }

    /// The newest named versions before one of them, oldest first.
    pub async fn versions_before(
        &self,
        id: DocumentId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionSummary>, StoreError> {
        let before = before.map_or_else(|| in_document(id, char::MAX), |version| Versions::key_of(id, version));
        let mut versions = self.versions_down(id, before, limit).await?;
        versions.reverse();
        Ok(versions)
    }

    /// The newest version that somebody made, however long ago that was.
    pub async fn newest_of(&self, id: DocumentId, author: &Actor) -> Result<Option<u32>, StoreError> {
        let mut before = in_document(id, char::MAX);
        loop {
            let versions = self.versions_down(id, before, VERSIONS_LISTED_MAX).await?;
            if let Some(theirs) = versions.iter().find(|version| version.author == *author) {
                return Ok(Some(theirs.version));
            }
            let Some(oldest) = versions.last() else { return Ok(None) };
            before = Versions::key_of(id, oldest.version);
        }
    }

    /// Named versions from here down.
    async fn versions_down(
        &self,
        id: DocumentId,
        before: String,
        limit: usize,
    ) -> Result<Vec<VersionSummary>, StoreError> {
        let found = self.views.newest::<Versions>(Some(before), limit).await?;
        let prefix = of_document(id);
        Ok(found.into_iter().take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, version)| version).collect())
    }

    /// One named version of a document.
    pub async fn version(&self, id: DocumentId, version: u32) -> Result<Option<VersionSummary>, StoreError> {
        self.views.get::<Versions>(Versions::key_of(id, version)).await
    }

    /// The newest text of a document, as far as it was not erased.
    pub async fn head_text(&self, head: &DocumentSummary) -> Result<String, StoreError> {
        let mut version = head.version;
        loop {
            match self.text(head.document_id, version).await {
                Ok(Some(text)) => return Ok(text),
                Ok(None) | Err(StoreError::Missing(_)) if version > 1 => {
                    version = self.named_before(head.document_id, version - 1).await?.map_or(1, |named| named.version);
                }
                Ok(None) => return Ok(String::new()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The newest text of a document that somebody works on: its replica stands in memory, and nothing has to be read.
    pub async fn text_at_work(&self, head: &DocumentSummary) -> Result<String, StoreError> {
        let room = self.room(head.document_id);
        let held = self.hold(&room).await?;
        match held.as_ref().and_then(Held::live).filter(|live| live.version == head.version) {
            Some(live) => Ok(live.replica.content().to_owned()),
            None => self.head_text(head).await,
        }
    }

    async fn named_text(&self, id: DocumentId, version: u32, hash: Hash) -> Result<String, StoreError> {
        if let Some(text) = self.views.get::<Texts>(Versions::key_of(id, version)).await? {
            return Ok(text);
        }
        self.blob_text(hash).await
    }

    /// The text of a blob.
    pub async fn blob_text(&self, hash: Hash) -> Result<String, StoreError> {
        Ok(String::from_utf8_lossy(&self.blob(hash).await?).into_owned())
    }

    /// A blob.
    pub async fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        tokio::task::spawn_blocking(move || blobs.get(&hash)).await.map_err(|_| StoreError::Closed)?
    }

    /// Keeps bytes as a blob.
    pub async fn keep(&self, bytes: Vec<u8>) -> Result<Hash, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        tokio::task::spawn_blocking(move || blobs.put(&bytes)).await.map_err(|_| StoreError::Closed)?
    }

    /// A text's hash, and the text itself when it goes into the log.
    async fn keep_text(&self, text: &str) -> Result<(Hash, Option<String>), StoreError> {
        if text.len() <= TEXT_INLINE_BYTES_MAX {
            return Ok((choir_store::sha256(text.as_bytes()), Some(text.to_owned())));
        }
        Ok((self.keep(text.as_bytes().to_vec()).await?, None))
    }

    /// The facts that begin a document with its first version. Its replica grows from that text when it is first needed.
    pub async fn create(
        &self,
        id: DocumentId,
        title: &str,
        content: &str,
        reason: &str,
    ) -> Result<Vec<Event>, StoreError> {
        let created = DocumentCreated { document_id: id, title: title.to_owned() };
        let name = Name { title: title.to_owned(), reason: reason.to_owned() };
        Ok(vec![created.into(), self.named(id, 1, content, name).await?])
    }

    async fn named(&self, id: DocumentId, version: u32, content: &str, name: Name) -> Result<Event, StoreError> {
        let (content_hash, inline) = self.keep_text(content).await?;
        let versioned = DocumentVersioned {
            document_id: id,
            version,
            title: name.title,
            content_hash,
            content: inline,
            size: content.len() as u64,
            reason: name.reason,
        };
        Ok(versioned.into())
    }

    /// Remembers which version an agent has seen.
    pub fn was_read(&self, task: TaskId, version: u32) {
        let mut readers = self.readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if readers.len() >= READERS_MAX {
            readers.clear();
        }
        readers.insert(task, version);
    }

    /// The version that an agent has seen.
    pub fn read_by(&self, task: TaskId) -> Option<u32> {
        self.readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&task).copied()
    }

    /// For whoever waits a while: a wait must not keep a computer open that is being closed.
    fn weak(&self) -> Weak<Parts> {
        Arc::downgrade(&self.0)
    }

    fn room(&self, id: DocumentId) -> Arc<Room> {
        let mut rooms = self.rooms.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if rooms.len() >= ROOMS_IDLE_MAX {
            // A room that somebody is in, or is about to change, has another owner.
            rooms.retain(|_, room| Arc::strong_count(room) > 1 || !room.is_empty());
        }
        Arc::clone(rooms.entry(id).or_insert_with(|| Arc::new(Room::new(id))))
    }

    /// Does something while nobody writes into a document, and lets go of what stands in memory: it is from before.
    pub async fn while_still<T>(&self, id: DocumentId, work: impl Future<Output = T>) -> T {
        let room = self.room(id);
        let mut live = room.lock().await;
        let done = work.await;
        *live = None;
        done
    }

    /// The event by which the computer itself wrote the text of a version down once more, because something before it was
    /// erased; only while that is how the document stands. What somebody has written over it since is theirs.
    pub async fn written_once_more(&self, gone: &DocumentVersioned) -> Result<Option<EventId>, StoreError> {
        let id = gone.document_id;
        let Some(head) = self.find(id).await? else { return Ok(None) };
        let newest = self.version(id, head.version).await?.filter(|newest| {
            newest.author == Actor::Computer
                && newest.version > gone.version
                && newest.content_hash == gone.content_hash
        });
        let Some(VersionSummary { seq, .. }) = newest else { return Ok(None) };
        let query = Query { after: Seq(seq.0.saturating_sub(1)), upto: Some(seq), limit: 1, ..Query::default() };
        Ok(self.journal.log().read(query).await?.first().map(|written| written.header.id))
    }

    /// Lets go of every replica: what was erased must not live on in one. They stand again from what the log says, and
    /// whoever looks at one that had to begin anew does so too.
    pub async fn forget(&self) {
        let rooms: Vec<Arc<Room>> = {
            let rooms = self.rooms.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            rooms.values().cloned().collect()
        };
        for room in rooms {
            *room.lock().await = None;
            if !room.is_empty()
                && let Err(error) = self.hold(&room).await
            {
                tracing::warn!(%error, document = %room.id, "a document does not stand again after something was erased");
            }
        }
    }

    /// The document's replica, for whoever wants to change it. Nothing when there is no such document.
    async fn hold(&self, room: &Arc<Room>) -> Result<Option<Held>, StoreError> {
        let mut live = room.lock().await;
        if live.is_none() {
            *live = self.open(room.id).await?;
            if let Some(live) = live.as_ref() {
                room.part_from_others(live.generation);
            }
        }
        Ok(live.is_some().then_some(Held { live, is_ahead: false }))
    }

    /// Makes a replica stand from what the log says.
    async fn open(&self, id: DocumentId) -> Result<Option<Live>, StoreError> {
        let Some((head, tail)) = self.known(id).await? else { return Ok(None) };
        if let Some(replica) = self.stand(&head, &tail).await? {
            return Ok(Some(Live::new(replica, &head, &tail)));
        }
        // Something of its past was erased or is damaged. The text is what counts; replicas elsewhere begin anew.
        tracing::warn!(document = %id, "a document cannot be made from its updates and grows from its text");
        self.begin_anew(&head).await?;
        let Some((head, tail)) = self.known(id).await? else { return Ok(None) };
        let replica = self.stand(&head, &tail).await?.ok_or(StoreError::Damaged(head.content_hash))?;
        Ok(Some(Live::new(replica, &head, &tail)))
    }

    async fn known(&self, id: DocumentId) -> Result<Option<(DocumentSummary, Tail)>, StoreError> {
        Ok(self.find(id).await?.zip(self.views.get::<Tails>(id).await?))
    }

    /// A replica that says what the log says; nothing when it would not.
    async fn stand(&self, head: &DocumentSummary, tail: &Tail) -> Result<Option<Replica>, StoreError> {
        let author = (self.journal.world().uuid().as_u128() as u64 & AUTHOR_MASK) | 2;
        let replica = self.grown(head.document_id, author, tail).await?;
        Ok(replica.filter(|replica| choir_store::sha256(replica.content().as_bytes()) == head.content_hash))
    }

    async fn grown(&self, id: DocumentId, author: u64, tail: &Tail) -> Result<Option<Replica>, StoreError> {
        let mut replica = match tail.state {
            Some(state) => match Replica::from_state(author, &self.blob(state).await?) {
                Ok(replica) => replica,
                Err(_) => return Ok(None),
            },
            None => match self.text(id, tail.base).await? {
                Some(text) => Replica::from_text(author, &text),
                None => return Ok(None),
            },
        };
        for update in &tail.updates {
            let applied = STANDARD.decode(&update.update).ok().map(|update| replica.apply(&update));
            if !matches!(applied, Some(Ok(_))) {
                return Ok(None);
            }
        }
        Ok(Some(replica))
    }

    /// The text as far as it is known becomes a version of its own, from which replicas grow.
    async fn begin_anew(&self, head: &DocumentSummary) -> Result<(), StoreError> {
        let text = self.head_text(head).await?;
        let name = Name { title: head.title.clone(), reason: "made whole after something was erased".to_owned() };
        let version = self.named(head.document_id, head.version + 1, &text, name).await?;
        let appended = self.journal.append(&Scope::of(Actor::Computer), vec![version]).await;
        appended.map(drop).map_err(|_| StoreError::Closed)
    }
}

//! Living documents: their words, and who may change them.

use super::HarnessError;
use super::perform::{Performed, Performer};
use crate::journal::{Journal, Scope};
use crate::merge::merge;
use crate::view::ViewReader;
use choir_core::agent::Begin;
use choir_core::fold::document::{Documents as DocumentsFold, Texts, Versions};
use choir_core::tool::{Tool, replace_once};
use choir_proto::document::{DocumentSummary, VersionSummary};
use choir_proto::event::{Actor, DocumentCreated, DocumentVersioned, ToolOutcome};
use choir_proto::{DocumentId, Event, Hash};
use choir_store::{Blobs, StoreError};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Versions looked at when somebody wants the list.
const VERSIONS_LISTED_MAX: usize = 1000;

/// Texts up to this length are kept in the log itself; a blob would cost syncs of its own.
const TEXT_INLINE_BYTES_MAX: usize = 16 * 1024;

/// The longest heading that becomes a title.
const TITLE_BYTES_MAX: usize = 200;

/// The words of documents. One change at a time: a version's number and what it was merged with belong together.
#[derive(Clone)]
pub struct Documents {
    views: ViewReader,
    blobs: Arc<Blobs>,
    turn: Arc<Mutex<()>>,
}

/// A change that is ready to be appended. Holding it keeps everybody else waiting.
pub struct Change<'a> {
    /// What to append.
    pub event: Event,
    /// The whole text after it.
    pub content: String,
    /// The version's number.
    pub version: u32,
    _turn: MutexGuard<'a, ()>,
}

impl Documents {
    /// Documents of one computer.
    pub fn new(views: ViewReader, blobs: Arc<Blobs>) -> Self {
        Self { views, blobs, turn: Arc::default() }
    }

    /// What is known of a document.
    pub async fn find(&self, id: DocumentId) -> Result<Option<DocumentSummary>, StoreError> {
        self.views.get::<DocumentsFold>(id).await
    }

    /// Every version of a document, oldest first.
    pub async fn versions(&self, id: DocumentId) -> Result<Vec<VersionSummary>, StoreError> {
        self.views.with_prefix::<Versions>(Versions::prefix(id), VERSIONS_LISTED_MAX).await
    }

    /// One version of a document.
    pub async fn version(&self, id: DocumentId, version: u32) -> Result<Option<VersionSummary>, StoreError> {
        self.views.get::<Versions>(Versions::key_of(id, version)).await
    }

    /// The newest text of a document.
    pub async fn head_text(&self, head: &DocumentSummary) -> Result<String, StoreError> {
        self.text(head.document_id, head.version, head.content_hash).await
    }

    /// The text of one version.
    pub async fn text(&self, id: DocumentId, version: u32, hash: Hash) -> Result<String, StoreError> {
        if let Some(text) = self.views.get::<Texts>(Versions::key_of(id, version)).await? {
            return Ok(text);
        }
        self.blob_text(hash).await
    }

    /// The text of a blob.
    pub async fn blob_text(&self, hash: Hash) -> Result<String, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        let read = move || blobs.get(&hash);
        let bytes = tokio::task::spawn_blocking(read).await.map_err(|_| StoreError::Closed)??;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
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

    /// The facts that begin a document with its first version.
    pub async fn create(
        &self,
        id: DocumentId,
        title: &str,
        content: &str,
        reason: &str,
    ) -> Result<Vec<Event>, StoreError> {
        let (content_hash, inline) = self.keep_text(content).await?;
        let created = DocumentCreated { document_id: id, title: title.to_owned() };
        let versioned = DocumentVersioned {
            document_id: id,
            version: 1,
            title: title.to_owned(),
            content_hash,
            content: inline,
            size: content.len() as u64,
            reason: reason.to_owned(),
        };
        Ok(vec![created.into(), versioned.into()])
    }

    /// Prepares a change of a document, merged with whatever happened since `base`.
    pub async fn change(
        &self,
        id: DocumentId,
        base: Base,
        title: Option<&str>,
        content: &str,
        reason: &str,
    ) -> Result<Option<Change<'_>>, StoreError> {
        let turn = self.turn.lock().await;
        let Some(head) = self.find(id).await? else { return Ok(None) };
        let base = match base {
            Base::Version(version) => self.version(id, version).await?,
            Base::NewestOf(author) => self.versions(id).await?.into_iter().rfind(|version| version.author == author),
            Base::First => self.version(id, 1).await?,
        };
        let content = match base {
            Some(base) if base.content_hash != head.content_hash => {
                let base = self.text(id, base.version, base.content_hash).await?;
                merge(&base, &self.head_text(&head).await?, content)
            }
            _ => content.to_owned(),
        };
        let (content_hash, inline) = self.keep_text(&content).await?;
        let versioned = DocumentVersioned {
            document_id: id,
            version: head.version + 1,
            title: title.or_else(|| heading(&content)).unwrap_or(&head.title).to_owned(),
            content_hash,
            content: inline,
            size: content.len() as u64,
            reason: reason.to_owned(),
        };
        Ok(Some(Change { version: versioned.version, event: versioned.into(), content, _turn: turn }))
    }

    /// Appends a person's change.
    pub async fn save(
        &self,
        journal: &Journal,
        scope: &Scope,
        change: Change<'_>,
    ) -> Result<(u32, String), HarnessError> {
        let Change { event, content, version, _turn } = change;
        journal.append(scope, vec![event]).await?;
        Ok((version, content))
    }
}

/// A text that begins with a heading names itself.
fn heading(content: &str) -> Option<&str> {
    let heading = content.lines().find(|line| !line.trim().is_empty())?.strip_prefix("# ")?.trim();
    (!heading.is_empty() && heading.len() <= TITLE_BYTES_MAX).then_some(heading)
}

/// The version that somebody had in mind when they wrote.
pub enum Base {
    /// This one.
    Version(u32),
    /// The newest of this author.
    NewestOf(Actor),
    /// The first.
    First,
}

impl Performer {
    pub(super) async fn document(&self, tool: &Tool, begin: &Begin) -> Result<Performed, HarnessError> {
        let documents = &self.context.harness.documents;
        let Some(id) = self.context.document else {
            return Ok(Performed::new(ToolOutcome::Refused, "This run has no document.".into()));
        };
        let Some(head) = documents.find(id).await? else {
            return Ok(Performed::new(ToolOutcome::Error, "The document was put away.".into()));
        };
        match tool {
            Tool::ReadDocument => Ok(Performed::new(ToolOutcome::Ok, documents.head_text(&head).await?)),
            Tool::WriteDocument(write) => self.write(begin, id, Some(&write.title), &write.content).await,
            Tool::EditDocument(edit) => match replace_once(&documents.head_text(&head).await?, &edit.old, &edit.new) {
                Ok(text) => self.write_over(begin, id, Base::Version(head.version), None, &text).await,
                Err(why) => Ok(Performed::new(ToolOutcome::Error, why)),
            },
            _ => Ok(Performed::new(ToolOutcome::Refused, "That is no tool for documents.".into())),
        }
    }

    /// A whole text is meant to replace what this author wrote last; what others wrote since is merged in.
    async fn write(
        &self,
        begin: &Begin,
        id: DocumentId,
        title: Option<&str>,
        text: &str,
    ) -> Result<Performed, HarnessError> {
        let author = self.scope().actor;
        let wrote_before =
            self.context.harness.documents.versions(id).await?.iter().any(|version| version.author == author);
        let base = if wrote_before { Base::NewestOf(author) } else { Base::First };
        self.write_over(begin, id, base, title, text).await
    }

    async fn write_over(
        &self,
        begin: &Begin,
        id: DocumentId,
        base: Base,
        title: Option<&str>,
        text: &str,
    ) -> Result<Performed, HarnessError> {
        let reason = format!("{} by {}", begin.call.name, self.scope().actor);
        match self.context.harness.documents.change(id, base, title, text, &reason).await? {
            Some(Change { event, _turn, .. }) => self.together(begin, vec![event], "The document is written.").await,
            None => Ok(Performed::new(ToolOutcome::Error, "The document was put away.".into())),
        }
    }
}

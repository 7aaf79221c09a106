//! Texts of the past: of every version, named or not.

use super::Documents;
use choir_core::fold::document::Versions;
use choir_core::fold::of_document;
use choir_core::fold::replica::Tails;
use choir_core::text::changed;
use choir_proto::document::{TextChange, VersionSummary};
use choir_proto::{DocumentId, Event, Seq};
use choir_store::{Query, StoreError};

/// Events read at once.
const PAGE: usize = 500;

/// Updates looked through for the text of one version. Versions are named far more often than that.
const UPDATES_READ_MAX: usize = 20_000;

impl Documents {
    /// The text of a version; nothing when there is no such version.
    pub async fn text(&self, id: DocumentId, version: u32) -> Result<Option<String>, StoreError> {
        let Some(named) = self.named_before(id, version).await? else { return Ok(None) };
        let mut text = self.named_text(id, named.version, named.content_hash).await?;
        if named.version == version {
            return Ok(Some(text));
        }
        for changes in self.changes_between(id, &named, version).await? {
            match changed(&text, &changes) {
                Some(next) => text = next,
                None => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    /// The newest named version that is not newer than this one.
    pub(super) async fn named_before(
        &self,
        id: DocumentId,
        version: u32,
    ) -> Result<Option<VersionSummary>, StoreError> {
        let after = Versions::key_of(id, version.saturating_add(1));
        let found = self.views.newest::<Versions>(Some(after), 1).await?;
        let ours = found.into_iter().find(|(key, _)| key.starts_with(&of_document(id)));
        Ok(ours.map(|(_, version)| version))
    }

    /// What changed after a named version up to another one. Empty when it is not all there.
    async fn changes_between(
        &self,
        id: DocumentId,
        named: &VersionSummary,
        version: u32,
    ) -> Result<Vec<Vec<TextChange>>, StoreError> {
        let wanted = (named.version + 1)..=version;
        let kept = self.views.get::<Tails>(id).await?.unwrap_or_default().updates;
        let kept: Vec<_> = kept.into_iter().filter(|update| wanted.contains(&update.version)).collect();
        if kept.len() == wanted.clone().count() {
            return Ok(kept.into_iter().map(|update| update.changes).collect());
        }
        let found = self.updates_in_log(id, named.seq, version).await?;
        if found.len() == wanted.count() { Ok(found) } else { Ok(vec![vec![unknown()]]) }
    }

    async fn updates_in_log(
        &self,
        id: DocumentId,
        mut after: Seq,
        version: u32,
    ) -> Result<Vec<Vec<TextChange>>, StoreError> {
        let mut found = Vec::new();
        for _ in 0..UPDATES_READ_MAX / PAGE {
            let query = Query { after, limit: PAGE, kind: Some("document.updated".into()), ..Query::default() };
            let page = self.journal.log().read(query).await?;
            let Some(last) = page.last() else { break };
            after = last.header.seq;
            for envelope in page {
                match envelope.event() {
                    Ok(Event::DocumentUpdated(updated)) if updated.document_id == id => {
                        if updated.version > version {
                            return Ok(found);
                        }
                        found.push(updated.changes);
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

/// A change that fits no text: the words of it are gone.
fn unknown() -> TextChange {
    TextChange { from: 0, removed: 0, inserted: 0, text: None }
}

//! What mirrors were last made to say, kept over restarts.
//!
//! A mirror that still says what was last written there is nobody's edit, even when its document says something else by now:
//! what was erased from the log while nobody looked must not come back from a file. Derived: without it a mirror that differs
//! counts as edited. It holds hashes and ids, no words.

use choir_proto::{DocumentId, Hash, Seq};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Beside the log.
const NAME: &str = "mirrors.json";

/// The one way of writing it down so far.
const FORMAT: u32 = 1;

/// The record of one computer.
pub(super) struct Record {
    path: PathBuf,
    kept: Kept,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    format: u32,
    /// Erasures up to here have been obeyed.
    obeyed: Seq,
    /// What each mirror says, or what it said before and is to say, in case a crash comes in between.
    mirrors: BTreeMap<DocumentId, BTreeSet<Hash>>,
}

impl Record {
    /// As it was left. One that cannot be read is begun anew.
    pub(super) async fn open(directory: &Path) -> Self {
        let path = directory.join(NAME);
        let kept = tokio::fs::read(&path).await.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let kept = kept.filter(|kept: &Kept| kept.format == FORMAT);
        let anew = || Kept { format: FORMAT, obeyed: Seq::ZERO, mirrors: BTreeMap::new() };
        Self { path, kept: kept.unwrap_or_else(anew) }
    }

    /// Whether no mirror is known.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.mirrors.is_empty()
    }

    /// Whether this is what was last written to a document's mirror.
    pub(super) fn holds(&self, document: DocumentId, hash: Hash) -> bool {
        self.kept.mirrors.get(&document).is_some_and(|hashes| hashes.contains(&hash))
    }

    /// The documents whose mirrors were written, whether or not they are there.
    pub(super) fn documents(&self) -> impl Iterator<Item = DocumentId> {
        self.kept.mirrors.keys().copied()
    }

    /// Up to where erasures have been obeyed.
    pub(super) fn obeyed(&self) -> Seq {
        self.kept.obeyed
    }

    /// Every mirror says what its document says after an erasure.
    pub(super) async fn obey(&mut self, erasure: Seq) {
        self.kept.obeyed = erasure;
        self.save().await;
    }

    /// A mirror is about to say something else.
    pub(super) async fn intend(&mut self, document: DocumentId, hash: Hash) {
        if self.kept.mirrors.entry(document).or_default().insert(hash) {
            self.save().await;
        }
    }

    /// A mirror says this and nothing else. Written down with the next change: until then it only holds too much.
    pub(super) fn settle(&mut self, document: DocumentId, hash: Option<Hash>) {
        match hash {
            Some(hash) => self.kept.mirrors.insert(document, BTreeSet::from([hash])),
            None => self.kept.mirrors.remove(&document),
        };
    }

    async fn save(&self) {
        let bytes = serde_json::to_vec(&self.kept).expect("ids, hashes and numbers are JSON");
        let partial = self.path.with_extension("partial");
        let written = async {
            tokio::fs::write(&partial, bytes).await?;
            tokio::fs::rename(&partial, &self.path).await
        };
        if let Err(error) = written.await {
            // The mirrors themselves are as they should be; only a restart would not know it.
            tracing::warn!(%error, "what mirrors say could not be written down");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const ID: DocumentId = DocumentId::new(Uuid::from_u128(7));
    const OLD: Hash = Hash([1; 32]);
    const NEW: Hash = Hash([2; 32]);

    #[tokio::test]
    async fn a_crash_in_the_middle_of_a_write_knows_both_texts_for_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = Record::open(directory.path()).await;
        record.intend(ID, OLD).await;
        record.settle(ID, Some(OLD));
        record.intend(ID, NEW).await;
        let found = Record::open(directory.path()).await;
        assert!(found.holds(ID, OLD) && found.holds(ID, NEW) && !found.holds(ID, Hash([3; 32])));
        record.settle(ID, Some(NEW));
        record.obey(Seq(9)).await;
        let found = Record::open(directory.path()).await;
        assert_eq!((found.holds(ID, OLD), found.holds(ID, NEW), found.obeyed()), (false, true, Seq(9)));
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(NAME), r#"{"format":2,"obeyed":1,"mirrors":{}}"#).unwrap();
        assert_eq!(Record::open(directory.path()).await.obeyed(), Seq::ZERO);
    }
}

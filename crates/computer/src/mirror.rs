//! Documents as files of the workspace, for whoever prefers an editor of their own, and for workers that read them.
//!
//! A mirror says what its document says. What a person writes there becomes a version, what a task's merge brings there a
//! proposal; then the mirror says again what the document says. Mirrors are derived: whoever deletes one loses nothing.
//! What is erased from the log is gone from mirrors and their names too, whenever it was erased.

mod record;

use crate::control::{ControlError, OnFile};
use crate::document::{Base, DocumentError, Edit, Manner};
use crate::figure::Figures;
use crate::harness::{Harness, HarnessError};
use crate::journal::Scope;
use choir_core::fold::document::Documents;
use choir_core::fold::task::TaskRuns;
use choir_core::mirror;
use choir_proto::document::DocumentSummary;
use choir_proto::event::{Actor, PAYLOAD_ERASED};
use choir_proto::wire::{LiveFile, Mirror, WatchFiles, WatchFrame};
use choir_proto::{DocumentId, Event, Hash, Role, Seq, TaskId};
use choir_store::{AppendError, Query, StoreError};
use record::Record;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// Documents whose mirrors are looked after, newest first.
const DOCUMENTS_MAX: usize = 1000;

/// What may be heard of files while a mirror is written. Twice every mirror: that much is told when the watch begins.
const FRAMES_MAX: usize = 2 * DOCUMENTS_MAX;

/// Texts of one mirror that word may still come of.
const BEFORE_MAX: usize = 16;

/// Events looked at in one go, for what a document said once.
const PAGE: usize = 500;

/// Before the workspace is watched again after that broke off; doubled each time up to the limit.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Keeps mirrors in step until the log is closed. What they say is written down in the directory.
pub async fn keep(harness: Harness, directory: PathBuf) {
    let mut pause = PAUSE;
    loop {
        let figures = Figures::new(harness.clone());
        let record = Record::open(&directory).await;
        let mut keeper =
            Keeper { harness: harness.clone(), figures, known: HashMap::new(), orphans: Vec::new(), record };
        match keeper.work().await {
            Ok(()) => {
                pause = PAUSE;
                continue;
            }
            Err(Broken::Closed) => return,
            // A full disk has room again some day; what was written in a mirror meanwhile is found then.
            Err(Broken::Log(error)) => tracing::warn!(%error, "documents have no mirrors for a while"),
            // Elsewhere than in a whole instance there is no workspace.
            Err(Broken::Control(error)) => tracing::debug!(%error, "documents have no mirrors for a while"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Why mirrors are not kept any longer.
pub(crate) enum Broken {
    /// The workspace is not to be had.
    Control(ControlError),
    /// The log cannot be used right now.
    Log(HarnessError),
    /// The computer stops.
    Closed,
}

/// Whether only the words of one document are lost.
fn is_of_one_document(error: &HarnessError) -> bool {
    matches!(error, HarnessError::Read(StoreError::Damaged(_) | StoreError::Missing(_)))
}

impl From<ControlError> for Broken {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        HarnessError::from(error).into()
    }
}

impl From<AppendError> for Broken {
    fn from(error: AppendError) -> Self {
        HarnessError::from(error).into()
    }
}

impl From<HarnessError> for Broken {
    fn from(error: HarnessError) -> Self {
        match error {
            HarnessError::Read(StoreError::Closed) | HarnessError::Append(AppendError::Closed) => Self::Closed,
            other => Self::Log(other),
        }
    }
}

/// Takes what is heard of files until somebody has time for it. When more waits than fits, nothing follows: whoever
/// listens has missed something, and has to look at everything again.
fn hearing(frames_max: usize) -> (OnFile, mpsc::Receiver<WatchFrame>) {
    let (told, files) = mpsc::channel(frames_max);
    let mut told = Some(told);
    let hear = move |frame| {
        if told.as_ref().is_some_and(|told| told.try_send(frame).is_err()) {
            told = None;
        }
    };
    (Box::new(hear), files)
}

struct Keeper {
    harness: Harness,
    figures: Figures,
    known: HashMap<DocumentId, Known>,
    /// Mirrors that were found although nothing is left of their documents.
    orphans: Vec<(DocumentId, Known)>,
    record: Record,
}

/// What a mirror was seen to say.
struct Known {
    path: String,
    hash: Option<Hash>,
    /// The version that it showed.
    version: u32,
    /// What we wrote there before, newest last: word of that may come late.
    before: VecDeque<Hash>,
}

impl Known {
    /// What was written before, with what is there now.
    fn passed(mut self) -> VecDeque<Hash> {
        self.before.extend(self.hash);
        let too_many = self.before.len().saturating_sub(BEFORE_MAX);
        self.before.drain(..too_many);
        self.before
    }
}

impl Keeper {
    async fn work(&mut self) -> Result<(), Broken> {
        let log = self.harness.journal.log().clone();
        let mut events = log.subscribe(log.head().seq);
        if self.record.is_empty() && self.harness.views.newest::<Documents>(None, 1).await?.is_empty() {
            // Nothing to mirror yet: no sandbox is started for that.
            self.first(&mut events).await?;
        }
        let (hear, mut files) = hearing(FRAMES_MAX);
        let mut paths = self.figures.inputs().await?;
        paths.push(mirror::DIRECTORY.to_owned());
        let wanted = WatchFiles { paths };
        let control = std::sync::Arc::clone(&self.harness.control);
        let watching = control.watch(wanted, hear);
        tokio::pin!(watching);
        let mut ready = false;
        loop {
            tokio::select! {
                broken = watching.as_mut() => return Err(broken.into()),
                frame = files.recv() => match frame {
                    Some(WatchFrame::File(file)) if file.path.starts_with(mirror::DIRECTORY) => {
                        self.seen(file, ready).await?;
                    }
                    Some(WatchFrame::File(file)) => self.figures.seen(&file).await?,
                    Some(WatchFrame::Ready) => {
                        ready = true;
                        self.catch_up().await?;
                    }
                    Some(WatchFrame::Failed { .. }) => {}
                    None => return Err(ControlError::Refused("too much changed at once".into()).into()),
                },
                happened = events.next(), if ready => {
                    let happened = happened?;
                    if self.figures.heard(&happened).await? {
                        // Other files are to be heard of from now on.
                        return Ok(());
                    }
                    if happened.iter().any(|event| event.header.kind == PAYLOAD_ERASED) {
                        self.obey_erasures().await?;
                    }
                    for document in happened.iter().filter_map(|event| concerned(event.event().ok()?)).collect::<HashSet<_>>() {
                        self.write(document).await?;
                    }
                }
            }
        }
    }

    /// Waits for the first document.
    async fn first(&self, events: &mut choir_store::Subscription) -> Result<(), Broken> {
        loop {
            if events.next().await?.iter().any(|event| event.header.kind == "document.created") {
                return Ok(());
            }
        }
    }

    /// Makes every mirror say what its document says, whatever happened while nobody looked.
    async fn catch_up(&mut self) -> Result<(), Broken> {
        for (id, orphan) in std::mem::take(&mut self.orphans) {
            self.remove(id, &orphan).await?;
        }
        self.obey_erasures().await?;
        for (_, document) in self.harness.views.newest::<Documents>(None, DOCUMENTS_MAX).await? {
            self.try_write(document.document_id).await?;
        }
        Ok(())
    }

    /// Writes a mirror; whether its document can be read. One whose words are lost must not take the mirrors of the others
    /// with it.
    async fn try_write(&mut self, id: DocumentId) -> Result<bool, Broken> {
        match self.write(id).await {
            Err(Broken::Log(error)) if is_of_one_document(&error) => {
                tracing::warn!(%error, document = %id, "a document has no mirror");
                Ok(false)
            }
            written => written.map(|()| true),
        }
    }

    /// Writes every mirror anew if something was erased since that was last done. A tombstone does not say whose words it
    /// stands for, so every mirror is looked at.
    async fn obey_erasures(&mut self) -> Result<(), Broken> {
        let log = self.harness.journal.log();
        let upto = log.head().seq;
        let kind = Some(PAYLOAD_ERASED.to_owned());
        let query = Query { after: self.record.obeyed(), upto: Some(upto), limit: 1, kind, ..Query::default() };
        if log.read(query).await?.is_empty() {
            return Ok(());
        }
        let known: BTreeSet<DocumentId> = self.known.keys().copied().collect();
        let mut all = true;
        for id in known {
            self.rename(id).await?;
            all &= self.try_write(id).await?;
        }
        // One that could not be written may still say what was erased: it is looked at again.
        if all {
            self.record.obey(upto).await;
        }
        Ok(())
    }

    /// Takes a mirror away whose name holds a title that is no longer its document's: that may be what was erased. It is
    /// then written under the name that is right now.
    async fn rename(&mut self, id: DocumentId) -> Result<(), Broken> {
        let Some(head) = self.harness.documents.find(id).await? else { return Ok(()) };
        match self.known.remove(&id) {
            Some(known) if known.path != mirror::path(id, &head.title) => self.remove(id, &known).await,
            known => {
                self.known.extend(known.map(|known| (id, known)));
                Ok(())
            }
        }
    }

    /// Takes a mirror away, unless somebody has written there meanwhile.
    async fn remove(&mut self, id: DocumentId, known: &Known) -> Result<(), Broken> {
        let gone = Mirror { path: known.path.clone(), text: None, over: known.hash };
        if self.harness.control.mirror(gone).await?.written {
            self.record.settle(id, None);
        }
        Ok(())
    }

    /// Makes a mirror say what its document says, or takes it away with it.
    async fn write(&mut self, id: DocumentId) -> Result<(), Broken> {
        let head = self.harness.documents.find(id).await?;
        let (path, over) = match (self.known.get(&id), &head) {
            (Some(known), _) => (known.path.clone(), known.hash),
            // Until somebody has answered, a document is only what its person asked.
            (None, Some(head)) if head.version == 1 && head.run_id.is_some() => return Ok(()),
            (None, Some(head)) => (mirror::path(id, &head.title), None),
            (None, None) => return Ok(()),
        };
        let text = match &head {
            Some(head) => Some(self.harness.documents.head_text(head).await?),
            None => None,
        };
        let hash = text.as_ref().map(|text| choir_store::sha256(text.as_bytes()));
        if over.is_some() && hash == over {
            // It shows this version now, whoever wrote it there: what is written there next was made of these words.
            if let (Some(known), Some(head)) = (self.known.get_mut(&id), &head) {
                known.version = head.version;
            }
            return Ok(());
        }
        if let Some(hash) = hash {
            self.record.intend(id, hash).await;
        }
        let mirrored = self.harness.control.mirror(Mirror { path: path.clone(), text, over }).await?;
        // Otherwise somebody has written there, and that will be told.
        if mirrored.written {
            self.record.settle(id, hash);
            let version = head.map_or(0, |head| head.version);
            let before = self.known.remove(&id).map(Known::passed).unwrap_or_default();
            self.known.insert(id, Known { path, hash, version, before });
        }
        Ok(())
    }

    /// A mirror was found to say something.
    async fn seen(&mut self, file: LiveFile, ready: bool) -> Result<(), Broken> {
        let Some(head) = self.owner(&file.path).await? else {
            self.orphans.extend(self.orphan(file).await?);
            return Ok(());
        };
        let id = head.document_id;
        let Some(hash) = file.hash else {
            // It can be made again, and is with the next version.
            if self.known.get(&id).is_some_and(|known| known.path == file.path) {
                self.known.remove(&id);
            }
            return Ok(());
        };
        let expected = self.known.get(&id);
        if expected.is_some_and(|known| known.hash == Some(hash)) {
            // What was left alone there is gone again, and its document may have gone on meanwhile.
            return if ready && hash != head.content_hash { self.write(id).await } else { Ok(()) };
        }
        if expected.is_some_and(|known| known.before.contains(&hash)) && self.is_late(id).await? {
            return Ok(());
        }
        if hash == head.content_hash {
            self.shows(id, file.path, hash, head.version);
            self.record.intend(id, hash).await;
            return Ok(());
        }
        // What an earlier process left behind may be old or erased by now, which is nobody's wish.
        if ready || !self.is_old(id, hash).await? {
            if !self.take(&head, &file).await? {
                self.leave(id, file.path, head.version);
                return Ok(());
            }
            // Only now: an edit that a crash kept out of the document is still one at the next start.
            self.record.intend(id, hash).await;
        }
        self.shows(id, file.path, hash, head.version);
        if ready { self.write(id).await } else { Ok(()) }
    }

    /// A mirror says something that its document has, or has had: it may be written over.
    fn shows(&mut self, id: DocumentId, path: String, hash: Hash, version: u32) {
        let before = self.known.remove(&id).map(Known::passed).unwrap_or_default();
        self.known.insert(id, Known { path, hash: Some(hash), version, before });
    }

    /// A mirror says something that is nowhere else. What we know of it stays what it said before, or nothing, so that
    /// nobody writes over it.
    fn leave(&mut self, id: DocumentId, path: String, version: u32) {
        let unseen = || Known { path, hash: None, version, before: VecDeque::new() };
        self.known.entry(id).or_insert_with(unseen);
    }

    /// Whether a mirror says what its document once said, or was made to say.
    async fn is_old(&self, id: DocumentId, hash: Hash) -> Result<bool, Broken> {
        Ok(self.record.holds(id, hash) || self.said_once(id, hash).await?)
    }

    /// A mirror that says what was last written there, of a document that is gone.
    async fn orphan(&self, file: LiveFile) -> Result<Option<(DocumentId, Known)>, Broken> {
        let Some(hash) = file.hash else { return Ok(None) };
        let ours = |id: &DocumentId| mirror::belongs(&file.path, *id) && self.record.holds(*id, hash);
        let Some(id) = self.record.documents().find(ours) else { return Ok(None) };
        let is_gone = self.harness.documents.find(id).await?.is_none();
        Ok(is_gone.then_some((id, Known { path: file.path, hash: Some(hash), version: 0, before: VecDeque::new() })))
    }

    /// Whether a mirror still says what we wrote last, so that what was told of it has come late.
    async fn is_late(&self, id: DocumentId) -> Result<bool, Broken> {
        let Some(Known { path, hash, version, .. }) = self.known.get(&id) else { return Ok(false) };
        let Some(text) = self.harness.documents.text(id, *version).await? else { return Ok(false) };
        let again = Mirror { path: path.clone(), text: Some(text), over: *hash };
        Ok(self.harness.control.mirror(again).await?.written)
    }

    /// Whether a document has ever said this. Texts that never got a name count too: mirrors show them.
    async fn said_once(&self, id: DocumentId, hash: Hash) -> Result<bool, Broken> {
        let is_it = |event: Event| match event {
            Event::DocumentUpdated(updated) => updated.document_id == id && updated.content_hash == hash,
            Event::DocumentVersioned(named) => named.document_id == id && named.content_hash == hash,
            _ => false,
        };
        for kind in ["document.versioned", "document.updated"] {
            let mut after = Seq::ZERO;
            loop {
                let query = Query { after, limit: PAGE, kind: Some(kind.to_owned()), ..Query::default() };
                let page = self.harness.journal.log().read(query).await?;
                let Some(last) = page.last() else { break };
                after = last.header.seq;
                if page.iter().any(|event| event.event().is_ok_and(&is_it)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Takes what was written in a mirror into its document; whether that could be done.
    async fn take(&self, head: &DocumentSummary, file: &LiveFile) -> Result<bool, Broken> {
        let Some(text) = &file.text else {
            tracing::warn!(path = file.path, "a mirror is not text, and is left alone");
            return Ok(false);
        };
        let base = self.known.get(&head.document_id).map_or(head.version, |known| known.version);
        let (scope, reason, manner) = match file.task {
            None => (Scope::of(Actor::Person), "edited as a file", Manner::Free),
            Some(task) => (self.worker(task).await?, "merged from a task", Manner::Ask),
        };
        let edit = Edit { base: Base::Version(base), title: None, content: text, reason, effect_id: None, manner };
        let changed = async {
            match self.harness.documents.change(head.document_id, edit).await? {
                Some(change) => self.harness.documents.save(&scope, change).await,
                None => Ok(()),
            }
        };
        match changed.await {
            Ok(()) => Ok(true),
            Err(DocumentError::Refused(why)) => {
                tracing::warn!(%why, path = file.path, "a mirror holds what a document does not take, and is left alone");
                Ok(false)
            }
            Err(DocumentError::Read(error)) => Err(error.into()),
            Err(DocumentError::Append(error)) => Err(error.into()),
        }
    }

    async fn worker(&self, task: TaskId) -> Result<Scope, Broken> {
        let scope = Scope::of(Actor::Agent(Role::Terminal)).task(task);
        Ok(match self.harness.views.get::<TaskRuns>(task).await? {
            Some(run) => scope.run(run),
            None => scope,
        })
    }

    /// The document that a mirror is of.
    async fn owner(&self, path: &str) -> Result<Option<DocumentSummary>, Broken> {
        if let Some((id, _)) = self.known.iter().find(|(_, known)| known.path == path) {
            return Ok(self.harness.documents.find(*id).await?);
        }
        if mirror::digits(path).is_none() {
            return Ok(None);
        }
        let documents = self.harness.views.newest::<Documents>(None, DOCUMENTS_MAX).await?;
        Ok(documents.into_iter().map(|(_, head)| head).find(|head| mirror::belongs(path, head.document_id)))
    }
}

/// The document whose words or being an event changes for good. What is typed becomes a version when its author pauses.
fn concerned(event: Event) -> Option<DocumentId> {
    match event {
        Event::DocumentVersioned(versioned) => Some(versioned.document_id),
        Event::DocumentTrashed(trashed) => Some(trashed.document_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_cannot_keep_up_hears_nothing_more_and_looks_again() {
        let (mut hear, mut files) = hearing(2);
        (0..4).for_each(|_| hear(WatchFrame::Ready));
        drop(hear);
        assert_eq!([files.recv().await, files.recv().await], [Some(WatchFrame::Ready), Some(WatchFrame::Ready)]);
        assert_eq!(files.recv().await, None, "what comes after a gap is not to be trusted");
    }

    #[test]
    fn a_full_disk_is_waited_for_and_only_a_closed_log_is_the_end() {
        assert!(matches!(Broken::from(AppendError::Full), Broken::Log(_)));
        assert!(matches!(Broken::from(AppendError::Closed), Broken::Closed));
        assert!(matches!(Broken::from(StoreError::Closed), Broken::Closed));
    }
}

//! Documents as files of the workspace, for whoever prefers an editor of their own, and for workers that read them.
//!
//! A mirror says what its document says. What a person writes there becomes a version, what a task's merge brings there a
//! proposal; then the mirror says again what the document says. Mirrors are derived: whoever deletes one loses nothing.

use crate::control::ControlError;
use crate::document::{Base, DocumentError, Edit, Manner};
use crate::figure::Figures;
use crate::harness::{Harness, HarnessError};
use crate::journal::Scope;
use choir_core::fold::document::Documents;
use choir_core::fold::task::TaskRuns;
use choir_core::mirror;
use choir_proto::document::DocumentSummary;
use choir_proto::event::Actor;
use choir_proto::wire::{LiveFile, Mirror, WatchFiles, WatchFrame};
use choir_proto::{DocumentId, Event, Hash, Role, TaskId};
use choir_store::{AppendError, StoreError};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::mpsc;

/// Documents whose mirrors are looked after, newest first.
const DOCUMENTS_MAX: usize = 1000;

/// Before the workspace is watched again after that broke off; doubled each time up to the limit.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Keeps mirrors in step until the log is closed.
pub async fn keep(harness: Harness) {
    let mut pause = PAUSE;
    loop {
        let figures = Figures::new(harness.clone());
        let mut keeper = Keeper { harness: harness.clone(), figures, known: HashMap::new() };
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

struct Keeper {
    harness: Harness,
    figures: Figures,
    known: HashMap<DocumentId, Known>,
}

/// What a mirror was seen to say.
struct Known {
    path: String,
    hash: Option<Hash>,
    /// The version that it showed.
    version: u32,
}

impl Keeper {
    async fn work(&mut self) -> Result<(), Broken> {
        let log = self.harness.journal.log().clone();
        let mut events = log.subscribe(log.head().seq);
        if self.harness.views.newest::<Documents>(None, 1).await?.is_empty() {
            // Nothing to mirror yet: no sandbox is started for that.
            self.first(&mut events).await?;
        }
        let (told, mut files) = mpsc::unbounded_channel();
        let mut paths = self.figures.inputs().await?;
        paths.push(mirror::DIRECTORY.to_owned());
        let wanted = WatchFiles { paths };
        let control = std::sync::Arc::clone(&self.harness.control);
        // Whoever no longer listens is dropped with the rest.
        let watching = control.watch(wanted, Box::new(move |frame| drop(told.send(frame))));
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
                        self.write_all().await?;
                    }
                    Some(WatchFrame::Failed { .. }) | None => {}
                },
                happened = events.next(), if ready => {
                    let happened = happened?;
                    if self.figures.heard(&happened).await? {
                        // Other files are to be heard of from now on.
                        return Ok(());
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

    async fn write_all(&mut self) -> Result<(), Broken> {
        for (_, document) in self.harness.views.newest::<Documents>(None, DOCUMENTS_MAX).await? {
            self.write(document.document_id).await?;
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
            return Ok(());
        }
        let mirrored = self.harness.control.mirror(Mirror { path: path.clone(), text, over }).await?;
        // Otherwise somebody has written there, and that will be told.
        if mirrored.written {
            let version = head.map_or(0, |head| head.version);
            self.known.insert(id, Known { path, hash, version });
        }
        Ok(())
    }

    /// A mirror was found to say something.
    async fn seen(&mut self, file: LiveFile, ready: bool) -> Result<(), Broken> {
        let Some(head) = self.owner(&file.path).await? else { return Ok(()) };
        let id = head.document_id;
        let Some(hash) = file.hash else {
            // It can be made again, and is with the next version.
            self.known.remove(&id);
            return Ok(());
        };
        let expected = self.known.get(&id);
        if expected.is_some_and(|known| known.hash == Some(hash)) {
            return Ok(());
        }
        let base = expected.map_or(head.version, |known| known.version);
        self.known.insert(id, Known { path: file.path.clone(), hash: Some(hash), version: head.version });
        if hash == head.content_hash {
            return Ok(());
        }
        // What an earlier process left behind may be old, which is nobody's wish.
        let is_old = !ready && self.harness.documents.versions(id).await?.iter().any(|old| old.content_hash == hash);
        if !is_old {
            match file.text {
                Some(text) => self.take(&head, base, &text, file.task).await?,
                None => tracing::warn!(path = file.path, "a mirror is not text, and is left alone"),
            }
        }
        if ready { self.write(id).await } else { Ok(()) }
    }

    /// Takes what was written in a mirror into its document.
    async fn take(&self, head: &DocumentSummary, base: u32, text: &str, task: Option<TaskId>) -> Result<(), Broken> {
        let (scope, reason, manner) = match task {
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
            Ok(()) => Ok(()),
            Err(DocumentError::Refused(why)) => {
                tracing::warn!(%why, "a mirror holds what a document does not take");
                Ok(())
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

    #[test]
    fn a_full_disk_is_waited_for_and_only_a_closed_log_is_the_end() {
        assert!(matches!(Broken::from(AppendError::Full), Broken::Log(_)));
        assert!(matches!(Broken::from(AppendError::Closed), Broken::Closed));
        assert!(matches!(Broken::from(StoreError::Closed), Broken::Closed));
    }
}

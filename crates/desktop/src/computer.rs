//! The views that the page keeps: fetched once with their place in the log, then folded event by event.

use crate::order::order;
use choir_core::fold::Fold;
use choir_proto::desktop::{Desktop, Shape, Subject, Window};
use choir_proto::document::DocumentSummary;
use choir_proto::event::Event;
use choir_proto::run::Run;
use choir_proto::{DocumentId, Envelope, RunId, Seq};

/// Every run, by its name; names sort by time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs(Rows<RunId, Run>);

/// Every document, by its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Documents(Rows<DocumentId, DocumentSummary>);

/// Rows in the order of their keys. A list and no tree: a tree would be in the page once for every kind of row, and what is new
/// mostly comes last.
#[derive(Debug, Clone, PartialEq)]
struct Rows<K, R>(Vec<(K, R)>);

impl<K, R> Default for Rows<K, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, R> Rows<K, R> {
    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(&key))
    }

    fn get(&self, key: K) -> Option<&R> {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    fn put(&mut self, key: K, row: R) {
        match self.place(key) {
            Ok(place) => self.0[place].1 = row,
            Err(place) => self.0.insert(place, (key, row)),
        }
    }

    fn take(&mut self, key: K) -> Option<R> {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    fn values(&self) -> impl Iterator<Item = &R> {
        self.0.iter().map(|(_, row)| row)
    }

    /// Folds one event into one row, by the same code that the server runs.
    fn fold<F: Fold<Row = R>>(&mut self, key: K, envelope: &Envelope, event: &Event) {
        let mut row = self.take(key);
        F::apply(&mut row, &envelope.header, event);
        if let Some(row) = row {
            self.put(key, row);
        }
    }
}

/// Which view an event can change, so that the others need not be drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// Runs alone.
    Runs,
    /// Documents, and the run that writes them.
    Documents,
    /// Windows and theme.
    Desktop,
    /// What waits for the person.
    Inbox,
    /// What stands behind a document.
    Evidence,
    /// What runs changed in the workspace.
    Changes,
    /// The workspace.
    Files,
    /// Nothing that the page shows all the time.
    Nothing,
}

impl Touches {
    /// Decided by the noun of the kind.
    pub fn of(kind: &str) -> Self {
        match kind.split_once('.').map_or("", |(noun, _)| noun) {
            "run" | "task" | "model" => Self::Runs,
            "document" => Self::Documents,
            "window" | "theme" => Self::Desktop,
            "inbox" => Self::Inbox,
            "proposal" | "citation" | "artifact" | "figure" => Self::Evidence,
            "undo" => Self::Changes,
            "file" => Self::Files,
            _ => Self::Nothing,
        }
    }
}

/// What a position says about an event that just arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    Next,
    /// Already folded.
    Seen,
    /// Something before it is missing.
    Gap,
}

/// Compares an event's place with the last one folded.
pub fn arrival(folded: Seq, arrived: Seq) -> Arrival {
    match arrived.0 {
        seq if seq <= folded.0 => Arrival::Seen,
        seq if seq == folded.0 + 1 => Arrival::Next,
        _ => Arrival::Gap,
    }
}

impl FromIterator<Run> for Runs {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut all = Self::default();
        runs.into_iter().for_each(|run| all.replace(run));
        all
    }
}

impl Runs {
    /// One run.
    pub fn get(&self, id: RunId) -> Option<&Run> {
        self.0.get(id)
    }

    /// All of them, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Run> {
        let all: Vec<&Run> = self.0.values().collect();
        newest(all.iter().map(|run| run.seq)).into_iter().map(move |place| all[place])
    }

    /// Those that are not in the trash, the newest first.
    pub fn listed(&self) -> impl Iterator<Item = &Run> {
        self.newest().filter(|run| run.removed_at.is_none())
    }

    /// Those in the trash, the newest first.
    pub fn removed(&self) -> impl Iterator<Item = &Run> {
        self.newest().filter(|run| run.removed_at.is_some())
    }

    /// The newest run that writes this document.
    pub fn of_document(&self, id: DocumentId) -> Option<&Run> {
        self.newest().find(|run| run.document_id == Some(id) && run.selection.is_none())
    }

    /// Runs that were asked about parts of a document, and not put away, the newest first.
    pub fn about_parts_of(&self, id: DocumentId) -> impl Iterator<Item = &Run> {
        self.listed().filter(move |run| run.document_id == Some(id) && run.selection.is_some())
    }

    /// Runs that have not ended.
    pub fn open(&self) -> impl Iterator<Item = &Run> {
        self.newest().filter(|run| !run.status.is_ending())
    }

    /// Takes rows that are older than those here; what is known already stays.
    pub fn add_older(&mut self, runs: Vec<Run>) {
        for run in runs {
            if self.get(run.run_id).is_none() {
                self.replace(run);
            }
        }
    }

    /// Takes a row as the server has it now.
    pub fn replace(&mut self, run: Run) {
        self.0.put(run.run_id, run);
    }

    /// Folds one event. A task that is known already was in a view that is younger than its position says.
    pub fn apply(&mut self, envelope: &Envelope, event: &Event) {
        if let Some(id) = envelope.header.run {
            let known = |run: &Run| run.tasks.iter().any(|task| Some(task.task_id) == envelope.header.task);
            if matches!(event, Event::TaskRequested(_)) && self.get(id).is_some_and(known) {
                return;
            }
            self.0.fold::<choir_core::fold::run::Runs>(id, envelope, event);
        }
    }
}

impl FromIterator<DocumentSummary> for Documents {
    fn from_iter<I: IntoIterator<Item = DocumentSummary>>(documents: I) -> Self {
        let mut all = Self::default();
        documents.into_iter().for_each(|document| all.0.put(document.document_id, document));
        all
    }
}

impl Documents {
    /// One document.
    pub fn get(&self, id: DocumentId) -> Option<&DocumentSummary> {
        self.0.get(id)
    }

    /// All of them, the one that changed last first.
    pub fn newest(&self) -> impl Iterator<Item = &DocumentSummary> {
        let all: Vec<&DocumentSummary> = self.0.values().collect();
        newest(all.iter().map(|document| document.seq)).into_iter().map(move |place| all[place])
    }

    /// Those that are not in the trash, the one that changed last first.
    pub fn listed(&self) -> impl Iterator<Item = &DocumentSummary> {
        self.newest().filter(|document| document.removed_at.is_none())
    }

    /// Those in the trash, the one that changed last first.
    pub fn removed(&self) -> impl Iterator<Item = &DocumentSummary> {
        self.newest().filter(|document| document.removed_at.is_some())
    }

    /// Takes rows that are older than those here; what is known already stays.
    pub fn add_older(&mut self, documents: Vec<DocumentSummary>) {
        for document in documents {
            if self.get(document.document_id).is_none() {
                self.0.put(document.document_id, document);
            }
        }
    }

    /// Folds one event.
    pub fn apply(&mut self, envelope: &Envelope, event: &Event) {
        if let Some(id) = document_of(event) {
            self.0.fold::<choir_core::fold::document::Documents>(id, envelope, event);
        }
    }
}

/// The places of positions, the newest first.
fn newest(all: impl Iterator<Item = Seq>) -> Vec<usize> {
    let all: Vec<Seq> = all.collect();
    order(all.len(), &|one, other| all[one] > all[other])
}

fn document_of(event: &Event) -> Option<DocumentId> {
    match event {
        Event::DocumentCreated(created) => Some(created.document_id),
        Event::DocumentVersioned(versioned) => Some(versioned.document_id),
        Event::DocumentUpdated(updated) => Some(updated.document_id),
        Event::DocumentTrashed(trashed) => Some(trashed.document_id),
        Event::DocumentRemoved(removed) => Some(removed.document_id),
        Event::DocumentRestored(restored) => Some(restored.document_id),
        _ => None,
    }
}

/// The window that has the focus: the uppermost that is not minimised.
pub fn focused(desktop: &Desktop) -> Option<&Window> {
    desktop.windows.iter().rev().find(|window| window.shape != Shape::Minimised)
}

/// What a window is called: the app, then its subject.
pub fn title(window: &Window, runs: &Runs, documents: &Documents) -> String {
    let app = window.app.name();
    let subject = match &window.subject {
        Some(Subject::Document(id)) => documents.get(*id).map(|document| document.title.clone()),
        Some(Subject::Run(id)) => runs.get(*id).map(|run| crate::words::headline(&run.prompt, 48)),
        Some(Subject::Path(path)) => Some(crate::files::plainly(path)),
        Some(Subject::Terminal(_)) | None => None,
    };
    subject.filter(|subject| !subject.is_empty()).map_or_else(|| app.to_owned(), |subject| format!("{app} — {subject}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RUN: &str = "01970000-0000-7000-8000-000000000001";
    const DOCUMENT: &str = "01970000-0000-7000-8000-000000000002";
    const WINDOW: &str = "01970000-0000-7000-8000-000000000003";

    /// An event as a frame of the stream.
    fn frame(seq: u64, kind: &str, payload: serde_json::Value) -> Envelope {
        let zero = "0".repeat(64);
        let frame = json!({
            "seq": seq, "id": RUN, "epoch": 1, "at": "2026-01-01T00:00:00Z", "actor": "person", "run": RUN, "kind": kind,
            "version": 1, "payload": payload, "payload_hash": zero, "prev": zero, "hash": zero,
        });
        serde_json::from_str(&frame.to_string()).unwrap()
    }

    fn folded(frames: &[Envelope]) -> (Runs, Documents) {
        let (mut runs, mut documents) = (Runs::default(), Documents::default());
        for envelope in frames {
            let event = envelope.event().unwrap();
            runs.apply(envelope, &event);
            documents.apply(envelope, &event);
        }
        (runs, documents)
    }

    #[test]
    fn a_run_and_its_document_follow_the_log() {
        let hash = "0".repeat(64);
        let versioned = json!({"document_id": DOCUMENT, "version": 1, "title": "Trees", "content_hash": hash, "size": 5, "reason": "x"});
        let (runs, documents) = folded(&[
            frame(1, "run.accepted", json!({"request": {"prompt": "Write"}, "document_id": DOCUMENT})),
            frame(2, "document.created", json!({"document_id": DOCUMENT, "title": "Untitled"})),
            frame(3, "document.versioned", versioned),
        ]);
        let id = DOCUMENT.parse().unwrap();
        assert_eq!(documents.get(id).map(|document| (document.title.as_str(), document.version)), Some(("Trees", 1)));
        assert_eq!(runs.of_document(id).map(|run| run.prompt.as_str()), Some("Write"));
        assert_eq!(runs.open().count(), 1);
        let (runs, _) = folded(&[
            frame(1, "run.accepted", json!({"request": {"prompt": "Write"}})),
            frame(2, "run.ended", json!({"status": "verified", "summary": "Done."})),
        ]);
        assert_eq!(runs.open().count(), 0);
    }

    #[test]
    fn what_is_asked_about_a_part_is_a_thread_and_not_the_run_of_the_document() {
        let mut about = frame(
            2,
            "run.accepted",
            json!({
                "request": {"prompt": "Why?", "document_id": DOCUMENT, "selection": {"from": 0, "to": 3, "action": "ask"}},
                "document_id": DOCUMENT,
            }),
        );
        about.header.run = Some(WINDOW.parse().unwrap());
        let whole = frame(1, "run.accepted", json!({"request": {"prompt": "Write"}, "document_id": DOCUMENT}));
        let mut removed = frame(3, "run.removed", json!({}));
        removed.header.run = about.header.run;
        let prompts = |runs: &Runs, id| {
            let about = runs.about_parts_of(id).map(|run| run.prompt.clone()).collect::<Vec<_>>();
            (runs.of_document(id).map(|run| run.prompt.clone()), about)
        };
        let id = DOCUMENT.parse().unwrap();
        let (runs, _) = folded(&[whole.clone(), about.clone()]);
        assert_eq!(prompts(&runs, id), (Some("Write".to_owned()), vec!["Why?".to_owned()]));
        let (runs, _) = folded(&[whole, about, removed]);
        assert_eq!(prompts(&runs, id).1, Vec::<String>::new(), "put away");
        assert_eq!((runs.listed().count(), runs.removed().count()), (1, 1));
    }

    #[test]
    fn a_task_that_a_younger_view_already_held_is_not_there_twice() {
        let mut requested = frame(2, "task.requested", json!({"request": {"kind": "edit", "instruction": "Do"}}));
        requested.header.task = Some(DOCUMENT.parse().unwrap());
        let accepted = frame(1, "run.accepted", json!({"request": {"prompt": "Write"}}));
        let (runs, _) = folded(&[accepted, requested.clone(), requested]);
        assert_eq!(runs.get(RUN.parse().unwrap()).map(|run| run.tasks.len()), Some(1));
    }

    #[test]
    fn an_event_is_folded_once_and_a_gap_is_noticed() {
        assert_eq!(arrival(Seq(4), Seq(4)), Arrival::Seen);
        assert_eq!(arrival(Seq(4), Seq(5)), Arrival::Next);
        assert_eq!(arrival(Seq(4), Seq(6)), Arrival::Gap);
    }

    #[test]
    fn a_window_is_named_by_its_app_first() {
        let mut window: Window =
            serde_json::from_value(json!({"window_id": WINDOW, "app": "writer", "shape": "normal"})).unwrap();
        let (runs, documents) =
            folded(&[frame(1, "document.created", json!({"document_id": DOCUMENT, "title": "Trees"}))]);
        assert_eq!(title(&window, &runs, &documents), "Writer");
        window.subject = Some(Subject::Document(DOCUMENT.parse().unwrap()));
        assert_eq!(title(&window, &runs, &documents), "Writer — Trees");
    }

    #[test]
    fn minimised_windows_have_no_focus() {
        let window = |shape: &'static str| json!({"window_id": WINDOW, "app": "files", "shape": shape});
        let desktop = |shapes: [&'static str; 2]| -> Desktop {
            serde_json::from_value(json!({"windows": shapes.map(window)})).unwrap()
        };
        assert_eq!(focused(&desktop(["normal", "minimised"])).map(|window| window.shape), Some(Shape::Normal));
        assert_eq!(focused(&desktop(["minimised", "minimised"])), None);
    }
}

//! The views that the page keeps: fetched once with their place in the log, then folded event by event.

use choir_proto::desktop::{Desktop, Shape, Subject, Window};
use choir_proto::document::DocumentSummary;
use choir_proto::event::Event;
use choir_proto::run::{Run, RunStatus, TaskSummary};
use choir_proto::{DocumentId, Envelope, Hash, RunId, Seq, TaskStatus, WindowId};
use std::collections::BTreeMap;

/// Every run, by its name; names sort by time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs(BTreeMap<RunId, Run>);

/// Every document, by its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Documents(BTreeMap<DocumentId, DocumentSummary>);

/// Which view an event can change, so that the others need not be drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// Runs alone.
    Runs,
    /// Documents, and the run that writes them.
    Documents,
    /// Windows and theme.
    Desktop,
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
        Self(runs.into_iter().map(|run| (run.run_id, run)).collect())
    }
}

impl Runs {
    /// One run.
    pub fn get(&self, id: RunId) -> Option<&Run> {
        self.0.get(&id)
    }

    /// All of them, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Run> {
        let mut all: Vec<&Run> = self.0.values().collect();
        all.sort_by_key(|run| std::cmp::Reverse(run.seq));
        all.into_iter()
    }

    /// The newest run that writes this document.
    pub fn of_document(&self, id: DocumentId) -> Option<&Run> {
        self.newest().find(|run| run.document_id == Some(id))
    }

    /// Runs that have not ended.
    pub fn open(&self) -> impl Iterator<Item = &Run> {
        self.newest().filter(|run| !run.status.is_ending())
    }

    /// Folds one event.
    pub fn apply(&mut self, envelope: &Envelope, event: &Event) {
        let Some(id) = envelope.header.run else { return };
        if let Event::RunAccepted(accepted) = event {
            self.0.entry(id).or_insert_with(|| Run {
                run_id: id,
                status: RunStatus::Accepted,
                prompt: accepted.request.prompt.clone(),
                document_id: accepted.document_id,
                answer: None,
                reason: None,
                tasks: Vec::new(),
                usage: Default::default(),
                accepted_at: envelope.header.at,
                ended_at: None,
                seq: envelope.header.seq,
            });
        } else if let Some(run) = self.0.get_mut(&id) {
            change(run, envelope, event);
        }
    }
}

fn change(run: &mut Run, envelope: &Envelope, event: &Event) {
    match event {
        Event::RunStarted(_) | Event::RunResumed(_) => (run.status, run.reason) = (RunStatus::Running, None),
        Event::RunPaused(_) => run.status = RunStatus::Paused,
        Event::RunBlocked(blocked) => {
            (run.status, run.reason) = (RunStatus::Blocked, Some(blocked.message.clone()));
        }
        Event::RunAnswered(answered) => run.answer = Some(answered.text.clone()),
        Event::RunEnded(ended) => {
            (run.status, run.reason) = (ended.status, Some(ended.summary.clone()));
            run.ended_at = Some(envelope.header.at);
        }
        Event::DocumentCreated(created) => run.document_id = run.document_id.or(Some(created.document_id)),
        Event::ModelCalled(called) => run.usage += called.usage,
        _ => change_task(run, envelope, event),
    }
}

fn change_task(run: &mut Run, envelope: &Envelope, event: &Event) {
    let Some(id) = envelope.header.task else { return };
    let known = run.tasks.iter_mut().find(|task| task.task_id == id);
    match (event, known) {
        (Event::TaskRequested(requested), None) => run.tasks.push(TaskSummary {
            task_id: id,
            parent: requested.parent,
            role: requested.role,
            objective: requested.request.instruction.clone(),
            status: TaskStatus::Running,
            summary: None,
        }),
        (Event::TaskFinished(finished), Some(task)) => {
            (task.status, task.summary) = (finished.result.status, Some(finished.result.summary.clone()));
        }
        _ => {}
    }
}

impl FromIterator<DocumentSummary> for Documents {
    fn from_iter<I: IntoIterator<Item = DocumentSummary>>(documents: I) -> Self {
        Self(documents.into_iter().map(|document| (document.document_id, document)).collect())
    }
}

impl Documents {
    /// One document.
    pub fn get(&self, id: DocumentId) -> Option<&DocumentSummary> {
        self.0.get(&id)
    }

    /// All of them, the one that changed last first.
    pub fn newest(&self) -> impl Iterator<Item = &DocumentSummary> {
        let mut all: Vec<&DocumentSummary> = self.0.values().collect();
        all.sort_by_key(|document| std::cmp::Reverse(document.seq));
        all.into_iter()
    }

    /// Folds one event.
    pub fn apply(&mut self, envelope: &Envelope, event: &Event) {
        let (at, seq) = (envelope.header.at, envelope.header.seq);
        match event {
            Event::DocumentCreated(created) => {
                self.0.entry(created.document_id).or_insert_with(|| DocumentSummary {
                    document_id: created.document_id,
                    title: created.title.clone(),
                    version: 0,
                    content_hash: Hash::ZERO,
                    size: 0,
                    run_id: envelope.header.run,
                    created_at: at,
                    changed_at: at,
                    seq,
                });
            }
            Event::DocumentVersioned(versioned) => {
                let Some(document) = self.0.get_mut(&versioned.document_id) else { return };
                document.title.clone_from(&versioned.title);
                (document.version, document.content_hash) = (versioned.version, versioned.content_hash);
                (document.size, document.changed_at, document.seq) = (versioned.size, at, seq);
            }
            _ => {}
        }
    }
}

/// Folds one event into the desktop.
pub fn apply_desktop(desktop: &mut Desktop, event: &Event) {
    match event {
        Event::WindowOpened(opened) => desktop.windows.push(Window {
            window_id: opened.window_id,
            app: opened.app,
            subject: opened.subject.clone(),
            rect: opened.rect,
            shape: Shape::Normal,
        }),
        Event::WindowFocused(focused) => raise(desktop, focused.window_id),
        Event::WindowMoved(moved) => {
            if let Some(window) = find(desktop, moved.window_id) {
                (window.rect, window.shape) = (Some(moved.rect), Shape::Normal);
            }
        }
        Event::WindowShaped(shaped) => {
            if let Some(window) = find(desktop, shaped.window_id) {
                window.shape = shaped.shape;
            }
        }
        Event::WindowShown(shown) => {
            if let Some(window) = find(desktop, shown.window_id) {
                window.subject = Some(shown.subject.clone());
            }
        }
        Event::WindowClosed(closed) => desktop.windows.retain(|window| window.window_id != closed.window_id),
        Event::ThemeChosen(chosen) => desktop.theme = chosen.theme,
        _ => {}
    }
}

fn find(desktop: &mut Desktop, id: WindowId) -> Option<&mut Window> {
    desktop.windows.iter_mut().find(|window| window.window_id == id)
}

fn raise(desktop: &mut Desktop, id: WindowId) {
    if let Some(at) = desktop.windows.iter().position(|window| window.window_id == id) {
        let window = desktop.windows.remove(at);
        desktop.windows.push(window);
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
        Some(Subject::Path(path)) => Some(path.clone()).filter(|path| !path.is_empty()),
        Some(Subject::Terminal(_)) | None => None,
    };
    subject.filter(|subject| !subject.is_empty()).map_or_else(|| app.to_owned(), |subject| format!("{app} — {subject}"))
}

//! Following the log: views once, then every event in order, and again from the last one after every interruption.

use super::bridge;
use super::desk::{Desk, Link};
use super::server::{self, Failure};
use choir_core::fold::desktop;
use choir_desktop::computer::{Arrival, Touches, arrival};
use choir_proto::desktop::{App, Desktop, Subject};
use choir_proto::document::DocumentSummary;
use choir_proto::event::Event;
use choir_proto::{DocumentId, Envelope, Run, RunId, Seq};
use dioxus::prelude::*;
use serde::Deserialize;

/// The first wait after an interruption; each further one doubles up to the largest.
const RETRY_FIRST_S: u32 = 1;
const RETRY_MAX_S: u32 = 30;

#[derive(Deserialize)]
struct DesktopView {
    #[serde(flatten)]
    desktop: Desktop,
    #[serde(default)]
    seq: Seq,
}

#[derive(Deserialize)]
struct RunsView {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct DocumentsView {
    documents: Vec<DocumentSummary>,
}

/// Keeps the page in step with the log for as long as the page lives.
pub(crate) async fn live(mut desk: Desk) {
    let mut retry_s = RETRY_FIRST_S;
    loop {
        match load(desk).await {
            Ok(()) => {
                retry_s = RETRY_FIRST_S;
                follow(desk).await;
            }
            Err(Failure::Locked) => return desk.link.set(Link::Locked),
            Err(_) => {}
        }
        wait(desk, retry_s).await;
        retry_s = (retry_s * 2).min(RETRY_MAX_S);
    }
}

/// Counts down where the person can see it.
async fn wait(mut desk: Desk, seconds: u32) {
    for left in (1..=seconds).rev() {
        desk.link.set(Link::Away { retry_s: left });
        bridge::pause(1_000).await;
    }
}

/// Fetches every view. The desktop comes first: folding an event twice that a later view already holds changes nothing
/// but a run's usage, so runs are fetched with the position that they answer for.
async fn load(mut desk: Desk) -> Result<(), Failure> {
    let windows: DesktopView = server::get("/api/desktop").await?;
    let runs: RunsView = server::get("/api/runs").await?;
    let documents: DocumentsView = server::get("/api/documents").await?;
    desk.seq.set(windows.seq);
    desk.desktop.set(windows.desktop);
    desk.dragged.write().clear();
    desk.runs.set(runs.runs.into_iter().collect());
    desk.documents.set(documents.documents.into_iter().collect());
    desk.refresh_condition();
    Ok(())
}

async fn follow(mut desk: Desk) {
    let path = format!("/api/stream?after={}", desk.seq.peek());
    let on_open = move || desk.link.set(Link::Live);
    bridge::stream(&path, on_open, move |text| receive(desk, &text)).await;
}

/// Folds one frame; answers whether the stream can go on. Frames of other kinds are not for this page.
fn receive(mut desk: Desk, text: &str) -> bool {
    let Ok(envelope) = serde_json::from_str::<Envelope>(text) else { return true };
    let folded = *desk.seq.peek();
    match arrival(folded, envelope.header.seq) {
        Arrival::Seen => return true,
        Arrival::Gap => return false,
        Arrival::Next => desk.seq.set(envelope.header.seq),
    }
    match envelope.event() {
        Ok(event) => fold(desk, &envelope, &event),
        // Of a known kind and version but unreadable: the view may be wrong from here on, so it is fetched anew.
        Err(_) => return false,
    }
    true
}

fn fold(mut desk: Desk, envelope: &Envelope, event: &Event) {
    match Touches::of(event.kind()) {
        Touches::Runs => desk.runs.write().apply(envelope, event),
        Touches::Documents => {
            desk.documents.write().apply(envelope, event);
            desk.runs.write().apply(envelope, event);
        }
        Touches::Desktop => desktop::apply(&mut desk.desktop.write(), event),
        Touches::Nothing => {}
    }
    react(desk, envelope.header.run, event);
}

/// What the page does of its own accord when something happened.
fn react(mut desk: Desk, run: Option<RunId>, event: &Event) {
    match event {
        Event::WindowMoved(moved) => drop(desk.dragged.write().remove(&moved.window_id)),
        Event::RunAccepted(accepted) => open_document(desk, run, accepted.document_id),
        Event::DocumentCreated(created) => open_document(desk, run, Some(created.document_id)),
        Event::RunEnded(ended) => {
            let prompt =
                run.and_then(|run| desk.runs.peek().get(run).map(|run| run.prompt.clone())).unwrap_or_default();
            let words = choir_desktop::status::run_words(ended.status);
            desk.tell(format!("“{}” {words}.", choir_desktop::words::headline(&prompt, 48)));
        }
        _ => {}
    }
}

/// Opens what a run sent from this page writes, if that is known already.
pub(crate) fn open_if_ready(desk: Desk, run: RunId) {
    let document = desk.runs.peek().get(run).and_then(|run| run.document_id);
    open_document(desk, Some(run), document);
}

/// A run sent from this page shows its document as soon as it has one.
fn open_document(mut desk: Desk, run: Option<RunId>, document: Option<DocumentId>) {
    let (Some(run), Some(document)) = (run, document) else { return };
    let known = desk.documents.peek().get(document).is_some();
    if known && desk.sent.write().remove(&run) {
        desk.open(App::Writer, Some(Subject::Document(document)));
        desk.wants_focus.set(false);
    }
}
